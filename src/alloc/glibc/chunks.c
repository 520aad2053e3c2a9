/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/chunks.h"

#include <string.h>

#include "alloc/window.h"

enum {
	AHEAD = 2048,
	LINE = 64,         /* bytes */
	LINKED = 32,       /* a header and the links of a free chunk */
	CACHE_MIN = 0x250, /* sizes of chunks that hold a thread's cache */
	CACHE_MAX = 0x320,
	PLAUSIBLE = 64, /* chunks that follow each other are no accident */
	GUESS_BYTES = 1 << 20,
};

static const uint64_t NONE = UINT64_MAX;

/* The walk and where it stands. */
struct walker {
	const struct ms_ptmalloc *pt;
	const struct ms_segment *segment;
	struct ms_part *part;
	struct ms_window window;
	ms_addr at;
	const uint8_t *here;   /* LINKED bytes of the chunk at `at` */
	uint64_t head;         /* its size field */
	uint64_t next_head;    /* of the chunk behind it */
	uint64_t foot;         /* prev_size field of the chunk behind it */
	uint64_t end_granule;  /* of the part; later ones are not ours to write to */
	uint8_t saved[LINKED]; /* what `here` points to when the window has moved on */
	uint8_t edge[LINKED];  /* a header at the very end */
};

static inline uint64_t size_of(uint64_t head)
{
	return head & ~(uint64_t)MS_SIZE_BITS;
}

