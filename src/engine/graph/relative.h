/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_RELATIVE_H
#define MS_ENGINE_GRAPH_RELATIVE_H

/*
 * Blocks that are kept by pointers which memory shows as distances only: from the
 * pointer itself (Boost's offset_ptr) or from the block that holds it (fontconfig).
 *
 * Most small numbers, added to an address of the heap, give another one, and some the
 * first byte of a leaked block. So a word is followed only where it is known what the
 * block is (fontconfig.h), or where all blocks of its size together show that the word
 * at this place is a pointer (slots.h). What is kept that way is never certain.
 *
 * Words of globals, stacks and mappings are not looked at, nor those of blocks over
 * 1 KiB: there are no others of their kind to compare them with.
 */

#include "base/workers.h"
#include "engine/blocks.h"

struct ms_relative_options {
	struct ms_workers *workers; /* NULL: alone */
	bool unaligned;             /* as for other walks */
	uint64_t limit;             /* bytes of blocks to look at in one go; 0: as always */
};

/* What came of it. */
struct ms_relative_kept {
	uint64_t allocations;
	uint64_t bytes;
	bool limited; /* not all blocks were looked at */
};

/*
 * Mark the unmarked heap blocks of sealed @blocks that marked ones keep so, and all that
 * these lead to.
 *
 * @ret: zeroed
 *
 * Returns MS_E_NOMEM; marks are then incomplete.
 * Cost: nothing where every block is marked; else one read of all small blocks, shared
 *       by the workers, and another for each time that slots come to be believed.
 */
ms_must_check enum ms_status ms_relative_mark(struct ms_blocks *blocks,
                                              const struct ms_relative_options *options,
                                              struct ms_relative_kept *ret, struct ms_error *err);

#endif
