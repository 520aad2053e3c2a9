/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/glibc/chunks.h"
#include "alloc/window.h"

/*
 * The ring of arenas, and the memory of each.
 *
 *	main arena   break memory from sbrk_base to the end of top. Where somebody
 *	             else moved the break in between, a fence ends the segment and the
 *	             next begins at some aligned address behind the stranger's bytes;
 *	             where brk failed, segments are mappings anywhere.
 *	the others   heaps, aligned to HEAP_MAX, linked from the newest to the first:
 *	             ┌───────────┬───────┬────────────────────┬─────┬─ PROT_NONE ─┐
 *	             │ heap_info │ arena │ chunks …           │ top │             │
 *	             └───────────┴───────┴────────────────────┴─────┴─────────────┘
 */

enum {
	MAX_ARENAS = 1 << 16,
	MAX_LONG_TRIES = 16, /* of where a segment begins, each longer than LONG_TRY bytes */
	LONG_TRY = 1 << 20,
	MAX_HEAP_INFO = 64,
	HUGE_HEAP_PAGES = 4, /* HEAP_MAX in huge pages, 2.35 to 2.41 with hugetlb=2 */
	INFO_WORDS = 4,      /* of struct _heap_info that are looked at */
};

/* The start of each heap; pagesize and padding behind it differ. */
struct heap_info {
	uint64_t ar_ptr;
	uint64_t prev;
	uint64_t size;
	uint64_t mprotect_size;
};

/* [@begin, @end) is memory of the arena of @group, or of none (0). */
static bool own(struct ms_ptmalloc *pt, uint32_t group, ms_addr begin, ms_addr end)
{
	struct ms_pt_share *share = ms_vec_push(pt->d->arena, &pt->shares);

	if (!share)
		return false;
	*share = (struct ms_pt_share){ { begin, end }, group };
	return ms_ranges_add(pt->d->arena, &pt->owned, begin, end);
}

/* Count @segment, which has been walked, as one of @arena's. */
static void add_segment(struct ms_pt_arena *arena, const struct ms_segment *segment)
{
	arena->segments++;
	arena->tally.n_used += segment->tally.n_used;
	arena->tally.used_bytes += segment->tally.used_bytes;
	arena->tally.n_free += segment->tally.n_free;
	arena->tally.free_bytes += segment->tally.free_bytes;
	arena->tally.links += segment->tally.links;
	if (segment->how == MS_SEGMENT_BAD)
		ms_proof_doubt(&arena->proof, MS_DOUBT_DAMAGED,
		               "the chunk at 0x%llx contradicts its neighbours",
		               (unsigned long long)segment->end);
}

/* Have @segment walked with all others of which nothing else depends. */
static enum ms_status plan(struct ms_ptmalloc *pt, struct ms_pt_arena *arena,
                           struct ms_segment segment)
{
	struct ms_segment *slot = ms_vec_push(pt->d->arena, pt->planned);

	if (!slot)
		return MS_E_NOMEM;
	*slot = segment;
	arena->n_planned++;
	return ms_segment_open(pt, slot, arena->group);
}

/*
 * Walk @segment, whose begin is not certain, and keep it when it is not bad. A first
 * trial is short: most are refused at once.
 */
static enum ms_status try_segment(struct ms_ptmalloc *pt, struct ms_pt_arena *arena,
                                  struct ms_segment *segment)
{
	enum ms_status st;

	ms_segment_try(pt, segment);
	if (segment->how == MS_SEGMENT_BAD)
		return MS_OK;
	st = ms_segment_open(pt, segment, arena->group);
	if (!st)
		st = ms_segments_read(pt, segment, 1);
	if (!st && segment->how == MS_SEGMENT_BAD)
		ms_blocks_cancel(pt->d->blocks, segment->extent);
	return st;
}

/* Where the memory ends that is mapped from @addr on without a gap. */
static ms_addr end_of_run(const struct ms_ptmalloc *pt, ms_addr addr)
{
	const struct ms_regions *regions = pt->d->regions;
	const struct ms_region *region = ms_region_of(regions, addr);

	if (!region)
		return addr;
	while (region + 1 < regions->at + regions->n && region[1].range.begin == region->range.end)
		region++;
	return region->range.end;
}

