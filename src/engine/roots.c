/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/roots.h"

/* All of @range that no @holes cover, as roots; false without memory. */
static bool add_gaps(struct ms_arena *arena, struct ms_ranges *to, struct ms_range range,
                     const struct ms_ranges *holes)
{
	struct ms_range gap;

	while (ms_range_next_gap(&range, holes, &gap))
		if (!ms_ranges_add(arena, to, gap.begin, gap.end))
			return false;
	return true;
}

/* Heap and stacks together: memory that is neither a root as a whole nor a node. */
static bool taken_memory(struct ms_decoding *d, const struct ms_stacks *stacks,
                         struct ms_ranges *ret)
{
	const struct ms_range *r;

	ms_vec_for_each (r, &d->owned)
		if (!ms_ranges_add(d->arena, ret, r->begin, r->end))
			return false;
	ms_vec_for_each (r, &stacks->whole)
		if (!ms_ranges_add(d->arena, ret, r->begin, r->end))
			return false;
	return ms_ranges_tidy(d->arena, ret);
}

/* True when @next goes on where @region ends, as one piece of memory would. */
static bool continues(const struct ms_source *src, const struct ms_region *region,
                      const struct ms_region *next)
{
	const struct ms_mapping *a = ms_region_mapping(src, region);
	const struct ms_mapping *b = ms_region_mapping(src, next);

	return next->kind == MS_REGION_MEMORY && region->range.end == next->range.begin &&
	       a->prot == b->prot && !a->shared && !b->shared && !a->file && !b->file;
}

static enum ms_status add_node(struct ms_decoding *d, struct ms_range range, uint32_t mapping)
{
	struct ms_range present;
	enum ms_status st;
	uint32_t extent;

	if (!ms_source_present(d->src, range, &present))
		return MS_OK;
	st = ms_blocks_open_single(d->blocks, range, MS_EXTENT_MAPPING, &extent);
	if (st)
		return st;
	d->blocks->extents.at[extent].mapping = mapping;
	return MS_OK;
}

static bool is_node(const struct ms_region *region)
{
	return region->kind == MS_REGION_MEMORY || region->kind == MS_REGION_STACK;
}

static enum ms_status add_nodes(struct ms_decoding *d, const struct ms_ranges *taken)
{
	const struct ms_regions *regions = d->regions;
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < regions->n && !st; i++) {
		struct ms_range rest = regions->at[i].range;
		uint32_t mapping = regions->at[i].mapping;
		struct ms_range gap;

		if (!is_node(&regions->at[i]))
			continue;
		while (i + 1 < regions->n &&
		       continues(d->src, &regions->at[i], &regions->at[i + 1]))
			rest.end = regions->at[++i].range.end;
		while (!st && ms_range_next_gap(&rest, taken, &gap))
			st = add_node(d, gap, mapping);
	}
	return st;
}

enum ms_status ms_roots_find(struct ms_decoding *d, const struct ms_libc_view *libc,
                             struct ms_roots *ret)
{
	struct ms_ranges taken = { 0 };
	const struct ms_region *region;
	const struct ms_range *r;
	enum ms_status st = ms_stacks_find(d, libc, &ret->stacks);

	if (st)
		return st;
	if (!taken_memory(d, &ret->stacks, &taken))
		return MS_E_NOMEM;
	ms_vec_for_each (region, d->regions)
		if ((region->kind == MS_REGION_GLOBALS || region->kind == MS_REGION_BRK) &&
		    !add_gaps(d->arena, &ret->ranges, region->range, &taken))
			return MS_E_NOMEM;
	ms_vec_for_each (r, &d->unproved)
		if (!ms_ranges_add(d->arena, &ret->ranges, r->begin, r->end))
			return MS_E_NOMEM;
	return add_nodes(d, &taken);
}

void ms_roots_walk(const struct ms_roots *roots, struct ms_source *src, struct ms_walk *walk)
{
	const struct ms_thread *t;
	const struct ms_range *r;
	const uint64_t *word;

	/* A stack in a heap block keeps the block, but only its live part is read. */
	ms_vec_for_each (r, &roots->stacks.live)
		(void)ms_walk_claim(walk, r->begin);
	ms_vec_for_each (r, &roots->stacks.live)
		ms_walk_range(walk, *r);
	ms_vec_for_each (word, &roots->stacks.words)
		ms_walk_word(walk, *word);
	ms_vec_for_each (t, &src->threads)
		for (size_t i = 0; i < t->n_words; i++)
			ms_walk_word(walk, t->words[i]);
	ms_vec_for_each (word, &src->kernel_words)
		ms_walk_word(walk, *word);
	ms_vec_for_each (r, &roots->ranges)
		ms_walk_range(walk, *r);
}
