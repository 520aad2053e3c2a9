/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/roots.h"

#include "engine/loaded/reserved.h"

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
	return ms_ranges_add_all(d->arena, ret, &d->owned) &&
	       ms_ranges_add_all(d->arena, ret, &d->own_words) &&
	       ms_ranges_add_all(d->arena, ret, &stacks->whole) && ms_ranges_tidy(d->arena, ret);
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

/* What a runtime has in ranges that it reserved is a root; @taken: in/out. */
static bool add_reserved(struct ms_decoding *d, struct ms_ranges *taken, struct ms_ranges *to)
{
	struct ms_ranges reserved = { 0 };
	const struct ms_range *r;

	if (!ms_reserved_find(d->src, d->regions, d->arena, &reserved))
		return false;
	ms_vec_for_each (r, &reserved)
		if (!add_gaps(d->arena, to, *r, taken))
			return false;
	return ms_ranges_add_all(d->arena, taken, &reserved) && ms_ranges_tidy(d->arena, taken);
}

enum ms_status ms_roots_find(struct ms_decoding *d, const struct ms_libc_view *libc,
                             struct ms_roots *ret)
{
	struct ms_ranges taken = { 0 };
	const struct ms_region *region;
	enum ms_status st = ms_stacks_find(d, libc, &ret->stacks);

	if (st)
		return st;
	ret->src = d->src;
	ret->regions = d->regions;
	if (!taken_memory(d, &ret->stacks, &taken))
		return MS_E_NOMEM;
	ms_vec_for_each (region, d->regions)
		if ((region->kind == MS_REGION_GLOBALS || region->kind == MS_REGION_BRK) &&
		    !add_gaps(d->arena, &ret->ranges, region->range, &taken))
			return MS_E_NOMEM;
	if (!add_reserved(d, &taken, &ret->ranges))
		return MS_E_NOMEM;
	ret->unproved0 = ret->ranges.n;
	if (!ms_ranges_add_all(d->arena, &ret->ranges, &d->unproved) ||
	    !ms_ranges_add_all(d->arena, &ret->ranges, &d->in_hand))
		return MS_E_NOMEM;
	return add_nodes(d, &taken);
}

/* ---- visiting ---- */

static void visit_words(const struct ms_words *words, struct ms_root root, ms_root_fn *visit,
                        void *ctx)
{
	for (root.index = 0; root.index < words->n; root.index++) {
		root.value = words->at[root.index];
		visit(ctx, &root);
	}
}

static void visit_registers(const struct ms_thread *t, ms_root_fn *visit, void *ctx)
{
	struct ms_root root = { .kind = MS_ROOT_REGISTER, .thread = t };

	for (; root.index < t->n_words; root.index++) {
		root.value = t->words[root.index];
		visit(ctx, &root);
	}
}

static void visit_transit(const struct ms_transit_words *words, ms_root_fn *visit, void *ctx)
{
	struct ms_root root = { .kind = MS_ROOT_TRANSIT };

	for (; root.index < words->n; root.index++) {
		root.value = words->at[root.index].value;
		visit(ctx, &root);
	}
}

void ms_roots_visit(const struct ms_roots *roots, ms_root_fn *visit, void *ctx)
{
	const struct ms_source *src = roots->src;
	const struct ms_thread *t;
	const struct ms_range *r;

	ms_vec_for_each (r, &roots->stacks.live)
		visit(ctx, &(struct ms_root){ .range = *r, .kind = MS_ROOT_STACK });
	visit_words(&roots->stacks.words, (struct ms_root){ .kind = MS_ROOT_TLS }, visit, ctx);
	ms_vec_for_each (t, &src->threads)
		visit_registers(t, visit, ctx);
	visit_words(&src->kernel_words, (struct ms_root){ .kind = MS_ROOT_KERNEL }, visit, ctx);
	visit_transit(&src->transit, visit, ctx);
	for (size_t i = 0; i < roots->ranges.n; i++) {
		bool unproved = i >= roots->unproved0;

		visit(ctx,
		      &(struct ms_root){ .range = roots->ranges.at[i],
		                         .kind = unproved ? MS_ROOT_UNPROVED : MS_ROOT_GLOBALS });
	}
}

