/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/chunks.h"

#include <string.h>

#include "alloc/window.h"

enum {
	AHEAD = 2048,
	LINE = 64,       /* bytes */
	LINKED_MAX = 32, /* a header and the links of a free chunk */
	PLAUSIBLE = 64,  /* chunks that follow each other are no accident */
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
	const uint8_t *here;       /* the header and links of the chunk at `at` */
	uint64_t head;             /* its size field */
	uint64_t next_head;        /* of the chunk behind it */
	uint64_t foot;             /* prev_size field of the chunk behind it */
	uint64_t end_granule;      /* of the part; later ones are not ours to write to */
	uint8_t saved[LINKED_MAX]; /* what `here` points to when the window has moved on */
	uint8_t edge[LINKED_MAX];  /* a header at the very end */
};

/*
 * How long a word is, 8 or 4 bytes, is passed on as a constant (`word`): what is done for each
 * chunk is compiled for both.
 */
#define FOR_EACH_CHUNK static inline __attribute__((always_inline))

enum { HEADER_WORDS = 2, LINKED_WORDS = 4, MIN_CHUNK_WORDS = 4 };

static inline uint64_t size_of(uint64_t head)
{
	return head & ~(uint64_t)MS_SIZE_BITS;
}

FOR_EACH_CHUNK uint64_t load(const uint8_t *bytes, unsigned int word)
{
	uint64_t value = 0;

	memcpy(&value, bytes, word);
	return value;
}

/* The header at @addr, outside of the window; the links behind it need not be there. */
static const uint8_t *move_to(struct walker *w, ms_addr addr, unsigned int word)
{
	const size_t linked = (size_t)LINKED_WORDS * word;
	const uint8_t *bytes;

	if (w->here && w->here != w->saved)
		memcpy(w->saved, w->here, linked);
	w->here = w->saved;
	bytes = ms_window_at(&w->window, addr, linked);
	if (bytes)
		return bytes;
	bytes = ms_window_at(&w->window, addr, (size_t)HEADER_WORDS * word);
	if (!bytes)
		return NULL;
	memset(w->edge, 0, sizeof(w->edge));
	memcpy(w->edge, bytes, (size_t)HEADER_WORDS * word);
	return w->edge;
}

FOR_EACH_CHUNK const uint8_t *header_at(struct walker *w, ms_addr addr, unsigned int word)
{
	const struct ms_window *window = &w->window;
	uint64_t in = addr - window->shown.begin;
	const uint8_t *bytes;

	if (addr < window->shown.begin ||
	    in + (uint64_t)LINKED_WORDS * word > ms_range_len(window->shown))
		return move_to(w, addr, word);
	bytes = window->bytes + in;
	/* Sizes vary too much for the machine to see that this goes upwards. */
	__builtin_prefetch(bytes + AHEAD);
	__builtin_prefetch(bytes + AHEAD + LINE);
	return bytes;
}

/*
 * A fence closes a segment of the main arena with two headers of an impossible
 * two words, and a heap of another arena with a header of size 0 behind a chunk of
 * two words, or of four when there was no room for less (sysmalloc()).
 */
FOR_EACH_CHUNK bool is_fence(const struct walker *w, unsigned int word)
{
	const uint64_t header = (uint64_t)HEADER_WORDS * word;
	uint64_t size = size_of(w->head);

	/* The first loses its P bit when malloc frees what was left of the segment. */
	if (w->segment->main)
		return size == header && w->next_head == (header | MS_PREV_INUSE);
	return size <= (uint64_t)MIN_CHUNK_WORDS * word && w->next_head == MS_PREV_INUSE;
}

/* Whether the used chunk at w->at may hold a thread's cache, as far as is in the window. */
static bool may_be_cache(const struct walker *w, uint64_t size)
{
	const struct ms_pt_shape *shape = w->pt->shape;
	const uint8_t *end = w->window.bytes + ms_range_len(w->window.shown);
	size_t n = 0;

	if (w->here != w->saved && w->here != w->edge)
		n = (size_t)(end - w->here) - shape->header;
	return ms_pt_may_be_cache(w->pt, w->here + shape->header, n, size - shape->word);
}

FOR_EACH_CHUNK void keep_used(struct walker *w, uint64_t size, unsigned int word)
{
	const struct ms_pt_shape *shape = w->pt->shape;
	struct ms_cell *cells = w->part->cells;
	uint64_t granule = (w->at - w->segment->begin) / MS_ALIGNMENT;
	uint64_t last = granule + size / MS_ALIGNMENT - 1;

	w->part->tally.n_used++;
	w->part->tally.used_bytes += size - word;
	if (!cells)
		return;
	if (last >= w->end_granule) {
		w->part->late_end = last;
		cells[granule / MS_CELL_GRANULES].starts |= ms_granule_bit(granule);
	} else {
		ms_cells_put(cells, granule, last);
	}
	if (size >= shape->cache_min && size <= shape->cache_max && may_be_cache(w, size))
		cells[granule / MS_CELL_GRANULES].marks |= ms_granule_bit(granule);
}

