/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "alloc/decoders.h"
#include "alloc/jemalloc/jemalloc.h"

/*
 * The decoder of jemalloc. What the files of this room find is put together here,
 * compared, and reported as evidence. The memory of arenas that could not be proved is handed
 * over instead of blocks.
 */

/* What a thread that waits for a lock has in hand is not counted yet. */
static void excuse(struct ms_proof *proof)
{
	if (proof->doubt == MS_DOUBT_DISAGREES)
		proof->doubt = MS_DOUBT_CHANGES;
}

static bool is_proved(const struct ms_je_copy *copy, const struct ms_je_arena *arena)
{
	return arena && !copy->proof.doubt && !arena->proof.doubt;
}

static bool hand_over_memory(struct ms_jemalloc *je, struct ms_je_copy *copy)
{
	struct ms_decoding *d = je->d;
	const struct ms_je_extent *e;
	const struct ms_je_arena *arena;

	ms_vec_for_each (arena, &copy->arenas)
		if (!is_proved(copy, arena))
			ms_blocks_drop_group(d->blocks, arena->group);
	ms_vec_for_each (e, &copy->extents) {
		if (!ms_ranges_add(d->arena, &d->owned, e->range.begin, e->range.end))
			return false;
		if (!is_proved(copy, ms_je_arena_of(copy, e)) &&
		    !ms_ranges_add(d->arena, &d->unproved, e->range.begin, e->range.end))
			return false;
	}
	return ms_ranges_add_all(d->arena, &d->owned, &copy->metadata) &&
	       ms_ranges_tidy(d->arena, &d->unproved);
}

#define NOTE(je, ...) ms_note_add((je)->d->arena, (je)->d->evidence, __VA_ARGS__)

static void tell_arena(struct ms_jemalloc *je, const struct ms_je_copy *copy,
                       const struct ms_je_arena *a)
{
	const struct ms_je_tally *t = &a->tally;

	if (a->proof.doubt)
		NOTE(je, "arena %u not proved: %s", a->ind, a->proof.problem);
	else if (t->pages)
		NOTE(je,
		     "arena %u: %llu blocks in %llu pages, as its %s and counters have them; "
		     "%llu of them are in threads' caches, %llu its own",
		     a->ind, (unsigned long long)t->n_used, (unsigned long long)t->pages,
		     copy->counts ? "bins" : "slabs", (unsigned long long)t->n_cached,
		     (unsigned long long)t->n_internal);
}

static enum ms_status tell_copy(struct ms_jemalloc *je, const struct ms_je_copy *copy)
{
	size_t before = je->d->evidence->n;
	struct ms_heap heap = { .allocator = "jemalloc", .doubt = (uint8_t)copy->proof.doubt };
	struct ms_heap *slot = ms_vec_push(je->d->arena, je->d->heaps);
	const struct ms_je_arena *a;

	if (!slot)
		return MS_E_NOMEM;
	NOTE(je, "the tree of extents at 0x%llx has %u leaves, %llu extents agree with it",
	     (unsigned long long)copy->root, copy->n_leaves, (unsigned long long)copy->extents.n);
	if (copy->layout) {
		(void)snprintf(heap.version, sizeof(heap.version), "%s", copy->layout->version);
		NOTE(je, "%llu arenas laid out as in %s, %u thread caches read to their ends",
		     (unsigned long long)copy->arenas.n, copy->layout->version, copy->n_caches);
	}
	if (copy->layout && !copy->broken && !copy->counts)
		NOTE(je,
		     "its bins do not count, as in builds with --disable-stats: blocks are those "
		     "of which the bitmap of each slab says so");
	if (copy->held_bytes)
		NOTE(je,
		     "a thread that waits for a lock may have blocks in hand: what %llu bytes of "
		     "its cache and of extents lead to is reachable",
		     (unsigned long long)copy->held_bytes);
	if (copy->proof.doubt)
		NOTE(je, "not proved: %s", copy->proof.problem);
	ms_vec_for_each (a, &copy->arenas) {
		const struct ms_je_tally *t = &a->tally;

		tell_arena(je, copy, a);
		if (heap.doubt < a->proof.doubt)
			heap.doubt = (uint8_t)a->proof.doubt;
		heap.mapped_bytes += t->pages * MS_JE_PAGE;
		if (!is_proved(copy, a))
			continue;
		heap.allocations += t->n_used - t->n_cached - t->n_internal;
		heap.allocation_bytes += t->used_bytes - t->cached_bytes - t->internal_bytes;
		heap.free_bytes += t->free_bytes + t->cached_bytes;
	}
	heap.verified = heap.doubt == MS_DOUBT_NONE;
	if (heap.verified)
		ms_misplaced_warn(&copy->misplaced, "jemalloc", je->d);
	heap.n_evidence = (uint32_t)(je->d->evidence->n - before);
	*slot = heap;
	return MS_OK;
}

