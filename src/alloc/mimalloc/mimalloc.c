/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/mimalloc/mimalloc.h"

#include <stdio.h>

#include "alloc/decoders.h"

/*
 * The decoder of mimalloc. What the files of this room find is put together here, and reported
 * as evidence; pages that could not be proved are handed over as memory.
 */

/* ---- claim ---- */

static bool prepare(struct ms_mimalloc *mi)
{
	struct ms_arena *arena = mi->d->arena;

	mi->buffer = ms_arena_alloc(arena, MS_MI_BUFFER);
	mi->taken = ms_arena_alloc(arena, MS_MI_CAPACITY / 8 + MS_MI_WORD);
	mi->peek = ms_arena_alloc(arena, sizeof(*mi->peek));
	return mi->buffer && mi->taken && mi->peek && ms_peek_init(mi->peek, mi->d->src, arena);
}

static enum ms_status fill_claim(struct ms_mimalloc *mi, struct ms_claim *ret)
{
	const struct ms_mi_copy *copy;

	ret->state = mi;
	ms_vec_for_each (copy, &mi->copies) {
		uint32_t *module = ms_vec_push(mi->d->arena, &ret->modules);

		if (!module)
			return MS_E_NOMEM;
		*module = copy->data->module;
		if (!ms_ranges_add_all(mi->d->arena, &ret->memory, &copy->memory) ||
		    !ms_ranges_add_all(mi->d->arena, &ret->memory, &copy->maps))
			return MS_E_NOMEM;
	}
	return MS_OK;
}

static bool is_read(const struct ms_mimalloc *mi, uint32_t module)
{
	const struct ms_mi_copy *copy;

	ms_vec_for_each (copy, &mi->copies)
		if (copy->data->module == module)
			return true;
	return false;
}

/* The file of @module, or "". */
static const char *file_of(const struct ms_mimalloc *mi, uint32_t module)
{
	const struct ms_region *region;

	ms_vec_for_each (region, mi->d->regions) {
		const struct ms_mapping *mapping = ms_region_mapping(mi->d->src, region);

		if (region->kind == MS_REGION_GLOBALS && region->module == module && mapping->file)
			return mapping->name;
	}
	return "";
}

/* Say which modules have a heap in use that no layout is known of: each once. */
static void warn_of_unknown(struct ms_mimalloc *mi)
{
	const struct ms_mi_table *table;
	uint32_t said = UINT32_MAX;

	ms_vec_for_each (table, &mi->tables) {
		uint32_t module = table->data->module;

		if (module == said || is_read(mi, module) || !ms_mi_is_used(mi, table))
			continue;
		said = module;
		ms_note_add(
			mi->d->arena, mi->d->warnings,
			"mimalloc of a version that memscan does not read is in use in %s: its "
			"blocks are not seen, nor leaks among them; all that they point to counts "
			"as reachable",
			file_of(mi, module));
	}
}

/*
 * Find each copy's memory and pages. One without is not claimed: it was never called, as the one
 * within CPython is as a rule, or is of a version that is not known.
 */
static enum ms_status find_memory(struct ms_mimalloc *mi)
{
	struct ms_mi_copy *copy;
	size_t kept = 0;

	ms_vec_for_each (copy, &mi->copies) {
		enum ms_status st = copy->layout->map.is_there ? ms_mi_find_map(mi, copy)
		                                               : ms_mi_find_segments(mi, copy);

		if (st || !ms_ranges_tidy(mi->d->arena, &copy->memory))
			return MS_E_NOMEM;
		if (copy->memory.n)
			mi->copies.at[kept++] = *copy;
	}
	mi->copies.n = kept;
	return MS_OK;
}

static enum ms_status mimalloc_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	const struct ms_abi *abi = &d->src->abi;
	struct ms_mimalloc *mi;
	enum ms_status st;

	if (abi->word_bytes != MS_MI_WORD || abi->big_endian)
		return MS_OK;
	mi = ms_arena_alloc(d->arena, sizeof(*mi));
	if (!mi)
		return MS_E_NOMEM;
	*mi = (struct ms_mimalloc){ .d = d };
	st = prepare(mi) ? ms_mi_locate(mi) : MS_E_NOMEM;
	if (st || !mi->tables.n)
		return st;
	st = find_memory(mi);
	if (st)
		return st;
	warn_of_unknown(mi);
	if (!mi->copies.n)
		return MS_OK;
	return fill_claim(mi, ret);
}

/* ---- read ---- */

static enum ms_status mimalloc_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_mimalloc *mi = claim->state;
	struct ms_mi_copy *copy;

	(void)d;
	ms_vec_for_each (copy, &mi->copies) {
		enum ms_status st = ms_mi_read_heaps(mi, copy);

		if (!st)
			st = ms_mi_read_pages(mi, copy);
		if (st)
			return st;
	}
	return MS_OK;
}

/* ---- settle ---- */

