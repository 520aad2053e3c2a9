/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Half a word further than compilers put pointers: in packed structures (Ruby's buffers of files,
 * the garbage collector's lists of Debian's CPython 3.13). In the instructions that a compiler
 * made while the program runs (OpenJDK's) a pointer stands anywhere.
 */
#include "engine/graph/hidden_form.h"
#include "engine/graph/words.h"

/* The heap block that @value points to, or into. */
static bool find_block(struct ms_hidden_seeker *k, uint64_t value, struct ms_block *ret)
{
	const struct ms_blocks *blocks = k->lookup.blocks;
	const struct ms_extent *extent = ms_lookup_extent(&k->lookup, value);
	uint64_t granule;

	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return false;
	granule = ms_lookup_hit(blocks, extent,
	                        ms_blocks_cell(blocks, extent, ms_granule_of(extent, value)), value,
	                        value < ms_hidden_small);
	*ret = (struct ms_block){ (uint32_t)(extent - blocks->extents.at), granule };
	return granule != UINT64_MAX;
}

static void look(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                 const uint8_t *bytes)
{
	const struct ms_abi *abi = h->abi;
	const bool plain = ms_abi_is_plain(abi);
	const size_t word = abi->word_bytes;
	const ms_addr low = k->lookup.low;
	const uint64_t span = k->lookup.span;
	uint64_t most = ms_range_len(p->range);
	uint64_t here = p->end - p->range.begin;
	size_t step = p->code ? 1 : word;
	uint64_t n;

	if (here < word)
		return;
	n = here - word + 1 < most ? here - word + 1 : most;
	for (size_t i = p->code ? 0 : word / 2; i < n; i += step) {
		uint64_t value = ms_pointer_at(abi, plain, bytes + i);
		struct ms_hidden_clue clue = { .certain = true };

		if (value - low < span && find_block(k, value, &clue.block))
			ms_hidden_say(h, k, p, p->range.begin + i, clue);
	}
}

const struct ms_hidden_form ms_unaligned_form = {
	.name = "unaligned",
	.reason = MS_REASON_UNALIGNED,
	.look = look,
};