/*
 * Find and walk the segment behind @s, which ended at a fence; it ends at top or at a
 * fence, too. Clears s->begin when there is none.
 */
static enum ms_status next_segment(struct ms_ptmalloc *pt, struct ms_pt_arena *arena,
                                   struct ms_segment *s)
{
	int tries = 0;

	for (ms_addr at = ms_pt_chunk_from(pt, s->end); at < s->limit && tries < MAX_LONG_TRIES;
	     at += MS_ALIGNMENT) {
		struct ms_segment trial = *s;
		enum ms_status st;

		/* The first chunk of a segment has P set and nothing else. */
		if ((ms_pt_word(pt, at + pt->shape->word) & MS_SIZE_BITS) != MS_PREV_INUSE)
			continue;
		trial.begin = at;
		st = try_segment(pt, arena, &trial);
		if (st)
			return st;
		tries += trial.end - at > LONG_TRY;
		if (trial.how == MS_SEGMENT_BAD)
			continue;
		*s = trial;
		return MS_OK;
	}
	s->begin = 0;
	return MS_OK;
}

static struct ms_segment contiguous(const struct ms_ptmalloc *pt, const struct ms_libc *libc,
                                    const struct ms_pt_arena *arena)
{
	uint64_t top_size = ms_pt_word(pt, arena->top + pt->shape->word) & ~(uint64_t)MS_SIZE_BITS;

	return (struct ms_segment){ .begin = ms_pt_chunk_from(pt, libc->sbrk_base),
		                    .limit = arena->top + top_size,
		                    .top = arena->top,
		                    .main = true };
}

/* Break memory of the main arena: its first segment. */
static enum ms_status plan_contiguous(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                                      struct ms_pt_arena *arena)
{
	struct ms_segment s = contiguous(pt, libc, arena);
	ms_addr end = end_of_run(pt, libc->sbrk_base);

	if (libc->sbrk_base + arena->system_mem != s.limit || s.limit <= s.begin || s.limit > end) {
		ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
		               "its memory does not end where top does");
		return own(pt, arena->group, libc->sbrk_base, end) ? MS_OK : MS_E_NOMEM;
	}
	arena->covered_bytes = arena->system_mem;
	return plan(pt, arena, s);
}

/* The first segment has been walked; the others follow it. */
static enum ms_status read_contiguous(struct ms_ptmalloc *pt, struct ms_pt_arena *arena)
{
	struct ms_segment s = pt->planned->at[arena->first_planned];

	while (s.begin) {
		ms_addr fence;
		enum ms_status st;

		add_segment(arena, &s);
		if (!own(pt, arena->group, s.begin, s.how == MS_SEGMENT_BAD ? s.limit : s.end))
			return MS_E_NOMEM;
		if (s.how != MS_SEGMENT_FENCE)
			break;
		fence = s.end;
		st = next_segment(pt, arena, &s);
		if (st)
			return st;
		if (s.begin)
			continue;
		ms_proof_doubt(&arena->proof, MS_DOUBT_DAMAGED,
		               "no way from the fence at 0x%llx to top", (unsigned long long)fence);
		return own(pt, arena->group, fence, s.limit) ? MS_OK : MS_E_NOMEM;
	}
	return MS_OK;
}

/* Try the memory from @from on as the first of a segment of the main arena. */
static enum ms_status try_scattered(struct ms_ptmalloc *pt, struct ms_pt_arena *arena, ms_addr from,
                                    struct ms_segment *s, bool *ret_found)
{
	enum ms_status st = try_segment(pt, arena, s);
	uint64_t rest = ms_align_up(s->end, pt->page) - s->end;

