/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/musl/mallocng.h"

#include "alloc/decoders.h"
#include "alloc/window.h"

/*
 * The decoder of musl's mallocng. A context is proved as a whole or not at all: its groups
 * lie in each other.
 */

#define NOTE(ng, ...) ms_note_add((ng)->d->arena, (ng)->d->evidence, __VA_ARGS__)

/* ---- the three steps ---- */

static enum ms_status fill_claim(struct ms_ng *ng, const struct ms_ng_context *c,
                                 struct ms_claim *ret)
{
	struct ms_arena *arena = ng->d->arena;
	uint32_t *module = ms_vec_push(arena, &ret->modules);
	const struct ms_ng_outer *outer;
	const struct ms_ng_area *area;

	if (!module)
		return MS_E_NOMEM;
	*module = c->data->module;
	ms_vec_for_each (outer, &c->outer)
		if (!ms_ranges_add(arena, &ret->memory, outer->range.begin, outer->range.end))
			return MS_E_NOMEM;
	ms_vec_for_each (area, &c->areas)
		if (!ms_ranges_add(arena, &ret->memory, area->at, area->at + MS_NG_AREA_BYTES))
			return MS_E_NOMEM;
	return MS_OK;
}

static enum ms_status ng_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	const struct ms_abi *abi = &d->src->abi;
	struct ms_ng_context *c;
	enum ms_status st;
	struct ms_ng *ng;

	if (abi->word_bytes != 8 || abi->big_endian)
		return MS_OK;
	ng = ms_arena_alloc(d->arena, sizeof(*ng));
	if (!ng)
		return MS_E_NOMEM;
	ng->d = d;
	ng->buffer = ms_arena_alloc(d->arena, MS_WINDOW_BYTES);
	if (!ng->buffer || !ms_peek_init(&ng->peek, d->src, d->arena))
		return MS_E_NOMEM;
	st = ms_ng_locate(ng);
	ms_vec_for_each (c, &ng->contexts) {
		if (!st)
			st = ms_ng_plan(ng, c);
		if (!st)
			st = fill_claim(ng, c, ret);
	}
	if (ng->contexts.n)
		ret->state = ng;
	return st;
}

static enum ms_status ng_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_ng *ng = claim->state;
	enum ms_status st = MS_OK;
	struct ms_ng_context *c;

	(void)d;
	ms_vec_for_each (c, &ng->contexts) {
		ms_ng_check_lists(c);
		if (!st && !c->proof.doubt)
			st = ms_ng_put_blocks(ng, c);
	}
	return st;
}

/* ---- settling ---- */

/* How many threads are inside. */
static uint32_t doubt_inside(struct ms_ng *ng, const struct ms_claim *claim)
{
	const struct ms_thread *changer = ms_proof_changer(ng->d, claim);
	const struct ms_thread *t;
	struct ms_ng_context *c;
	uint32_t n = 0;

	ms_vec_for_each (t, &ng->d->src->threads)
		n += ms_claim_in_malloc(ng->d, claim, t) != MS_MALLOC_OUT;
	ms_vec_for_each (c, &ng->contexts)
		ms_proof_doubt_changer(&c->proof, changer);
	return n;
}

/*
 * What a slot holds that is neither taken nor given back is not known. A thread that waits to
 * give it back explains it: that block is no leak, and holds none.
 */
static bool hand_over_passing(struct ms_ng *ng, const struct ms_ng_context *c, uint32_t n_inside)
{
	return c->passing.n <= n_inside ||
	       ms_ranges_add_all(ng->d->arena, &ng->d->unproved, &c->passing);
}

static bool hand_over_memory(struct ms_ng *ng, const struct ms_ng_context *c)
{
	const struct ms_ng_outer *outer;
	struct ms_ranges memory = { 0 };

	ms_vec_for_each (outer, &c->outer)
		if (!ms_ranges_add(ng->d->arena, &memory, outer->range.begin, outer->range.end))
			return false;
	return ms_ranges_add_all(ng->d->arena, &ng->d->owned, &memory) &&
	       (!c->proof.doubt || ms_ranges_add_all(ng->d->arena, &ng->d->unproved, &memory));
}

static bool hand_over_metadata(struct ms_ng *ng, const struct ms_ng_context *c)
{
	struct ms_arena *arena = ng->d->arena;
	const struct ms_ng_area *area;

	ms_vec_for_each (area, &c->areas)
		if (!ms_ranges_add(arena, &ng->d->owned, area->at, area->at + MS_NG_AREA_BYTES))
			return false;
	return ms_ranges_add(arena, &ng->d->owned, c->at, c->at + MS_NG_CONTEXT_BYTES);
}

static void tell_proof(struct ms_ng *ng, const struct ms_ng_context *c)
{
	NOTE(ng,
	     "%zu pages of metadata linked to the last: %u descriptors in use, %u free ones are those "
	     "of the list",
	     c->areas.n, c->n_groups, c->n_free);
	NOTE(ng,
	     "the slots of all %d classes are as many as malloc counts, and every group with a free "
	     "slot is in its list",
	     (int)MS_NG_CLASSES);
	NOTE(ng,
	     "%u groups, %u of them in slots of others, lead back to their descriptors; %llu slots in "
	     "use have headers that name their place",
	     c->n_groups, c->n_nested, (unsigned long long)c->n_blocks);
	if (c->passing.n)
		NOTE(ng, "%zu slots are just being taken or given back", c->passing.n);
}

static enum ms_status tell(struct ms_ng *ng, const struct ms_ng_context *c)
{
	struct ms_heap *heap = ms_vec_push(ng->d->arena, ng->d->heaps);
	size_t before = ng->d->evidence->n;

	if (!heap)
		return MS_E_NOMEM;
	*heap = (struct ms_heap){ .allocator = "musl mallocng",
		                  .verified = !c->proof.doubt,
		                  .doubt = (uint8_t)c->proof.doubt };
	NOTE(ng, "__malloc_context at 0x%llx", (unsigned long long)c->at);
	if (c->proof.doubt)
		NOTE(ng, "groups not proved: %s", c->proof.problem);
	else
		tell_proof(ng, c);
	heap->mapped_bytes = c->group_bytes;
	if (!c->proof.doubt) {
		heap->allocations = c->n_blocks;
		heap->allocation_bytes = c->block_bytes;
		heap->free_bytes = c->group_bytes - c->block_bytes;
	}
	heap->n_evidence = (uint32_t)(ng->d->evidence->n - before);
	return MS_OK;
}

static enum ms_status ng_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_ng *ng = claim->state;
	uint32_t n_inside = doubt_inside(ng, claim);
	struct ms_ng_context *c;

	ms_vec_for_each (c, &ng->contexts) {
		if (c->proof.doubt)
			ms_blocks_drop_group(d->blocks, c->group);
		if (!hand_over_memory(ng, c) || !hand_over_metadata(ng, c) ||
		    (!c->proof.doubt && !hand_over_passing(ng, c, n_inside)) || tell(ng, c))
			return MS_E_NOMEM;
	}
	return ms_ranges_tidy(d->arena, &d->unproved) ? MS_OK : MS_E_NOMEM;
}

const struct ms_decoder ms_mallocng_decoder = { .name = "musl mallocng",
	                                        .reads = "musl",
	                                        .claim = ng_claim,
	                                        .read = ng_read,
	                                        .settle = ng_settle };