FOR_EACH_CHUNK void keep_free(struct walker *w, uint64_t size, unsigned int word)
{
	struct ms_tally *tally = &w->part->tally;
	struct ms_cell *cells = w->part->cells;
	uint64_t granule = (w->at - w->segment->begin) / MS_ALIGNMENT;
	ms_addr fd = load(w->here + (size_t)HEADER_WORDS * word, word);
	ms_addr bk = load(w->here + (size_t)(HEADER_WORDS + 1) * word, word);

	tally->n_free++;
	tally->free_bytes += size;
	tally->links += ms_pt_edge(w->pt, w->at, fd) - ms_pt_edge(w->pt, bk, w->at);
	/* A ring of one, which is its own header, would add up. */
	tally->links += fd == w->at;
	if (cells)
		cells[granule / MS_CELL_GRANULES].marks |= ms_granule_bit(granule);
}

/* Look at the chunk at w->at, whose head is known; false when it cannot be one. */
FOR_EACH_CHUNK bool step(struct walker *w, unsigned int word)
{
	uint64_t size = size_of(w->head);
	bool arena_bit = w->head & MS_NON_MAIN;

	if (size < (uint64_t)MIN_CHUNK_WORDS * word || size % MS_ALIGNMENT ||
	    (w->head & MS_IS_MMAPPED) || (w->segment->main && arena_bit))
		return false;
	if (w->next_head & MS_PREV_INUSE) {
		if (!w->segment->main && !arena_bit)
			return false;
		keep_used(w, size, word);
		return true;
	}
	if (w->foot != size || !(w->head & MS_PREV_INUSE))
		return false;
	keep_free(w, size, word);
	return true;
}

FOR_EACH_CHUNK enum ms_segment_end walk(struct walker *w, uint64_t max_chunks, unsigned int word)
{
	const uint64_t header = (uint64_t)HEADER_WORDS * word;
	const struct ms_segment *s = w->segment;
	const uint8_t *next;

	w->here = NULL;
	w->here = header_at(w, w->at, word);
	if (!w->here)
		return MS_SEGMENT_BAD;
	w->head = load(w->here + word, word);
	/* Nothing free is in front of the first. */
	if (w->at == s->begin && !(w->head & MS_PREV_INUSE))
		return MS_SEGMENT_BAD;
	for (; w->at < w->part->stop && max_chunks; max_chunks--) {
		uint64_t size = size_of(w->head);

		if (w->at == s->top) {
			bool fits = size >= header && size <= s->limit - w->at;

			w->at += fits ? size : 0;
			return fits ? MS_SEGMENT_TOP : MS_SEGMENT_BAD;
		}
		if (size < header || size >= s->limit - w->at)
			return MS_SEGMENT_BAD;
		next = header_at(w, w->at + size, word);
		if (!next)
			return MS_SEGMENT_BAD;
		w->foot = load(next, word);
		w->next_head = load(next + word, word);
		if (size <= (uint64_t)MIN_CHUNK_WORDS * word && is_fence(w, word)) {
			w->at += size + header;
			return MS_SEGMENT_FENCE;
		}
		if (!step(w, word))
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
	uint64_t max_chunks = part->max_chunks ? part->max_chunks : UINT64_MAX;

	w->part = part;
	w->at = part->begin;
	w->end_granule = (part->stop - w->segment->begin) / MS_ALIGNMENT;
	memset(&part->tally, 0, sizeof(part->tally));
	part->late_end = NONE;
	if (w->pt->shape->word == sizeof(uint64_t))
		part->how = walk(w, max_chunks, sizeof(uint64_t));
	else
		part->how = walk(w, max_chunks, sizeof(uint32_t));
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
	w.window.stop = part->stop < part->segment->limit - LINKED_MAX ? part->stop + LINKED_MAX
	                                                               : part->segment->limit;
	walk_part(&w, part);
}

/* Whether a header at @at could be a chunk's; cheap, because most words are none. */
static bool looks_like_chunk(struct walker *w, ms_addr at)
{
	const struct ms_pt_shape *shape = w->pt->shape;
	const uint8_t *bytes = ms_window_at(&w->window, at, shape->header);
	uint64_t head = bytes ? ms_pt_load(w->pt, bytes + shape->word) : 0;
	uint64_t size = size_of(head);

	return size >= shape->min_chunk && size % MS_ALIGNMENT == 0 &&
	       size < w->segment->limit - at && !(head & MS_IS_MMAPPED) &&
	       !(w->segment->main && (head & MS_NON_MAIN));
}

void ms_part_guess(const struct ms_ptmalloc *pt, struct ms_part *part, uint8_t *buffer)
{
	ms_addr end =
		part->stop - part->first > GUESS_BYTES ? part->first + GUESS_BYTES : part->stop;
	struct walker w;

	init(&w, pt, part->segment, buffer);
	/* Parts begin where chunks may: whole cells behind the segment's first. */
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
