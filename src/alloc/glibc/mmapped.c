/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "alloc/choice.h"
#include "alloc/glibc/ptmalloc.h"
#include "alloc/window.h"
#include "base/sort.h"

/*
 * Chunks with a mapping of their own: nothing links them, and the kernel joins
 * neighbouring mappings and splits those whose flags change, so the maps do not
 * say where one begins. But its header does: prev_size is the distance from the
 * mapping's begin, with the size it makes whole pages, and only the M bit is set.
 * malloc aligns, so that a page of 4096 bytes has nine places where a header can stand.
 *
 * An aligned chunk may have a stale header at its mapping's begin; of several
 * headers that claim one mapping the last is the true one. What is found must agree
 * in number and in sum with malloc_par's counters.
 *
 * A program's own mapping can begin with what looks like a header. So when more is
 * found than is counted, the set that agrees with both counters is looked for
 * (choice.h): what is in every such set is proved, what is in none is the program's
 * own, and memory that remains unknown counts as roots and holds no blocks.
 *
 * To look at all of those places is to read every page there is, most of them inside
 * of large blocks. So first the headers are followed from the begin of each mapping,
 * one chunk ending where the next begins; when the counters do not agree with that,
 * then from any page at which this comes to no header; and only when they still do
 * not, which is rare, every place is looked at.
 */

/* How to look for chunks, the cheapest first. */
enum effort { FOLLOW, FOLLOW_PATIENTLY, LOOK_EVERYWHERE };

struct candidate {
	ms_addr base; /* of the mapping */
	uint64_t total;
	ms_addr mem; /* what malloc returned */
	enum ms_verdict verdict;
};

struct candidates MS_VEC(struct candidate);

/* Memory that the kernel mapped without a gap, and of which malloc could hold parts. */
struct run {
	struct ms_ptmalloc *pt;
	struct ms_range range;
	uint64_t extra; /* ms_par_layout.mmap_extra */
	enum effort effort;
	struct candidates *found;
};

enum { READ_WRITE = MS_PROT_READ | MS_PROT_WRITE };

/* A header lies in its page just below each alignment, the last that of whole pages. */
static bool next_offset(const struct ms_ptmalloc *pt, uint64_t *align, uint64_t *offset)
{
	*align = *align ? 2 * *align : MS_ALIGNMENT;
	*offset = *align - pt->shape->header;
	return *align <= pt->page;
}

/* No chunk reaches into an arena. */
static bool meets_arena(const struct run *run, const struct candidate *c)
{
	const struct ms_ranges *owned = &run->pt->owned;
	size_t i = ms_range_search(owned->at, owned->n, sizeof(*owned->at), c->base);

	return i < owned->n && owned->at[i].begin < c->base + c->total;
}

/* 2.43 keeps a flag in the lowest bit of prev_size: the mapping is of huge pages. */
static bool is_header(const struct run *run, ms_addr at, const uint8_t *bytes,
                      struct candidate *ret)
{
	uint64_t size = ms_pt_load(run->pt, bytes + run->pt->shape->word);
	uint64_t prev = ms_pt_load(run->pt, bytes);

	if ((size & MS_SIZE_BITS) != MS_IS_MMAPPED)
		return false;
	if (run->extra)
		prev &= ~UINT64_C(1);
	size &= ~(uint64_t)MS_SIZE_BITS;
	ret->base = at - prev;
	ret->total = prev + size + run->extra;
	ret->mem = at + run->pt->shape->header;
	ret->verdict = MS_VERDICT_NONE;
	return prev < at && size >= run->pt->shape->min_chunk && ret->base % run->pt->page == 0 &&
	       ret->total % run->pt->page == 0 && ret->total > prev &&
	       ret->base >= run->range.begin && ret->total <= run->range.end - ret->base &&
	       !meets_arena(run, ret);
}

static enum ms_status add(const struct run *run, const struct candidate *c)
{
	struct candidate *slot = ms_vec_push(run->pt->d->arena, run->found);

	if (!slot)
		return MS_E_NOMEM;
	*slot = *c;
	return MS_OK;
}

static enum ms_status search_page(const struct run *run, ms_addr page, const uint8_t *bytes)
{
	uint64_t align = 0;
	uint64_t offset;
	enum ms_status st = MS_OK;

	while (!st && next_offset(run->pt, &align, &offset)) {
		struct candidate c;

		if (is_header(run, page + offset, bytes + offset, &c))
			st = add(run, &c);
	}
	return st;
}

