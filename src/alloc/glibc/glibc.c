/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/decoders.h"
#include "alloc/glibc/ptmalloc.h"
#include "alloc/window.h"

/*
 * The decoder of glibc's malloc. What the files of this room find is put together
 * here, compared, and reported as evidence; arenas that could not be proved are handed
 * over as memory instead of blocks.
 */

enum {
	BANNER_PIECE = 1 << 16,
	BANNER_TEXT = 256,
	PART_BYTES = 16 << 20,
};

static void check_arenas(struct ms_ptmalloc *pt)
{
	const struct ms_libc *libc;

	ms_vec_for_each (libc, &pt->libcs)
		for (size_t i = 0; i < libc->n_arenas; i++) {
			struct ms_pt_arena *arena = &pt->arenas.at[libc->first_arena + i];

			if (!arena->proof.doubt)
				ms_pt_check_bins(pt, libc, arena);
			if (!arena->proof.doubt)
				ms_pt_take_fastbins(pt, libc, arena);
		}
}

/* There is no use in looking at lists that are being changed, which takes long. */
static void doubt_inside(struct ms_ptmalloc *pt)
{
	const struct ms_thread *changer = ms_proof_changer(pt->d, pt->claim);
	struct ms_pt_arena *arena;

	ms_vec_for_each (arena, &pt->arenas)
		ms_proof_doubt_changer(&arena->proof, changer);
}

/*
 * What a thread has cached looks used. Where a cache could not be read, nobody can
 * tell which blocks of which arena are in it, so all of them are in doubt.
 */
static void drop_doubtful(struct ms_ptmalloc *pt)
{
	struct ms_pt_arena *arena;

	ms_vec_for_each (arena, &pt->arenas) {
		if (pt->tcaches.n_failed)
			ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES,
			               "a thread's cache contradicts itself");
		if (arena->proof.doubt)
			ms_blocks_drop_group(pt->d->blocks, arena->group);
	}
}

static bool is_proved(const struct ms_ptmalloc *pt, uint32_t group)
{
	const struct ms_pt_arena *arena = ms_pt_arena_of(pt, group);

	return !arena || !arena->proof.doubt;
}

/* Memory of arenas that are proved, or of none. */
static bool proved_memory(const struct ms_ptmalloc *pt, struct ms_ranges *ret)
{
	const struct ms_pt_share *share;

	ms_vec_for_each (share, &pt->shares)
		if (is_proved(pt, share->group) &&
		    !ms_ranges_add(pt->d->arena, ret, share->range.begin, share->range.end))
			return false;
	return ms_ranges_tidy(pt->d->arena, ret);
}

/* What an arena is not proved to have is another's, where that one is. */
static bool hand_over_memory(struct ms_ptmalloc *pt)
{
	const struct ms_pt_share *share;
	struct ms_ranges proved = { 0 };

	if (!proved_memory(pt, &proved))
		return false;
	ms_vec_for_each (share, &pt->shares) {
		struct ms_range rest = share->range;
		struct ms_range gap;

		if (!ms_ranges_add(pt->d->arena, &pt->d->owned, rest.begin, rest.end))
			return false;
		while (!is_proved(pt, share->group) && ms_range_next_gap(&rest, &proved, &gap))
			if (!ms_ranges_add(pt->d->arena, &pt->d->unproved, gap.begin, gap.end))
				return false;
	}
	return ms_ranges_tidy(pt->d->arena, &pt->d->unproved);
}

/* Find `release version X` behind the banner in @bytes; false when it is not there. */
static bool parse_banner(const char *bytes, size_t len, struct ms_heap *heap)
{
	static const char banner[] = "GNU C Library (";
	static const char before[] = "version ";
	const char *at = memmem(bytes, len, banner, sizeof(banner) - 1);
	const char *end;
	size_t left;
	size_t n = 0;

	if (!at)
		return false;
	left = len - (size_t)(at - bytes);
	at = memmem(at, left < BANNER_TEXT ? left : BANNER_TEXT, before, sizeof(before) - 1);
	if (!at)
		return false;
	at += sizeof(before) - 1;
	end = bytes + len;
	while (at + n < end && n + 1 < sizeof(heap->version) &&
	       ((at[n] >= '0' && at[n] <= '9') ||
	        (at[n] == '.' && at + n + 1 < end && at[n + 1] >= '0' && at[n + 1] <= '9')))
		n++;
	memcpy(heap->version, at, n);
	return n > 0;
}

/* Shared libraries carry their version as text; it is for people, nothing depends on it. */
static void read_version(const struct ms_ptmalloc *pt, const struct ms_libc *libc,
                         struct ms_heap *heap)
{
	const struct ms_regions *regions = pt->d->regions;
	const struct ms_region *region;
	char piece[BANNER_PIECE];

