/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/walk.h"

#include <assert.h>

#include "engine/graph/candidates.h"
#include "engine/graph/follow.h"

/*
 * Several workers go in rounds. A round's items are shares of all that waits, and each
 * follows a bounded number of blocks; what then waits is shared out again. A chain
 * of blocks is one item, followed by the caller without waking anybody.
 */

enum {
	STRETCH_BYTES = 1 << 20, /* of a root in one item */
	BUDGET = 8192,           /* blocks to follow in one item */
	MAX_SHARE = 64,          /* entries in one item */
	SHARES = 8,              /* items for each worker, if there are entries enough */
};

#define EXACT_FLAG   (MS_EDGE_EXACT >> MS_EDGE_FLAGS)
#define MANGLED_FLAG (MS_EDGE_MANGLED >> MS_EDGE_FLAGS)

static inline bool is_sensible(const struct ms_walk_options *options)
{
	if (options->visit && options->edges)
		return false;
	return !options->workers || !options->visit;
}

struct ms_walk *ms_walk_new(struct ms_blocks *blocks, const struct ms_walk_options *options,
                            struct ms_arena *arena)
{
	struct ms_walk *walk = ms_arena_alloc(arena, sizeof(*walk));

	if (!walk)
		return NULL;
	assert(blocks->extents.n < UINT64_C(1) << (63 - GRANULE_BITS));
	assert(is_sensible(options));
	walk->blocks = blocks;
	walk->options = *options;
	walk->edges = options->edges;
	walk->abi = &blocks->src->abi;
	walk->plain = ms_abi_is_plain(walk->abi);
	walk->n_walkers = ms_workers_count(options->workers);
	ms_shared_init(&walk->arena, arena);
	for (unsigned i = 0; i < walk->n_walkers; i++) {
		struct walker *w = ms_arena_alloc(arena, sizeof(*w));

		if (!w)
			return NULL;
		w->walk = walk;
		w->flags_asked = (uint8_t)((options->starts_only ? EXACT_FLAG : 0) |
		                           (options->mangling.guard ? 0 : MANGLED_FLAG));
		w->flags_wanted = options->starts_only ? EXACT_FLAG : 0;
		ms_lookup_init(&w->lookup, blocks);
		walk->walkers[i] = w;
	}
	return walk;
}

/* ---- roots ---- */

void ms_walk_word(struct ms_walk *walk, uint64_t value)
{
	consider_alone(walk->walkers[0], value);
}

void ms_walk_range(struct ms_walk *walk, struct ms_range range)
{
	const uint8_t word = walk->abi->word_bytes;
	ms_addr at = ms_align_up(range.begin, word);

	while (at < range.end) {
		uint64_t left = range.end - at;
		ms_addr end = left < STRETCH_BYTES ? range.end : at + STRETCH_BYTES;
		struct stretch *s = ms_vec_push(walk->arena.arena, &walk->stretches);

		if (!s) {
			walk->walkers[0]->out_of_memory = true;
			return;
		}
		*s = (struct stretch){ { at, end }, end };
		if (range.end - end >= (ms_addr)2 * word)
			s->limit = end + (ms_addr)2 * word - 1;
		else
			s->limit = range.end;
		at = end;
	}
}

struct ms_range ms_walk_claim(struct ms_walk *walk, ms_addr addr)
{
	struct walker *w = walk->walkers[0];
	struct ms_range none = { addr, addr };
	const struct ms_extent *extent;
	struct ms_cell *cell;
	uint64_t granule;
	uint64_t size;

	if (addr - w->lookup.low >= w->lookup.span)
		return none;
	extent = ms_lookup_extent(&w->lookup, addr);
	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return none;
	cell = ms_blocks_cell(walk->blocks, extent, ms_granule_of(extent, addr));
	granule = ms_lookup_hit(walk->blocks, extent, cell, addr, is_strict(walk));
	if (granule == UINT64_MAX)
		return none;
	cell = ms_blocks_cell(walk->blocks, extent, granule);
	if (cell->marks & ms_granule_bit(granule))
		return none;
	cell->marks |= ms_granule_bit(granule);
	size = ms_block_usable(walk->blocks, extent, granule);
	w->count.blocks++;
	return (struct ms_range){ ms_block_begin(extent, granule),
		                  ms_block_begin(extent, granule) + size };
}

