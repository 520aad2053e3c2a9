/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In front of the block: an array that is counted from 1 is kept by the address of the element
 * 0, which it does not have (Praat's). In glibc's heaps that is the word of the chunk's size, which
 * belongs to no block; in others' the last word of the block before.
 *
 * A program has such addresses for other reasons, too: the end of a block that is full is kept
 * beside its begin, as a vector's is. So one that leads into a marked block, or is its end, counts
 * only where nothing beside it leads to that block, and where enough lead to others.
 */
#include "engine/graph/hidden_form.h"

enum { AT_ONCE = MS_HIDDEN_AT_ONCE, ALIGN = 16, BESIDE = 2, FRONT = 0 };

/* One word of a piece. */
struct place {
	const struct ms_hidden_piece *piece;
	const uint8_t *bytes;
	size_t at;
	uint64_t value;
};

/* Whether words near @place, or its own, lead to the block that begins at @begin. */
static bool is_explained(const struct ms_hidden *h, const struct place *place, ms_addr begin)
{
	const size_t word = h->abi->word_bytes;
	const bool plain = ms_abi_is_plain(h->abi);
	const size_t n = (size_t)ms_range_len(place->piece->range);
	const size_t first = place->at < BESIDE * word ? 0 : place->at - BESIDE * word;

	if (place->value == begin)
		return true;
	for (size_t i = first; i <= place->at + BESIDE * word && i + word <= n; i += word)
		if (ms_pointer_at(h->abi, plain, place->bytes + i) - begin < place->value - begin)
			return true;
	return false;
}

/* Whether the word in front of @block is of its heap, and no block's, in use or not. */
static bool has_headers(const struct ms_hidden *h, struct ms_block block)
{
	return h->blocks->extents.at[block.extent].slack >= h->abi->word_bytes;
}

static void look_in_front(struct ms_hidden *h, struct ms_hidden_seeker *k,
                          const struct place *place)
{
	const struct ms_blocks *blocks = h->blocks;
	struct ms_hidden_clue clue = { .kind = FRONT };
	struct ms_block before;
	bool inside;

	if (!ms_lookup_begin(&k->lookup, place->value + h->abi->word_bytes, &clue.block))
		return;
	inside = ms_lookup_block(&k->lookup, place->value, false, &before);
	if (!inside && !has_headers(h, clue.block))
		return;
	if (!inside)
		clue.certain = !ms_lookup_block(&k->lookup, place->value - 1, false, &before) ||
		               !ms_block_is_marked(blocks, before);
	if (!clue.certain &&
	    is_explained(h, place,
	                 ms_block_begin(&blocks->extents.at[before.extent], before.granule)))
		return;
	if (ms_block_is_marked(blocks, clue.block))
		ms_hidden_say_also(k);
	else
		ms_hidden_say(h, k, place->piece, place->piece->range.begin + place->at, clue);
}

/* A bit for each of the words that may lead there: glibc's blocks begin at multiples of ALIGN. */
static uint64_t may_lead(const struct ms_hidden *h, const struct ms_lookup *lookup,
                         const uint8_t *bytes, size_t n)
{
	uint64_t found = UINT64_MAX;

	if (ms_abi_is_plain(h->abi))
		found = ms_words_ending(bytes, n, ALIGN - MS_HIDDEN_WORD);
	return found ? found & ms_hidden_addresses(h, lookup, bytes, n) : 0;
}

static void look(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                 const uint8_t *bytes)
{
	const size_t word = h->abi->word_bytes;
	const bool plain = ms_abi_is_plain(h->abi);
	const size_t n = (size_t)ms_range_len(p->range) / word;

	for (size_t i = 0; i < n; i += AT_ONCE) {
		const size_t here = n - i < AT_ONCE ? n - i : AT_ONCE;
		uint64_t left = may_lead(h, &k->lookup, bytes + i * word, here);

		for (; left; left &= left - 1) {
			const size_t at = (i + (size_t)__builtin_ctzll(left)) * word;
			const struct place place = { p, bytes, at,
				                     ms_pointer_at(h->abi, plain, bytes + at) };

			if ((place.value + word) % ALIGN == 0 &&
			    place.value - k->lookup.low <= k->lookup.span)
				look_in_front(h, k, &place);
		}
	}
}

const struct ms_hidden_form ms_front_form = {
	.name = "front",
	.reason = MS_REASON_OUTSIDE,
	.look = look,
};