static void give_to_walk(void *ctx, const struct ms_root *root)
{
	struct ms_walk *walk = ctx;

	if (root->range.end > root->range.begin)
		ms_walk_range(walk, root->range);
	else
		ms_walk_word(walk, root->value);
}

void ms_roots_walk(const struct ms_roots *roots, struct ms_walk *walk)
{
	const struct ms_range *r;

	/* A stack in a heap block keeps the block, but only its live part is read. */
	ms_vec_for_each (r, &roots->stacks.live)
		(void)ms_walk_claim(walk, r->begin);
	ms_roots_visit(roots, give_to_walk, walk);
}

/* ---- names ---- */

/* The mapping with the ELF header of @region's module, by which regions of it begin. */
static uint32_t module_mapping(const struct ms_regions *regions, const struct ms_region *region)
{
	const struct ms_region *first = region;

	for (const struct ms_region *r = region; r > regions->at; r--) {
		if (r[-1].kind != MS_REGION_GLOBALS)
			continue;
		if (r[-1].module != region->module)
			break;
		first = r - 1;
	}
	return first->mapping;
}

static void name_memory(const struct ms_roots *roots, struct ms_root_name *name)
{
	const struct ms_region *region = ms_region_of(roots->regions, name->at);

	if (!region)
		return;
	name->mapping = region->mapping;
	if (name->kind == MS_ROOT_GLOBALS && region->kind == MS_REGION_BRK)
		name->kind = MS_ROOT_BREAK;
	if (name->kind == MS_ROOT_GLOBALS && region->kind == MS_REGION_GLOBALS)
		name->mapping = module_mapping(roots->regions, region);
	name->offset = (int64_t)(name->at - roots->src->mappings.at[name->mapping].range.begin);
}

static void name_stack(const struct ms_roots *roots, struct ms_root_name *name)
{
	const struct ms_stack_part *part = ms_stacks_part(&roots->stacks, name->at);
	const struct ms_thread *t;
	ms_addr from;

	if (!part)
		return;
	name->tid = part->tid;
	from = part->range.begin;
	t = ms_source_thread(roots->src, part->tid);
	/* What is left of a thread that ended is its control block. */
	if (!t || (t->tp <= name->at && ms_range_has(part->range, t->tp)))
		name->kind = MS_ROOT_TLS;
	if (t && name->kind == MS_ROOT_TLS)
		from = t->tp;
	else if (t && ms_range_has(part->range, t->sp))
		from = t->sp;
	name->offset = (int64_t)(name->at - from);
}

/* A word beside the stacks. */
static void name_stack_word(const struct ms_roots *roots, size_t index, struct ms_root_name *name)
{
	const struct ms_stack_word *owner = &roots->stacks.word_owners.at[index];

	name->kind = owner->tls ? MS_ROOT_TLS : MS_ROOT_STACK;
	name->tid = owner->tid;
}

struct ms_root_name ms_root_name(const struct ms_roots *roots, const struct ms_root *root,
                                 ms_addr at)
{
	struct ms_root_name name = { .kind = root->kind, .offset = (int64_t)root->index };

	if (root->range.end > root->range.begin)
		name.at = at;
	switch (root->kind) {
	case MS_ROOT_GLOBALS:
	case MS_ROOT_BREAK:
	case MS_ROOT_UNPROVED:
		name_memory(roots, &name);
		break;
	case MS_ROOT_STACK:
		name_stack(roots, &name);
		break;
	case MS_ROOT_TLS:
		name.offset = 0;
		name_stack_word(roots, root->index, &name);
		break;
	case MS_ROOT_REGISTER:
		name.tid = root->thread->tid;
		break;
	case MS_ROOT_KERNEL:
	case MS_ROOT_TRANSIT:
	case MS_ROOT_KINDS:
		break;
	}
	return name;
}