	*ret_found = false;
	if (st || s->how == MS_SEGMENT_BAD)
		return st;
	/* A fence alone proves nothing. */
	if (rest > MS_ALIGNMENT ||
	    (s->how == MS_SEGMENT_FENCE && !s->tally.n_used && !s->tally.n_free)) {
		ms_blocks_cancel(pt->d->blocks, s->extent);
		return MS_OK;
	}
	add_segment(arena, s);
	*ret_found = true;
	arena->covered_bytes += ms_align_up(s->end, pt->page) - from;
	return own(pt, arena->group, s->begin, s->end) ? MS_OK : MS_E_NOMEM;
}

/* Look for a segment at @at, which is moved to the place to look at next. */
static enum ms_status look_for_scattered(struct ms_ptmalloc *pt, struct ms_pt_arena *arena,
                                         struct ms_window *window, ms_addr *at)
{
	struct ms_segment s = { .begin = ms_pt_chunk_from(pt, *at),
		                .limit = window->limits.end,
		                .top = arena->top,
		                .main = true };
	const uint8_t *bytes = ms_window_at(window, s.begin, pt->shape->header);
	enum ms_status st = MS_OK;
	bool found = false;
	uint64_t head = 0;

	if (bytes)
		head = ms_pt_load(pt, bytes + pt->shape->word);
	if ((head & MS_SIZE_BITS) == MS_PREV_INUSE)
		st = try_scattered(pt, arena, *at, &s, &found);
	*at = ms_align_up(found ? s.end : *at + 1, pt->page);
	return st;
}

/*
 * All segments in @run: one may stand at its begin, the others at the begin of a page. Only
 * where there is memory: a program may keep terabytes of addresses that have none.
 */
static enum ms_status read_scattered_in(struct ms_ptmalloc *pt, struct ms_pt_arena *arena,
                                        struct ms_range run)
{
	struct ms_range rest = run;
	struct ms_range present;
	struct ms_window window;
	enum ms_status st = MS_OK;

	ms_window_init(&window, pt->d->src, run, pt->search_buffer);
	while (!st && rest.begin < rest.end && ms_source_present(pt->d->src, rest, &present)) {
		rest.begin = present.begin;
		while (!st && rest.begin < present.end)
			st = look_for_scattered(pt, arena, &window, &rest.begin);
	}
	return st;
}

/*
 * The main arena after brk has failed once. Its first segment may still be break
 * memory, from sbrk_base on; that is not page-aligned in a static program.
 */
static enum ms_status read_scattered(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                                     struct ms_pt_arena *arena)
{
	const struct ms_regions *regions = pt->d->regions;
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < regions->n && !st; i++) {
		struct ms_range run = regions->at[i].range;
		const struct ms_mapping *m = ms_region_mapping(pt->d->src, &regions->at[i]);
		bool brk = regions->at[i].kind == MS_REGION_BRK;

		if ((regions->at[i].kind != MS_REGION_MEMORY && !brk) || m->file || m->shared)
			continue;
		while (i + 1 < regions->n && regions->at[i + 1].range.begin == run.end &&
		       regions->at[i + 1].kind == regions->at[i].kind &&
		       !ms_region_mapping(pt->d->src, &regions->at[i + 1])->file)
			run.end = regions->at[++i].range.end;
		if (brk && ms_range_has(run, libc->sbrk_base))
			run.begin = libc->sbrk_base;
		st = read_scattered_in(pt, arena, run);
	}
	if (!st && arena->covered_bytes != arena->system_mem)
		ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
		               "its segments hold %llu bytes, its counter says %llu",
		               (unsigned long long)arena->covered_bytes,
		               (unsigned long long)arena->system_mem);
	return st;
}

enum { NONCONTIGUOUS = 2 };

static enum ms_status plan_main(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                                struct ms_pt_arena *arena)
{
	ms_addr initial_top = arena->addr + libc->layout->bins - pt->shape->header;

	if (libc->unused || arena->top == initial_top)
		return MS_OK;
	if (!libc->par_layout) {
		ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
		               "malloc's parameters were not found");
		return MS_OK;
	}
	return arena->flags & NONCONTIGUOUS ? MS_OK : plan_contiguous(pt, libc, arena);
}

static enum ms_status read_main(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                                struct ms_pt_arena *arena)
{
	ms_addr initial_top = arena->addr + libc->layout->bins - pt->shape->header;

