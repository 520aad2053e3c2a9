/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/mimalloc/mimalloc.h"
#include "base/search.h"

/*
 * The page map of mimalloc 3.x says for each slice of 64 KiB which page has it: that is how
 * free() finds the page of a block, so no page can be missing. It has two levels, of which
 * the upper one is a variable's: of all words in a module's data that lead to anonymous
 * memory it is the one that can be read as a map, and leads to pages that lie where it says.
 *
 * A page that is longer than 4 MiB is in the map with its first slices only.
 */

enum {
	PIECE_WORDS = MS_MI_BUFFER / 2 / MS_MI_WORD,
	LIST_BYTES = MS_MI_MAP_SLICES * MS_MI_WORD,
	PATIENCE = 16, /* with what looks like a map and leads astray */
	SLICE_BITS = 16,
	MOST_PLACES = 1 << 20, /* of hostile bytes */
};

/* Where the walk over a map stands. */
struct walk {
	struct ms_mimalloc *mi;
	struct ms_mi_copy *copy;
	struct ms_range slices; /* that the page has, so far; numbers */
	ms_addr page;           /* its description; 0: none is open */
	uint64_t n_good;
	uint64_t n_bad;
	bool no_memory;
};

static bool is_memory(const struct ms_mimalloc *mi, ms_addr begin, uint64_t len)
{
	struct ms_range range = { begin, begin + len };

	return range.end > begin && ms_mi_mapped(mi, range).end == range.end;
}

/* Which page the map says has @addr. */
static ms_addr page_of(const struct walk *w, ms_addr addr)
{
	uint64_t slice = addr >> SLICE_BITS;
	ms_addr upper = w->copy->map + w->copy->layout->map.header;
	ms_addr list = ms_mi_word(w->mi, upper + slice / MS_MI_MAP_SLICES * MS_MI_WORD);

	return list ? ms_mi_word(w->mi, list + slice % MS_MI_MAP_SLICES * MS_MI_WORD) : 0;
}

/* The last page that begins below @addr, if it reaches beyond it. */
static struct ms_mi_page *page_over(const struct walk *w, ms_addr addr)
{
	struct ms_mi_pages *pages = &w->copy->pages;
	size_t at = ms_lower_bound(0, pages->n, i, pages->at[i].area.begin < addr);

	return at && pages->at[at - 1].area.end > addr ? &pages->at[at - 1] : NULL;
}

/* Whether the blocks of @page lie in memory where the map has it, behind those before. */
static bool set_area(const struct walk *w, struct ms_mi_page *page)
{
	uint64_t blocks = page->reserved > 1 ? page->capacity : page->reserved;
	struct ms_mi_page *over = page_over(w, page->area.begin);
	ms_addr end;

	if (!page->reserved || page->block_bytes > UINT64_MAX / 4 / MS_MI_CAPACITY)
		return false;
	end = page->start + blocks * page->block_bytes;
	/* Of a page with several blocks its last slice alone may be missing in the map. */
	if (end > page->area.end + MS_MI_SLICE && page->reserved > 1)
		return false;
	page->area.end = ms_align_up(end > page->start ? end : end + 1, MS_MI_SLICE);
	if (over && over->used)
		return false;
	/* That one is gone. */
	if (over)
		*over = (struct ms_mi_page){ .at = over->at,
			                     .area = { over->area.begin, over->area.begin },
			                     .block_bytes = over->block_bytes };
	return is_memory(w->mi, page->area.begin, end - page->area.begin);
}

enum verdict { GOOD, GONE, BAD };

/* An empty page, which is a constant, is in place of none. */
static bool is_constant(const struct walk *w)
{
	const struct ms_region *region = ms_region_of(w->mi->d->regions, w->page);

	return region && region->kind == MS_REGION_GLOBALS &&
	       region->module == w->copy->data->module;
}

