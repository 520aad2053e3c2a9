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
 * Memory, bytes a node, e pointers of it: 32 + 8e, the rows among them, until the order is
 * there, then 36 + 4e. Nothing recurses.
 * Source: T. Lengauer, R. Tarjan, A fast algorithm for finding dominators in a flowgraph, 1979;
 * the simple variant, O(m log n), which no graph makes slower as it does semi-NCA.
 */

#include "engine/retained/flow.h"

enum { MS_DOMINATORS_SPARE = 5 };

struct ms_dominators {
	uint32_t n;     /* nodes from 1 to this one */
	uint32_t *node; /* what each is in the flow */
	uint32_t *idom; /* its immediate dominator; 0: of the top */
	/* The nodes that lead to each: from[first[i]] to from[first[i + 1]]. */
	uint64_t *first;
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

#endif
