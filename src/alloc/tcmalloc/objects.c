/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/tcmalloc/tcmalloc.h"
#include "alloc/window.h"
#include "base/search.h"

/*
 * What is live in the spans: a large block is all of its span; of a size class's objects
 * those are put that are not on the span's own list of free ones, and the span counts
 * as many.
 *
 * Neighbouring spans are put into one extent when the same granule suits both: the largest
 * power of two that their objects' sizes and a page are multiples of. So objects begin and
 * end with a granule, and an extent has no slack.
 *
 * When a block in a list of another class (alloc/misplaced.h) comes to the central list of that
 * class, this counts what the span of the block's own class has on its list, so that the counts
 * of both are wrong, and their sums are right.
 */

enum {
	WORD_BITS = 64,
	MOST_OBJECTS = MS_WINDOW_BYTES / 2 / 8,
	DEBUG_SAMPLES = 64,
	LEAST_DEBUG_BYTES = 40,
};

/* The third word of a block that libtcmalloc_debug gave. Source: debugallocation.cc, 2.10. */
static const uint64_t debug_mark = 0xdeadbeef;

struct putting {
	struct ms_tcmalloc *tc;
	struct ms_tc_copy *copy;
	struct ms_window window;
	uint32_t extent;
	uint64_t *free; /* a bit for each object of a span */
};

static uint64_t objects_of(const struct ms_tc_copy *copy, const struct ms_tc_span *span)
{
	return (span->pages << copy->page_shift) / copy->classes[span->class].bytes;
}

/* ---- spans' own lists ---- */

/* Mark the free objects of @span; false when its list is none. */
static bool mark_free(struct putting *p, const struct ms_tc_span *span, uint64_t *ret_n)
{
	struct ms_range range = ms_tc_span_range(p->copy, span);
	uint64_t bytes = p->copy->classes[span->class].bytes;
	uint64_t n = objects_of(p->copy, span);
	const uint8_t *memory;
	ms_addr at = span->objects;

	memset(p->free, 0, (n + WORD_BITS - 1) / WORD_BITS * sizeof(*p->free));
	*ret_n = 0;
	if (!at)
		return true;
	memory = ms_window_at(&p->window, range.begin, (size_t)ms_range_len(range));
	while (memory && at) {
		uint64_t i = (at - range.begin) / bytes;
		uint64_t bit = UINT64_C(1) << i % WORD_BITS;

		if (i >= n || at != range.begin + i * bytes || (p->free[i / WORD_BITS] & bit))
			return false;
		p->free[i / WORD_BITS] |= bit;
		++*ret_n;
		memcpy(&at, memory + i * bytes, sizeof(at));
	}
	return memory;
}

static void check_span(struct putting *p, const struct ms_tc_span *span)
{
	unsigned long long at = span->page << p->copy->page_shift;
	struct ms_tc_class *class = &p->copy->classes[span->class];
	uint64_t n = objects_of(p->copy, span);
	uint64_t n_free;

	if (!mark_free(p, span, &n_free))
		ms_proof_doubt(&p->copy->proof, MS_DOUBT_DAMAGED,
		               "the free objects of the span at 0x%llx are no list", at);
	else if (n_free + span->refcount != n)
		ms_proof_doubt(&p->copy->proof, MS_DOUBT_DISAGREES,
		               "the span at 0x%llx counts %u objects in use, but %llu are not free",
		               at, span->refcount, (unsigned long long)(n - n_free));
	class->n_listed += n_free;
	p->copy->listed.n += n_free;
	p->copy->listed.bytes += n_free * class->bytes;
}

/* ---- blocks ---- */

static enum ms_status put_objects(struct putting *p, const struct ms_tc_span *span)
{
	uint64_t bytes = p->copy->classes[span->class].bytes;
	ms_addr begin = span->page << p->copy->page_shift;
	uint64_t n = objects_of(p->copy, span);
	enum ms_status st = MS_OK;

	check_span(p, span);
	for (uint64_t i = 0; i < n && !st && !p->copy->proof.doubt; i++) {
		if (p->free[i / WORD_BITS] >> i % WORD_BITS & 1)
			continue;
		st = ms_blocks_put(p->tc->d->blocks, p->extent, begin + i * bytes, bytes);
		p->copy->used.n++;
		p->copy->used.bytes += bytes;
	}
	return st;
}

/* Usable bytes of a large block. One that is sampled has those that it would have otherwise. */
static uint64_t large_bytes(const struct putting *p, const struct ms_tc_span *span)
{
	const struct ms_tc_copy *copy = p->copy;
	uint64_t all = span->pages << copy->page_shift;
	struct ms_tc_trace trace;

	if (!span->sampled || !ms_tc_read(p->tc, span->objects, &trace, sizeof(trace)))
		return all;
	for (uint32_t i = 1; i < copy->n_classes; i++)
		if (copy->classes[i].bytes >= trace.size)
			return copy->classes[i].bytes < all ? copy->classes[i].bytes : all;
	return all;
}

