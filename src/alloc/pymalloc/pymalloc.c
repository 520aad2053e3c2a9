/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/pymalloc/pymalloc.h"

#include "alloc/decoders.h"
#include "alloc/window.h"

/*
 * The decoder of CPython's allocator of small objects. Which of a heap's pools are proved
 * is known as soon as they are read; what is left here is to say so.
 */

enum { WORD = 8 };

static bool prepare(struct ms_pymalloc *py)
{
	py->buffer = ms_arena_alloc(py->d->arena, MS_WINDOW_BYTES);
	py->peek = ms_arena_alloc(py->d->arena, sizeof(*py->peek));
	return py->buffer && py->peek && ms_peek_init(py->peek, py->d->src, py->d->arena);
}

/* It answers nobody's malloc: no module is its own, and that it is used says nothing. */
static enum ms_status fill_claim(struct ms_pymalloc *py, struct ms_claim *ret)
{
	const struct ms_py_arena *arena;

	ret->state = py;
	ret->unused = true;
	ms_vec_for_each (arena, &py->arenas)
		if (!arena->refused && !ms_ranges_add(py->d->arena, &ret->memory,
		                                      arena->range.begin, arena->range.end))
			return MS_E_NOMEM;
	return MS_OK;
}

static enum ms_status pymalloc_claim(struct ms_decoding *d, struct ms_claim *ret)
{
	struct ms_pymalloc *py;
	enum ms_status st;

	if (d->src->abi.word_bytes != WORD || d->src->abi.big_endian)
		return MS_OK;
	py = ms_arena_alloc(d->arena, sizeof(*py));
	if (!py)
		return MS_E_NOMEM;
	py->d = d;
	st = prepare(py) ? ms_py_locate(py) : MS_E_NOMEM;
	return st || !py->heaps.n ? st : fill_claim(py, ret);
}

static bool overlaps(const struct ms_ranges *ranges, struct ms_range range)
{
	size_t i = ms_range_search(ranges->at, ranges->n, sizeof(*ranges->at), range.begin);

	return i < ranges->n && ranges->at[i].begin < range.end;
}

static enum ms_status pymalloc_read(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_pymalloc *py = claim->state;
	struct ms_py_arena *arena;
	enum ms_status st = MS_OK;

	(void)d;
	ms_vec_for_each (arena, &py->arenas) {
		arena->refused |= overlaps(&claim->others, arena->range);
		if (arena->refused)
			ms_proof_doubt(&py->heaps.at[arena->heap].proof, MS_DOUBT_DISAGREES,
			               "arena %u overlaps what is another's", arena->index);
		else
			st = ms_py_read_arena(py, arena);
		if (st)
			return st;
	}
	return MS_OK;
}

#define NOTE(py, ...) ms_note_add((py)->d->arena, (py)->d->evidence, __VA_ARGS__)

static enum ms_status tell(struct ms_pymalloc *py, const struct ms_py_heap *heap)
{
	size_t before = py->d->evidence->n;
	struct ms_heap *slot = ms_vec_push(py->d->arena, py->d->heaps);

	if (!slot)
		return MS_E_NOMEM;
	NOTE(py, "table of pools at 0x%llx, pools and arenas as long as in CPython %s",
	     (unsigned long long)heap->used, heap->layout->versions);
	NOTE(py,
	     "%llu pools in %llu arenas: %llu blocks in use, as each pool counts its own, and "
	     "%llu free ones in its list",
	     (unsigned long long)heap->n_pools, (unsigned long long)heap->n_arenas,
	     (unsigned long long)heap->n_used, (unsigned long long)heap->n_free);
	if (heap->proof.doubt)
		NOTE(py, "%llu pools not proved: %s", (unsigned long long)heap->n_unproved,
		     heap->proof.problem);
	*slot = (struct ms_heap){
		.allocator = "pymalloc",
		.beside = true,
		.verified = !heap->proof.doubt,
		.doubt = (uint8_t)heap->proof.doubt,
		.allocations = heap->n_used,
		.allocation_bytes = heap->used_bytes,
		.free_bytes = heap->free_bytes,
		.mapped_bytes = heap->n_arenas * heap->layout->arena_bytes,
		.n_evidence = (uint32_t)(py->d->evidence->n - before),
	};
	return MS_OK;
}

static enum ms_status pymalloc_settle(struct ms_decoding *d, const struct ms_claim *claim)
{
	struct ms_pymalloc *py = claim->state;
	const struct ms_py_arena *arena;
	const struct ms_py_heap *heap;
	enum ms_status st = MS_OK;

	ms_vec_for_each (arena, &py->arenas)
		if (!arena->refused &&
		    !ms_ranges_add(d->arena, &d->owned, arena->range.begin, arena->range.end))
			return MS_E_NOMEM;
	if (!ms_ranges_tidy(d->arena, &d->unproved))
		return MS_E_NOMEM;
	ms_vec_for_each (heap, &py->heaps)
		if (!st)
			st = tell(py, heap);
	return st;
}

const struct ms_decoder ms_pymalloc_decoder = { .name = "pymalloc",
	                                        .claim = pymalloc_claim,
	                                        .read = pymalloc_read,
	                                        .settle = pymalloc_settle };
