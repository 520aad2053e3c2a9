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
 *	a parent of nothing but other blocks, of mpv
 *	│ bytes: 0 │ five links │ CANARY │ three more │
 *	                                              ▲
 *	                                              kept
 *
 * Source: Itanium C++ ABI 2.7; PHP 7.4 to 8.4 Zend/zend_compile.h (zend_function.common,
 * zend_arg_info), Zend/zend_API.c; mpv 0.29 to 0.40 ta/ta.c (struct ta_header).
 */
#include <string.h>

#include "engine/graph/hidden_form.h"

enum { ARGUMENTS = 40, NUMBERS = 32, FLAGS = 4, HAS_RESULT = 1 << 13, MOST_TYPE = 4 };
enum { RESULT_WORDS = 4, PARENT_WORDS = 10, CANARY_AT = 6 };

#define CANARY UINT32_C(0xd3adb3ef)

/* Added to the begin of a block that has what PHP notes of a function's result. */
#define RESULT UINT64_C(1)

/* What PHP notes of a result: number of arguments, class or none, types, nothing. */
static bool is_result(const uint64_t *words)
{
	return !words[0] && words[2] && !(words[2] >> 32) && !words[3];
}

static bool is_parent(const uint64_t *words)
{
	return !words[0] && (uint32_t)words[CANARY_AT] == CANARY;
}

bool ms_behind_form_keep(struct ms_hidden *h, const struct ms_extent *extent, uint64_t granule)
{
	const ms_addr begin = ms_block_begin(extent, granule);
	const uint64_t usable = ms_block_usable(h->blocks, extent, granule);
	const bool plain = ms_abi_is_plain(h->abi);
	const bool may_be_result = plain && usable == RESULT_WORDS * sizeof(uint64_t);
	const bool may_be_parent = plain && usable == PARENT_WORDS * sizeof(uint64_t);
	uint64_t words[PARENT_WORDS];
	const uint8_t *bytes;
	bool is_header;

	if (usable != h->abi->word_bytes && !may_be_result && !may_be_parent)
		return true;
	h->ahead.src = h->blocks->src;
	bytes = ms_ahead_at(&h->ahead, begin, (size_t)usable);
	if (!bytes)
		return true;
	memcpy(words, bytes, (size_t)usable);
	if (may_be_result)
		is_header = is_result(words);
	else if (may_be_parent)
		is_header = is_parent(words);
	else
		is_header = !ms_abi_word(h->abi, bytes);
	return !is_header || ms_map_add(&h->empty, h->arena.arena, begin + usable,
	                                begin | (may_be_result ? RESULT : 0));
}

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
		if (begin && (!(begin & RESULT) || is_function(bytes, i)))
			ms_hidden_say_begin(h, k, p, p->range.begin + i, begin & ~RESULT);
	}
}

const struct ms_hidden_form ms_behind_form = {
	.name = "behind",
	.reason = MS_REASON_OUTSIDE,
	.look = look,
};
