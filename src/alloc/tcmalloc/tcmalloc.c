/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/tcmalloc/tcmalloc.h"

#include <string.h>

#include "alloc/decoders.h"
#include "alloc/window.h"

/*
 * The decoder of gperftools' tcmalloc. What the files of this room find is put together
 * here, compared, and reported as evidence; a copy that could not be proved is handed over as
 * memory instead of blocks.
 */

enum { BANNER_PIECE = 1 << 16, BANNER_TEXT = 64 };

/* ---- what is told ---- */

/* The number of the version behind the banner in @bytes; false when it is not there. */
static bool parse_banner(const char *bytes, size_t len, struct ms_heap *heap)
{
	static const char banner[] = "gperftools ";
	const char *at = memmem(bytes, len, banner, sizeof(banner) - 1);
	size_t left;
	size_t n;

	if (!at)
		return false;
	at += sizeof(banner) - 1;
	left = len - (size_t)(at - bytes);
	left = left < sizeof(heap->version) - 1 ? left : sizeof(heap->version) - 1;
	for (n = 0; n < left && ((at[n] >= '0' && at[n] <= '9') || (n && at[n] == '.')); n++)
		;
	memcpy(heap->version, at, n);
	heap->version[n] = '\0';
	return n > 0;
}

/* Programs and libraries carry it as text; it is for people, nothing depends on it. */
static void read_version(struct ms_tcmalloc *tc, const struct ms_tc_copy *copy,
                         struct ms_heap *heap)
{
	const struct ms_regions *regions = tc->d->regions;
	const struct ms_region *region;

	ms_vec_for_each (region, regions) {
		ms_addr at = region->range.begin;

		if (region->kind != MS_REGION_GLOBALS || region->module != copy->region->module ||
		    ms_region_mapping(tc->d->src, region)->prot != MS_PROT_READ)
			continue;
		/* Pieces overlap, so that the text is whole in one of them. */
		for (; at < region->range.end; at += BANNER_PIECE - BANNER_TEXT) {
			uint64_t left = region->range.end - at;
			size_t n = ms_source_read(tc->d->src, at, tc->buffer,
			                          left < BANNER_PIECE ? (size_t)left
			                                              : (size_t)BANNER_PIECE);

			if (!n)
				break;
			if (parse_banner((const char *)tc->buffer, n, heap))
				return;
		}
	}
}

#define NOTE(tc, ...) ms_note_add((tc)->d->arena, (tc)->d->evidence, __VA_ARGS__)

static void tell_proof(struct ms_tcmalloc *tc, const struct ms_tc_copy *copy)
{
	NOTE(tc,
	     "%zu spans, as their allocator counts, of %llu bytes, of which %llu free and %llu "
	     "returned, as the page heap counts",
	     copy->spans.n, (unsigned long long)copy->sums.system,
	     (unsigned long long)copy->sums.free, (unsigned long long)copy->sums.unmapped);
	NOTE(tc,
	     "%llu blocks, %llu bytes, free in spans, as each span and each central list counts",
	     (unsigned long long)copy->listed.n, (unsigned long long)copy->listed.bytes);
	NOTE(tc, "%llu blocks, %llu bytes, free in transfer slots, all full",
	     (unsigned long long)copy->slotted.n, (unsigned long long)copy->slotted.bytes);
	if (copy->held.n)
		NOTE(tc,
		     "%zu large blocks are handed over as memory: a thread may be giving them back",
		     copy->held.n);
	NOTE(tc,
	     "%zu threads' caches, as counted: %llu blocks, %llu bytes, free in them, as each counts",
	     copy->caches.n, (unsigned long long)copy->cached.n,
	     (unsigned long long)copy->cached.bytes);
}

/* What a delete with the wrong size leaves. Only lists and their counts are wrong by that. */
static void warn_of_lists(struct ms_tcmalloc *tc, const struct ms_tc_copy *copy)
{
	ms_misplaced_warn(&copy->misplaced, "tcmalloc", tc->d);
	if (!copy->misplaced.n && copy->miscounted)
		ms_note_add(
			tc->d->arena, tc->d->warnings,
			"tcmalloc's counts of blocks of %llu bytes include those of other sizes, "
			"as after operator delete with a wrong size; over all sizes they agree",
			(unsigned long long)copy->miscounted);
}

static enum ms_status tell(struct ms_tcmalloc *tc, const struct ms_tc_copy *copy)
{
	struct ms_heap *heap = ms_vec_push(tc->d->arena, tc->d->heaps);
	size_t before = tc->d->evidence->n;

	if (!heap)
		return MS_E_NOMEM;
	*heap = (struct ms_heap){ .allocator = "tcmalloc",
		                  .verified = !copy->proof.doubt,
		                  .doubt = (uint8_t)copy->proof.doubt,
		                  .mapped_bytes = copy->sums.system };
	read_version(tc, copy, heap);
	NOTE(tc, "page map at 0x%llx, central lists of %u size classes at 0x%llx",
	     (unsigned long long)copy->root, copy->n_classes, (unsigned long long)copy->central);
	if (!copy->proof.doubt) {
		tell_proof(tc, copy);
		warn_of_lists(tc, copy);
		heap->allocations = copy->used.n;
		heap->allocation_bytes = copy->used.bytes;
		heap->free_bytes = copy->sums.free + copy->sums.unmapped + copy->listed.bytes +
		                   copy->slotted.bytes + copy->cached.bytes;
	} else {
		NOTE(tc, "not proved: %s", copy->proof.problem);
	}
	heap->n_evidence = (uint32_t)(tc->d->evidence->n - before);
	return MS_OK;
}