/* ---- the three steps ---- */

static struct ms_jemalloc *prepare(struct ms_decoding *d)
{
	struct ms_jemalloc *je = ms_arena_alloc(d->arena, sizeof(*je));

	if (!je)
		return NULL;
	*je = (struct ms_jemalloc){ .d = d };
	je->words = ms_arena_alloc(d->arena, MS_JE_PIECE_BYTES);
	je->table = ms_arena_alloc(d->arena, MS_JE_ARENAS * sizeof(*je->table));
	je->peek = ms_arena_alloc(d->arena, sizeof(*je->peek));
	if (!je->words || !je->table || !je->peek)
		return NULL;
	return ms_peek_init(je->peek, d->src, d->arena) ? je : NULL;
}

/*
 * What instructions refer to: the tree, which is the last of its structure behind a pointer and
 * a lock, by its first slot, and the arenas by the first ones.
 */
static void add_anchors(const struct ms_je_copy *copy, struct ms_claim *ret)
{
	enum { BEFORE_ROOT = 0x78, ARENAS_BYTES = 4 * MS_JE_WORD };
	const struct ms_range tree = { copy->root - BEFORE_ROOT, copy->root + MS_JE_WORD };
	const struct ms_range arenas = { copy->table, copy->table + ARENAS_BYTES };

	(void)ms_anchors_add(&ret->anchors, tree);
	if (copy->table)
		(void)ms_anchors_add(&ret->anchors, arenas);
}

static enum ms_status fill_claim(struct ms_jemalloc *je, const struct ms_je_copy *copy,
                                 struct ms_claim *ret)
{
	uint32_t *module = ms_vec_push(je->d->arena, &ret->modules);
	const struct ms_je_extent *e;

	if (!module)
		return MS_E_NOMEM;
	*module = copy->region->module;
	add_anchors(copy, ret);
	ms_vec_for_each (e, &copy->extents)
		if (!ms_ranges_add(je->d->arena, &ret->memory, e->range.begin, e->range.end))
			return MS_E_NOMEM;
	return ms_ranges_add_all(je->d->arena, &ret->memory, &copy->metadata) ? MS_OK : MS_E_NOMEM;
}

static enum ms_status jemalloc_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	struct ms_jemalloc *je;
	struct ms_je_copy *copy;
	enum ms_status st;

	if (d->src->abi.word_bytes != MS_JE_WORD || d->src->abi.big_endian ||
	    d->src->abi.page_bytes != MS_JE_PAGE)
		return MS_OK;
	je = prepare(d);
	if (!je)
		return MS_E_NOMEM;
	st = ms_je_locate(je);
	ms_vec_for_each (copy, &je->copies) {
		if (!st)
			st = ms_je_read_extents(je, copy);
		if (!st)
			st = ms_je_read_arenas(je, copy);
		if (!st)
			st = fill_claim(je, copy, ret);
	}
	if (je->copies.n)
		ret->state = je;
	return st;
}

static enum ms_status jemalloc_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_jemalloc *je = claim->state;
	struct ms_je_copy *copy;
	enum ms_status st = MS_OK;

	(void)d;
	ms_vec_for_each (copy, &je->copies)
		if (!st)
			st = ms_je_put_blocks(je, copy);
	return st;
}

static enum ms_status settle_copy(struct ms_jemalloc *je, const struct ms_claim *claim,
                                  struct ms_je_copy *copy)
{
	struct ms_je_arena *arena;
	enum ms_status st = MS_OK;

	ms_proof_doubt_changer(&copy->proof, ms_proof_changer(je->d, claim));
	if (copy->layout && !copy->broken) {
		st = ms_je_look_in_hands(je, claim, copy);
		if (!st)
			st = ms_je_take_caches(je, copy);
		ms_je_check_arenas(je, copy);
	}
	if (copy->waiting_words.n) {
		excuse(&copy->proof);
		ms_vec_for_each (arena, &copy->arenas)
			excuse(&arena->proof);
	}
	if (!st && !hand_over_memory(je, copy))
		st = MS_E_NOMEM;
	return st ? st : tell_copy(je, copy);
}

static enum ms_status jemalloc_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_jemalloc *je = claim->state;
	struct ms_je_copy *copy;

	(void)d;
	ms_vec_for_each (copy, &je->copies) {
		enum ms_status st = settle_copy(je, claim, copy);

		if (st)
			return st;
	}
	return MS_OK;
}

const struct ms_decoder ms_jemalloc_decoder = { .name = "jemalloc",
	                                        .reads = "jemalloc",
	                                        .claim = jemalloc_claim,
	                                        .read = jemalloc_read,
	                                        .settle = jemalloc_settle };
