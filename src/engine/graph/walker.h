/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_WALKER_H
#define MS_ENGINE_GRAPH_WALKER_H

/*
 * The state of a walk, and of each of its workers, with the list of blocks to follow;
 * follow.c draws how they move.
 */

#include "engine/graph/lookup.h"
#include "engine/graph/shared.h"
#include "engine/graph/walk.h"

enum {
	QUEUE = 8,
	AHEAD = 8,
	PLACES = 8,
	GRANULE_BITS = 40, /* of a list entry; the rest is the extent */
};

/* A list entry that is not a place: a part of an extent that is one block. */
#define PART (UINT64_C(1) << 63)

/* From a word. */
struct candidate {
	struct ms_cell *cell;
	const struct ms_extent *extent;
	uint64_t value;
};

/* Words that begin in range and end by limit. */
struct stretch {
	struct ms_range range;
	ms_addr limit;
};

struct list MS_VEC(uint64_t);

struct walker {
	struct ms_walk *walk;
	uint32_t n_candidates, first_candidate;
	struct candidate candidates[QUEUE];
	uint8_t flags_asked;  /* an edge is followed if these of its flags */
	uint8_t flags_wanted; /* are so */
	uint32_t n_places, first_place;
	uint32_t n_ahead, first_ahead;
	uint64_t places[PLACES]; /* that edges lead to; their cells are waited for */
	uint64_t ahead[AHEAD];   /* blocks whose edges are waited for */
	struct list list;        /* marked, words not read; see entry_of() */
	int64_t budget;
	struct ms_walk_count count;
	const struct ms_edge_span *span; /* that was asked for last */
	bool out_of_memory;
	uint8_t *buffer; /* for sources that cannot be viewed */
	struct ms_lookup lookup;
};

struct ms_walk {
	struct ms_blocks *blocks;
	const struct ms_edges *edges;
	struct ms_walk_options options;
	const struct ms_abi *abi;
	bool plain; /* its words can be taken as they are */
	struct ms_shared_arena arena;
	struct MS_VEC(struct stretch) stretches; /* of roots, not read yet */
	struct list pool;                        /* what waits between two rounds */
	size_t share;                            /* entries of it in one item */
	unsigned n_walkers;
	struct walker *walkers[MS_WORKERS_MAX];
};

/* ---- entries of the list ---- */

static inline uint64_t entry_of(const struct ms_walk *walk, const struct ms_extent *extent,
                                uint64_t granule)
{
	if (walk->edges)
		return extent->cell0 * MS_CELL_GRANULES + granule;
	return (uint64_t)(extent - walk->blocks->extents.at) << GRANULE_BITS | granule;
}

static void push_slowly(struct walker *w, uint64_t entry)
{
	uint64_t *slot = ms_vec_push(ms_shared_take(&w->walk->arena), &w->list);

	ms_shared_give(&w->walk->arena);
	w->out_of_memory |= !slot;
	if (slot)
		*slot = entry;
}

static inline void push(struct walker *w, uint64_t entry)
{
	if (w->list.n == w->list.cap)
		push_slowly(w, entry);
	else
		w->list.at[w->list.n++] = entry;
}

/* Mark the block, once among all workers. */
static inline void mark(struct walker *w, struct ms_cell *cell, uint64_t bit, uint64_t entry)
{
	if (__atomic_load_n(&cell->marks, __ATOMIC_RELAXED) & bit)
		return;
	if (w->walk->n_walkers == 1)
		cell->marks |= bit;
	else if (__atomic_fetch_or(&cell->marks, bit, __ATOMIC_RELAXED) & bit)
		return;
	push(w, entry);
}

/* What pointers into the middle lead to waits until all else was followed. */
static void note_inner(struct walker *w, uint64_t *bits, uint64_t bit)
{
	if (__atomic_load_n(bits, __ATOMIC_RELAXED) & bit)
		return;
	if (w->walk->n_walkers == 1)
		*bits |= bit;
	else
		(void)__atomic_fetch_or(bits, bit, __ATOMIC_RELAXED);
}

/* Whether only pointers to begins count, and no others are noted. */
static inline bool is_strict(const struct ms_walk *walk)
{
	return walk->options.starts_only && !walk->options.inner;
}

/* Whether pointers into the middle of the block count as those to its begin. */
static inline bool is_wide(const struct ms_walk *walk, size_t cell, uint64_t bit)
{
	return walk->options.wide && (walk->options.wide->at[cell] & bit);
}

/* A word @value points to the block at @granule. */
static inline void hit(struct walker *w, const struct ms_extent *extent, uint64_t granule,
                       uint64_t value)
{
	const struct ms_walk *walk = w->walk;
	struct ms_cell *cell = ms_blocks_cell(walk->blocks, extent, granule);
	const size_t at = (size_t)(cell - walk->blocks->cells.at);
	const uint64_t bit = ms_granule_bit(granule);

	if (walk->options.inner && !extent->inner && extent->kind == MS_EXTENT_HEAP &&
	    !ms_block_is_pointed_to(walk->blocks, extent, granule, value) &&
	    !is_wide(walk, at, bit))
		note_inner(w, &walk->options.inner->at[at], bit);
	else
		mark(w, cell, bit, entry_of(walk, extent, granule));
}

#endif