static inline uint64_t load(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* The header at @addr, outside of the window; the last 16 bytes need not be there. */
static const uint8_t *move_to(struct walker *w, ms_addr addr)
{
	const uint8_t *bytes;

	if (w->here && w->here != w->saved)
		memcpy(w->saved, w->here, LINKED);
	w->here = w->saved;
	bytes = ms_window_at(&w->window, addr, LINKED);
	if (bytes)
		return bytes;
	bytes = ms_window_at(&w->window, addr, MS_HEADER);
	if (!bytes)
		return NULL;
	memset(w->edge, 0, LINKED);
	memcpy(w->edge, bytes, MS_HEADER);
	return w->edge;
}

static inline const uint8_t *header_at(struct walker *w, ms_addr addr)
{
	const struct ms_window *window = &w->window;
	uint64_t in = addr - window->shown.begin;
	const uint8_t *bytes;

	if (addr < window->shown.begin || in + LINKED > ms_range_len(window->shown))
		return move_to(w, addr);
	bytes = window->bytes + in;
	/* Sizes vary too much for the machine to see that this goes upwards. */
	__builtin_prefetch(bytes + AHEAD);
	__builtin_prefetch(bytes + AHEAD + LINE);
	return bytes;
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

/* Whether the used chunk at w->at may hold a thread's cache, as far as is in the window. */
static bool may_be_cache(const struct walker *w, uint64_t size)
{
	const uint8_t *end = w->window.bytes + ms_range_len(w->window.shown);
	size_t n = 0;

	if (w->here != w->saved && w->here != w->edge)
		n = (size_t)(end - w->here) - MS_HEADER;
	return ms_pt_may_be_cache(w->pt, w->here + MS_HEADER, n, size - MS_WORD);
}

static inline void keep_used(struct walker *w, uint64_t size)
{
	struct ms_cell *cells = w->part->cells;
	uint64_t granule = (w->at - w->segment->begin) / MS_ALIGNMENT;
	uint64_t last = granule + size / MS_ALIGNMENT - 1;

	w->part->tally.n_used++;
	w->part->tally.used_bytes += size - MS_WORD;
	if (!cells)
		return;
	if (last >= w->end_granule) {
		w->part->late_end = last;
		cells[granule / MS_CELL_GRANULES].starts |= ms_granule_bit(granule);
	} else {
		ms_cells_put(cells, granule, last);
	}
	if (size - CACHE_MIN <= CACHE_MAX - CACHE_MIN && may_be_cache(w, size))
		cells[granule / MS_CELL_GRANULES].marks |= ms_granule_bit(granule);
}

static inline void keep_free(struct walker *w, uint64_t size)
{
	struct ms_tally *tally = &w->part->tally;
	struct ms_cell *cells = w->part->cells;
	uint64_t granule = (w->at - w->segment->begin) / MS_ALIGNMENT;

	tally->n_free++;
	tally->free_bytes += size;
	tally->links += ms_pt_edge(w->pt, w->at, load(w->here + MS_HEADER)) -
	                ms_pt_edge(w->pt, load(w->here + MS_HEADER + MS_WORD), w->at);
	/* A ring of one, which is its own header, would add up. */
	tally->links += load(w->here + MS_HEADER) == w->at;
	if (cells)
		cells[granule / MS_CELL_GRANULES].marks |= ms_granule_bit(granule);
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

static enum ms_segment_end walk(struct walker *w, uint64_t max_chunks)
{
	const struct ms_segment *s = w->segment;
	const uint8_t *next;

	w->here = NULL;
	w->here = header_at(w, w->at);
	if (!w->here)
		return MS_SEGMENT_BAD;
	w->head = load(w->here + MS_WORD);
	/* Nothing free is in front of the first. */
	if (w->at == s->begin && !(w->head & MS_PREV_INUSE))
		return MS_SEGMENT_BAD;
	for (; w->at < w->part->stop && max_chunks; max_chunks--) {
		uint64_t size = size_of(w->head);

		if (w->at == s->top) {
			bool fits = size >= MS_HEADER && size <= s->limit - w->at;

			w->at += fits ? size : 0;
			return fits ? MS_SEGMENT_TOP : MS_SEGMENT_BAD;
		}
		if (size < MS_HEADER || size >= s->limit - w->at)
			return MS_SEGMENT_BAD;
		next = header_at(w, w->at + size);
		if (!next)
			return MS_SEGMENT_BAD;
		w->foot = load(next);
		w->next_head = load(next + MS_WORD);
		if (size <= MS_MIN_CHUNK && is_fence(w)) {
			w->at += size + MS_HEADER;
			return MS_SEGMENT_FENCE;
		}
		if (!step(w))
			return MS_SEGMENT_BAD;
		w->at += size;
		w->head = w->next_head;
		w->here = next;
	}
	return MS_SEGMENT_ON;
}

/* Walk @part by @w, whose window may already show something. */
static void walk_part(struct walker *w, struct ms_part *part)
{
	w->part = part;
	w->at = part->begin;
	w->end_granule = (part->stop - w->segment->begin) / MS_ALIGNMENT;
	memset(&part->tally, 0, sizeof(part->tally));
	part->late_end = NONE;
	part->how = walk(w, part->max_chunks ? part->max_chunks : UINT64_MAX);
	part->end = w->at;
}

static void init(struct walker *w, const struct ms_ptmalloc *pt, const struct ms_segment *segment,
                 uint8_t *buffer)
{
	w->pt = pt;
	w->segment = segment;
	ms_window_init(&w->window, pt->d->src, (struct ms_range){ segment->begin, segment->limit },
	               buffer);
}

void ms_part_walk(const struct ms_ptmalloc *pt, struct ms_part *part, uint8_t *buffer)
{
	struct walker w;

	init(&w, pt, part->segment, buffer);
	/* The header of the chunk behind is needed as well. */
	w.window.stop = part->stop < part->segment->limit - LINKED ? part->stop + LINKED
	                                                           : part->segment->limit;
	walk_part(&w, part);
}

/* Whether a header at @at could be a chunk's; cheap, because most words are none. */
static bool looks_like_chunk(struct walker *w, ms_addr at)
{
	const uint8_t *bytes = ms_window_at(&w->window, at, MS_HEADER);
	uint64_t head = bytes ? load(bytes + MS_WORD) : 0;
	uint64_t size = size_of(head);

	return size >= MS_MIN_CHUNK && size % MS_ALIGNMENT == 0 && size < w->segment->limit - at &&
	       !(head & MS_IS_MMAPPED) && !(w->segment->main && (head & MS_NON_MAIN));
}

void ms_part_guess(const struct ms_ptmalloc *pt, struct ms_part *part, uint8_t *buffer)
{
	ms_addr end =
		part->stop - part->first > GUESS_BYTES ? part->first + GUESS_BYTES : part->stop;
	struct walker w;

	init(&w, pt, part->segment, buffer);
	for (ms_addr at = part->first; at < end; at += MS_ALIGNMENT) {
		struct ms_part trial = { .segment = part->segment,
			                 .stop = part->segment->limit,
			                 .max_chunks = PLAUSIBLE,
			                 .begin = at };

		if (!looks_like_chunk(&w, at))
			continue;
		walk_part(&w, &trial);
		if (trial.how == MS_SEGMENT_BAD)
			continue;
		part->begin = at;
		return;
	}
}

void ms_segment_try(const struct ms_ptmalloc *pt, struct ms_segment *segment)
{
	struct ms_part part = { .segment = segment,
		                .stop = segment->limit,
		                .max_chunks = PLAUSIBLE,
		                .begin = segment->begin };
	struct walker w;

	init(&w, pt, segment, pt->trial_buffer);
	walk_part(&w, &part);
	segment->how = part.how;
	segment->end = part.end;
	segment->tally = part.tally;
}
