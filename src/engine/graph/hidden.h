/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_HIDDEN_H
#define MS_ENGINE_GRAPH_HIDDEN_H

/*
 * Blocks that are kept by pointers which the walk does not take for such: the address is not the
 * value of a word at a multiple of its size. What is kept so is never certain.
 *
 * One sweep of memory serves all forms of such pointers; hidden_form.h says how to add one.
 *
 *	unaligned_form.c  half a word further, as packed structures have it, or anywhere in
 *	                  code that the program has made
 *	odd_form.c        at other places
 *	numbered_form.c   with a number in the 16 bits that no address needs
 *	shifted_form.c    shifted to the left, with a tag below, as interpreters keep numbers
 *	front_form.c      to the word in front of the block
 *	behind_form.c     behind a block that is a header alone
 */

#include "base/workers.h"
#include "engine/blocks.h"
#include "engine/report.h"

struct ms_hidden_options {
	const struct ms_ranges *const *roots; /* memory that is no extent, and is looked at, too */
	size_t n_roots;
	struct ms_workers *workers; /* NULL: alone */
	uint64_t limit;             /* bytes to look at; 0: as always */
};

/* What came of it. */
struct ms_hidden_kept {
	uint64_t allocations;
	uint64_t bytes;
};

struct ms_hidden;

/*
 * Look in marked memory for hidden pointers to the unmarked heap blocks of sealed @blocks.
 *
 * @ret: to be marked from, in their arena; *@ret_limited: not all memory was looked at
 *
 * Returns MS_E_NOMEM.
 * Cost: nothing where every block is marked; else one read of all present memory, shared by
 *       the workers.
 */
ms_must_check enum ms_status ms_hidden_find(struct ms_blocks *blocks,
                                            const struct ms_hidden_options *options,
                                            struct ms_hidden **ret, bool *ret_limited,
                                            struct ms_error *err);

/*
 * Mark what the pointers of the forms for @reason keep, and all that this leads to, by pointers
 * of any form. An address behind a block that only such a block has is not followed.
 *
 * @ret: zeroed
 *
 * Returns MS_E_NOMEM; marks are then incomplete.
 */
ms_must_check enum ms_status ms_hidden_mark(struct ms_hidden *hidden, enum ms_reason reason,
                                            struct ms_hidden_kept *ret, struct ms_error *err);

#endif
