/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_PACKED_H
#define MS_ENGINE_GRAPH_PACKED_H

/*
 * Blocks that are kept by pointers which the walk does not take for such.
 *
 * Some do not stand at a multiple of eight bytes: those
 * in packed structures, where a pointer often stands four bytes further (Ruby's buffers of
 * files, the garbage collector's lists of Debian's CPython 3.13), and those in the instructions
 * that a compiler made while the program runs (OpenJDK's), where it stands anywhere. So it
 * does in Rust's repr(packed) (Biome's tables); elsewhere than four bytes further it must lead
 * to the begin of a block, and many at places that are alike must.
 *
 * Bytes of two neighbours make the address of a heap below 4 GiB easily: there only that of a
 * block's first byte counts, and none at an odd place.
 *
 * Others have a number beside them, in the 16 bits that no address needs: above them (Boost's
 * lock-free queues and stacks, which count in it) or below, the address shifted. Only the begin of
 * a block counts, and no address below 4 GiB.
 *
 * Others lead behind their block: new T[0] of a T with a destructor is a block of one word, the
 * number of elements, and what the program keeps is the address behind it. That is inside of the
 * block where the smallest has more than one word, as glibc's; others' have just that.
 *
 * What is kept in these ways is never certain.
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
 * these lead to. An address behind a block that only such a block has is not followed.
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
