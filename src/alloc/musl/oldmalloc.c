/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/musl/oldmalloc.h"

#include "alloc/decoders.h"

/* The decoder of musl's oldmalloc. */

#define NOTE(old, ...) ms_note_add((old)->d->arena, (old)->d->evidence, __VA_ARGS__)

static enum ms_status fill_claim(struct ms_old *old, struct ms_claim *ret)
{
	uint32_t *module = ms_vec_push(old->d->arena, &ret->modules);
	const struct ms_old_segment *segment;

	if (!module)
		return MS_E_NOMEM;
	*module = old->data->module;
	ret->state = old;
	ms_vec_for_each (segment, &old->segments)
		if (!segment->unsure && !ms_ranges_add(old->d->arena, &ret->memory,
		                                       segment->range.begin, segment->range.end))
			return MS_E_NOMEM;
	return MS_OK;
}

static enum ms_status old_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	const struct ms_abi *abi = &d->src->abi;
	struct ms_old *old;
	enum ms_status st;

	if (abi->word_bytes != 8 || abi->big_endian)
		return MS_OK;
	old = ms_arena_alloc(d->arena, sizeof(*old));
	if (!old)
		return MS_E_NOMEM;
	old->d = d;
	old->buffer = ms_arena_alloc(d->arena, MS_WINDOW_BYTES);
	if (!old->buffer || !ms_peek_init(&old->peek, d->src, d->arena))
		return MS_E_NOMEM;
	st = ms_old_locate(old);
	if (st || !old->data)
		return st;
	old->group = ms_blocks_new_group(d->blocks);
	st = ms_old_find_segments(old);
	return st ? st : fill_claim(old, ret);
}

static enum ms_status old_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	(void)d;
	return ms_old_put_blocks(claim->state);
}

/* ---- settling ---- */

/*
 * A thread that waits for one lock may hold another, in the middle of a change, and so may one
 * that was not seen to be inside: each bin has a lock, and the whole heap. Not all of the code is
 * found while bins change, so that any thread that runs may be in it.
 */
static void doubt_inside(struct ms_old *old, const struct ms_claim *claim)
{
	const struct ms_thread *t;

	ms_vec_for_each (t, &old->d->src->threads)
		if (t->runs || ms_claim_in_malloc(old->d, claim, t) == MS_MALLOC_WORKS)
			ms_proof_doubt(&old->proof, MS_DOUBT_CHANGES, "thread %d is inside malloc",
			               (int)t->tid);
	if (old->locked)
		ms_proof_doubt(&old->proof, MS_DOUBT_CHANGES, "a thread holds a lock of malloc's");
}

/* What may be something else's is left to itself. */
static bool hand_over(struct ms_old *old)
{
	const struct ms_old_segment *s;
	struct ms_decoding *d = old->d;

	ms_vec_for_each (s, &old->segments) {
		if (s->unsure)
			continue;
		if (!ms_ranges_add(d->arena, &d->owned, s->range.begin, s->range.end) ||
		    (old->proof.doubt &&
		     !ms_ranges_add(d->arena, &d->unproved, s->range.begin, s->range.end)))
			return false;
	}
	return ms_ranges_add(d->arena, &d->owned, old->at, old->at + MS_OLD_BYTES) &&
	       ms_ranges_tidy(d->arena, &d->unproved);
}

static void tell_proof(struct ms_old *old)
{
	NOTE(old,
	     "%zu segments walked to their ends, %llu chunks in use; %zu free ones are those of the "
	     "bins",
	     old->segments.n - old->n_mapped - old->n_unsure,
	     (unsigned long long)(old->n_blocks - old->n_mapped), old->free.n);
	NOTE(old, "%llu chunks with mappings of their own, which malloc does not count",
	     (unsigned long long)old->n_mapped);
	if (old->n_unsure)
		NOTE(old, "%llu more places look like such chunks: none of these is reported",
		     (unsigned long long)old->n_unsure);
}

static enum ms_status tell(struct ms_old *old)
{
	struct ms_heap *heap = ms_vec_push(old->d->arena, old->d->heaps);
	size_t before = old->d->evidence->n;

	if (!heap)
		return MS_E_NOMEM;
	*heap = (struct ms_heap){ .allocator = "musl oldmalloc",
		                  .verified = !old->proof.doubt,
		                  .doubt = (uint8_t)old->proof.doubt,
		                  .mapped_bytes = old->bytes };
	NOTE(old, "bins at 0x%llx", (unsigned long long)old->at);
	if (old->proof.doubt)
		NOTE(old, "segments not proved: %s", old->proof.problem);
	else
		tell_proof(old);
	if (!old->proof.doubt) {
		heap->allocations = old->n_blocks;
		heap->allocation_bytes = old->block_bytes;
		heap->free_bytes = old->bytes - old->block_bytes;
	}
	heap->n_evidence = (uint32_t)(old->d->evidence->n - before);
	return MS_OK;
}

static enum ms_status old_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_old *old = claim->state;

	ms_old_check_bins(old);
	doubt_inside(old, claim);
	if (old->proof.doubt)
		ms_blocks_drop_group(d->blocks, old->group);
	return hand_over(old) ? tell(old) : MS_E_NOMEM;
}

const struct ms_decoder ms_oldmalloc_decoder = {
	.name = "musl oldmalloc", .claim = old_claim, .read = old_read, .settle = old_settle
};
