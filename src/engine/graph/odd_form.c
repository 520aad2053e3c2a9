/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anywhere but at multiples of half a word, as in Rust's repr(packed) (Biome's tables). An address
 * at such a place may be a number or old bytes, but not so many at places that are alike: they
 * lead to beginnings of blocks, from the same distance to a multiple of a word.
 */
#include <string.h>

#include "engine/graph/hidden_form.h"

enum { WORD = MS_HIDDEN_WORD, LANES = MS_HIDDEN_LANES };

typedef uint8_t lanes __attribute__((vector_size(LANES)));

static lanes load(const uint8_t *at)
{
	lanes ret;

	memcpy(&ret, at, sizeof(ret));
	return ret;
}

/*
 * Whether at one of LANES bytes from @at on, which stand at a multiple of WORD, an address
 * may begin whose sixth byte is in [@low, @low + @span]; other places are not asked for.
 */
static bool may_have_odd(const uint8_t *at, uint8_t low, uint8_t span)
{
	static const lanes odd = { 0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff,
		                   0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff };
	lanes above = load(at + 6) | load(at + 7);
	lanes hits = (lanes)(above == 0) & (lanes)(load(at + 5) - low <= span) & odd;
	uint64_t halves[2];

	memcpy(halves, &hits, sizeof(halves));
	return halves[0] | halves[1];
}

static void consider(struct ms_hidden *h, struct ms_hidden_seeker *k,
                     const struct ms_hidden_piece *p, const uint8_t *bytes, size_t i)
{
	struct ms_hidden_clue clue = { .kind = i % WORD };
	uint64_t value;

	memcpy(&value, bytes + i, sizeof(value));
	if (value >= ms_hidden_small && ms_lookup_begin(&k->lookup, value, &clue.block))
		ms_hidden_say(h, k, p, p->range.begin + i, clue);
}

static void look(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                 const uint8_t *bytes)
{
	const ms_addr low = k->lookup.low;
	const uint8_t least = (uint8_t)(low >> 40);
	const uint8_t span = (uint8_t)((low + k->lookup.span) >> 40) - least;
	uint64_t most = ms_range_len(p->range);
	uint64_t here = p->end - p->range.begin;

	if (p->code || here < WORD)
		return;
	for (size_t i = 0; i < most; i += LANES) {
		size_t end = i + LANES;

		if (end + WORD > here || end > most)
			end = here - WORD + 1 < most ? (size_t)(here - WORD) + 1 : (size_t)most;
		else if (!may_have_odd(bytes + i, least, span))
			continue;
		for (size_t at = i; at < end; at++)
			if (at % (WORD / 2))
				consider(h, k, p, bytes, at);
	}
}

const struct ms_hidden_form ms_odd_form = {
	.name = "odd",
	.reason = MS_REASON_UNALIGNED,
	.wide = true,
	.look = look,
};
