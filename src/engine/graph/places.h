/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_PLACES_H
#define MS_ENGINE_GRAPH_PLACES_H

/*
 * A worker's queue of places that edges lead to, whose cells are waited for. What is rare is
 * not inline, so that the rest is: else the walk executes a twentieth more.
 */

#include <string.h>

#include "engine/graph/walker.h"

/* The span that has @place. */
static const struct ms_edge_span *span_of(struct walker *w, uint64_t place)
{
	const struct ms_blocks *blocks = w->walk->blocks;
	size_t cell = (size_t)(place / MS_CELL_GRANULES);

	if (!w->span || cell - w->span->cell0 >= blocks->extents.at[w->span->extent].n_cells)
		w->span = &w->walk->edges->spans.at[ms_edges_span(w->walk->edges, cell)];
	return w->span;
}

static const struct ms_extent *extent_of_place(struct walker *w, uint64_t place)
{
	return &w->walk->blocks->extents.at[span_of(w, place)->extent];
}

/* Those of a cell, or of a part: places, then a byte of source and flags for each. */
struct cell_edges {
	const uint8_t *at;
	uint32_t n;
};

struct edge_range {
	uint32_t from;
	uint32_t to;
};

/* An exact edge to where no block begins. */
static void resolve_inner(struct walker *w, uint64_t place)
{
	const struct ms_walk *walk = w->walk;
	const struct ms_extent *extent = extent_of_place(w, place);
	ms_addr value = ms_block_begin(extent, place - extent->cell0 * MS_CELL_GRANULES);
	uint64_t granule = ms_lookup_hit(walk->blocks, extent,
	                                 &walk->blocks->cells.at[place / MS_CELL_GRANULES], value,
	                                 is_strict(walk));

	if (granule != UINT64_MAX)
		hit(w, extent, granule, value);
}

/* Mark what the oldest place is in. */
static inline void resolve_place(struct walker *w, const struct ms_edges *edges)
{
	uint64_t place = w->places[w->first_place++ % PLACES];
	struct ms_cell *cell = &edges->blocks->cells.at[place / MS_CELL_GRANULES];

	w->n_places--;
	if (cell->starts & ms_granule_bit(place))
		mark(w, cell, ms_granule_bit(place), place);
	else
		resolve_inner(w, place);
}

/*
 * Take an edge's place and prefetch what its turn will need. (A function that did
 * nothing but prefetch would be taken for one without effect, and left out.)
 */
static inline void add_place(struct walker *w, const struct ms_edges *edges, uint64_t place)
{
	size_t cell = (size_t)(place / MS_CELL_GRANULES);

	if (w->n_places == PLACES)
		resolve_place(w, edges);
	w->places[(w->first_place + w->n_places++) % PLACES] = place;
	__builtin_prefetch(&edges->blocks->cells.at[cell], 1);
	__builtin_prefetch(ms_edges_first(edges, cell));
}

/* An edge that is not followed at once: one to the middle of a block, or not to be followed. */
static void add_inner(struct walker *w, uint8_t flags, uint64_t place)
{
	const size_t cell = (size_t)(place / MS_CELL_GRANULES);

	if (flags & w->flags_asked & ~w->flags_wanted)
		return;
	if (is_wide(w->walk, cell, ms_granule_bit(place)))
		add_place(w, w->walk->edges, place);
	else
		note_inner(w, &w->walk->options.inner->at[cell], ms_granule_bit(place));
}

/* The same for edges [@from, @to) of the @n at @at. */
static inline void add_edges(struct walker *w, const uint8_t *at, uint32_t n,
                             struct edge_range range)
{
	const struct ms_edges *edges = w->walk->edges;
	const uint8_t *flags = at + (size_t)n * MS_EDGE_PLACE_BYTES;

	for (uint32_t i = range.from; i < range.to; i++)
		if ((flags[i] & w->flags_asked) == w->flags_wanted)
			add_place(w, edges, ms_edge_place(at, i));
		else if (w->walk->options.inner)
			add_inner(w, flags[i], ms_edge_place(at, i));
}

#define LANES(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Which of @n edges have a source in granules @from to @to, by their source bytes at @at.
 * Eight are compared at a time, and without a branch: any would be mispredicted half of
 * the time. Bit 6 of a lane becomes 0 when its source is lower than what is taken off.
 */
static inline struct edge_range edges_of(const uint8_t *at, uint32_t n, uint64_t from, uint64_t to)
{
	uint64_t low = LANES(1) * from;
	uint64_t high = LANES(1) * (to + 1);
	struct edge_range ret = { 0, 0 };

	for (uint32_t i = 0; i < n; i += 8) {
		uint64_t lanes;

		memcpy(&lanes, at + i, sizeof(lanes));
		lanes |= n - i < 8 ? UINT64_MAX << (n - i) * 8 : 0;
		lanes = (lanes >> 2 & LANES(63)) | LANES(64);
		ret.from += (uint32_t)((~(lanes - low) >> 6 & LANES(1)) * LANES(1) >> 56);
		ret.to += (uint32_t)((~(lanes - high) >> 6 & LANES(1)) * LANES(1) >> 56);
	}
	ret.to = ret.to < n ? ret.to : n;
	return ret;
}

static inline struct cell_edges cell_edges(const struct ms_edges *edges, size_t cell)
{
	const uint32_t *first = ms_edges_first(edges, cell);
	uint32_t begin = first[0] & MS_FIRST_COUNT;
	uint32_t end = first[1] & MS_FIRST_COUNT;

	return (struct cell_edges){
		edges->pieces[cell / MS_EDGE_CELLS].at + (size_t)begin * MS_EDGE_BYTES, end - begin
	};
}

#endif