/*
 * The lowest chunk not below @low whose header is in @page; of several headers for it
 * the last one.
 */
static bool chunk_in_page(const struct run *run, ms_addr low, ms_addr page, const uint8_t *bytes,
                          struct candidate *ret)
{
	ms_addr lowest = UINT64_MAX;
	uint64_t align = 0;
	uint64_t offset;

	while (next_offset(run->pt, &align, &offset)) {
		struct candidate c;

		if (!is_header(run, page + offset, bytes + offset, &c) || c.base < low ||
		    c.base > lowest)
			continue;
		*ret = c;
		lowest = c.base;
	}
	return lowest < UINT64_MAX;
}

/*
 * The header of @c may be stale, and the true one in a later page: where a block
 * would begin that is aligned to some power of two.
 */
static void find_last_header(const struct run *run, struct candidate *c)
{
	const uint64_t header = run->pt->shape->header;
	struct candidate last = *c;

	for (uint64_t to = UINT64_C(2) * run->pt->page; to < c->total; to *= 2) {
		ms_addr at = ms_align_up(c->base + header, to) - header;
		uint8_t bytes[MS_HEADER_MAX];
		struct candidate other;

		if (at >= last.mem && at - c->base < c->total &&
		    ms_source_read(run->pt->d->src, at, bytes, header) == header &&
		    is_header(run, at, bytes, &other) && other.base == c->base)
			last = other;
	}
	*c = last;
}

/* Where to go on behind @page, where no chunk begins. */
static ms_addr next_place(const struct run *run, ms_addr page)
{
	const struct ms_region *region = ms_region_of(run->pt->d->regions, page);

	return run->effort == FOLLOW && region ? region->range.end : page + run->pt->page;
}

/*
 * Whether all of @c can be read and written. What is not is no chunk as a rule, though
 * a program may protect parts of its blocks.
 */
static bool is_whole(const struct run *run, const struct candidate *c)
{
	const struct ms_regions *regions = run->pt->d->regions;
	const struct ms_region *r = ms_region_of(regions, c->base);

	for (; r && r < regions->at + regions->n && r->range.begin < c->base + c->total; r++)
		if ((ms_region_mapping(run->pt->d->src, r)->prot & READ_WRITE) != READ_WRITE)
			return false;
	return true;
}

/* Follow headers through @present; *low is where the last chunk ended, and moves on. */
static enum ms_status follow(const struct run *run, struct ms_range present, ms_addr *low)
{
	/* Behind an arena's segment, whose last 16 bytes may belong to no chunk. */
	ms_addr page = ms_align_up(present.begin, run->pt->page);
	struct ms_window window;
	enum ms_status st = MS_OK;

	ms_window_init(&window, run->pt->d->src, present, run->pt->search_buffer);
	while (!st && page < present.end) {
		const uint8_t *bytes = ms_window_at(&window, page, run->pt->page);
		struct candidate c;

		if (!bytes || !chunk_in_page(run, *low, page, bytes, &c)) {
			page = next_place(run, page);
			continue;
		}
		find_last_header(run, &c);
		st = add(run, &c);
		if (is_whole(run, &c))
			page = *low = c.base + c.total;
		else
			page = next_place(run, page);
	}
	return st;
}

/* Look at every place in @present. */
static enum ms_status search_present(const struct run *run, struct ms_range present)
{
	ms_addr first = ms_align_up(present.begin, run->pt->page);
	struct ms_window window;
	enum ms_status st = MS_OK;

	ms_window_init(&window, run->pt->d->src, present, run->pt->search_buffer);
	for (ms_addr page = first; page + run->pt->page <= present.end && !st;
	     page += run->pt->page) {
		const uint8_t *bytes = ms_window_at(&window, page, run->pt->page);

		if (bytes)
			st = search_page(run, page, bytes);
	}
	return st;
}

static enum ms_status search_run(const struct run *run)
{
	struct ms_range rest = run->range;
	struct ms_range gap;
	struct ms_range present;
	enum ms_status st = MS_OK;

	while (!st && ms_range_next_gap(&rest, &run->pt->owned, &gap)) {
		ms_addr low = gap.begin;

		while (!st && gap.begin < gap.end &&
		       ms_source_present(run->pt->d->src, gap, &present)) {
			st = run->effort == LOOK_EVERYWHERE ? search_present(run, present)
			                                    : follow(run, present, &low);
			gap.begin = present.end > low ? present.end : low;
		}
	}
	return st;
}