	if (libc->unused || arena->top == initial_top || arena->proof.doubt)
		return MS_OK;
	if (arena->flags & NONCONTIGUOUS)
		return read_scattered(pt, libc, arena);
	return read_contiguous(pt, arena);
}

static bool read_heap_info(const struct ms_ptmalloc *pt, ms_addr heap, uint64_t heap_max,
                           ms_addr arena, struct heap_info *ret)
{
	const uint64_t word = pt->shape->word;
	uint8_t bytes[sizeof(*ret)];

	if (ms_pt_read(pt, heap, bytes, INFO_WORDS * word) != INFO_WORDS * word)
		return false;
	*ret = (struct heap_info){ ms_pt_load(pt, bytes), ms_pt_load(pt, bytes + word),
		                   ms_pt_load(pt, bytes + 2 * word),
		                   ms_pt_load(pt, bytes + 3 * word) };
	return ret->ar_ptr == arena && ret->size && ret->size <= ret->mprotect_size &&
	       ret->mprotect_size <= heap_max && ret->size % pt->page == 0;
}

/* Bytes of all that is mapped. */
static uint64_t mapped_bytes(const struct ms_ptmalloc *pt)
{
	const struct ms_region *r;
	uint64_t bytes = 0;

	ms_vec_for_each (r, pt->d->regions)
		bytes += ms_range_len(r->range);
	return bytes;
}

/* Whether the heaps of @arena, all of them, can have this length. */
static bool can_be_heap_max(const struct ms_ptmalloc *pt, const struct ms_pt_arena *arena,
                            uint64_t heap_max)
{
	ms_addr heap = ms_align_down(arena->top, heap_max);
	uint64_t mapped = mapped_bytes(pt);
	uint64_t covered = 0;
	struct heap_info info;

	for (; heap && covered <= mapped; heap = info.prev) {
		if (heap % heap_max || !read_heap_info(pt, heap, heap_max, arena->addr, &info))
			return false;
		covered += info.size;
	}
	return !heap;
}

/*
 * The length and alignment of the heaps of @arena, or 0 when top lies in none. Which of the
 * two it is the newest heap alone does not tell: a short one may lie where a long one could.
 */
static uint64_t heap_max_of(const struct ms_ptmalloc *pt, const struct ms_libc *libc,
                            const struct ms_pt_arena *arena)
{
	uint64_t sizes[] = { pt->shape->heap_max, HUGE_HEAP_PAGES * libc->hp_pagesize };
	struct heap_info info;

	for (size_t i = 0; i < 2; i++)
		if (sizes[i] && can_be_heap_max(pt, arena, sizes[i]))
			return sizes[i];
	for (size_t i = 0; i < 2; i++)
		if (sizes[i] && read_heap_info(pt, ms_align_down(arena->top, sizes[i]), sizes[i],
		                               arena->addr, &info))
			return sizes[i];
	return 0;
}

/* One heap; a first one holds the arena itself. */
static enum ms_status plan_heap(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                                struct ms_pt_arena *arena, struct ms_range heap)
{
	uint64_t info_size = arena->addr & (pt->page - 1);
	struct ms_segment s = { .begin = heap.begin + info_size,
		                .limit = heap.end,
		                .heap = heap.begin,
		                .top = arena->top };

	if (ms_range_has(heap, arena->addr))
		s.begin = ms_pt_chunk_from(pt, arena->addr + libc->layout->size);
	if (!own(pt, arena->group, heap.begin, heap.end))
		return MS_E_NOMEM;
	arena->covered_bytes += ms_range_len(heap);
	return plan(pt, arena, s);
}

/*
 * Claim what can be a heap of @arena, because its list of heaps cannot be
 * believed: the heap it lies in, and those that name it.
 */
static enum ms_status own_heaps(struct ms_ptmalloc *pt, const struct ms_pt_arena *arena)
{
	const uint64_t heap_max = pt->shape->heap_max;
	const struct ms_region *r;