	ms_vec_for_each (region, regions) {
		uint8_t prot = ms_region_mapping(pt->d->src, region)->prot;

		if (region->kind != MS_REGION_GLOBALS || region->module != libc->data->module ||
		    prot != MS_PROT_READ)
			continue;
		/* Pieces overlap, so that the text is whole in one of them. */
		for (ms_addr at = region->range.begin; at < region->range.end;
		     at += BANNER_PIECE - BANNER_TEXT) {
			uint64_t left = region->range.end - at;
			size_t n = ms_source_read(pt->d->src, at, piece,
			                          left < BANNER_PIECE ? (size_t)left
			                                              : (size_t)BANNER_PIECE);

			if (!n || parse_banner(piece, n, heap))
				break;
		}
		if (heap->version[0])
			return;
	}
}

#define NOTE(pt, ...) ms_note_add((pt)->d->arena, (pt)->d->evidence, __VA_ARGS__)

static void tell_arena(struct ms_ptmalloc *pt, const struct ms_pt_arena *a, bool main)
{
	const char *what = main ? "main arena" : "arena";

	if (!a->proof.doubt)
		NOTE(pt,
		     "%s 0x%llx: %u segments of %llu bytes walked to their ends, %llu chunks in use, "
		     "%llu free ones are those of its bins",
		     what, (unsigned long long)a->addr, a->segments,
		     (unsigned long long)a->covered_bytes, (unsigned long long)a->tally.n_used,
		     (unsigned long long)a->tally.n_free);
	else
		NOTE(pt, "%s 0x%llx not proved: %s", what, (unsigned long long)a->addr,
		     a->proof.problem);
}

static void tell_rest(struct ms_ptmalloc *pt)
{
	const struct ms_tcaches *t = &pt->tcaches;

	if (pt->mmapped.proved)
		NOTE(pt, "%llu mmapped chunks of %llu bytes, as counted by malloc",
		     (unsigned long long)pt->mmapped.n, (unsigned long long)pt->mmapped.total);
	else
		NOTE(pt, "mmapped chunks not proved: %s", pt->mmapped.problem);
	if (pt->mmapped.proved && pt->mmapped.n_unknown)
		NOTE(pt,
		     "%llu more mmapped chunks are among %llu places that look alike: none of "
		     "these is reported",
		     (unsigned long long)pt->mmapped.n_missing,
		     (unsigned long long)pt->mmapped.n_unknown);
	if (t->versions)
		NOTE(pt,
		     "thread caches of glibc %s: %u decoded, %u contradicting, %u left by fork; %llu "
		     "blocks cached",
		     t->versions, t->n, t->n_failed, t->n_orphans,
		     (unsigned long long)t->n_entries);
	else if (t->n_orphans)
		NOTE(pt, "%u thread caches left by threads that are gone; %llu blocks cached",
		     t->n_orphans, (unsigned long long)t->n_entries);
	if (pt->fast_entries)
		NOTE(pt, "%llu chunks in fastbins", (unsigned long long)pt->fast_entries);
}

static void doubt(struct ms_heap *heap, enum ms_doubt why)
{
	if (heap->doubt < why)
		heap->doubt = (uint8_t)why;
}

static void add_used(struct ms_heap *heap, uint64_t n, uint64_t bytes,
                     const struct ms_pt_spared *spared)
{
	heap->allocations += n - spared->n;
	heap->allocation_bytes += bytes - spared->bytes;
	heap->free_bytes += spared->bytes;
}

/* Sums over one library's arenas. */
static void sum_arenas(const struct ms_ptmalloc *pt, const struct ms_libc *libc,
                       struct ms_heap *heap)
{
	for (size_t i = 0; i < libc->n_arenas; i++) {
		const struct ms_pt_arena *a = &pt->arenas.at[libc->first_arena + i];

		doubt(heap, a->proof.doubt);
		heap->mapped_bytes += a->system_mem;
		if (a->proof.doubt)
			continue;
		add_used(heap, a->tally.n_used, a->tally.used_bytes, &a->spared);
		heap->free_bytes += a->tally.free_bytes;
	}
}

static enum ms_status tell_libc(struct ms_ptmalloc *pt, const struct ms_libc *libc, bool first)
{
	size_t before = pt->d->evidence->n;
	struct ms_heap heap = { .allocator = "glibc" };
	struct ms_heap *slot = ms_vec_push(pt->d->arena, pt->d->heaps);

	if (!slot)
		return MS_E_NOMEM;
	read_version(pt, libc, &heap);
	sum_arenas(pt, libc, &heap);
	NOTE(pt, "main_arena at 0x%llx laid out as in glibc %s, malloc_par as in %s",
	     (unsigned long long)libc->main_arena, libc->layout->versions,
	     libc->par_layout ? libc->par_layout->versions : "none (not found)");
	if (libc->unused)
		NOTE(pt, "malloc was never called");
	for (size_t i = 0; i < libc->n_arenas; i++)
		tell_arena(pt, &pt->arenas.at[libc->first_arena + i], i == 0);
	if (first) {
		if (!pt->mmapped.proved || pt->tcaches.n_failed)
			doubt(&heap, MS_DOUBT_DISAGREES);
		add_used(&heap, pt->mmapped.n, pt->mmapped.bytes, &pt->mmapped.spared);
		heap.mapped_bytes += pt->mmapped.total;
		tell_rest(pt);
	}
	heap.verified = heap.doubt == MS_DOUBT_NONE;
	heap.n_evidence = (uint32_t)(pt->d->evidence->n - before);
	*slot = heap;
	return MS_OK;
}

