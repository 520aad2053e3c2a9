/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_RETAINED_DOMINATORS_H
#define MS_ENGINE_RETAINED_DOMINATORS_H

/*
 * Dominators: a node dominates another when every way from the top to that one leads through
 * it. So what a node retains, what would go with it, is what it dominates. Each node has one
 * immediate dominator, the nearest, and these form a tree.
 *
 * What strong holders reach is numbered before the rest, and no pointer from the rest to it
 * counts (flow.h).
 *
 * What the top leads to is numbered in the order of a walk in depth, from 1 on, the top
 * first; a node's dominators have lower numbers than its own. All here goes by these numbers.
 *
 * Most blocks have one pointer to them, and what has it is their dominator. That is seen
 * before the walk, in bits, and so these cost no look whether they were met before, no list
 * of what leads to them, and no search; what leads nowhere is numbered without a look at it.
 *
 * Memory, bytes a node, e pointers of it, m pointers to it where there are several: 21 + 4e + 4m,
 * the rows among them, until the order is there, then 32 + 4m; and 4 a node of the longest way
 * of the walk. Nothing recurses.
 * Source: T. Lengauer, R. Tarjan, A fast algorithm for finding dominators in a flowgraph, 1979;
 * the simple variant, O(m log n), which no graph makes slower as it does semi-NCA.
 */

#include "base/offsets.h"
#include "engine/retained/flow.h"

enum { MS_DOMINATORS_SPARE = 4 };

struct ms_dominators {
	uint32_t n;      /* nodes from 1 to this one */
	uint32_t *node;  /* what each is in the flow */
	uint32_t *order; /* of each node of the flow: its number; 0: the top does not lead to it */
	uint32_t *idom;  /* its immediate dominator; 0: of the top */
	/* What leads to each node to which more than one pointer may lead: from[first i] to
	 * from[first i + 1], by the numbers. */
	struct ms_offsets first;
	uint32_t *from;
	uint32_t *spare[MS_DOMINATORS_SPARE]; /* an entry for each node of the flow, and one
	                                       * more; for the caller, of any content */
};

/*
 * Find the dominators of all that @flow's top leads to, in @arena.
 *
 * @rows: the arena of @flow's rows; given back on the way, and the rows are not there any
 *        more. NULL: they stay
 *
 * Returns MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_dominators_find(struct ms_flow *flow, struct ms_arena *rows,
                                                struct ms_arena *arena, struct ms_dominators *ret,
                                                struct ms_error *err);

/* What leads to node @i; none, when its immediate dominator alone does. */
static inline const uint32_t *ms_dominators_leading_to(const struct ms_dominators *d, uint32_t i,
                                                       uint64_t *ret_n)
{
	uint64_t first = ms_offset_at(&d->first, i);

	*ret_n = ms_offset_at(&d->first, (size_t)i + 1) - first;
	return d->from + first;
}

#endif
