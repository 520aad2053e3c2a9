/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/registry/registry.h"

#include "alloc/decoders.h"

/* The annotator: what a preloaded malloc_debug knows of blocks that the decoders have found. */

static uint64_t bytes_of(const struct ms_blocks *blocks)
{
	const struct ms_extent *e;
	uint64_t bytes = 0;

	ms_vec_for_each (e, &blocks->extents)
		if (!e->dropped)
			bytes += e->bytes;
	return bytes;
}

/* Blocks that are no more leave the arrays; how many are left. */
static uint64_t leave_out_freed(struct ms_registry *r)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < r->n_blocks; i++)
		if (r->less[i] != MS_TRIM_FREE)
			r->stack[n++] = r->stack[i];
	return n;
}

/* The origins of an extent's blocks, the first of which is number *@n; room is there. */
static void add_origins(struct ms_registry *r, const struct ms_extent *e, uint64_t *n)
{
	struct ms_origins *origins = r->d->origins;

	for (size_t i = 0; i < e->n_cells; i++) {
		uint64_t starts = r->d->blocks->cells.at[e->cell0 + i].starts;

		for (; starts; starts &= starts - 1, (*n)++) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(starts);

			if (r->stack[*n])
				origins->blocks.at[origins->blocks.n++] =
					(struct ms_origin){ .begin = ms_block_begin(e, granule),
					                    .stack = r->stack[*n] - 1 };
		}
	}
}

static bool tell_origins(struct ms_registry *r, uint64_t n)
{
	const struct ms_extent *e;
	size_t known = 0;
	uint64_t number = 0;

	for (uint64_t i = 0; i < n; i++)
		known += r->stack[i] != 0;
	if (!ms_vec_reserve(r->d->arena, &r->d->origins->blocks, known))
		return false;
	ms_vec_for_each (e, &r->d->blocks->extents)
		if (!e->dropped)
			add_origins(r, e, &number);
	return true;
}

/* Each was mapped by itself, so the rest of its last page is nobody else's. */
static bool hand_over_memory(struct ms_registry *r)
{
	const struct ms_range *range;

	ms_vec_for_each (range, &r->memory) {
		ms_addr end = ms_align_up(range->end, r->d->src->abi.page_bytes);

		if (!ms_ranges_add(r->d->arena, &r->d->owned, range->begin, end))
			return false;
	}
	return true;
}

static void correct_heap(struct ms_registry *r, uint64_t fewer_bytes)
{
	struct ms_heap *heap = ms_heaps_main(r->d->heaps);

	if (!heap)
		return;
	ms_heap_shrink(heap, r->n_freed, fewer_bytes);
	heap->free_bytes += r->freed_bytes;
}

static void tell(struct ms_registry *r)
{
	bool all = r->told.flags & MALLOC_DEBUG_ALL_BLOCKS;
	struct ms_decoding *d = r->d;

	ms_evidence_add(
		d->arena, d->evidence, d->heaps,
		"malloc_debug registry %u: %llu of %llu %s are live blocks, %zu stacks; %llu "
		"blocks kept after free()",
		r->told.version, (unsigned long long)r->n_believed,
		(unsigned long long)r->n_entries, all ? "entries" : "sampled entries",
		d->origins->stacks.n, (unsigned long long)r->n_freed);
	if (r->told.flags & MALLOC_DEBUG_BYPASSED)
		ms_note_add(d->arena, d->warnings,
		            "libmalloc_debug: a library (RTLD_DEEPBIND) has called the allocator "
		            "directly; %llu entries that disagree with their blocks are dropped, "
		            "and some stacks may be those of earlier blocks",
		            (unsigned long long)r->n_stale);
	if (r->n_lost_stacks)
		ms_note_add(
			d->arena, d->warnings,
			"malloc_debug's registry: %llu stacks of allocations could not be read, "
			"or make no sense",
			(unsigned long long)r->n_lost_stacks);
}

static bool apply(struct ms_registry *r)
{
	struct ms_trims trims = { .front = r->front,
		                  .less = r->less,
		                  .exact = r->told.flags & MALLOC_DEBUG_REAR_GUARDS };
	uint64_t before = bytes_of(r->d->blocks);
	uint64_t n = leave_out_freed(r);

	if (!ms_registry_read_modules(r) || !ms_registry_read_stacks(r, n))
		return false;
	ms_blocks_trim(r->d->blocks, &trims);
	if (!tell_origins(r, n) || !hand_over_memory(r))
		return false;
	correct_heap(r, before - bytes_of(r->d->blocks));
	tell(r);
	return true;
}

static void tell_problem(const struct ms_registry *r)
{
	ms_note_add(r->d->arena, r->d->warnings,
	            "malloc_debug's registry at 0x%llx is not used: %s; stacks and exact sizes "
	            "are not known",
	            (unsigned long long)r->at, r->problem);
}

static bool read_all(struct ms_registry *r)
{
	r->buffer = ms_arena_alloc(r->d->arena, MS_WINDOW_BYTES);
	if (!r->buffer || !ms_peek_init(&r->peek, r->d->src, r->d->arena))
		return false;
	ms_registry_find(r);
	if (!r->at || r->problem)
		return true;
	return !ms_blocks_number(r->d->blocks, &r->n_blocks) && ms_registry_read_entries(r);
}

static enum ms_status registry_annotate(struct ms_decoding *d)
{
	struct ms_registry r = { .d = d };
	bool done = read_all(&r);

	if (done && r.problem)
		tell_problem(&r);
	else if (done && r.at)
		done = apply(&r);
	return done ? MS_OK : MS_E_NOMEM;
}

const struct ms_annotator ms_registry_annotator = { .name = "registry",
	                                            .annotate = registry_annotate };