/* Whether the slices begin with the one that has the page's description. */
static bool is_own(const struct walk *w)
{
	return w->slices.begin == w->page >> SLICE_BITS;
}

/*
 * Of a page that is in the map, but not as pages are: whether it is gone, and left there. The
 * map has every page that is not gone at its own first slice, where its description is.
 */
static bool is_gone(const struct walk *w, const struct ms_mi_page *page, bool good)
{
	if (!w->copy->layout->map.keeps_gone)
		return false;
	if (is_constant(w))
		return !page->reserved;
	if (!is_own(w) && page_of(w, w->page) == w->page)
		return true;
	if (good)
		return !page->used;
	return !is_own(w) || page_over(w, w->page) ||
	       (!page->block_bytes && !page->capacity && !page->used);
}

/* Read the page that @w has seen the slices of. */
static enum verdict read_page(const struct walk *w, struct ms_mi_page *ret)
{
	const struct ms_mi_page *over = page_over(w, w->page);
	uint8_t bytes[MS_MI_PAGE_MAX];
	bool good;

	/* Another page's blocks lie where its description was. */
	if (w->copy->layout->map.keeps_gone && over && (over->used || !is_own(w)))
		return GONE;
	if (ms_mi_read(w->mi, w->page, bytes, sizeof(bytes)) != sizeof(bytes))
		return BAD;
	good = ms_mi_fill_page(w->copy->layout, w->page, bytes, ret);
	ret->area = (struct ms_range){ w->slices.begin << SLICE_BITS, w->slices.end << SLICE_BITS };
	if (good && ms_range_has(ret->area, ret->start) && set_area(w, ret))
		return GOOD;
	return is_gone(w, ret, good) ? GONE : BAD;
}

/* The arena that @page was cut from, where it has one that knows its own size; else its memory. */
static struct ms_range memory_of(const struct walk *w, const struct ms_mi_page *page)
{
	const struct ms_mi_layout *layout = w->copy->layout;
	ms_addr arena = ms_mi_word(w->mi, page->at + layout->page.memory);
	uint64_t slices = ms_mi_word(w->mi, arena + layout->map.arena_slices);
	uint64_t bytes = ms_mi_word(w->mi, arena + MS_MI_WORD);
	struct ms_range range = { ms_mi_word(w->mi, arena), 0 };

	range.end = range.begin + bytes;
	if (bytes >> SLICE_BITS == slices && range.begin <= page->area.begin &&
	    range.end >= page->area.end && is_memory(w->mi, range.begin, bytes))
		return range;
	return page->area;
}

/* Own @range, which is often the same as for the page before. */
static void add_memory(struct walk *w, struct ms_range range)
{
	struct ms_ranges *memory = &w->copy->memory;

	if (memory->n && memory->at[memory->n - 1].begin == range.begin &&
	    memory->at[memory->n - 1].end == range.end)
		return;
	w->no_memory |= !ms_ranges_add(w->mi->d->arena, memory, range.begin, range.end);
}

static void add_page(struct walk *w, const struct ms_mi_page *page)
{
	struct ms_mi_page *slot = ms_vec_push(w->mi->d->arena, &w->copy->pages);

	w->no_memory |= !slot;
	if (!slot)
		return;
	*slot = *page;
	w->n_good++;
	add_memory(w, memory_of(w, page));
}

static void doubt_page(struct walk *w)
{
	struct ms_range slices = { w->slices.begin << SLICE_BITS, w->slices.end << SLICE_BITS };

	w->n_bad++;
	ms_proof_doubt(&w->copy->proof, MS_DOUBT_DAMAGED, "page 0x%llx is not where the map has it",
	               (unsigned long long)w->page);
	slices = ms_mi_mapped(w->mi, slices);
	add_memory(w, slices);
}

static void close_page(struct walk *w)
{
	enum verdict verdict = GONE;
	struct ms_mi_page page;

	if (w->page)
		verdict = read_page(w, &page);
	if (verdict == GOOD)
		add_page(w, &page);
	if (verdict == BAD)
		doubt_page(w);
	w->page = 0;
}

