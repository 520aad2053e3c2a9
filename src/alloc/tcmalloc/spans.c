/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/tcmalloc/tcmalloc.h"

#include <string.h>

/*
 * The page map: for each page of the address space an entry in one of 2^18 of a leaf, whose
 * address is in a root of 2^17. An entry is the span of the page as long as the page is the
 * span's first or last one, or the span is of a size class; others are stale.
 *
 * Its root is found by a span of which a central list knows: somewhere in the data there must
 * be a leaf with this span in the entry of its first page.
 *
 * Spans leave no gap in what was taken from the system, and are never given back: from
 * each one's first page on, the next begins where it ends. They add up to the page heap's
 * counters.
 */

enum {
	PIECE_WORDS = 1 << 12,
	MOST_LEAVES = 1 << 12,    /* for 8 TiB of spans */
	MOST_BAD_PAGES = 1 << 12, /* then the walk ends */
};

static void take_fields(const struct ms_tc_raw_span *raw, ms_addr at, struct ms_tc_span *ret)
{
	*ret = (struct ms_tc_span){ .at = at,
		                    .page = raw->start,
		                    .pages = raw->length,
		                    .objects = raw->objects,
		                    .refcount = raw->refcount,
		                    .class = raw->class,
		                    .location = raw->flags & 3,
		                    .sampled = raw->flags & 4 };
}

static bool read_span(const struct ms_tcmalloc *tc, ms_addr at, struct ms_tc_span *ret)
{
	struct ms_tc_raw_span raw;

	if (at % sizeof(uint64_t) || !ms_tc_read(tc, at, &raw, sizeof(raw)))
		return false;
	take_fields(&raw, at, ret);
	return true;
}

/* ---- the root ---- */

/* The span in the entry of @page; 0: there is none. */
static ms_addr entry_of(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy, ms_addr root,
                        uint64_t page)
{
	unsigned bits = ms_tc_leaf_bits(copy);
	ms_addr leaf = ms_tc_word(tc, root + (page >> bits) * sizeof(uint64_t));

	if (!leaf)
		return 0;
	return ms_tc_word(tc, leaf + (page & ((UINT64_C(1) << bits) - 1)) * sizeof(uint64_t));
}

/* Read the @which-th of the central lists' first spans; false when that list has none. */
static bool read_sample(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy, uint32_t which,
                        struct ms_tc_span *ret)
{
	const struct ms_tc_central *c = &copy->centrals[which / 2];
	ms_addr head = copy->central + which / 2 * sizeof(*c) +
	               (which % 2 ? offsetof(struct ms_tc_central, nonempty)
	                          : offsetof(struct ms_tc_central, empty));
	ms_addr next = which % 2 ? c->nonempty.next : c->empty.next;

	return next != head && read_span(tc, next, ret) && ret->class == which / 2 && ret->page &&
	       ret->page >> ms_tc_page_bits(copy) == 0 &&
	       ret->pages == copy->classes[which / 2].pages;
}

static bool first_sample(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy,
                         struct ms_tc_span *ret)
{
	for (uint32_t i = 2; i < 2 * copy->n_classes; i++)
		if (read_sample(tc, copy, i, ret))
			return true;
	return false;
}

static bool all_samples_agree(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy,
                              ms_addr root)
{
	struct ms_tc_span span;

	for (uint32_t i = 2; i < 2 * copy->n_classes; i++)
		if (read_sample(tc, copy, i, &span) &&
		    entry_of(tc, copy, root, span.page) != span.at)
			return false;
	return true;
}

static bool is_root_entry(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr at,
                          uint64_t word)
{
	const struct ms_tc_span *sample = &copy->sample;
	uint64_t entry = (sample->page >> ms_tc_leaf_bits(copy)) * sizeof(uint64_t);
	ms_addr root = at - entry;

	(void)word;
	if (at - copy->data.begin < entry || copy->data.end - root < ms_tc_root_bytes(copy) ||
	    entry_of(tc, copy, root, sample->page) != sample->at ||
	    !all_samples_agree(tc, copy, root))
		return false;
	copy->root = root;
	return true;
}

bool ms_tc_find_root(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	return first_sample(tc, copy, &copy->sample) && ms_tc_find_word(tc, copy, is_root_entry);
}

/* ---- all spans ---- */

/* All of @range is memory that may be tcmalloc's. */
static bool is_memory(const struct ms_tcmalloc *tc, struct ms_range range)
{
	while (range.begin < range.end) {
		const struct ms_region *region = ms_region_of(tc->d->regions, range.begin);

		if (!region || (region->kind != MS_REGION_BRK && region->kind != MS_REGION_MEMORY))
			return false;
		range.begin = region->range.end;
	}
	return true;
}

static bool is_span(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy,
                    const struct ms_tc_span *span, uint64_t page)
{
	uint64_t pages = UINT64_C(1) << ms_tc_page_bits(copy);

	if (span->page != page || !span->pages || span->pages > pages - page ||
	    span->location > MS_TC_RETURNED)
		return false;
	if (span->class && (span->location != MS_TC_IN_USE || span->class >= copy->n_classes ||
	                    span->pages != copy->classes[span->class].pages))
		return false;
	return is_memory(tc, ms_tc_span_range(copy, span));
}

static void add_up(struct ms_tc_copy *copy, const struct ms_tc_span *span)
{
	uint64_t bytes = span->pages << copy->page_shift;

	copy->sums.system += bytes;
	if (span->location == MS_TC_NORMAL)
		copy->sums.free += bytes;
	if (span->location == MS_TC_RETURNED)
		copy->sums.unmapped += bytes;
	copy->sums.committed = copy->sums.system - copy->sums.unmapped;
	if (span->class)
		copy->classes[span->class].n_spans++;
}

