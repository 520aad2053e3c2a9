/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/mimalloc/mimalloc.h"

/*
 * Segments of mimalloc 2.x begin at multiples of 32 MiB with their description, in which a
 * word is the segment's address, xored with a random number that the first heap has: so
 * each shows itself, and whose it is. Segments that were given up and are kept for later
 * still look so, but have no pages in use.
 *
 * The memory is cut into slices, which are described one by one; a run of them is a page,
 * a free span, or what describes the others. All runs together must be the segment, and as
 * many must be pages as it counts.
 */

enum {
	MOST_SLICES = 1 << 26,
	NO_PAGE = 1, /* block size of a span that is about to be one, or was given up */
};

/* One segment, and its description. */
struct segment {
	const struct ms_mi_layout *layout;
	ms_addr at;
	struct ms_range range;
	uint64_t n_slices;
	uint64_t entries;
	uint64_t used;
	const uint8_t *bytes; /* as far as its slices are described */
};

static ms_addr slice_at(const struct segment *s, uint64_t i)
{
	return s->at + s->layout->segment.slices + i * s->layout->segment.slice_bytes;
}

static const uint8_t *slice_bytes(const struct segment *s, uint64_t i)
{
	return s->bytes + (slice_at(s, i) - s->at);
}

static uint64_t slice_count(const struct segment *s, uint64_t i)
{
	return ms_mi_field(slice_bytes(s, i),
	                   (struct ms_mi_field){ s->layout->segment.slice_count, 4 });
}

/* Read what the segment at @at has in front of its slices; false when it makes no sense. */
static bool read_head(const struct ms_mimalloc *mi, const struct ms_mi_layout *layout, ms_addr at,
                      struct segment *ret)
{
	const struct ms_mi_segment_layout *l = &layout->segment;
	size_t bytes = l->slices + (MS_MI_SEGMENT_SLICES + 1) * (size_t)l->slice_bytes;
	uint64_t info = ms_mi_word(mi, at + l->info_slices);
	struct ms_range most = { at, at + MS_MI_SEGMENT };

	*ret = (struct segment){ .layout = layout,
		                 .at = at,
		                 .range = ms_mi_mapped(mi, most),
		                 .n_slices = ms_mi_word(mi, at + l->slices_n),
		                 .entries = ms_mi_word(mi, at + l->entries),
		                 .used = ms_mi_word(mi, at + l->used) };
	if (ret->n_slices > MOST_SLICES || ret->entries > MS_MI_SEGMENT_SLICES ||
	    ret->entries > ret->n_slices || !info || info >= ret->entries)
		return false;
	most.end = at + ret->n_slices * MS_MI_SLICE;
	ret->range = ms_mi_mapped(mi, most);
	ret->bytes = mi->buffer;
	return ret->range.end == most.end &&
	       ms_source_read(mi->d->src, at, mi->buffer, bytes) == bytes &&
	       slice_count(ret, 0) == info;
}

/* Where the first block of the page of @slice is: small blocks begin behind a gap. */
static ms_addr first_block(const struct segment *s, uint64_t slice, uint64_t block_bytes)
{
	ms_addr begin = s->at + slice * MS_MI_SLICE;

	if (block_bytes < MS_MI_WORD)
		return begin;
	if (s->layout->segment.gap == MS_MI_GAP_FIXED)
		return begin + (block_bytes <= 1024 ? 3 * 128 : 0);
	return begin + (block_bytes <= 64 ? 3 : block_bytes <= 512 ? 1 : 0) * block_bytes;
}

/* Fill @ret from the description in slice @i of a page of @n slices; false: it is no good. */
static bool read_page(const struct segment *s, uint64_t i, uint64_t n, struct ms_mi_page *ret)
{
	bool good = ms_mi_fill_page(s->layout, slice_at(s, i), slice_bytes(s, i), ret);
	ms_addr begin = s->at + i * MS_MI_SLICE;

	ret->area = (struct ms_range){ begin, begin + n * MS_MI_SLICE };
	if (!s->layout->page.start)
		ret->start = first_block(s, i, ret->block_bytes);
	if (ret->block_bytes >= MS_MI_HUGE_BLOCK && s->layout->page.block_size.bytes == 4)
		ret->block_bytes = ret->area.end - ret->start;
	return good && ms_range_has(ret->area, ret->start) &&
	       ret->reserved <= (ret->area.end - ret->start) / ret->block_bytes;
}

/*
 * Add the pages of @s to @pages. False: its slices do not add up, or a page contradicts
 * itself.
 */
