/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_RETAINED_WEIGHTS_H
#define MS_ENGINE_RETAINED_WEIGHTS_H

/*
 * What each node retains: itself and all that it dominates. Mappings and roots weigh nothing
 * themselves, blocks what was asked for. And which class each block is of: its type, or,
 * where that is not known, its size.
 *
 * Memory: 8 bytes a node, beside the spare arrays of the dominators and their order.
 */

#include "engine/names/types.h"
#include "engine/retained/dominators.h"

enum {
	MS_CLASS_NONE,                       /* it is no block of the heap */
	MS_CLASS_OTHERS,                     /* of more classes than there may be */
	MS_CLASSES_MOST = MS_TYPES_MOST * 2, /* that are told apart */
};

struct ms_class {
	uint64_t count; /* of its blocks that are reachable */
	uint64_t bytes;
	uint64_t retained_count; /* by those that no other of the class dominates */
	uint64_t retained_bytes;
	uint64_t size;  /* of blocks whose type is not known */
	uint32_t type;  /* MS_TYPE_UNKNOWN: they have a size in common */
	uint32_t above; /* that dominate the node which is looked at (classes.c) */
};

struct ms_classes MS_VEC(struct ms_class);

struct ms_weights {
	const struct ms_flow *flow;
	const struct ms_dominators *d;
	uint64_t *bytes; /* each by the dominators' numbers */
	uint32_t *count;
	uint32_t *heaviest; /* that it dominates immediately; 0: none */
	uint32_t *spare[2];
	uint32_t *class;
	struct ms_classes classes; /* NONE and OTHERS among them */
};

/*
 * Weigh the nodes. Uses all of @d's spare arrays and its order, which is gone then; two are
 * left for the caller, as they are.
 *
 * False without memory.
 * Cost: a look at every block, by address, for its type and size; each worker has its part.
 */
ms_must_check bool ms_weights_find(const struct ms_flow *flow, struct ms_dominators *d,
                                   struct ms_types *types, struct ms_arena *arena,
                                   struct ms_weights *ret);

/* Fill in what each class retains. Uses both spare arrays. */
void ms_classes_weigh(struct ms_weights *w);

static inline enum ms_flow_kind ms_weights_kind(const struct ms_weights *w, uint32_t i)
{
	return ms_flow_kind_of(w->flow, w->d->node[i]);
}

/* A link of a chain: it retains half at least of what the one above it does. */
static inline bool ms_weights_is_most(const struct ms_weights *w, uint32_t i, uint32_t of)
{
	return w->bytes[i] >= w->bytes[of] - w->bytes[i];
}

/* The one below @i that a chain goes on with; 0: it ends. */
static inline uint32_t ms_weights_next(const struct ms_weights *w, uint32_t i)
{
	uint32_t below = w->heaviest[i];

	return below && w->bytes[below] && ms_weights_is_most(w, below, i) ? below : 0;
}

#endif
