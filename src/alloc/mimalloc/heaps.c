/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/mimalloc/mimalloc.h"
#include "base/search.h"
#include "base/sort.h"

/*
 * A heap is what one thread allocates from; pages say which one they belong to. It counts
 * its pages, so that none can have been missed, and it has a list of blocks that other
 * threads freed while their pages were full. To its page such a block is in use.
 */

struct heap {
	ms_addr at;
	uint64_t n_pages; /* found; */
	uint64_t n_used;  /* those of them that have blocks in use */
};

struct heaps MS_VEC(struct heap);

static bool heap_before(const void *a, const void *b)
{
	const struct heap *x = a;
	const struct heap *y = b;

	return x->at < y->at;
}

static bool addr_before(const void *a, const void *b)
{
	const ms_addr *x = a;
	const ms_addr *y = b;

	return *x < *y;
}

static bool add(struct ms_mimalloc *mi, struct heaps *to, struct heap heap)
{
	struct heap *slot = ms_vec_push(mi->d->arena, to);

	if (slot)
		*slot = heap;
	return slot;
}

/* Make one of those that are alike. */
static void unite(struct heaps *heaps)
{
	size_t kept = 0;

	for (size_t i = 0; i < heaps->n; i++) {
		struct heap *last = kept ? &heaps->at[kept - 1] : NULL;

		if (!last || last->at != heaps->at[i].at) {
			heaps->at[kept++] = heaps->at[i];
			continue;
		}
		last->n_pages += heaps->at[i].n_pages;
		last->n_used += heaps->at[i].n_used;
	}
	heaps->n = kept;
}

/* Every heap that a page belongs to, and the first one. */
static bool collect(struct ms_mimalloc *mi, const struct ms_mi_copy *copy, struct heaps *ret)
{
	const struct ms_mi_page *page;

	if (copy->main_heap && !add(mi, ret, (struct heap){ copy->main_heap, 0, 0 }))
		return false;
	ms_vec_for_each (page, &copy->pages)
		if (page->heap && !add(mi, ret, (struct heap){ page->heap, 1, page->used != 0 }))
			return false;
	if (!ms_sort(mi->d->arena, ret->at, ret->n, sizeof(*ret->at), heap_before))
		return false;
	unite(ret);
	return true;
}

/* All blocks that there can be: no list is longer. */
static uint64_t capacity_of(const struct ms_mi_copy *copy)
{
	const struct ms_mi_page *page;
	uint64_t sum = 0;

	ms_vec_for_each (page, &copy->pages)
		sum += page->capacity;
	return sum;
}

/* Add the blocks that wait in @heap, whose links its keys encode. */
static enum ms_status take_delayed(struct ms_mimalloc *mi, struct ms_mi_copy *copy, ms_addr heap,
                                   uint64_t most)
{
	const struct ms_mi_layout *layout = copy->layout;
	uint64_t keys[2] = { 0, 0 };
	ms_addr at = ms_mi_word(mi, heap + layout->heap.delayed);
	ms_addr *slot;

	if (layout->page.keys)
		for (unsigned i = 0; i < 2; i++)
			keys[i] =
				ms_mi_word(mi, heap + layout->heap.keys + (ms_addr)i * MS_MI_WORD);
	while (at) {
		uint64_t link;

		if (copy->delayed.n == most ||
		    ms_mi_read(mi, at, &link, sizeof(link)) != sizeof(link)) {
			copy->dropped = true;
			ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED,
			               "heap 0x%llx: the list of delayed blocks does not end",
			               (unsigned long long)heap);
			return MS_OK;
		}
		slot = ms_vec_push(mi->d->arena, &copy->delayed);
		if (!slot)
			return MS_E_NOMEM;
		*slot = at;
		at = layout->page.keys ? ms_mi_decode(link, keys, heap) : link;
	}
	return MS_OK;
}

/* A page that is being made, or given up, may not be counted: it has no blocks in use. */
static void check_count(struct ms_mimalloc *mi, struct ms_mi_copy *copy, const struct heap *heap)
{
	uint64_t counted;

	if (ms_mi_read(mi, heap->at + copy->layout->heap.page_count, &counted, sizeof(counted)) ==
	            sizeof(counted) &&
	    counted >= heap->n_used && counted <= heap->n_pages)
		return;
	copy->dropped = true;
	ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED, "heap 0x%llx does not count its %llu pages",
	               (unsigned long long)heap->at, (unsigned long long)heap->n_pages);
}

struct addrs MS_VEC(ms_addr);

static bool has(const struct addrs *sorted, ms_addr addr)
{
	size_t at = ms_lower_bound(0, sorted->n, i, sorted->at[i] < addr);

	return at < sorted->n && sorted->at[at] == addr;
}

static bool all_pages(struct ms_mimalloc *mi, const struct ms_mi_copy *copy, struct addrs *ret)
{
	const struct ms_mi_page *page;

	ms_vec_for_each (page, &copy->pages) {
		ms_addr *slot = ms_vec_push(mi->d->arena, ret);

		if (!slot)
			return false;
		*slot = page->at;
	}
	return ms_sort(mi->d->arena, ret->at, ret->n, sizeof(ms_addr), addr_before);
}

bool ms_mi_astray(struct ms_mimalloc *mi, const struct ms_mi_copy *copy, uint64_t *ret,
                  struct ms_mi_link *ret_first)
{
	const struct ms_mi_page *page;
	struct addrs known = { 0 };

	*ret = 0;
	if (!all_pages(mi, copy, &known))
		return false;
	ms_vec_for_each (page, &copy->pages)
		for (unsigned i = 0; i < 2; i++) {
			if (!page->links[i] || has(&known, page->links[i]))
				continue;
			if (!*ret)
				*ret_first = (struct ms_mi_link){ page->at, page->links[i] };
			++*ret;
		}
	return true;
}

/* Pages of one heap and size are linked: none is known that links to one that is not. */
static bool check_links(struct ms_mimalloc *mi, struct ms_mi_copy *copy)
{
	struct ms_mi_link first;
	uint64_t n;

	if (!ms_mi_astray(mi, copy, &n, &first))
		return false;
	copy->dropped |= n != 0;
	if (n)
		ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED,
		               "page 0x%llx links to 0x%llx, which is none",
		               (unsigned long long)first.from, (unsigned long long)first.to);
	return true;
}

enum ms_status ms_mi_read_heaps(struct ms_mimalloc *mi, struct ms_mi_copy *copy)
{
	const uint64_t most = capacity_of(copy);
	struct heaps heaps = { 0 };
	const struct heap *heap;

	/* Where a segment or page is in doubt, so are links and counts. */
	const bool whole = !copy->proof.n;

	if (!collect(mi, copy, &heaps) || (whole && !check_links(mi, copy)))
		return MS_E_NOMEM;
	copy->n_heaps = heaps.n;
	ms_vec_for_each (heap, &heaps) {
		enum ms_status st = MS_OK;

		if (whole && copy->layout->heap.page_count)
			check_count(mi, copy, heap);
		if (copy->layout->heap.delayed)
			st = take_delayed(mi, copy, heap->at, most);
		if (st)
			return st;
	}
	return ms_sort(mi->d->arena, copy->delayed.at, copy->delayed.n, sizeof(ms_addr),
	               addr_before)
	               ? MS_OK
	               : MS_E_NOMEM;
}