/* malloc's mappings are private, and of no file. */
static bool can_hold_chunks(const struct ms_source *src, const struct ms_region *region)
{
	const struct ms_mapping *m = ms_region_mapping(src, region);

	return region->kind == MS_REGION_MEMORY && !m->shared && !m->file;
}

static enum ms_status search(struct ms_ptmalloc *pt, uint64_t extra, enum effort effort,
                             struct candidates *found)
{
	const struct ms_regions *regions = pt->d->regions;
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < regions->n && !st; i++) {
		struct run run = { pt, regions->at[i].range, extra, effort, found };

		if (!can_hold_chunks(pt->d->src, &regions->at[i]))
			continue;
		while (i + 1 < regions->n && regions->at[i + 1].range.begin == run.range.end &&
		       can_hold_chunks(pt->d->src, &regions->at[i + 1]))
			run.range.end = regions->at[++i].range.end;
		st = search_run(&run);
	}
	return st;
}

/* By mapping; of several headers of one mapping the last first. */
static bool candidate_before(const void *a, const void *b)
{
	const struct candidate *x = a;
	const struct candidate *y = b;

	if (x->base != y->base)
		return x->base < y->base;
	return x->mem > y->mem;
}

/* Leave one of those that claim the same mapping, the first: its header is the last. */
static void drop_stale(struct candidates *found)
{
	size_t kept = 0;

	for (size_t i = 0; i < found->n; i++) {
		const struct candidate *c = &found->at[i];
		bool stale = false;

		for (size_t k = kept; k-- > 0 && found->at[k].base == c->base;)
			stale |= found->at[k].total == c->total;
		if (!stale)
			found->at[kept++] = *c;
	}
	found->n = kept;
}

/* Keep, from the lowest on, those that begin in no mapping kept before. */
static void sweep(struct candidates *found)
{
	size_t kept = 0;
	ms_addr end = 0;

	for (size_t i = 0; i < found->n; i++) {
		if (found->at[i].base < end)
			continue;
		end = found->at[i].base + found->at[i].total;
		found->at[kept++] = found->at[i];
	}
	found->n = kept;
}

static enum ms_status put(struct ms_ptmalloc *pt, const struct candidate *c, uint64_t extra)
{
	struct ms_range block = { c->mem, c->base + c->total - (extra ? pt->shape->word : 0u) };
	enum ms_status st;
	uint32_t extent;

	if (!ms_ranges_add(pt->d->arena, &pt->d->owned, c->base, c->base + c->total))
		return MS_E_NOMEM;
	st = ms_blocks_open_single(pt->d->blocks, block, MS_EXTENT_HEAP, &extent);
	pt->mmapped.n++;
	pt->mmapped.bytes += ms_range_len(block);
	pt->mmapped.total += c->total;
	return st;
}

/* Whether @c is a block is not known: it is none, and all it holds is held. */
static enum ms_status put_unknown(struct ms_ptmalloc *pt, const struct candidate *c)
{
	pt->mmapped.n_unknown++;
	return ms_ranges_add(pt->d->arena, &pt->d->owned, c->base, c->base + c->total) &&
	                       ms_ranges_add(pt->d->arena, &pt->d->unproved, c->base,
	                                     c->base + c->total)
	               ? MS_OK
	               : MS_E_NOMEM;
}

/* What the counters of all libraries say; false when one's were not found. */
static bool expected(const struct ms_ptmalloc *pt, uint64_t *n, uint64_t *mem, uint64_t *extra)
{
	const struct ms_libc *libc;
	bool known = true;

	*n = *mem = *extra = 0;
	ms_vec_for_each (libc, &pt->libcs) {
		known &= libc->unused || libc->par_layout;
		*n += libc->n_mmaps;
		*mem += libc->mmapped_mem;
		if (libc->par_layout)
			*extra = libc->par_layout->mmap_extra;
	}
	return known;
}

/* What the counters of all libraries together demand. */
struct demand {
	uint64_t n;
	uint64_t mem;
	uint64_t extra;
};

static uint64_t total_of(const struct candidates *found)
{
	const struct candidate *c;
	uint64_t total = 0;

	ms_vec_for_each (c, found)
		total += c->total;
	return total;
}

/*
 * 2.43 counts the extra bytes once more at each mremap(). Less than a page of them is
 * always believed: a stale header's size, from before the block grew, is wrong by whole
 * pages. More are when everything has been looked at, for there is no better answer.
 */