/* The slice of @number is of the page at @page. */
static void take_slice(struct walk *w, uint64_t number, ms_addr page)
{
	if (page == w->page && number == w->slices.end) {
		w->slices.end++;
		return;
	}
	close_page(w);
	w->page = page;
	w->slices = (struct ms_range){ number, number + 1 };
}

static bool is_over(const struct walk *w)
{
	return w->no_memory || w->n_bad > PATIENCE + w->n_good;
}

typedef void entry_fn(struct walk *w, uint64_t number, uint64_t word);

/* Call @take for each word of @range that is not 0, with its number from @first on. */
static void for_words(struct walk *w, struct ms_range range, uint64_t first, entry_fn *take)
{
	/* Lists are read while the upper level is: each has its half of the buffer. */
	uint64_t *words =
		(uint64_t *)(void *)w->mi->buffer + (take == take_slice ? (size_t)PIECE_WORDS : 0);
	struct ms_source *src = w->mi->d->src;
	const ms_addr begin = range.begin;
	struct ms_range run;

	while (!is_over(w) && ms_source_present(src, range, &run)) {
		uint64_t left = (ms_range_len(run) + MS_MI_WORD - 1) / MS_MI_WORD;
		size_t n = left < PIECE_WORDS ? (size_t)left : (size_t)PIECE_WORDS;

		if (ms_source_words(src, run.begin, words, n) != n) {
			w->n_bad++;
			ms_proof_doubt(&w->copy->proof, MS_DOUBT_DAMAGED,
			               "the page map cannot be read");
			return;
		}
		for (size_t i = 0; i < n; i++) {
			if (!words[i])
				continue;
			take(w, first + (run.begin - begin) / MS_MI_WORD + i, words[i]);
			if (is_over(w))
				return;
		}
		range.begin = run.begin + n * MS_MI_WORD;
	}
}

/* Number @number of the upper level leads to a list for so many slices. */
static void take_list(struct walk *w, uint64_t number, uint64_t list)
{
	struct ms_range range = { list, list + LIST_BYTES };

	if (list % MS_MI_WORD || !is_memory(w->mi, list, LIST_BYTES)) {
		w->n_bad++;
		ms_proof_doubt(&w->copy->proof, MS_DOUBT_DAMAGED, "the page map leads to 0x%llx",
		               (unsigned long long)list);
		return;
	}
	w->no_memory |= !ms_ranges_add(w->mi->d->arena, &w->copy->maps, range.begin, range.end);
	for_words(w, range, number * MS_MI_MAP_SLICES, take_slice);
}

/* Read @copy's page map, if it is at @map; false: it is not, or is empty. */
static bool read_map(struct ms_mimalloc *mi, struct ms_mi_copy *copy, ms_addr map, bool *no_memory)
{
	struct walk w = { .mi = mi, .copy = copy };
	struct ms_range all = { map + copy->layout->map.header, 0 };

	ms_mi_forget(copy);
	copy->map = map;
	all.end = all.begin + (uint64_t)MS_MI_MAP_ENTRIES * MS_MI_WORD;
	all = ms_mi_mapped(mi, all);
	w.no_memory |= !ms_ranges_add(mi->d->arena, &copy->maps, all.begin, all.end);
	for_words(&w, all, 0, take_list);
	close_page(&w);
	*no_memory |= w.no_memory;
	return w.n_good > w.n_bad;
}

/* A page map begins where a mapping can. */
static bool may_be_map(const struct ms_mimalloc *mi, ms_addr addr)
{
	const struct ms_region *region;

	if (!addr || addr % mi->d->src->abi.page_bytes)
		return false;
	region = ms_region_of(mi->d->regions, addr);
	return region && region->kind == MS_REGION_MEMORY &&
	       (ms_region_mapping(mi->d->src, region)->prot & MS_PROT_WRITE) &&
	       is_memory(mi, addr, mi->d->src->abi.page_bytes);
}

