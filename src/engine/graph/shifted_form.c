/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As an interpreter keeps a small number: shifted to the left by 1 (SBCL, Ruby), 2 (Emacs, Guile),
 * 3 (Chez, Racket) or 4 bits (Erlang), with a tag below. One such word may be any number; of one
 * shift and tag enough must lead to beginnings of blocks.
 *
 * LuaJIT's light userdata has the lower 39 bits of the address, above these the index of a table
 * of the upper ones, and above that a tag of 17 bits. Source: LuaJIT's lj_obj.h (LJ_TLIGHTUD,
 * LJ_LIGHTUD_BITS_LO).
 */
#include "engine/graph/hidden_form.h"

enum {
	WORD = MS_HIDDEN_WORD,
	AT_ONCE = MS_HIDDEN_AT_ONCE,
	MOST_SHIFT = 4,
	LIGHT_BITS = 39,
	LIGHT_TAG_AT = 47
};

static const uint64_t light_tag = 0x1fffc;
static const uint64_t light_mask = (UINT64_C(1) << LIGHT_BITS) - 1;

static void consider(struct ms_hidden *h, struct ms_hidden_seeker *k,
                     const struct ms_hidden_piece *p, ms_addr addr, uint64_t value)
{
	for (unsigned shift = 1; shift <= MOST_SHIFT; shift++) {
		const uint64_t tag = value & ((UINT64_C(1) << shift) - 1);
		struct ms_hidden_clue clue = { .kind = (uint16_t)(shift << MOST_SHIFT | tag) };

		if (value >> shift >= ms_hidden_small && ms_hidden_in_zones(h, value >> shift) &&
		    ms_lookup_begin(&k->lookup, value >> shift, &clue.block))
			ms_hidden_say(h, k, p, addr, clue);
	}
}

static void consider_light(struct ms_hidden *h, struct ms_hidden_seeker *k,
                           const struct ms_hidden_piece *p, ms_addr addr, uint64_t value)
{
	for (unsigned i = 0; i < h->n_zones; i++) {
		const struct ms_range zone = h->zones[i];
		/* A zone may cross a multiple of what the lower bits count. */
		const ms_addr first = (zone.begin & ~light_mask) | (value & light_mask);
		const ms_addr last = ((zone.end - 1) & ~light_mask) | (value & light_mask);

		if (ms_range_has(zone, first))
			ms_hidden_say_begin(h, k, p, addr, first);
		if (last != first && ms_range_has(zone, last))
			ms_hidden_say_begin(h, k, p, addr, last);
	}
}

/* All shifted addresses of blocks are in this range. */
static struct ms_range shifted_zones(const struct ms_hidden *h)
{
	struct ms_range ret = { UINT64_MAX, 0 };

	for (unsigned i = 0; i < h->n_zones; i++) {
		struct ms_range zone = h->zones[i];

		if (zone.end <= ms_hidden_small)
			continue;
		if (zone.begin < ms_hidden_small)
			zone.begin = ms_hidden_small;
		if (zone.begin << 1 < ret.begin)
			ret.begin = zone.begin << 1;
		if (zone.end << MOST_SHIFT > ret.end)
			ret.end = zone.end << MOST_SHIFT;
	}
	return ret.begin < ret.end ? ret : (struct ms_range){ 0 };
}

static void look(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                 const uint8_t *bytes)
{
	const struct ms_range shifted = shifted_zones(h);
	const uint64_t light = light_tag << LIGHT_TAG_AT;
	const uint64_t span = ms_range_len(shifted);
	const uint64_t light_span = UINT64_C(1) << LIGHT_TAG_AT;
	const size_t n = (size_t)ms_range_len(p->range) / WORD;
	uint64_t all = 0;

	if (!span)
		return;
	for (size_t i = 0; i < n; i += AT_ONCE) {
		const uint8_t *at = bytes + i * WORD;
		const size_t here = n - i < AT_ONCE ? n - i : AT_ONCE;
		uint64_t left = ms_words_between(at, here, shifted.begin, span, &all) |
		                ms_words_between(at, here, light, light_span, &all);

		for (; left; left &= left - 1) {
			const size_t word = (size_t)__builtin_ctzll(left);
			const uint64_t value = ms_word_at(at + word * WORD);
			const ms_addr addr = p->range.begin + (i + word) * WORD;

			if (value - shifted.begin < span)
				consider(h, k, p, addr, value);
			else if (value - light < light_span)
				consider_light(h, k, p, addr, value);
		}
	}
}

const struct ms_hidden_form ms_shifted_form = {
	.name = "shifted",
	.reason = MS_REASON_TAGGED,
	.wide = true,
	.look = look,
};
