/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/chunks.h"

#include <string.h>

#include "alloc/window.h"

enum { AHEAD = 2048, LINE = 64 }; /* bytes */

/* The walk and where it stands. */
struct walker {
	struct ms_segment *segment;
	struct ms_window window;
	struct ms_blocks *blocks; /* NULL: keep nothing */
	uint32_t extent;
	ms_addr at;
	uint64_t head;      /* size field of the chunk at `at` */
	uint64_t next_head; /* of the chunk behind it */
	uint64_t foot;      /* prev_size field of the chunk behind it */
	bool no_memory;
};

static inline uint64_t size_of(uint64_t head)
{
	return head & ~(uint64_t)MS_SIZE_BITS;
}

/* Read prev_size and size of the chunk at @addr. */
static inline bool read_header(struct walker *w, ms_addr addr, uint64_t *prev, uint64_t *head)
{
	const uint8_t *bytes = ms_window_at(&w->window, addr, MS_HEADER);

	if (!bytes)
		return false;
	/* Sizes vary too much for the machine to see that this goes upwards. */
	__builtin_prefetch(bytes + AHEAD);
	__builtin_prefetch(bytes + AHEAD + LINE);
	memcpy(prev, bytes, MS_WORD);
	memcpy(head, bytes + MS_WORD, MS_WORD);
	return true;
}

/*
 * A fence closes a segment of the main arena with two headers of an impossible
 * 16 bytes, and a heap of another arena with a header of size 0 behind a chunk of
 * 16 bytes, or of 32 when there was no room for less (sysmalloc()).
 */
static bool is_fence(const struct walker *w)
{
	uint64_t size = size_of(w->head);

	/* The first loses its P bit when malloc frees what was left of the segment. */
	if (w->segment->main)
		return size == MS_HEADER && w->next_head == (MS_HEADER | MS_PREV_INUSE);
	return size <= MS_MIN_CHUNK && w->next_head == MS_PREV_INUSE;
}

static inline void keep_used(struct walker *w, uint64_t size)
{
	w->segment->tally.n_used++;
	w->segment->tally.used_bytes += size - MS_WORD;
	if (w->blocks)
		w->no_memory |= ms_blocks_put(w->blocks, w->extent, w->at + MS_HEADER,
		                              size - MS_WORD) != MS_OK;
}

static void keep_free(struct walker *w, uint64_t size)
{
	w->segment->tally.n_free++;
	w->segment->tally.free_bytes += size;
	if (w->blocks) {
		struct ms_extent *e = &w->blocks->extents.at[w->extent];
		uint64_t granule = ms_granule_of(e, w->at + MS_HEADER);

		ms_blocks_cell(w->blocks, e, granule)->marks |= ms_granule_bit(granule);
	}
}

/* Look at the chunk at w->at, whose head is known; false when it cannot be one. */
static inline bool step(struct walker *w)
{
	uint64_t size = size_of(w->head);
	bool arena_bit = w->head & MS_NON_MAIN;

	if (size < MS_MIN_CHUNK || size % MS_ALIGNMENT || (w->head & MS_IS_MMAPPED) ||
	    (w->segment->main && arena_bit))
		return false;
	if (w->next_head & MS_PREV_INUSE) {
		if (!w->segment->main && !arena_bit)
			return false;
		keep_used(w, size);
		return true;
	}
	if (w->foot != size || !(w->head & MS_PREV_INUSE))
		return false;
	keep_free(w, size);
	return true;
}

static enum ms_segment_end walk(struct walker *w)
{
	struct ms_segment *s = w->segment;
	uint64_t unused;

	w->at = s->begin;
	if (!read_header(w, w->at, &unused, &w->head))
		return MS_SEGMENT_BAD;
	for (;;) {
		uint64_t size = size_of(w->head);

		if (w->at == s->top) {
			bool fits = size >= MS_HEADER && size <= s->limit - w->at;

			w->at += fits ? size : 0;
			return fits ? MS_SEGMENT_TOP : MS_SEGMENT_BAD;
		}
		if (size < MS_HEADER || size >= s->limit - w->at ||
		    !read_header(w, w->at + size, &w->foot, &w->next_head))
			return MS_SEGMENT_BAD;
		if (size <= MS_MIN_CHUNK && is_fence(w)) {
			w->at += size + MS_HEADER;
			return MS_SEGMENT_FENCE;
		}
		if (!step(w) || w->no_memory)
			return MS_SEGMENT_BAD;
		w->at += size;
		w->head = w->next_head;
	}
}

static void run(struct walker *w, struct ms_ptmalloc *pt, struct ms_segment *segment)
{
	w->segment = segment;
	memset(&segment->tally, 0, sizeof(segment->tally));
	ms_window_init(&w->window, pt->d->src, (struct ms_range){ segment->begin, segment->limit },
	               pt->d->arena);
	segment->how = walk(w);
	segment->end = w->at;
}

void ms_segment_try(struct ms_ptmalloc *pt, struct ms_segment *segment)
{
	struct walker w = { 0 };

	run(&w, pt, segment);
}

enum ms_status ms_segment_read(struct ms_ptmalloc *pt, struct ms_segment *segment, uint32_t group)
{
	struct walker w = { .blocks = pt->d->blocks };
	struct ms_range range = { segment->begin + MS_HEADER, segment->limit };
	enum ms_status st;

	if (segment->limit < segment->begin || segment->limit - segment->begin <= MS_HEADER) {
		segment->how = MS_SEGMENT_BAD;
		segment->end = segment->begin;
		return MS_OK;
	}
	st = ms_blocks_open(pt->d->blocks, range, 4, &w.extent);
	if (st)
		return st;
	pt->d->blocks->extents.at[w.extent].group = group;
	run(&w, pt, segment);
	ms_blocks_shrink(pt->d->blocks, segment->end);
	return w.no_memory ? MS_E_NOMEM : MS_OK;
}
