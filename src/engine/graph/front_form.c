/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In front of the block: an array that is counted from 1 is kept by the
 * address of the element 0, which it has not (Praat's). In glibc's heaps that is the word of the
 * chunk's size, which belongs to no block; in others' the last word of the block before.
 *
 * A program has such addresses for other reasons, too: the end of a block that is full is kept
 * beside its begin, as a vector's is. So one that leads into a marked block, or is its end, counts
 * only where nothing beside it leads to that block, and where enough lead to others.
 */
#include "engine/graph/hidden_form.h"
#include "engine/graph/words.h"

enum { AT_ONCE = 64, ALIGN = 16, BESIDE = 2, FRONT = 0 };

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

/* The block that has @addr in it; false when none has. */
static bool find_block(struct ms_lookup *lookup, ms_addr addr, struct ms_block *ret)
{
	const struct ms_extent *extent = ms_lookup_extent(lookup, addr);
	uint64_t granule;

	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return false;
	granule = ms_lookup_hit(lookup->blocks, extent,
	                        ms_blocks_cell(lookup->blocks, extent, ms_granule_of(extent, addr)),
	                        addr, false);
	*ret = (struct ms_block){ (uint32_t)(extent - lookup->blocks->extents.at), granule };
	return granule != UINT64_MAX;
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
	inside = find_block(&k->lookup, place->value, &before);
	if (!inside && !has_headers(h, clue.block))
		return;
	if (!inside)
		clue.certain = !find_block(&k->lookup, place->value - 1, &before) ||
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

static void consider(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct place *place)
{
	if (place->value - k->lookup.low > k->lookup.span)
		return;
	/* glibc's blocks begin at multiples of 16 bytes. */
	if ((place->value + h->abi->word_bytes) % ALIGN == 0)
		look_in_front(h, k, place);
}

static void look(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                 const uint8_t *bytes)
{
	const size_t word = h->abi->word_bytes;
	const bool plain = ms_abi_is_plain(h->abi);
	const size_t n = (size_t)ms_range_len(p->range) / word;
	uint64_t all = 0;

	for (size_t i = 0; i < n; i += AT_ONCE) {
		const size_t here = n - i < AT_ONCE ? n - i : AT_ONCE;
		uint64_t left = UINT64_MAX;

		if (here < AT_ONCE)
			left = (UINT64_C(1) << here) - 1;
		if (plain)
			left = ms_words_between(bytes + i * word, here, k->lookup.low,
			                        k->lookup.span + 1, &all);
		for (; left; left &= left - 1) {
			const size_t at = (i + (size_t)__builtin_ctzll(left)) * word;
			const struct place place = { p, bytes, at,
				                     ms_pointer_at(h->abi, plain, bytes + at) };

			consider(h, k, &place);
		}
	}
}

const struct ms_hidden_form ms_front_form = {
	.name = "front",
	.reason = MS_REASON_OUTSIDE,
	.look = look,
};
