/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_BIAS_H
#define MS_ENGINE_GRAPH_BIAS_H

/*
 * The places behind their begins at which a program points to its blocks. A program that puts a
 * size or a link in front of its data has hardly any pointers to begins. This file knows words
 * and blocks; it does not know which blocks are reachable.
 */

#include "engine/blocks.h"

/* Counted in a sample of a heap of more than 64 MiB. */
struct ms_bias {
	uint64_t n;       /* blocks with pointers from the heap, but none of them to the begin */
	uint64_t n_front; /* of these, blocks with one to a usual place */
};

/*
 * Read all heap blocks of sealed @blocks. If nearly all that are pointed to, but not at the
 * begin, are so at a few places behind it, such pointers count as those to the begin: say so in
 * blocks->bias, and mark the blocks that have them in @wide, which is empty or a copy of marks.
 *
 * Returns MS_E_NOMEM.
 * Cost: one read of 64 MiB, one of all that the blocks hold if there is a rule, and 10 MiB.
 */
ms_must_check enum ms_status ms_bias_find(struct ms_blocks *blocks, struct ms_marks *wide,
                                          struct ms_bias *ret);

#endif
