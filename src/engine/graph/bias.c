/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/bias.h"

#include "engine/graph/lookup.h"

enum {
	READ_BYTES = 1 << 18,
	WORDS = 5,      /* places to be pointed to: the begin, and behind what stands in front */
	NEARLY_ALL = 9, /* tenths */
	FEW = 16,       /* one of so many blocks is too few for a place to be usual */
};

struct search {
	const struct ms_blocks *blocks;
	struct ms_lookup *lookup;
	struct ms_marks at[WORDS]; /* blocks that are pointed to so many words behind the begin */
	uint8_t *buffer;
};

static void take_word(struct search *s, uint64_t value)
{
	const struct ms_blocks *blocks = s->blocks;
	const unsigned int word = blocks->src->abi.word_bytes;
	const struct ms_extent *extent;
	struct ms_block block;
	uint64_t offset;

	if (!ms_lookup_block(s->lookup, value, false, &block))
		return;
	extent = &blocks->extents.at[block.extent];
	offset = value - ms_block_begin(extent, block.granule);
	if (offset % word || offset / word >= WORDS)
		return;
	s->at[offset / word].at[extent->cell0 + block.granule / MS_CELL_GRANULES] |=
		ms_granule_bit(block.granule);
}

static void take_range(struct search *s, struct ms_range range)
{
	const struct ms_abi *abi = &s->blocks->src->abi;

	while (range.begin < range.end) {
		uint64_t left = ms_range_len(range);
		size_t n = ms_source_read(s->blocks->src, range.begin, s->buffer,
		                          left < READ_BYTES ? (size_t)left : (size_t)READ_BYTES);

		for (size_t i = 0; i + abi->word_bytes <= n; i += abi->word_bytes)
			take_word(s, ms_abi_address(abi, ms_abi_word(abi, s->buffer + i)));
		range.begin = n ? range.begin + n : ms_align_up(range.begin + 1, abi->page_bytes);
	}
}

static void take_extent(struct search *s, const struct ms_extent *e)
{
	struct ms_range rest = e->range;
	struct ms_range present;

	while (rest.begin < rest.end && ms_source_present(s->blocks->src, rest, &present)) {
		take_range(s, present);
		rest.begin = present.end;
	}
}

static bool prepare(struct search *s, struct ms_blocks *blocks)
{
	bool ok = true;

	s->lookup = ms_arena_alloc(blocks->arena, sizeof(*s->lookup));
	s->buffer = ms_arena_alloc(blocks->arena, READ_BYTES);
	for (int i = 0; i < WORDS; i++)
		ok &= ms_marks_none(blocks, &s->at[i]);
	if (!s->lookup || !s->buffer || !ok)
		return false;
	ms_lookup_init(s->lookup, blocks);
	return true;
}

static uint64_t count(uint64_t bits)
{
	return (uint64_t)__builtin_popcountll(bits);
}

/* Whether a few words behind the begin is where blocks are pointed to, as a rule, and at which. */
static bool decide(const struct search *s, uint8_t *ret_words, struct ms_bias *ret)
{
	uint64_t n_at[WORDS] = { 0 };

	for (size_t cell = 0; cell < s->at[0].n; cell++) {
		const uint64_t others = s->blocks->cells.at[cell].starts & ~s->at[0].at[cell];
		uint64_t front = 0;

		for (int i = 1; i < WORDS; i++) {
			n_at[i] += count(others & s->at[i].at[cell]);
			front |= s->at[i].at[cell];
		}
		ret->n += count(others);
		ret->n_front += count(others & front);
	}
	for (int i = 1; i < WORDS; i++)
		if (n_at[i] > ret->n / FEW)
			*ret_words |= (uint8_t)(1 << i);
	return ret->n > s->blocks->n / 2 && 10 * ret->n_front >= NEARLY_ALL * ret->n;
}

enum ms_status ms_bias_find(struct ms_blocks *blocks, struct ms_marks *wide, struct ms_bias *ret)
{
	struct search s = { .blocks = blocks };
	const struct ms_extent *e;
	uint8_t words = 0;

	*ret = (struct ms_bias){ 0 };
	if (!prepare(&s, blocks) || (!wide->n && !ms_marks_none(blocks, wide)))
		return MS_E_NOMEM;
	ms_vec_for_each (e, &blocks->extents)
		if (e->kind == MS_EXTENT_HEAP)
			take_extent(&s, e);
	if (!decide(&s, &words, ret))
		return MS_OK;
	blocks->bias = words;
	for (int i = 1; i < WORDS; i++)
		for (size_t cell = 0; words >> i & 1 && cell < wide->n; cell++)
			wide->at[cell] |= s.at[i].at[cell];
	return MS_OK;
}
