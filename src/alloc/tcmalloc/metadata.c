/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/tcmalloc/tcmalloc.h"

/*
 * Memory of tcmalloc's own structures, where stale pointers to blocks are left: it is no
 * root. Only what is known to the byte is taken, for what lies around it in the break memory
 * may be the program's.
 *
 * Structures of one kind come from an allocator of their own, which counts those in use and
 * has the others on a list: so those of spans, and stack traces.
 */

enum {
	UNUSED_SPANS = 2, /* taken at the start, and never used */
	MOST_CHANGING = 16,
};

static bool add(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr at, uint64_t len)
{
	return ms_ranges_add(tc->d->arena, &copy->metadata, at, at + len);
}

static bool is_metadata(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy, ms_addr addr)
{
	return addr && addr % sizeof(uint64_t) == 0 && !ms_range_find(&copy->memory, addr) &&
	       ms_region_of(tc->d->regions, addr);
}

/* Read the allocator at @at of things of @bytes; false when there is none. */
static bool read_allocator(const struct ms_tcmalloc *tc, const struct ms_tc_copy *copy, ms_addr at,
                           uint64_t bytes, struct ms_tc_allocator *ret)
{
	return ms_tc_read(tc, at, ret, sizeof(*ret)) && ret->avail <= MS_TC_AREA &&
	       (MS_TC_AREA - ret->avail) % bytes == 0 && ret->area % sizeof(uint64_t) == 0 &&
	       is_metadata(tc, copy, ret->area - bytes) &&
	       (!ret->free || is_metadata(tc, copy, ret->free));
}

/* What an allocator has of things of @bytes that were given back. */
static bool add_free(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr first, uint64_t bytes)
{
	ms_addr mark = 0; /* passed again by a list that loops */
	uint64_t n = 0;

	for (ms_addr at = first; at != mark && is_metadata(tc, copy, at); at = ms_tc_word(tc, at)) {
		if (!add(tc, copy, at, bytes))
			return false;
		if ((n & (n + 1)) == 0)
			mark = at;
		n++;
	}
	return true;
}

static bool is_span_allocator(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr at,
                              uint64_t word)
{
	struct ms_tc_allocator a;

	(void)word;
	if (!read_allocator(tc, copy, at, sizeof(struct ms_tc_raw_span), &a) ||
	    a.inuse != copy->spans.n + UNUSED_SPANS)
		return false;
	copy->span_allocator = at;
	return true;
}

/* While the page heap is changed it counts a few more or less; spans in its area are its own. */
static bool is_changing_allocator(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr at,
                                  uint64_t word)
{
	uint64_t expected = copy->spans.n + UNUSED_SPANS;
	const struct ms_tc_span *span;
	struct ms_tc_allocator a;

	if (!read_allocator(tc, copy, at, sizeof(struct ms_tc_raw_span), &a) ||
	    a.inuse + MOST_CHANGING < expected || a.inuse > expected + MOST_CHANGING)
		return false;
	ms_vec_for_each (span, &copy->spans)
		if (word - span->at <= MS_TC_AREA - a.avail)
			copy->span_allocator = at;
	return copy->span_allocator;
}

static bool add_spans(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	const uint64_t bytes = sizeof(struct ms_tc_raw_span);
	const struct ms_tc_span *span;
	struct ms_tc_allocator a;

	ms_vec_for_each (span, &copy->spans)
		if (!add(tc, copy, span->at, bytes))
			return false;
	if (!(ms_tc_find_word(tc, copy, is_span_allocator) ||
	      ms_tc_find_word(tc, copy, is_changing_allocator)) ||
	    !read_allocator(tc, copy, copy->span_allocator, bytes, &a)) {
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "no count of the %zu spans was found", copy->spans.n);
		return true;
	}
	if (!copy->proof.doubt && a.inuse != copy->spans.n + UNUSED_SPANS)
		ms_proof_doubt(&copy->proof, MS_DOUBT_CHANGES,
		               "%u spans are counted, but %zu found", a.inuse - UNUSED_SPANS,
		               copy->spans.n);
	return add_free(tc, copy, a.free, bytes);
}

/* ---- stack traces ---- */

/* The list has one for each time that memory was taken from the system. */
static bool is_first_trace(struct ms_tcmalloc *tc, struct ms_tc_copy *copy, ms_addr at,
                           uint64_t word)
{
	struct ms_tc_trace trace = { .next = word };
	uint64_t left = copy->sums.n_grown;

	(void)at;
	for (; left && trace.next; left--)
		if (!is_metadata(tc, copy, trace.next) ||
		    !ms_tc_read(tc, trace.next, &trace, sizeof(trace)) || !trace.size ||
		    trace.size % MS_TC_LEAST_PAGE || trace.depth > sizeof(trace.stack) / 8)
			return false;
	if (left || trace.next)
		return false;
	copy->first_trace = word;
	return true;
}

static bool add_traces(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	const uint64_t bytes = sizeof(struct ms_tc_trace);
	uint64_t left = copy->sums.n_grown;
	const struct ms_tc_span *span;
	struct ms_tc_allocator a;

	ms_vec_for_each (span, &copy->spans)
		if (span->sampled && !span->class && is_metadata(tc, copy, span->objects) &&
		    !add(tc, copy, span->objects, bytes))
			return false;
	/* Both allocators are variables of one file. */
	if (copy->span_allocator &&
	    read_allocator(tc, copy, copy->span_allocator - sizeof(a), bytes, &a) &&
	    !add_free(tc, copy, a.free, bytes))
		return false;
	if (!left || !ms_tc_find_word(tc, copy, is_first_trace))
		return true;
	for (ms_addr at = copy->first_trace; at && left; left--) {
		if (!add(tc, copy, at, bytes))
			return false;
		at = ms_tc_word(tc, at + offsetof(struct ms_tc_trace, next));
	}
	return true;
}

enum ms_status ms_tc_find_metadata(struct ms_tcmalloc *tc, struct ms_tc_copy *copy)
{
	const uint64_t centrals = MS_TC_CLASSES * sizeof(struct ms_tc_central);
	uint64_t room = copy->data.end - copy->central;
	const ms_addr *cache;

	if (!add(tc, copy, copy->root, ms_tc_root_bytes(copy)) ||
	    !add(tc, copy, copy->central, centrals < room ? centrals : room) ||
	    !add_spans(tc, copy) || !add_traces(tc, copy))
		return MS_E_NOMEM;
	ms_vec_for_each (cache, &copy->caches)
		if (!add(tc, copy, *cache, sizeof(struct ms_tc_raw_cache)))
			return MS_E_NOMEM;
	return ms_ranges_tidy(tc->d->arena, &copy->metadata) ? MS_OK : MS_E_NOMEM;
}
