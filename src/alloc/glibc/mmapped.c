/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "alloc/glibc/ptmalloc.h"
#include "base/sort.h"

/*
 * Chunks with a mapping of their own: nothing links them, and the kernel joins
 * neighbouring mappings and splits those whose flags change, so the maps do not
 * tell where one begins. But its header does: prev_size is the distance from the
 * mapping's begin, with the size it makes whole pages, and only the M bit is set.
 * malloc aligns, so that a page has nine places where a header can stand.
 *
 * An aligned chunk may have a stale header at its mapping's begin; of several
 * headers that claim one begin the last is the true one. What is found must agree
 * in number and in sum with malloc_par's counters.
 */

struct candidate {
	ms_addr base; /* of the mapping */
	uint64_t total;
	ms_addr mem; /* what malloc returned */
};

struct candidates MS_VEC(struct candidate);

/* Memory that the kernel mapped without a gap, and of which malloc could hold parts. */
struct run {
	struct ms_ptmalloc *pt;
	struct ms_range range;
	uint64_t extra; /* ms_par_layout.mmap_extra */
	struct candidates *found;
};

/* Offsets of a header in its page: 16 below each alignment, the last for whole pages. */
static const uint16_t header_offsets[] = {
	0x0, 0x10, 0x30, 0x70, 0xf0, 0x1f0, 0x3f0, 0x7f0, 0xff0
};

/* 2.43 keeps a flag in the lowest bit of prev_size: the mapping is of huge pages. */
static bool is_header(const struct run *run, ms_addr at, const uint8_t *bytes,
                      struct candidate *ret)
{
	uint64_t prev;
	uint64_t size;

	memcpy(&size, bytes + MS_WORD, sizeof(size));
	if ((size & MS_SIZE_BITS) != MS_IS_MMAPPED)
		return false;
	memcpy(&prev, bytes, sizeof(prev));
	if (run->extra)
		prev &= ~UINT64_C(1);
	size &= ~(uint64_t)MS_SIZE_BITS;
	ret->base = at - prev;
	ret->total = prev + size + run->extra;
	ret->mem = at + MS_HEADER;
	return prev < at && size >= MS_MIN_CHUNK && ret->base % MS_PAGE == 0 &&
	       ret->total % MS_PAGE == 0 && ret->total > prev && ret->base >= run->range.begin &&
	       ret->total <= run->range.end - ret->base;
}

static enum ms_status search_page(const struct run *run, ms_addr page, const uint8_t *bytes)
{
	for (size_t i = 0; i < sizeof(header_offsets) / sizeof(header_offsets[0]); i++) {
		struct candidate c;
		struct candidate *slot;

		if (!is_header(run, page + header_offsets[i], bytes + header_offsets[i], &c))
			continue;
		slot = ms_vec_push(run->pt->d->arena, run->found);
		if (!slot)
			return MS_E_NOMEM;
		*slot = c;
	}
	return MS_OK;
}

static enum ms_status search_present(const struct run *run, struct ms_range present)
{
	struct ms_source *src = run->pt->d->src;
	const uint8_t *view = ms_source_view(src, present.begin, ms_range_len(present));
	/* Behind an arena's segment, whose last 16 bytes may belong to nobody. */
	ms_addr first = ms_align_up(present.begin, MS_PAGE);
	enum ms_status st = MS_OK;
	uint8_t copy[MS_PAGE];

	for (ms_addr page = first; page + MS_PAGE <= present.end && !st; page += MS_PAGE) {
		const uint8_t *bytes = view ? view + (page - present.begin) : copy;

		if (!view && ms_source_read(src, page, copy, MS_PAGE) != MS_PAGE)
			continue;
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

	while (!st && ms_range_next_gap(&rest, &run->pt->owned, &gap))
		while (!st && ms_source_present(run->pt->d->src, gap, &present)) {
			st = search_present(run, present);
			gap.begin = present.end;
		}
	return st;
}

/* malloc's mappings are private, and have no name but huge pages' or the one malloc gives. */
static bool can_hold_chunks(const struct ms_source *src, const struct ms_region *region)
{
	const struct ms_mapping *m = ms_region_mapping(src, region);

	return region->kind == MS_REGION_MEMORY && !m->shared &&
	       (!m->inode || !strncmp(m->name, "/anon_hugepage", 14));
}

static enum ms_status search(struct ms_ptmalloc *pt, uint64_t extra, struct candidates *found)
{
	const struct ms_regions *regions = pt->d->regions;
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < regions->n && !st; i++) {
		struct run run = { pt, regions->at[i].range, extra, found };

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
	struct ms_range block = { c->mem, c->base + c->total - (extra ? MS_WORD : 0) };
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

/* 2.43 counts the extra bytes once more at each mremap(). */
static bool sums_agree(uint64_t found, uint64_t counted, uint64_t extra)
{
	return found == counted ||
	       (extra && counted > found && (counted - found) % MS_ALIGNMENT == 0);
}

enum ms_status ms_pt_read_mmapped(struct ms_ptmalloc *pt)
{
	struct candidates found = { 0 };
	const struct candidate *c;
	uint64_t n;
	uint64_t mem;
	uint64_t extra;
	uint64_t total = 0;
	enum ms_status st;

	pt->mmapped.proved = expected(pt, &n, &mem, &extra);
	if (!pt->mmapped.proved)
		(void)snprintf(pt->mmapped.problem, sizeof(pt->mmapped.problem),
		               "malloc's counters were not found");
	if (!pt->mmapped.proved || (!n && !mem))
		return MS_OK;
	st = search(pt, extra, &found);
	if (st)
		return st;
	if (!ms_sort(pt->d->arena, found.at, found.n, sizeof(*found.at), candidate_before))
		return MS_E_NOMEM;
	sweep(&found);
	ms_vec_for_each (c, &found)
		total += c->total;
	if (found.n != n || !sums_agree(total, mem, extra)) {
		pt->mmapped.proved = false;
		(void)snprintf(pt->mmapped.problem, sizeof(pt->mmapped.problem),
		               "%zu mmapped chunks of %llu bytes found, the counters say %llu of "
		               "%llu",
		               found.n, (unsigned long long)total, (unsigned long long)n,
		               (unsigned long long)mem);
	}
	ms_vec_for_each (c, &found) {
		if (pt->mmapped.proved)
			st = put(pt, c, extra);
		else if (!ms_ranges_add(pt->d->arena, &pt->d->unproved, c->base,
		                        c->base + c->total))
			st = MS_E_NOMEM;
		if (st)
			return st;
	}
	return MS_OK;
}