/* Where the page map may be, by words of a module's data. */
struct places MS_VEC(ms_addr);

/* Add those that words of @range lead to; false: no memory. */
static bool gather_in(struct ms_mimalloc *mi, struct ms_range range, struct places *to)
{
	struct ms_source *src = mi->d->src;
	const uint64_t *words = (const uint64_t *)(const void *)mi->buffer;
	uint64_t before = 0;
	struct ms_range run;

	while (to->n < MOST_PLACES && ms_source_present(src, range, &run)) {
		uint64_t left = ms_align_up(ms_range_len(run), MS_MI_WORD);
		size_t len = left < MS_MI_BUFFER ? (size_t)left : (size_t)MS_MI_BUFFER;

		ms_source_fill(src, run.begin, mi->buffer, len);
		for (size_t i = 0; i < len / MS_MI_WORD; i++) {
			ms_addr *slot;

			if (words[i] == before)
				continue;
			before = words[i];
			if (!may_be_map(mi, before))
				continue;
			slot = ms_vec_push(mi->d->arena, to);
			if (!slot)
				return false;
			*slot = before;
		}
		range.begin = run.begin + len;
	}
	return true;
}

/* They are the same in each layout. */
static bool gather(struct ms_mimalloc *mi, const struct ms_mi_copy *copy, struct places *ret)
{
	const struct ms_region *region;

	ms_vec_for_each (region, mi->d->regions)
		if (region->kind == MS_REGION_GLOBALS && region->module == copy->data->module &&
		    (ms_region_mapping(mi->d->src, region)->prot & MS_PROT_WRITE) &&
		    !gather_in(mi, region->range, ret))
			return false;
	return true;
}

/* Find @copy's page map as its layout has it; false: there is none. */
static bool find_one(struct ms_mimalloc *mi, struct ms_mi_copy *copy, const struct places *places,
                     bool *no_memory)
{
	for (size_t i = 0; i < places->n; i++)
		if (read_map(mi, copy, places->at[i], no_memory) || *no_memory)
			return !*no_memory;
	ms_mi_forget(copy);
	copy->map = 0;
	return false;
}

static bool is_alike(const struct ms_mi_layout *layout, const struct ms_mi_layout *other)
{
	return layout->map.is_there && layout->heap.queue_bytes == other->heap.queue_bytes;
}

/* Find the layout in which fewest pages and links contradict it; NULL: there is none. */
static const struct ms_mi_layout *best_of(struct ms_mimalloc *mi, struct ms_mi_copy *copy,
                                          const struct places *places, bool *no_memory)
{
	const struct ms_mi_layout *first = copy->layout;
	const struct ms_mi_layout *best = NULL;
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < ms_n_mi_layouts && least && !*no_memory; i++) {
		struct ms_mi_link link;
		uint64_t wrong;

		copy->layout = &ms_mi_layouts[i];
		if (!is_alike(copy->layout, first) || !find_one(mi, copy, places, no_memory))
			continue;
		*no_memory |= !ms_mi_astray(mi, copy, &wrong, &link);
		wrong += copy->proof.n + ms_mi_misfits(mi, copy);
		if (wrong >= least)
			continue;
		least = wrong;
		best = copy->layout;
	}
	return best;
}

enum ms_status ms_mi_find_map(struct ms_mimalloc *mi, struct ms_mi_copy *copy)
{
	struct places places = { 0 };
	bool no_memory = !gather(mi, copy, &places);
	const struct ms_mi_layout *best = best_of(mi, copy, &places, &no_memory);

	if (!no_memory && best && copy->layout != best) {
		copy->layout = best;
		(void)find_one(mi, copy, &places, &no_memory);
	}
	return no_memory ? MS_E_NOMEM : MS_OK;
}