void ms_walk_block(struct ms_walk *walk, struct ms_block block)
{
	const struct ms_extent *extent = &walk->blocks->extents.at[block.extent];

	mark(walk->walkers[0], ms_blocks_cell(walk->blocks, extent, block.granule),
	     ms_granule_bit(block.granule), entry_of(walk, extent, block.granule));
}

/* ---- rounds ---- */

static void read_item(void *ctx, unsigned worker, size_t item)
{
	struct ms_walk *walk = ctx;
	struct walker *w = walk->walkers[worker];

	ms_walker_scan(w, walk->stretches.at[item]);
	w->budget = BUDGET;
	ms_walker_drain(w);
}

static void follow_item(void *ctx, unsigned worker, size_t item)
{
	struct ms_walk *walk = ctx;
	struct walker *w = walk->walkers[worker];
	size_t begin = item * walk->share;
	size_t end = begin + walk->share < walk->pool.n ? begin + walk->share : walk->pool.n;

	for (size_t i = begin; i < end; i++)
		push(w, walk->pool.at[i]);
	w->budget = BUDGET;
	ms_walker_drain(w);
}

static void pool_entry(struct ms_walk *walk, uint64_t entry)
{
	uint64_t *slot = ms_vec_push(walk->arena.arena, &walk->pool);

	walk->walkers[0]->out_of_memory |= !slot;
	if (slot)
		*slot = entry;
}

/* Take what still waits with each worker. */
static void collect(struct ms_walk *walk)
{
	walk->pool.n = 0;
	for (unsigned i = 0; i < walk->n_walkers; i++) {
		struct walker *w = walk->walkers[i];

		ms_walker_settle(w);
		for (; w->n_ahead; w->n_ahead--)
			pool_entry(walk, w->ahead[w->first_ahead++ % AHEAD]);
		for (size_t k = 0; k < w->list.n; k++)
			pool_entry(walk, w->list.at[k]);
		w->list.n = 0;
	}
}

static void follow_together(struct ms_walk *walk)
{
	struct ms_workers *workers = walk->options.workers;

	ms_workers_run(workers, walk->stretches.n, read_item, walk);
	walk->stretches.n = 0;
	for (collect(walk); walk->pool.n; collect(walk)) {
		size_t share = walk->pool.n / SHARES / walk->n_walkers;

		walk->share = !share ? 1 : share < MAX_SHARE ? share : MAX_SHARE;
		ms_workers_run(workers, (walk->pool.n + walk->share - 1) / walk->share, follow_item,
		               walk);
	}
}

static void follow_alone(struct ms_walk *walk)
{
	struct walker *w = walk->walkers[0];

	w->budget = INT64_MAX;
	for (size_t i = 0; i < walk->stretches.n; i++) {
		ms_walker_scan(w, walk->stretches.at[i]);
		ms_walker_drain(w);
	}
	walk->stretches.n = 0;
	ms_walker_drain(w);
}

enum ms_status ms_walk_finish(struct ms_walk *walk, struct ms_error *err)
{
	bool out_of_memory = false;

	if (walk->n_walkers == 1)
		follow_alone(walk);
	else
		follow_together(walk);
	for (unsigned i = 0; i < walk->n_walkers; i++)
		out_of_memory |= walk->walkers[i]->out_of_memory;
	if (out_of_memory)
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of blocks to follow");
	return MS_OK;
}

struct ms_walk_count ms_walk_count(const struct ms_walk *walk)
{
	struct ms_walk_count sum = { 0 };

	for (unsigned i = 0; i < walk->n_walkers; i++) {
		sum.blocks += walk->walkers[i]->count.blocks;
		sum.bytes += walk->walkers[i]->count.bytes;
	}
	return sum;
}
