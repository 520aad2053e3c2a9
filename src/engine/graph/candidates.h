/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_CANDIDATES_H
#define MS_ENGINE_GRAPH_CANDIDATES_H

/* A worker's queue of words that may point to a block, whose cells are waited for. */

#include "engine/graph/walker.h"

static void resolve_oldest(struct walker *w)
{
	struct candidate c = w->candidates[w->first_candidate % QUEUE];
	const struct ms_walk *walk = w->walk;
	uint64_t granule;

	w->first_candidate++;
	w->n_candidates--;
	granule = ms_lookup_hit(walk->blocks, c.extent, c.cell, c.value, is_strict(walk));
	if (granule != UINT64_MAX)
		hit(w, c.extent, granule, c.value);
}

/*
 * Put a candidate into the queue and prefetch what its turn will need. (A function
 * that did nothing but prefetch would be taken for one without effect, and left out.)
 */
static inline void add_candidate(struct walker *w, struct ms_cell *cell,
                                 const struct ms_extent *extent, uint64_t value)
{
	struct candidate *c;

	if (w->n_candidates == QUEUE)
		resolve_oldest(w);
	c = &w->candidates[(w->first_candidate + w->n_candidates++) % QUEUE];
	c->cell = cell;
	c->extent = extent;
	c->value = value;
	__builtin_prefetch(cell, 1);
	if (w->walk->edges)
		__builtin_prefetch(
			ms_edges_first(w->walk->edges, (size_t)(cell - w->walk->blocks->cells.at)));
}

static inline void consider(struct walker *w, uint64_t value)
{
	const struct ms_extent *extent;

	if (value - w->lookup.low >= w->lookup.span)
		return;
	extent = ms_lookup_extent(&w->lookup, value);
	if (!extent)
		return;
	add_candidate(w, ms_blocks_cell(w->walk->blocks, extent, ms_granule_of(extent, value)),
	              extent, value);
	if (extent->host)
		__builtin_prefetch(extent->host + (value - extent->range.begin));
}

/* A word whose value is an address as it is. */
static inline void consider_plain(struct walker *w, uint64_t value)
{
	consider(w, value);
	if (ms_may_be_mangled(value) && w->walk->options.mangling.guard)
		consider(w, ms_unmangled(value, w->walk->options.mangling));
}

/* A word of any kind of which it is not known what follows. */
static inline void consider_alone(struct walker *w, uint64_t value)
{
	const struct ms_abi *abi = w->walk->abi;
	const struct ms_mangling mangling = w->walk->options.mangling;

	consider(w, ms_abi_address(abi, value));
	if (mangling.guard && ms_abi_may_be_mangled_alone(abi, value, mangling))
		consider(w, ms_abi_address(abi, ms_abi_unmangled(abi, value, mangling)));
}

/* The first word of @len bytes, of any kind. */
static inline void consider_word(struct walker *w, const uint8_t *bytes, size_t len)
{
	const struct ms_abi *abi = w->walk->abi;
	ms_addr mangled;

	consider(w, ms_abi_address(abi, ms_abi_word(abi, bytes)));
	if (w->walk->options.mangling.guard &&
	    ms_abi_take_mangled(abi, bytes, len, w->walk->options.mangling, &mangled))
		consider(w, mangled);
}

#endif
