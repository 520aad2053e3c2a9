/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Behind the block: new T[0] of a T with a destructor is a block of one word, the number of
 * elements, and what the program keeps is the address behind it. That is inside of the block where
 * the smallest has more than one word, as glibc's; others' have just that.
 */
#include "engine/graph/hidden_form.h"

static void look(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                 const uint8_t *bytes)
{
	const size_t word = h->abi->word_bytes;
	const bool plain = ms_abi_is_plain(h->abi);
	uint64_t n = ms_range_len(p->range);

	/* An address behind a block that only such a block has is not followed. */
	if (!h->empty_arrays.used || h->walk)
		return;
	for (size_t i = 0; i + word <= n; i += word) {
		const uint64_t value = ms_pointer_at(h->abi, plain, bytes + i);
		uint64_t begin = 0;

		if (value - k->lookup.low <= k->lookup.span)
			begin = ms_map_find(&h->empty_arrays, value);
		if (begin)
			ms_hidden_say_begin(h, k, p, p->range.begin + i, begin);
	}
}

const struct ms_hidden_form ms_behind_form = {
	.name = "behind",
	.reason = MS_REASON_UNALIGNED,
	.look = look,
};