	ms_vec_for_each (r, pt->d->regions) {
		if (r->kind != MS_REGION_MEMORY)
			continue;
		for (ms_addr heap = ms_align_up(r->range.begin, heap_max); heap < r->range.end;
		     heap += heap_max) {
			struct ms_range all = { heap, heap + heap_max };

			if (!ms_range_has(all, arena->addr) && ms_pt_word(pt, heap) != arena->addr)
				continue;
			if (!own(pt, arena->group, heap, ms_range_common(all, r->range).end))
				return MS_E_NOMEM;
		}
	}
	return MS_OK;
}

/* The heaps of @arena, from the newest on. */
static enum ms_status plan_heaps(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                                 struct ms_pt_arena *arena)
{
	uint64_t heap_max = heap_max_of(pt, libc, arena);
	ms_addr heap = heap_max ? ms_align_down(arena->top, heap_max) : 0;
	uint64_t mapped = mapped_bytes(pt);
	struct heap_info info;

	if (!heap)
		ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
		               "its top lies in no heap of its own");
	while (heap && arena->covered_bytes <= arena->system_mem &&
	       arena->covered_bytes <= mapped) {
		enum ms_status st;

		if (heap % heap_max || !read_heap_info(pt, heap, heap_max, arena->addr, &info)) {
			arena->lost_heap = heap;
			arena->heap_is_lost = true;
			break;
		}
		st = plan_heap(pt, libc, arena, (struct ms_range){ heap, heap + info.size });
		if (st)
			return st;
		heap = info.prev;
	}
	return MS_OK;
}

/* The heaps have been walked: compare. */
static enum ms_status read_heaps(struct ms_ptmalloc *pt, struct ms_pt_arena *arena)
{
	for (size_t i = 0; i < arena->n_planned; i++) {
		const struct ms_segment *s = &pt->planned->at[arena->first_planned + i];
		bool has_top = arena->top >= s->heap && arena->top < s->limit;

		add_segment(arena, s);
		/* Behind a fence less than a chunk's alignment may be left. */
		if ((s->how == MS_SEGMENT_TOP) != has_top || s->limit - s->end >= MS_ALIGNMENT)
			ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
			               "the heap at 0x%llx does not end as it should",
			               (unsigned long long)s->heap);
	}
	if (arena->heap_is_lost)
		ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES, "no heap at 0x%llx",
		               (unsigned long long)arena->lost_heap);
	if (arena->covered_bytes != arena->system_mem)
		ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
		               "its heaps hold %llu bytes, its counter says %llu",
		               (unsigned long long)arena->covered_bytes,
		               (unsigned long long)arena->system_mem);
	return arena->proof.doubt ? own_heaps(pt, arena) : MS_OK;
}

static struct ms_pt_arena *push_arena(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                                      ms_addr addr)
{
	struct ms_pt_arena *arena = ms_vec_push(pt->d->arena, &pt->arenas);

	if (!arena)
		return NULL;
	*arena = (struct ms_pt_arena){
		.addr = addr,
		.top = ms_pt_word(pt, addr + libc->layout->top),
		.system_mem = ms_pt_word(pt, addr + libc->layout->system_mem),
		.flags = ms_pt_word(pt, addr + libc->layout->flags) & UINT32_MAX,
		.group = ms_blocks_new_group(pt->d->blocks),
		.first_planned = pt->planned->n,
	};
	return arena;
}

/* Find the arenas of @libc, and what of their memory can be told without walking it. */
static enum ms_status plan_ring(struct ms_ptmalloc *pt, struct ms_libc *libc)
{
	ms_addr addr = libc->main_arena;

	libc->first_arena = pt->arenas.n;
	do {
		struct ms_pt_arena *arena = push_arena(pt, libc, addr);
		enum ms_status st;

		if (!arena)
			return MS_E_NOMEM;
		libc->n_arenas++;
		st = addr == libc->main_arena ? plan_main(pt, libc, arena)
		                              : plan_heaps(pt, libc, arena);
		if (st)
			return st;
		addr = ms_pt_word(pt, addr + libc->layout->next);
	} while (addr && addr != libc->main_arena && libc->n_arenas < MAX_ARENAS);
	return MS_OK;
}

