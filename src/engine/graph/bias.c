/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/bias.h"

#include "engine/graph/lookup.h"

enum {
	READ_BYTES = 1 << 18,
	PLACES = 17,    /* words behind the begin, itself the first */
	FEWEST = 64,    /* blocks that are pointed to in the middle alone: else there is no rule */
	NEARLY_ALL = 9, /* tenths */
	FEW = 16,       /* one of so many blocks is too few for a place to be usual */
	MOST_CELLS = 65536, /* whose blocks are looked at to find the rule */
	MOST_PIECES = 256,  /* that are read for it */
};

/* How the blocks of one cell are pointed to. */
struct pointed {
	uint64_t at[PLACES]; /* so many words behind the begin */
	uint64_t elsewhere;
};

struct search {
	const struct ms_blocks *blocks;
	struct ms_lookup *lookup;
	uint8_t *buffer;
	struct pointed *pointed; /* of each cell whose number can be divided by @every */
	size_t every;
	size_t piece; /* of READ_BYTES */
	size_t piece_every;
	uint32_t usual; /* places, by bit */
	struct ms_marks *wide;
};

/* A word points @offset bytes behind the begin of a block, whose bit that is. */
typedef void take_hit(struct search *s, uint64_t offset, size_t cell, uint64_t bit);

static uint64_t place_of(const struct search *s, uint64_t offset)
{
	const unsigned int word = s->blocks->src->abi.word_bytes;

	return offset % word == 0 && offset / word < PLACES ? offset / word : PLACES;
}

static void take_any(struct search *s, uint64_t offset, size_t cell, uint64_t bit)
{
	const uint64_t place = place_of(s, offset);
	struct pointed *pointed = &s->pointed[cell / s->every];

	if (cell % s->every == 0)
		*(place < PLACES ? &pointed->at[place] : &pointed->elsewhere) |= bit;
}

static void take_usual(struct search *s, uint64_t offset, size_t cell, uint64_t bit)
{
	if (s->usual >> place_of(s, offset) & 1)
		s->wide->at[cell] |= bit;
}

static void take_word(struct search *s, uint64_t value, take_hit *take)
{
	const struct ms_blocks *blocks = s->blocks;
	const struct ms_extent *extent;
	struct ms_block block;

	if (!ms_lookup_block(s->lookup, value, false, &block))
		return;
	extent = &blocks->extents.at[block.extent];
	take(s, value - ms_block_begin(extent, block.granule),
	     extent->cell0 + block.granule / MS_CELL_GRANULES, ms_granule_bit(block.granule));
}

static void take_range(struct search *s, struct ms_range range, take_hit *take)
{
	const struct ms_abi *abi = &s->blocks->src->abi;

	for (; range.begin < range.end; s->piece++) {
		uint64_t left = ms_range_len(range);
		size_t len = left < READ_BYTES ? (size_t)left : (size_t)READ_BYTES;
		size_t n = len;

		if (s->piece % s->piece_every == 0) {
			n = ms_source_read(s->blocks->src, range.begin, s->buffer, len);
			for (size_t i = 0; i + abi->word_bytes <= n; i += abi->word_bytes)
				take_word(s, ms_abi_address(abi, ms_abi_word(abi, s->buffer + i)),
				          take);
		}
		range.begin = n ? range.begin + n : ms_align_up(range.begin + 1, abi->page_bytes);
	}
}

/* @piece_every: of so many pieces one is read */
static void take_all(struct search *s, size_t piece_every, take_hit *take)
{
	const struct ms_extent *e;

	s->piece_every = piece_every;
	ms_vec_for_each (e, &s->blocks->extents) {
		struct ms_range rest = e->range;
		struct ms_range present;

		while (e->kind == MS_EXTENT_HEAP && rest.begin < rest.end &&
		       ms_source_present(s->blocks->src, rest, &present)) {
			take_range(s, present, take);
			rest.begin = present.end;
		}
	}
}

static bool prepare(struct search *s, struct ms_arena *arena)
{
	const size_t cells = s->blocks->cells.n;

	s->every = cells / MOST_CELLS + 1;
	s->pointed = ms_arena_resize(arena, NULL, (cells / s->every + 1) * sizeof(*s->pointed));
	s->lookup = ms_arena_alloc(arena, sizeof(*s->lookup));
	s->buffer = ms_arena_alloc(arena, READ_BYTES);
	if (!s->pointed || !s->lookup || !s->buffer)
		return false;
	ms_lookup_init(s->lookup, s->blocks);
	return true;
}

static uint64_t count(uint64_t bits)
{
	return (uint64_t)__builtin_popcountll(bits);
}

/* Blocks of @p that are pointed to at any place of @places. */
static uint64_t at_places(const struct pointed *p, uint32_t places)
{
	uint64_t bits = 0;

	for (unsigned int i = 0; i < PLACES; i++)
		bits |= places >> i & 1 ? p->at[i] : 0;
	return bits;
}

/* How many blocks are pointed to at places of @places, but not at the begin. */
static uint64_t count_at(const struct search *s, uint32_t places, bool elsewhere)
{
	uint64_t n = 0;

	for (size_t i = 0; i <= s->blocks->cells.n / s->every; i++) {
		const struct pointed *p = &s->pointed[i];

		n += count((at_places(p, places) | (elsewhere ? p->elsewhere : 0)) & ~p->at[0]);
	}
	return n;
}

enum ms_status ms_bias_find(struct ms_blocks *blocks, struct ms_marks *wide, struct ms_bias *ret)
{
	struct search s = { .blocks = blocks, .wide = wide };

	if (!prepare(&s, blocks->arena) || (!wide->n && !ms_marks_none(blocks, wide)))
		return MS_E_NOMEM;
	take_all(&s, blocks->bytes / READ_BYTES / MOST_PIECES + 1, take_any);
	ret->n = count_at(&s, UINT32_MAX, true);
	for (unsigned int i = 1; i < PLACES; i++)
		s.usual |=
			count_at(&s, UINT32_C(1) << i, false) > ret->n / FEW ? UINT32_C(1) << i : 0;
	ret->n_front = count_at(&s, s.usual, false);
	if (ret->n < FEWEST || 10 * ret->n_front < NEARLY_ALL * ret->n)
		return MS_OK;
	blocks->bias = s.usual;
	take_all(&s, 1, take_usual);
	return MS_OK;
}