static enum ms_status put_large(struct putting *p, const struct ms_tc_span *span)
{
	struct ms_blocks *blocks = p->tc->d->blocks;
	struct ms_range range = ms_tc_span_range(p->copy, span);
	enum ms_status st;

	range.end = range.begin + large_bytes(p, span);
	st = ms_blocks_open_single(blocks, range, MS_EXTENT_HEAP, &p->extent);
	if (st)
		return st;
	blocks->extents.at[p->extent].group = p->copy->group;
	p->copy->used.n++;
	p->copy->used.bytes += ms_range_len(range);
	return MS_OK;
}

static enum ms_status hand_over_held(struct putting *p, const struct ms_tc_span *span)
{
	struct ms_range range = ms_tc_span_range(p->copy, span);
	struct ms_arena *arena = p->tc->d->arena;

	return ms_ranges_add(arena, &p->copy->held, range.begin, range.end) ? MS_OK : MS_E_NOMEM;
}

/* log2 of the granule that suits the objects of @span, which begins at a multiple of a page. */
static uint8_t shift_of(const struct ms_tc_copy *copy, const struct ms_tc_span *span)
{
	int shift = __builtin_ctzll(copy->classes[span->class].bytes);

	return shift < copy->page_shift ? (uint8_t)shift : copy->page_shift;
}

/* How many spans from @i on can be put into one extent; 0: it has no objects. */
static size_t run_of(const struct ms_tc_copy *copy, size_t i)
{
	const struct ms_tc_span *first = &copy->spans.at[i];
	size_t n = 0;

	for (const struct ms_tc_span *s = first; i + n < copy->spans.n; s++, n++)
		if (!s->class || shift_of(copy, s) != shift_of(copy, first) ||
		    (n && s[-1].page + s[-1].pages != s->page))
			break;
	return n;
}

static enum ms_status put_run(struct putting *p, size_t first, size_t n)
{
	const struct ms_tc_span *spans = p->copy->spans.at + first;
	struct ms_blocks *blocks = p->tc->d->blocks;
	struct ms_range range = ms_tc_span_range(p->copy, &spans[0]);
	enum ms_status st;

	range.end = ms_tc_span_range(p->copy, &spans[n - 1]).end;
	ms_window_init(&p->window, p->tc->d->src, range, p->tc->buffer);
	st = ms_blocks_open(blocks, range, shift_of(p->copy, &spans[0]), &p->extent);
	if (!st)
		blocks->extents.at[p->extent].group = p->copy->group;
	for (size_t i = 0; i < n && !st && !p->copy->proof.doubt; i++)
		st = put_objects(p, &spans[i]);
	return st;
}

enum ms_status ms_tc_put_blocks(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	struct putting p = { .tc = tc, .copy = copy };
	enum ms_status st = MS_OK;
	size_t n;

	copy->group = ms_blocks_new_group(tc->d->blocks);
	p.free = ms_arena_alloc(tc->d->arena, MOST_OBJECTS / 8);
	if (!p.free)
		return MS_E_NOMEM;
	for (size_t i = 0; i < copy->spans.n && !st && !copy->proof.doubt; i += n ? n : 1) {
		n = run_of(copy, i);
		if (n)
			st = put_run(&p, i, n);
		else if (copy->spans.at[i].held)
			st = hand_over_held(&p, &copy->spans.at[i]);
		else if (copy->spans.at[i].location == MS_TC_IN_USE)
			st = put_large(&p, &copy->spans.at[i]);
	}
	return st;
}

/* ---- the debugging library ---- */

/* The first live block of @span, if one may begin with a header; or 0. */
static ms_addr first_live(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy,
                          const struct ms_tc_span *span)
{
	uint64_t bytes = copy->classes[span->class].bytes;
	ms_addr at = span->page << copy->page_shift;

	if (!span->class || bytes < LEAST_DEBUG_BYTES)
		return 0;
	for (uint64_t n = objects_of(copy, span); n; n--, at += bytes)
		if (ms_blocks_begins(tc->d->blocks, at))
			return at;
	return 0;
}

void ms_tc_doubt_debugging(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	unsigned int n_marked = 0;
	unsigned int n = 0;

	for (size_t i = 0; i < copy->spans.n && n < DEBUG_SAMPLES; i++) {
		ms_addr at = first_live(tc, copy, &copy->spans.at[i]);

		n += at != 0;
		n_marked += at && ms_tc_word(tc, at + 2 * sizeof(uint64_t)) == debug_mark;
	}
	if (2 * n_marked > n)
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "its blocks are those of the debugging tcmalloc, which gives parts "
		               "of them");
}

/* ---- central lists ---- */

/* The sums over all central lists, as they are counted or as they were found. */
struct central_sum {
	uint64_t spans;
	uint64_t free;
};