static bool agrees_but_for_extra(struct candidates *found, const struct demand *d)
{
	uint64_t more;

	sweep(found);
	more = d->mem - total_of(found);
	return d->extra && found->n == d->n && total_of(found) < d->mem && more % d->extra == 0;
}

/* Give each of @found its verdict. */
static enum ms_status choose(struct ms_ptmalloc *pt, const struct demand *d,
                             struct candidates *found, enum ms_agreement *ret)
{
	struct ms_choices choices = { 0 };
	bool rounds = d->extra && d->mem % d->extra == 0;
	uint64_t mem = rounds ? ms_align_down(d->mem, pt->page) : d->mem;
	struct candidate *c;
	enum ms_status st;

	ms_vec_for_each (c, found) {
		struct ms_choice *slot = ms_vec_push(pt->d->arena, &choices);

		if (!slot)
			return MS_E_NOMEM;
		slot->range = (struct ms_range){ c->base, c->base + c->total };
	}
	st = ms_choose(&choices, d->n, mem, ret);
	for (size_t i = 0; i < found->n && !st; i++)
		found->at[i].verdict = choices.at[i].verdict;
	return st;
}

/* Search with @effort, and choose. */
static enum ms_status find(struct ms_ptmalloc *pt, const struct demand *d, enum effort effort,
                           struct candidates *found, enum ms_agreement *ret)
{
	struct candidate *c;
	enum ms_status st;

	found->n = 0;
	st = search(pt, d->extra, effort, found);
	if (st)
		return st;
	if (!ms_sort(pt->d->arena, found->at, found->n, sizeof(*found->at), candidate_before))
		return MS_E_NOMEM;
	drop_stale(found);
	st = choose(pt, d, found, ret);
	if (st || *ret != MS_AGREE_NONE || effort != LOOK_EVERYWHERE ||
	    !agrees_but_for_extra(found, d))
		return st;
	*ret = MS_AGREE_ONE;
	ms_vec_for_each (c, found)
		c->verdict = MS_VERDICT_ALL;
	return MS_OK;
}

/* The search is over: take what is proved, and doubt what is not. */
static enum ms_status take(struct ms_ptmalloc *pt, const struct demand *d,
                           const struct candidates *found)
{
	const struct candidate *c;
	enum ms_status st = MS_OK;

	ms_vec_for_each (c, found) {
		if (!st && pt->mmapped.proved && c->verdict == MS_VERDICT_ALL)
			st = put(pt, c, d->extra);
		else if (!st && (!pt->mmapped.proved || c->verdict == MS_VERDICT_MAYBE))
			st = put_unknown(pt, c);
	}
	pt->mmapped.n_missing = d->n - pt->mmapped.n;
	return st;
}

#define PROBLEM(pt, ...) \
	(void)snprintf((pt)->mmapped.problem, sizeof((pt)->mmapped.problem), __VA_ARGS__)

static void say_why(struct ms_ptmalloc *pt, const struct demand *d, const struct candidates *found,
                    enum ms_agreement agreement)
{
	if (agreement == MS_AGREE_UNKNOWN)
		PROBLEM(pt, "%zu places look like one, malloc counts %llu of %llu bytes", found->n,
		        (unsigned long long)d->n, (unsigned long long)d->mem);
	else
		PROBLEM(pt, "%zu mmapped chunks of %llu bytes found, the counters say %llu of %llu",
		        found->n, (unsigned long long)total_of(found), (unsigned long long)d->n,
		        (unsigned long long)d->mem);
}

enum ms_status ms_pt_read_mmapped(struct ms_ptmalloc *pt)
{
	struct candidates found = { 0 };
	enum ms_agreement agreement = MS_AGREE_NONE;
	struct demand d;
	enum ms_status st = MS_OK;

	pt->mmapped.proved = expected(pt, &d.n, &d.mem, &d.extra);
	if (!pt->mmapped.proved)
		PROBLEM(pt, "malloc's counters were not found");
	if (!pt->mmapped.proved || (!d.n && !d.mem))
		return MS_OK;
	for (int e = FOLLOW; e <= LOOK_EVERYWHERE && agreement == MS_AGREE_NONE && !st; e++)
		st = find(pt, &d, (enum effort)e, &found, &agreement);
	if (st)
		return st;
	pt->mmapped.proved = agreement == MS_AGREE_ONE || agreement == MS_AGREE_SEVERAL;
	if (!pt->mmapped.proved)
		say_why(pt, &d, &found, agreement);
	return take(pt, &d, &found);
}
