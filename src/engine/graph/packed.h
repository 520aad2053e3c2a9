/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_PACKED_H
#define MS_ENGINE_GRAPH_PACKED_H

/*
 * Blocks that are kept by pointers which do not stand at a multiple of eight bytes: those
 * in packed structures, where a pointer often stands four bytes further (Ruby's buffers of
 * files), and those in the instructions that a compiler made while the program runs
 * (OpenJDK's), where it stands anywhere.
 *
 * Only the address of a block's first byte counts, for bytes of two neighbours make other
 * addresses easily. What is kept that way is never certain.
 */

#include "base/workers.h"
#include "engine/blocks.h"

struct ms_packed_options {
	const struct ms_ranges *const *roots; /* memory that is no extent, and is looked at, too */
	size_t n_roots;
	struct ms_workers *workers; /* NULL: alone */
	uint64_t limit;             /* bytes to look at; 0: as always */
};

/* What came of it. */
struct ms_packed_kept {
	uint64_t allocations;
	uint64_t bytes;
	bool limited; /* not all memory was looked at */
};

/*
 * Mark the unmarked heap blocks of sealed @blocks that marked memory keeps so, and all that
 * these lead to.
 *
 * @ret: zeroed
 *
 * Returns MS_E_NOMEM; marks are then incomplete.
 * Cost: nothing where every block is marked; else one read of all present memory, shared by
 *       the workers.
 */
ms_must_check enum ms_status ms_packed_mark(struct ms_blocks *blocks,
                                            const struct ms_packed_options *options,
                                            struct ms_packed_kept *ret, struct ms_error *err);

#endif