static void disprove_central(struct ms_tc_copy *copy, const struct ms_tc_central *central,
                             const struct ms_tc_class *class)
{
	ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
	               "of blocks of %llu bytes %llu spans with %llu free ones are counted, but "
	               "%llu with %llu found",
	               (unsigned long long)class->bytes, (unsigned long long)central->n_spans,
	               (unsigned long long)central->n_free, (unsigned long long)class->n_spans,
	               (unsigned long long)class->n_listed);
}

void ms_tc_check_central(struct ms_tc_copy *copy)
{
	struct central_sum counted = { 0 };
	struct central_sum found = { 0 };
	uint32_t wrong = 0;

	for (uint32_t i = 1; i < copy->n_classes; i++) {
		const struct ms_tc_central *central = &copy->centrals[i];
		const struct ms_tc_class *class = &copy->classes[i];

		if (central->lock)
			ms_proof_doubt(&copy->proof, MS_DOUBT_CHANGES,
			               "the central list of blocks of %llu bytes is being changed",
			               (unsigned long long)class->bytes);
		counted.spans += central->n_spans;
		counted.free += central->n_free;
		found.spans += class->n_spans;
		found.free += class->n_listed;
		if (!wrong &&
		    (central->n_spans != class->n_spans || central->n_free != class->n_listed))
			wrong = i;
	}
	if (!wrong)
		return;
	copy->miscounted = copy->classes[wrong].bytes;
	if (counted.spans != found.spans || counted.free != found.free)
		disprove_central(copy, &copy->centrals[wrong], &copy->classes[wrong]);
}

/* The span that has @addr; NULL: none has. */
static const struct ms_tc_span *span_of(const struct ms_tc_copy *copy, ms_addr addr)
{
	const struct ms_tc_span *spans = copy->spans.at;
	uint64_t page = addr >> copy->page_shift;
	size_t at = ms_lower_bound(0, copy->spans.n, i, spans[i].page + spans[i].pages <= page);

	return at < copy->spans.n && page >= spans[at].page ? &spans[at] : NULL;
}

/* The usable bytes of the block at @at, if it can be in a list of free ones; else 0. */
static uint64_t listable_bytes(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy,
                               ms_addr at, uint64_t bytes)
{
	const struct ms_blocks *blocks = tc->d->blocks;
	const struct ms_extent *extent = ms_blocks_extent_of(blocks, at);
	const struct ms_tc_span *span;
	uint64_t usable;

	if (!extent || extent->group != copy->group)
		return 0;
	usable = ms_blocks_usable(blocks, at);
	if (usable == bytes)
		return usable;
	span = span_of(copy, at);
	return span && span->class ? usable : 0;
}

uint64_t ms_tc_take_chain(struct ms_tcmalloc *tc, struct ms_tc_copy *copy,
                          struct ms_tc_chain *chain)
{
	uint64_t bytes = copy->classes[chain->class].bytes;
	ms_addr at = chain->head;
	uint64_t taken = 0;

	for (; at && taken < chain->n; taken++) {
		uint64_t usable = listable_bytes(tc, copy, at, bytes);

		if (!usable || !ms_blocks_kill(tc->d->blocks, at)) {
			ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED,
			               "a list of free blocks of %llu bytes has 0x%llx, which is "
			               "none that could be free",
			               (unsigned long long)bytes, (unsigned long long)at);
			break;
		}
		copy->used.n--;
		copy->used.bytes -= usable;
		if (usable != bytes)
			ms_misplaced_note(&copy->misplaced, at, usable, bytes);
		chain->last = at;
		at = ms_tc_word(tc, at);
	}
	if (at && taken == chain->n)
		ms_proof_doubt(
			&copy->proof, MS_DOUBT_DISAGREES,
			"a list of free blocks of %llu bytes is longer than the %llu counted",
			(unsigned long long)bytes, (unsigned long long)taken);
	return taken;
}

static void take_slot(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, uint32_t class,
                      const struct ms_tc_slot *slot)
{
	uint64_t batch = copy->classes[class].batch;
	struct ms_tc_chain chain = { .class = class, .head = slot->head, .n = batch };
	uint64_t n = ms_tc_take_chain(tc, copy, &chain);

	copy->slotted.n += n;
	copy->slotted.bytes += n * copy->classes[class].bytes;
	if (n != batch || chain.last != slot->tail)
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "a transfer slot has %llu blocks of %llu bytes, not %llu",
		               (unsigned long long)n,
		               (unsigned long long)copy->classes[class].bytes,
		               (unsigned long long)batch);
}

void ms_tc_take_slots(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	for (uint32_t i = 1; i < copy->n_classes && !copy->proof.doubt; i++) {
		const struct ms_tc_central *central = &copy->centrals[i];

		if (central->used_slots < 0 || central->used_slots > MS_TC_SLOTS) {
			ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED,
			               "%d transfer slots are in use, of %d", central->used_slots,
			               MS_TC_SLOTS);
			return;
		}
		for (int32_t k = 0; k < central->used_slots && !copy->proof.doubt; k++)
			take_slot(tc, copy, i, &central->slots[k]);
	}
}
