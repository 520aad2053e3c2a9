/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_BIAS_H
#define MS_ENGINE_GRAPH_BIAS_H

/*
 * How far behind their begins a program keeps pointers to its blocks: one that puts a size or
 * a link in front of what it gives out has hardly any to begins. This knows words and blocks;
 * what is reachable it does not know.
 */

#include "engine/blocks.h"

/* Of a heap of more than 64 MiB, of some blocks. */
struct ms_bias {
	uint64_t n;       /* blocks to which words in the heap point, but none to the begin */
	uint64_t n_front; /* of these, at one of a few places behind it */
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
