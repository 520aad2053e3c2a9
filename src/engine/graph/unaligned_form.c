/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Half a word further than compilers put pointers: in packed structures (Ruby's buffers of files,
 * the garbage collector's lists of Debian's CPython 3.13). In the instructions that a compiler
 * made while the program runs (OpenJDK's) a pointer stands anywhere.
 */
#include "engine/graph/hidden_form.h"

enum { AT_ONCE = MS_HIDDEN_AT_ONCE };

/* The word at @bytes + @i in @p. */
static void consider(struct ms_hidden *h, struct ms_hidden_seeker *k,
                     const struct ms_hidden_piece *p, const uint8_t *bytes, size_t i)
{
	uint64_t value = ms_pointer_at(h->abi, ms_abi_is_plain(h->abi), bytes + i);
	struct ms_hidden_clue clue = { .certain = true };

	if (ms_lookup_block(&k->lookup, value, value < ms_hidden_small, &clue.block))
		ms_hidden_say(h, k, p, p->range.begin + i, clue);
}

static void look(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                 const uint8_t *bytes)
{
	const size_t word = h->abi->word_bytes;
	uint64_t most = ms_range_len(p->range);
	uint64_t here = p->end - p->range.begin;
	size_t first = p->code ? 0 : word / 2;
	size_t end; /* words begin in front of it */

	if (here < word)
		return;
	end = (size_t)(here - word + 1 < most ? here - word + 1 : most);
	for (size_t i = first; p->code && i < end; i++)
		consider(h, k, p, bytes, i);
	for (size_t i = first; !p->code && i < end; i += AT_ONCE * word) {
		size_t n = (end - i + word - 1) / word;
		uint64_t left = ms_hidden_addresses(h, &k->lookup, bytes + i,
		                                    n < AT_ONCE ? n : (size_t)AT_ONCE);

		for (; left; left &= left - 1)
			consider(h, k, p, bytes, i + (size_t)__builtin_ctzll(left) * word);
	}
}

const struct ms_hidden_form ms_unaligned_form = {
	.name = "unaligned",
	.reason = MS_REASON_UNALIGNED,
	.look = look,
};