static enum ms_status tell(struct ms_ptmalloc *pt)
{
	bool first = true;

	/* Mmapped chunks belong to all libraries: they are reported with the first in use. */
	for (size_t i = 0; i < pt->libcs.n; i++) {
		const struct ms_libc *libc = &pt->libcs.at[i];
		bool last = i + 1 == pt->libcs.n;
		enum ms_status st = tell_libc(pt, libc, first && (!libc->unused || last));

		if (st)
			return st;
		first &= libc->unused;
	}
	return MS_OK;
}

/* ---- the three steps ---- */

/* What the files of this room work with. */
static bool prepare(struct ms_ptmalloc *pt)
{
	struct ms_arena *arena = pt->d->arena;

	for (unsigned i = 0; i < ms_workers_count(pt->d->workers); i++) {
		pt->buffers[i] = ms_arena_alloc(arena, MS_WINDOW_BYTES);
		if (!pt->buffers[i])
			return false;
	}
	pt->trial_buffer = ms_arena_alloc(arena, MS_WINDOW_BYTES);
	pt->search_buffer = ms_arena_alloc(arena, MS_WINDOW_BYTES);
	pt->peek = ms_arena_alloc(arena, sizeof(*pt->peek));
	/* Where the kernel has put things in our own process. */
	pt->key = ms_pt_mum((uintptr_t)pt ^ 0x9e3779b97f4a7c15,
	                    (uintptr_t)pt->trial_buffer ^ 0xd1342543de82ef95);
	return pt->trial_buffer && pt->search_buffer && pt->peek &&
	       ms_peek_init(pt->peek, pt->d->src, arena);
}

static enum ms_status locate(struct ms_ptmalloc *pt)
{
	enum ms_status st = ms_pt_locate(pt);
	const struct ms_libc *libc;

	/* malloc's debug library has parameters of its own, and no cache. */
	ms_vec_for_each (libc, &pt->libcs)
		if (libc->par_layout && (!libc->unused || !pt->tcache_count))
			pt->tcache_count = libc->tcache_count;
	return st;
}

static enum ms_status fill_claim(struct ms_ptmalloc *pt, struct ms_claim *ret)
{
	struct ms_arena *arena = pt->d->arena;
	const struct ms_pt_share *share;
	const struct ms_libc *libc;

	ret->state = pt;
	ret->unused = true;
	ms_vec_for_each (libc, &pt->libcs) {
		uint32_t *module = ms_vec_push(arena, &ret->modules);

		if (!module)
			return MS_E_NOMEM;
		*module = libc->data->module;
		ret->unused &= libc->unused;
	}
	ms_vec_for_each (share, &pt->shares)
		if (!ms_ranges_add(arena, &ret->memory, share->range.begin, share->range.end))
			return MS_E_NOMEM;
	return MS_OK;
}

enum ms_status ms_pt_claim(struct ms_decoding *d, uint64_t part_bytes, struct ms_claim *ret)
{
	const struct ms_abi *abi = &d->src->abi;
	const struct ms_pt_shape *shape = ms_pt_shape_of(abi->word_bytes);
	struct ms_ptmalloc *pt;
	enum ms_status st;

	if (!shape || abi->big_endian)
		return MS_OK;
	pt = ms_arena_alloc(d->arena, sizeof(*pt));
	if (!pt)
		return MS_E_NOMEM;
	*pt = (struct ms_ptmalloc){
		.d = d, .shape = shape, .page = abi->page_bytes, .part_bytes = part_bytes
	};
	st = prepare(pt) ? locate(pt) : MS_E_NOMEM;
	if (st || !pt->libcs.n)
		return st;
	st = ms_pt_plan_arenas(pt);
	return st ? st : fill_claim(pt, ret);
}

static enum ms_status glibc_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	return ms_pt_claim(d, PART_BYTES, ret);
}

static enum ms_status glibc_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_ptmalloc *pt = claim->state;
	enum ms_status st;

	if (!ms_ranges_add_all(d->arena, &pt->owned, &claim->others))
		return MS_E_NOMEM;
	st = ms_pt_read_arenas(pt);
	return st ? st : ms_pt_read_mmapped(pt);
}

static enum ms_status glibc_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_ptmalloc *pt = claim->state;
	enum ms_status st;

	(void)d;
	pt->claim = claim;
	doubt_inside(pt);
	check_arenas(pt);
	st = ms_pt_take_tcaches(pt);
	drop_doubtful(pt);
	if (!st && !hand_over_memory(pt))
		st = MS_E_NOMEM;
	if (!st)
		st = tell(pt);
	return st;
}

const struct ms_decoder ms_glibc_decoder = { .name = "glibc",
	                                     .reads = "glibc",
	                                     .claim = glibc_claim,
	                                     .read = glibc_read,
	                                     .settle = glibc_settle };
