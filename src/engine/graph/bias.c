/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/bias.h"

#include "engine/graph/pointers.h"

enum {
	PLACES = 17,           /* words behind the begin, from 0 on */
	FEWEST = 64,           /* blocks without a pointer to the begin that make a rule */
	NEARLY_ALL = 9,        /* tenths */
	FEW = 16,              /* a place of fewer than one in FEW such blocks is ignored */
	MOST_CELLS = 1 << 16,  /* the rule is looked for in the blocks of these cells */
	PIECE_BYTES = 1 << 18, /* of the heap */
	MOST_PIECES = 256,     /* the rule is looked for in the words of these pieces */
};

/* The blocks of one cell that are pointed to. */
struct pointed {
	uint64_t at[PLACES]; /* by the distance from the begin in words */
	uint64_t elsewhere;
};

struct search {
	struct ms_blocks *blocks;
	struct ms_pointers *pointers;
	struct pointed *pointed; /* of every every_cell-th cell */
	size_t every_cell;
	uint32_t usual; /* a bit for each place of the rule */
	struct ms_marks *wide;
};

/* The place that @pointer leads to, PLACES for any other. */
static uint64_t place_of(const struct search *s, const struct ms_pointer *pointer)
{
	const struct ms_extent *extent = &s->blocks->extents.at[pointer->to.extent];
	const uint64_t offset = pointer->value - ms_block_begin(extent, pointer->to.granule);
	const uint8_t word = s->blocks->src->abi.word_bytes;

	return offset % word == 0 && offset / word < PLACES ? offset / word : PLACES;
}

/* The cell of the block that @pointer leads to. */
static size_t cell_of(const struct search *s, const struct ms_pointer *pointer)
{
	const struct ms_extent *extent = &s->blocks->extents.at[pointer->to.extent];

	return extent->cell0 + pointer->to.granule / MS_CELL_GRANULES;
}

static bool is_heap(const struct search *s, const struct ms_pointer *pointer)
{
	return s->blocks->extents.at[pointer->to.extent].kind == MS_EXTENT_HEAP;
}

static void note_place(void *ctx, const struct ms_pointer *pointer)
{
	struct search *s = ctx;
	const size_t cell = cell_of(s, pointer);
	struct pointed *pointed = &s->pointed[cell / s->every_cell];
	uint64_t place;

	if (cell % s->every_cell || !is_heap(s, pointer))
		return;
	place = place_of(s, pointer);
	*(place < PLACES ? &pointed->at[place] : &pointed->elsewhere) |=
		ms_granule_bit(pointer->to.granule);
}

static void note_wide(void *ctx, const struct ms_pointer *pointer)
{
	struct search *s = ctx;

	if (is_heap(s, pointer) && s->usual >> place_of(s, pointer) & 1)
		s->wide->at[cell_of(s, pointer)] |= ms_granule_bit(pointer->to.granule);
}

/* Give @found the pointers in every @every_piece-th piece of the heap. */
static void visit_pointers(struct search *s, size_t every_piece, ms_pointer_fn *found)
{
	const struct ms_extent *e;
	size_t piece = 0;

	s->pointers->found = found;
	ms_vec_for_each (e, &s->blocks->extents) {
		struct ms_range range = e->range;

		for (; e->kind == MS_EXTENT_HEAP && range.begin < e->range.end; piece++) {
			range.end = e->range.end - range.begin < PIECE_BYTES
			                    ? e->range.end
			                    : range.begin + PIECE_BYTES;
			if (piece % every_piece == 0)
				ms_pointers_range(s->pointers, 0, range);
			range.begin = range.end;
		}
	}
	ms_pointers_finish(s->pointers);
}

static bool prepare(struct search *s)
{
	const struct ms_walk_options words = { .unaligned = false };
	struct ms_arena *arena = s->blocks->arena;
	const size_t cells = s->blocks->cells.n;

	s->every_cell = cells / MOST_CELLS + 1;
	s->pointed =
		ms_arena_resize(arena, NULL, (cells / s->every_cell + 1) * sizeof(*s->pointed));
	s->pointers = ms_pointers_new(s->blocks, &words, arena);
	if (!s->pointed || !s->pointers)
		return false;
	s->pointers->ctx = s;
	return s->wide->n || ms_marks_none(s->blocks, s->wide);
}

static uint64_t count(uint64_t bits)
{
	return (uint64_t)__builtin_popcountll(bits);
}

/* A bit for each block of @p that is pointed to at one of @places. */
static uint64_t at_places(const struct pointed *p, uint32_t places)
{
	uint64_t bits = 0;

	for (unsigned int i = 0; i < PLACES; i++)
		bits |= places >> i & 1 ? p->at[i] : 0;
	return bits;
}

/* Count blocks that are pointed to at one of @places or, if so, @elsewhere; but not at the begin.
 */
static uint64_t count_at(const struct search *s, uint32_t places, bool elsewhere)
{
	uint64_t n = 0;

	for (size_t i = 0; i <= s->blocks->cells.n / s->every_cell; i++) {
		const struct pointed *p = &s->pointed[i];

		n += count((at_places(p, places) | (elsewhere ? p->elsewhere : 0)) & ~p->at[0]);
	}
	return n;
}

enum ms_status ms_bias_find(struct ms_blocks *blocks, struct ms_marks *wide, struct ms_bias *ret)
{
	struct search s = { .blocks = blocks, .wide = wide };

	if (!prepare(&s))
		return MS_E_NOMEM;
	visit_pointers(&s, blocks->bytes / PIECE_BYTES / MOST_PIECES + 1, note_place);
	ret->n = count_at(&s, UINT32_MAX, true);
	for (unsigned int i = 1; i < PLACES; i++)
		s.usual |=
			count_at(&s, UINT32_C(1) << i, false) > ret->n / FEW ? UINT32_C(1) << i : 0;
	ret->n_front = count_at(&s, s.usual, false);
	if (ret->n < FEWEST || 10 * ret->n_front < NEARLY_ALL * ret->n)
		return MS_OK;
	blocks->bias = s.usual;
	visit_pointers(&s, 1, note_wide);
	return MS_OK;
}