static bool hand_over(struct ms_tcmalloc *tc, const struct ms_tc_copy *copy)
{
	struct ms_decoding *d = tc->d;

	if (copy->proof.doubt)
		ms_blocks_drop_group(d->blocks, copy->group);
	return ms_ranges_add_all(d->arena, &d->owned, &copy->memory) &&
	       ms_ranges_add_all(d->arena, &d->owned, &copy->metadata) &&
	       ms_ranges_add_all(d->arena, &d->unproved,
	                         copy->proof.doubt ? &copy->memory : &copy->held) &&
	       ms_ranges_tidy(d->arena, &d->unproved);
}

/* ---- the three steps ---- */

static enum ms_status find_parts(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	enum ms_status st = ms_tc_walk_spans(tc, copy);

	if (st)
		return st;
	ms_tc_check_page_heap(tc, copy);
	st = ms_tc_find_caches(tc, copy);
	return st ? st : ms_tc_find_metadata(tc, copy);
}

/*
 * What instructions refer to: the central lists by the first of them, the size map by any of its
 * tables. These begin with a class for each small size, and end with the pages of spans.
 * Source: gperftools 2.10, src/common.h, class SizeMap.
 */
static void add_anchors(const struct ms_tc_copy *copy, struct ms_claim *ret)
{
	enum { BEFORE_SIZES = 2688, BEHIND_SIZES = 1536 };
	const struct ms_range central = { copy->central,
		                          copy->central + sizeof(struct ms_tc_central) };
	const struct ms_range sizes = { copy->sizes - BEFORE_SIZES, copy->sizes + BEHIND_SIZES };

	(void)ms_anchors_add(&ret->anchors, central);
	(void)ms_anchors_add(&ret->anchors, sizes);
}

static enum ms_status fill_claim(struct ms_tcmalloc *tc, struct ms_claim *ret)
{
	struct ms_arena *arena = tc->d->arena;
	const struct ms_tc_copy *copy;

	ret->state = tc;
	ms_vec_for_each (copy, &tc->copies) {
		uint32_t *module = ms_vec_push(arena, &ret->modules);

		if (!module || !ms_ranges_add_all(arena, &ret->memory, &copy->memory) ||
		    !ms_ranges_add_all(arena, &ret->memory, &copy->metadata))
			return MS_E_NOMEM;
		*module = copy->region->module;
		add_anchors(copy, ret);
	}
	return MS_OK;
}

static enum ms_status tcmalloc_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	const struct ms_abi *abi = &d->src->abi;
	enum ms_status st = MS_OK;
	struct ms_tcmalloc *tc;
	struct ms_tc_copy *copy;

	if (abi->word_bytes != sizeof(uint64_t) || abi->big_endian)
		return MS_OK;
	tc = ms_arena_alloc(d->arena, sizeof(*tc));
	if (!tc)
		return MS_E_NOMEM;
	*tc = (struct ms_tcmalloc){ .d = d };
	tc->buffer = ms_arena_alloc(d->arena, MS_WINDOW_BYTES);
	tc->peek = ms_arena_alloc(d->arena, sizeof(*tc->peek));
	if (!tc->buffer || !tc->peek || !ms_peek_init(tc->peek, d->src, d->arena))
		return MS_E_NOMEM;
	st = ms_tc_locate(tc);
	for (copy = tc->copies.at; !st && copy && copy < tc->copies.at + tc->copies.n; copy++)
		st = find_parts(tc, copy);
	return st || !tc->copies.n ? st : fill_claim(tc, ret);
}

static enum ms_status tcmalloc_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_tcmalloc *tc = claim->state;
	struct ms_tc_copy *copy;

	(void)d;
	ms_vec_for_each (copy, &tc->copies) {
		enum ms_status st = ms_tc_hold_spans(tc, copy);

		if (!st)
			st = ms_tc_put_blocks(tc, copy);

		if (st)
			return st;
	}
	return MS_OK;
}

static enum ms_status tcmalloc_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_tcmalloc *tc = claim->state;
	struct ms_tc_copy *copy;

	(void)d;
	ms_vec_for_each (copy, &tc->copies) {
		ms_proof_doubt_changer(&copy->proof, ms_proof_changer(tc->d, claim));
		ms_tc_check_central(copy);
		ms_tc_take_slots(tc, copy);
		ms_tc_take_caches(tc, copy);
		if (!copy->proof.doubt)
			ms_tc_doubt_debugging(tc, copy);
		if (!hand_over(tc, copy) || tell(tc, copy))
			return MS_E_NOMEM;
	}
	return MS_OK;
}

const struct ms_decoder ms_tcmalloc_decoder = {
	.name = "tcmalloc",
	.reads = "gperftools' tcmalloc",
	.claim = tcmalloc_claim,
	.read = tcmalloc_read,
	.settle = tcmalloc_settle,
};
