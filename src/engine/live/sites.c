/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/live/sites.h"

#include "base/sort.h"

/* Of one stack. */
struct sums {
	struct ms_estimate_sum live;
	struct ms_estimate_sum leaked;
};

struct ms_sites_sums {
	const struct ms_origins *origins;
	struct ms_arena *arena;
	struct ms_origin_finder finder;
	struct sums *stacks;
};

struct ms_sites_sums *ms_sites_new(const struct ms_origins *origins, struct ms_arena *arena)
{
	struct ms_sites_sums *s = ms_arena_alloc(arena, sizeof(*s));

	if (!s)
		return NULL;
	s->origins = origins;
	s->arena = arena;
	s->finder.origins = origins;
	s->stacks = ms_arena_alloc(arena, (origins->stacks.n + 1) * sizeof(*s->stacks));
	return s->stacks ? s : NULL;
}

static void add(const struct ms_sites_sums *s, const struct ms_origin *origin, uint64_t size,
                bool leaked)
{
	struct sums *sums = &s->stacks[origin->stack];

	if (origin->asked)
		ms_estimate_add(leaked ? &sums->leaked : &sums->live, s->origins->sampling.interval,
		                origin->asked, size);
}

void ms_sites_add_leaked(struct ms_sites_sums *s, ms_addr begin, uint64_t size)
{
	const struct ms_origin *origin = ms_origin_at(&s->finder, begin);

	if (origin)
		add(s, origin, size, true);
}

static void add_live(const struct ms_sites_sums *s, const struct ms_blocks *blocks)
{
	const struct ms_origin *origin;

	ms_vec_for_each (origin, &s->origins->blocks) {
		const struct ms_extent *extent = ms_blocks_extent_of(blocks, origin->begin);

		if (extent)
			add(s, origin,
			    ms_block_size(blocks, extent, ms_granule_of(extent, origin->begin)),
			    false);
	}
}

static bool more_live(const void *a, const void *b)
{
	const struct ms_site *x = a;
	const struct ms_site *y = b;

	return x->live.bytes > y->live.bytes;
}

static bool more_leaked(const void *a, const void *b)
{
	const struct ms_site *x = a;
	const struct ms_site *y = b;

	return x->leaked.bytes > y->leaked.bytes;
}

/* Each site's stack is its place in the origins yet. */
static bool list(const struct ms_sites_sums *s, bool all, struct ms_sites *ret)
{
	for (uint32_t i = 0; i < s->origins->stacks.n; i++) {
		const struct sums *sums = &s->stacks[i];
		struct ms_site *site;

		if (!(all ? sums->live.samples : sums->leaked.samples))
			continue;
		site = ms_vec_push(s->arena, ret);
		if (!site)
			return false;
		*site = (struct ms_site){ ms_estimate(&sums->live), ms_estimate(&sums->leaked), i };
	}
	return ms_sort(s->arena, ret->at, ret->n, sizeof(*ret->at), all ? more_live : more_leaked);
}

static uint64_t rest(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

/*
 * What is left of @all bytes. Where there are no samples, or few, their own error says too little:
 * one more @interval is added.
 */
static void subtract(uint64_t all, const struct ms_estimate_sum *sum, uint64_t interval,
                     uint64_t *bytes, uint64_t *error)
{
	struct ms_estimate known = ms_estimate(sum);

	*bytes = rest(all, known.bytes);
	*error = known.bytes_error + interval < all ? known.bytes_error + interval : all;
}

static void tell_older(const struct ms_sites_sums *s, struct ms_report *report)
{
	struct ms_sampling *sampling = &report->sampling;
	struct ms_older *older = &sampling->older;
	struct ms_estimate_sum live = { 0 };
	struct ms_estimate_sum leaked = { 0 };

	/* Of several allocators the agent knows one. */
	if (!sampling->whole || report->heaps.n != 1)
		return;
	for (uint32_t i = 0; i < s->origins->stacks.n; i++) {
		ms_estimate_join(&live, &s->stacks[i].live);
		ms_estimate_join(&leaked, &s->stacks[i].leaked);
	}
	sampling->has_older = 1;
	subtract(report->totals.allocation_bytes, &live, sampling->interval, &older->live_bytes,
	         &older->live_bytes_error);
	subtract(report->totals.leaked_bytes, &leaked, sampling->interval, &older->leaked_bytes,
	         &older->leaked_bytes_error);
}

bool ms_sites_write(struct ms_sites_sums *s, const struct ms_blocks *blocks, bool all,
                    uint64_t most, struct ms_origin_teller *teller)
{
	struct ms_sites *sites = &teller->report->sites;
	struct ms_site *site;

	add_live(s, blocks);
	tell_older(s, teller->report);
	if (!list(s, all, sites))
		return false;
	teller->report->sampling.stacks = sites->n;
	sites->n = sites->n < most ? sites->n : (size_t)most;
	ms_vec_for_each (site, sites) {
		site->stack = ms_origin_tell(teller, site->stack);
		if (!site->stack)
			return false;
	}
	return true;
}