static void doubt_inside(struct ms_mimalloc *mi, const struct ms_claim *claim)
{
	const struct ms_thread *changer = ms_proof_changer(mi->d, claim);
	struct ms_mi_copy *copy;

	ms_vec_for_each (copy, &mi->copies) {
		copy->dropped |= changer != NULL;
		ms_proof_doubt_changer(&copy->proof, changer);
	}
}

static bool proved_memory(const struct ms_mimalloc *mi, const struct ms_mi_copy *copy,
                          struct ms_ranges *ret)
{
	const struct ms_mi_page *page;

	ms_vec_for_each (page, &copy->pages)
		if (page->proved && !copy->dropped &&
		    !ms_ranges_add(mi->d->arena, ret, page->area.begin, page->area.end))
			return false;
	return ms_ranges_tidy(mi->d->arena, ret);
}

/* Where anything is in doubt, there may be blocks wherever no page is that is proved. */
static bool hand_over_memory(struct ms_mimalloc *mi, const struct ms_mi_copy *copy)
{
	struct ms_decoding *d = mi->d;
	struct ms_ranges proved = { 0 };
	const struct ms_range *r;

	if (!proved_memory(mi, copy, &proved) ||
	    !ms_ranges_add_all(mi->d->arena, &d->owned, &copy->memory) ||
	    !ms_ranges_add_all(mi->d->arena, &d->owned, &copy->maps))
		return false;
	ms_vec_for_each (r, &copy->memory) {
		struct ms_range rest = *r;
		struct ms_range gap;

		while (copy->proof.doubt && ms_range_next_gap(&rest, &proved, &gap))
			if (!ms_ranges_add(d->arena, &d->unproved, gap.begin, gap.end))
				return false;
	}
	return true;
}

#define NOTE(mi, ...) ms_note_add((mi)->d->arena, (mi)->d->evidence, __VA_ARGS__)

static void tell_evidence(struct ms_mimalloc *mi, const struct ms_mi_copy *copy)
{
	if (copy->layout->map.is_there)
		NOTE(mi, "page map at 0x%llx, pages laid out as in mimalloc %s, each where it says",
		     (unsigned long long)copy->map, copy->layout->versions);
	else
		NOTE(mi,
		     "first heap at 0x%llx laid out as in mimalloc %s; %llu segments, the slices of "
		     "each are all of it",
		     (unsigned long long)copy->main_heap, copy->layout->versions,
		     (unsigned long long)copy->n_segments);
	if (copy->proof.doubt)
		NOTE(mi, "%llu places not proved: %s", (unsigned long long)copy->proof.n,
		     copy->proof.problem);
	if (copy->dropped)
		return;
	NOTE(mi, "%llu pages in %llu heaps, all that pages link to%s",
	     (unsigned long long)copy->pages.n, (unsigned long long)copy->n_heaps,
	     copy->layout->heap.page_count ? ", and as many as heaps count" : "");
	NOTE(mi,
	     "%llu blocks in use, and %llu on lists, %llu of these in heaps: of each page as many "
	     "as it counts",
	     (unsigned long long)copy->live.n, (unsigned long long)copy->idle.n,
	     (unsigned long long)copy->n_delayed);
}

static enum ms_status tell(struct ms_mimalloc *mi, const struct ms_mi_copy *copy)
{
	size_t before = mi->d->evidence->n;
	struct ms_heap *heap = ms_vec_push(mi->d->arena, mi->d->heaps);
	const struct ms_range *r;

	if (!heap)
		return MS_E_NOMEM;
	*heap = (struct ms_heap){ .allocator = "mimalloc",
		                  .verified = copy->proof.doubt == MS_DOUBT_NONE,
		                  .doubt = (uint8_t)copy->proof.doubt };
	(void)snprintf(heap->version, sizeof(heap->version), "%s", copy->layout->versions);
	ms_vec_for_each (r, &copy->memory)
		heap->mapped_bytes += ms_range_len(*r);
	if (!copy->dropped) {
		heap->allocations = copy->live.n;
		heap->allocation_bytes = copy->live.bytes;
		heap->free_bytes = copy->idle.bytes;
	}
	tell_evidence(mi, copy);
	heap->n_evidence = (uint32_t)(mi->d->evidence->n - before);
	return MS_OK;
}

static enum ms_status mimalloc_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_mimalloc *mi = claim->state;
	struct ms_mi_copy *copy;

	doubt_inside(mi, claim);
	ms_vec_for_each (copy, &mi->copies) {
		enum ms_status st = tell(mi, copy);

		if (st)
			return st;
		if (copy->dropped)
			ms_blocks_drop_group(d->blocks, copy->group);
		if (!hand_over_memory(mi, copy))
			return MS_E_NOMEM;
	}
	return ms_ranges_tidy(d->arena, &d->unproved) ? MS_OK : MS_E_NOMEM;
}

const struct ms_decoder ms_mimalloc_decoder = { .name = "mimalloc",
	                                        .reads = "mimalloc",
	                                        .claim = mimalloc_claim,
	                                        .read = mimalloc_read,
	                                        .settle = mimalloc_settle };