static bool add_memory(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, struct ms_range range)
{
	struct ms_range *last = copy->memory.n ? &copy->memory.at[copy->memory.n - 1] : NULL;

	copy->next_page = range.end >> copy->page_shift;
	if (!last || last->end != range.begin)
		return ms_ranges_add(tc->d->arena, &copy->memory, range.begin, range.end);
	last->end = range.end;
	return true;
}

static bool add_span(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, const struct ms_tc_span *span)
{
	struct ms_tc_span *slot = ms_vec_push(tc->d->arena, &copy->spans);

	if (!slot)
		return false;
	*slot = *span;
	add_up(copy, span);
	return add_memory(tc, copy, ms_tc_span_range(copy, span));
}

/* The entry of @page is no span of it; nothing is proved then, but all memory is wanted. */
static bool add_bad_page(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, uint64_t page)
{
	struct ms_range range = { page << copy->page_shift, (page + 1) << copy->page_shift };

	ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED,
	               "what the page map has for 0x%llx is no span of it",
	               (unsigned long long)range.begin);
	copy->n_bad_pages++;
	return !is_memory(tc, range) || add_memory(tc, copy, range);
}

/* Take the spans of @n entries, the first of which is that of @page. */
static bool walk_entries(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, const uint64_t *entries,
                         size_t n, uint64_t page)
{
	struct ms_tc_span span;

	for (size_t i = 0; i < n && copy->n_bad_pages < MOST_BAD_PAGES; i++) {
		uint64_t covered = copy->next_page > page + i ? copy->next_page - (page + i) : 0;

		if (covered) {
			i += (size_t)(covered < n - i ? covered : n - i) - 1;
			continue;
		}
		if (!entries[i])
			continue;
		if (!read_span(tc, entries[i], &span) || !is_span(tc, copy, &span, page + i)) {
			if (!add_bad_page(tc, copy, page + i))
				return false;
		} else if (!add_span(tc, copy, &span)) {
			return false;
		}
	}
	return true;
}

/* Walk the leaf at @leaf, whose first entry is that of @page. */
static bool walk_leaf(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr leaf, uint64_t page)
{
	struct ms_range rest = { leaf, leaf + ms_tc_leaf_bytes(copy) };
	uint64_t entries[PIECE_WORDS];
	struct ms_range run;

	while (ms_source_present(tc->d->src, rest, &run)) {
		uint64_t skip = (run.begin - leaf) / sizeof(uint64_t);
		ms_addr at = leaf + skip * sizeof(uint64_t);
		size_t len =
			run.end - at < sizeof(entries) ? (size_t)(run.end - at) : sizeof(entries);
		size_t n = ms_source_read(tc->d->src, at, entries, len) / sizeof(uint64_t);

		if (!n) {
			ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED,
			               "the page map cannot be read");
			break;
		}
		if (!walk_entries(tc, copy, entries, n, page + skip))
			return false;
		rest.begin = at + n * sizeof(uint64_t);
	}
	return true;
}

/* Walk the leaf of the root's entry at @at, if it has one. */
static bool walk_root_entry(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr at)
{
	uint64_t page = (at - copy->root) / sizeof(uint64_t) << ms_tc_leaf_bits(copy);
	ms_addr leaf = ms_tc_word(tc, at);

	if (!leaf)
		return true;
	if (leaf % sizeof(uint64_t) || copy->n_leaves == MOST_LEAVES) {
		ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED, "the page map has 0x%llx for a leaf",
		               (unsigned long long)leaf);
		return true;
	}
	copy->n_leaves++;
	return ms_ranges_add(tc->d->arena, &copy->metadata, leaf, leaf + ms_tc_leaf_bytes(copy)) &&
	       walk_leaf(tc, copy, leaf, page);
}

enum ms_status ms_tc_walk_spans(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	struct ms_range rest = { copy->root, copy->root + ms_tc_root_bytes(copy) };
	struct ms_range run;

	while (ms_source_present(tc->d->src, rest, &run)) {
		for (ms_addr at = copy->root + (run.begin - copy->root) / 8 * 8; at < run.end;
		     at += sizeof(uint64_t))
			if (!walk_root_entry(tc, copy, at))
				return MS_E_NOMEM;
		rest.begin = run.end;
	}
	return MS_OK;
}

/* ---- the page heap's counters ---- */

/*
 * They stand behind the root: not far, but how far depends on the C++ library. What has
 * four sums at once is them.
 */
void ms_tc_check_page_heap(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	enum { REACH = 1 << 16 };
	const size_t n_sums = offsetof(struct ms_tc_stats, of_calls);
	ms_addr begin = copy->root + ms_tc_root_bytes(copy);
	uint64_t room = copy->data.end - begin;
	uint64_t len = room < REACH ? room : (uint64_t)REACH;

	ms_source_fill(tc->d->src, begin, tc->buffer, (size_t)len);
	for (uint64_t at = 0; at + sizeof(copy->sums) <= len; at += sizeof(uint64_t)) {
		if (memcmp(tc->buffer + at, &copy->sums, n_sums) != 0)
			continue;
		memcpy(&copy->sums, tc->buffer + at, sizeof(copy->sums));
		return;
	}
	ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
	               "the page heap does not count the %llu bytes in %zu spans that were found",
	               (unsigned long long)copy->sums.system, copy->spans.n);
}