static bool walk(struct ms_mimalloc *mi, const struct segment *s, struct ms_mi_pages *pages,
                 bool *no_memory)
{
	uint64_t i = slice_count(s, 0);
	uint64_t used = 0;

	while (i < s->entries) {
		uint64_t n = slice_count(s, i);
		uint64_t size = ms_mi_field(slice_bytes(s, i), s->layout->page.block_size);
		uint64_t offset =
			ms_mi_field(slice_bytes(s, i),
		                    (struct ms_mi_field){ s->layout->segment.slice_offset, 4 });
		struct ms_mi_page *page;

		if (!n || offset || n > s->n_slices - i)
			return false;
		if (size > NO_PAGE) {
			page = ms_vec_push(mi->d->arena, pages);
			*no_memory |= !page;
			if (!page || !read_page(s, i, n, page))
				return false;
			used++;
		}
		i += n;
	}
	/* One slice at the end may be a guard. */
	return used == s->used && i >= s->entries && s->n_slices - i <= 1;
}

static enum ms_status add_segment(struct ms_mimalloc *mi, struct ms_mi_copy *copy, ms_addr at,
                                  ms_addr *ret_end)
{
	const size_t before = copy->pages.n;
	bool no_memory = false;
	struct segment s;
	bool good = read_head(mi, copy->layout, at, &s) && walk(mi, &s, &copy->pages, &no_memory);

	if (no_memory || !ms_ranges_add(mi->d->arena, &copy->memory, at, s.range.end))
		return MS_E_NOMEM;
	copy->n_segments++;
	*ret_end = s.range.end;
	if (good)
		return MS_OK;
	copy->pages.n = before;
	ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED, "segment 0x%llx contradicts itself",
	               (unsigned long long)at);
	return MS_OK;
}

/* The next segment of @copy from @from on in @region; 0: there is none. */
static ms_addr next_segment(const struct ms_mimalloc *mi, const struct ms_mi_copy *copy,
                            const struct ms_region *region, ms_addr from)
{
	struct ms_range rest = { ms_align_up(from, MS_MI_SEGMENT), region->range.end };
	struct ms_range run;

	while (rest.begin < rest.end && ms_source_present(mi->d->src, rest, &run)) {
		ms_addr at = ms_align_down(run.begin, MS_MI_SEGMENT);

		if (at >= rest.begin &&
		    (ms_mi_word(mi, at + copy->layout->segment.cookie) ^ at) == copy->cookie)
			return at;
		rest.begin = at + MS_MI_SEGMENT;
	}
	return 0;
}

static enum ms_status find_all(struct ms_mimalloc *mi, struct ms_mi_copy *copy)
{
	const struct ms_region *region;
	ms_addr done = 0;

	ms_vec_for_each (region, mi->d->regions) {
		ms_addr from = region->range.begin > done ? region->range.begin : done;
		struct ms_range part = ms_mi_mapped(mi, region->range);
		enum ms_status st;
		ms_addr at;

		while (from < part.end && (at = next_segment(mi, copy, region, from))) {
			st = add_segment(mi, copy, at, &done);
			if (st)
				return st;
			from = done;
		}
	}
	return MS_OK;
}

/* Whether @layout may be the right one where @other was tried: the first heap is the same. */
static bool is_alike(const struct ms_mi_layout *layout, const struct ms_mi_layout *other)
{
	return layout->heap.queues == other->heap.queues &&
	       layout->heap.cookie == other->heap.cookie &&
	       layout->tld.backing == other->tld.backing;
}

enum ms_status ms_mi_find_segments(struct ms_mimalloc *mi, struct ms_mi_copy *copy)
{
	const struct ms_mi_layout *first = copy->layout;
	const struct ms_mi_layout *best = first;
	uint64_t least = UINT64_MAX;
	enum ms_status st = MS_OK;

	/*
	 * The one in which fewest segments contradict themselves, all of whose pages may do so, and
	 * fewest pages: the last turn takes it.
	 */
	for (size_t i = 0; i <= ms_n_mi_layouts && !st; i++) {
		uint64_t wrong;

		copy->layout = i < ms_n_mi_layouts ? &ms_mi_layouts[i] : best;
		if (!is_alike(copy->layout, first))
			continue;
		ms_mi_forget(copy);
		copy->n_segments = 0;
		st = find_all(mi, copy);
		wrong = copy->proof.n * MS_MI_SEGMENT_SLICES + ms_mi_misfits(mi, copy);
		if (copy->n_segments && wrong < least) {
			least = wrong;
			best = copy->layout;
		}
	}
	return st;
}