static enum ms_status read_ring(struct ms_ptmalloc *pt, const struct ms_libc *libc)
{
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < libc->n_arenas && !st; i++) {
		struct ms_pt_arena *arena = &pt->arenas.at[libc->first_arena + i];

		st = i ? read_heaps(pt, arena) : read_main(pt, libc, arena);
	}
	return st;
}

static bool is_in_ring(const struct ms_ptmalloc *pt, ms_addr addr)
{
	const struct ms_pt_arena *arena;

	ms_vec_for_each (arena, &pt->arenas)
		if (arena->addr == addr)
			return true;
	return false;
}

/* Whether @heap begins with an arena that leads into a ring, but that no ring leads to. */
static bool is_stray(const struct ms_ptmalloc *pt, const struct ms_libc *libc, ms_addr heap)
{
	ms_addr arena = ms_pt_word(pt, heap);

	return arena - heap >= (uint64_t)INFO_WORDS * pt->shape->word &&
	       arena - heap <= MAX_HEAP_INFO && arena % pt->shape->header == 0 &&
	       !is_in_ring(pt, arena) && is_in_ring(pt, ms_pt_word(pt, arena + libc->layout->next));
}

/* Look through @range for heaps; only their first pages are read. */
static void find_strays_in(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                           struct ms_range range)
{
	uint64_t heap_max =
		libc->hp_pagesize ? HUGE_HEAP_PAGES * libc->hp_pagesize : pt->shape->heap_max;
	ms_addr heap = ms_align_up(range.begin, heap_max);
	struct ms_range present;

	while (heap >= range.begin && heap < range.end &&
	       ms_source_present(pt->d->src, (struct ms_range){ heap, range.end }, &present)) {
		if (present.begin == heap && is_stray(pt, libc, heap))
			ms_proof_doubt(&pt->arenas.at[libc->first_arena].proof, MS_DOUBT_DISAGREES,
			               "the arena in the heap at 0x%llx is in no ring",
			               (unsigned long long)heap);
		heap = ms_align_up(present.begin == heap ? heap + 1 : present.begin, heap_max);
	}
}

/*
 * Every arena ever made stays in its ring. One that leads into it without being led to
 * is one whose blocks would be missed.
 */
static void find_strays(struct ms_ptmalloc *pt, const struct ms_libc *libc)
{
	const struct ms_region *r;

	ms_vec_for_each (r, pt->d->regions) {
		const struct ms_mapping *m = ms_region_mapping(pt->d->src, r);

		if (r->kind == MS_REGION_MEMORY && !m->file && !m->shared)
			find_strays_in(pt, libc, r->range);
	}
}

/* Of one C library: main_arena and malloc_par themselves. */
static bool own_data(struct ms_ptmalloc *pt, const struct ms_libc *libc)
{
	return own(pt, 0, libc->main_arena, libc->main_arena + libc->layout->size) &&
	       (!libc->par_layout || own(pt, 0, libc->par, libc->par + libc->par_layout->size));
}

enum ms_status ms_pt_plan_arenas(struct ms_ptmalloc *pt)
{
	enum ms_status st = MS_OK;
	struct ms_libc *libc;

	pt->planned = ms_arena_alloc(pt->d->arena, sizeof(*pt->planned));
	if (!pt->planned)
		return MS_E_NOMEM;
	ms_vec_for_each (libc, &pt->libcs) {
		if (!st)
			st = plan_ring(pt, libc);
		if (!st && !own_data(pt, libc))
			st = MS_E_NOMEM;
	}
	return st;
}

enum ms_status ms_pt_read_arenas(struct ms_ptmalloc *pt)
{
	enum ms_status st = ms_segments_read(pt, pt->planned->at, pt->planned->n);
	const struct ms_libc *libc;

	ms_vec_for_each (libc, &pt->libcs) {
		if (!st)
			st = read_ring(pt, libc);
		if (!st)
			find_strays(pt, libc);
	}
	if (st)
		return st;
	return ms_ranges_tidy(pt->d->arena, &pt->owned) ? MS_OK : MS_E_NOMEM;
}
