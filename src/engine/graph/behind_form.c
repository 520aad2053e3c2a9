/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Behind the block: a header with nothing behind it, of which the program keeps the address behind.
 * That is inside of the block where this has spare bytes, as glibc's have; others' may have none.
 *
 *	new T[0] of a T with a destructor        a function of PHP without arguments
 *	│ number: 0 │                            │ 0 │ class or none │ types │ nothing │
 *	            ▲                                                                  ▲
 *	            kept                                           function, at ARGUMENTS
 *
 * Source: Itanium C++ ABI 2.7; PHP 7.4 to 8.4 Zend/zend_compile.h (zend_function.common,
 * zend_arg_info), Zend/zend_API.c.
 */
#include <string.h>

#include "engine/graph/hidden_form.h"

enum { ARGUMENTS = 40, NUMBERS = 32, FLAGS = 4, HAS_RESULT = 1 << 13, MOST_TYPE = 4 };

/* Whether the words around the one at @bytes[@at] are a function's without arguments. */
static bool is_function(const uint8_t *bytes, uint64_t at)
{
	const uint8_t *function = bytes + at - ARGUMENTS;
	uint64_t numbers;
	uint32_t flags;

	if (at < ARGUMENTS || !function[0] || function[0] > MOST_TYPE)
		return false;
	memcpy(&numbers, function + NUMBERS, sizeof(numbers));
	memcpy(&flags, function + FLAGS, sizeof(flags));
	return !numbers && (flags & HAS_RESULT);
}

static void look(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                 const uint8_t *bytes)
{
	const size_t word = h->abi->word_bytes;
	const bool plain = ms_abi_is_plain(h->abi);
	uint64_t n = ms_range_len(p->range);

	/* An address behind a block that only such a block has is not followed. */
	if (!h->empty.used || h->walk)
		return;
	for (size_t i = 0; i + word <= n; i += word) {
		const uint64_t value = ms_pointer_at(h->abi, plain, bytes + i);
		uint64_t begin = 0;

		if (value - k->lookup.low <= k->lookup.span)
			begin = ms_map_find(&h->empty, value);
		if (begin && (!(begin & MS_HIDDEN_RESULT) || is_function(bytes, i)))
			ms_hidden_say_begin(h, k, p, p->range.begin + i, begin & ~MS_HIDDEN_RESULT);
	}
}

const struct ms_hidden_form ms_behind_form = {
	.name = "behind",
	.reason = MS_REASON_OUTSIDE,
	.look = look,
};
