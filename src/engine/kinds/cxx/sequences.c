/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * What std::vector and std::deque keep their elements in:
 *
 *	vector    │ begin │ end │ end of room │     one block from begin on
 *	deque     │ map │ length of it │ first: cur, begin, end, node │ last: the same │
 *	          map: pointers to blocks of one size; those from node to node are in use
 *
 * Three pointers into one block are little evidence, and so a vector is only "likely"; its
 * block must be as long as the room. libc++'s deque is another (libcxx.c).
 *
 * Source: libstdc++ 12 bits/stl_vector.h, stl_deque.h.
 */

static const struct ms_kind_type vector = { "elements of std::vector", MS_HOW_CONTAINER,
	                                    MS_SURE_LIKELY };
static const struct ms_kind_type map = { "map of std::deque", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type part = { "elements of std::deque", MS_HOW_CONTAINER,
	                                  MS_SURE_CERTAIN };

/* Words of a deque. */
enum { LENGTH = 1, FIRST = 2, LAST = 6, DEQUE_WORDS = 10, LEAST_LENGTH = 8 };

/* Of one of its two iterators. */
enum { CUR, BEGIN, END, NODE };

/* How many of the @n words from the pointer on point into @block. */
static unsigned words_into(const struct ms_kind_spot *spot, int n,
                           const struct ms_kind_block *block)
{
	unsigned found = 0;

	for (int i = 0; i < n; i++)
		found += ms_kind_near(spot, i) - block->begin < block->usable;
	return found;
}

/* ---- vector ---- */

static bool is_vector(const struct ms_kind_spot *spot)
{
	uint64_t len;
	uint64_t room;

	if (spot->offset || spot->behind < 3)
		return false;
	len = ms_kind_near(spot, 1) - spot->to.begin;
	room = ms_kind_near(spot, 2) - spot->to.begin;
	return room && len <= room && ms_kind_fits(spot->to.usable, room);
}

enum { VECTOR_WORDS = 3, ROUNDED = 32, LARGE = 1 << 16 };

/* Whether malloc gives a block of @usable bytes for @asked and for hardly any other number. */
static bool is_asked_for(const struct ms_kinds *k, uint64_t usable, uint64_t asked)
{
	return usable - asked < (usable < LARGE ? ROUNDED : k->src->abi.page_bytes);
}

/* An iterator into a deque, at the first of its part: behind that is the part's place in the map.
 */
static bool is_deque_iterator(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t word;

	return spot->behind > VECTOR_WORDS &&
	       ms_kinds_words(k, ms_kind_near(spot, VECTOR_WORDS), &word, 1) &&
	       word == spot->to.begin;
}

/* Four pointers into one block, as what grows at both ends has: of them no three are a vector. */
static bool has_fourth(const struct ms_kind_spot *spot)
{
	return (spot->behind > VECTOR_WORDS &&
	        ms_kind_near(spot, VECTOR_WORDS) - spot->to.begin <= spot->to.usable) ||
	       (spot->before && ms_kind_near(spot, -1) - spot->to.begin <= spot->to.usable);
}

/* Elements that can hold a pointer are of whole words. */
static void leave_vector_tail(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	const uint64_t len = ms_kind_near(spot, 1) - spot->to.begin;
	const uint64_t room = ms_kind_near(spot, 2) - spot->to.begin;
	const struct ms_tail_claim claim = {
		.of = MS_TAIL_VECTOR,
		.back = len,
		.words = words_into(spot, VECTOR_WORDS, &spot->to),
	};

	if (len % spot->word == 0 && room % spot->word == 0 &&
	    is_asked_for(k, spot->to.usable, room) && !has_fourth(spot) &&
	    !is_deque_iterator(k, spot))
		ms_kinds_tail(k, &spot->to, &claim);
}

/* ---- deque ---- */

static bool is_iterator(const struct ms_kind_spot *spot, int at, uint64_t len)
{
	ms_addr first = ms_kind_near(spot, at + BEGIN);
	ms_addr node = ms_kind_near(spot, at + NODE) - spot->to.begin;

	return ms_kind_near(spot, at + END) - first == len &&
	       ms_kind_near(spot, at + CUR) - first < len && node % spot->word == 0 &&
	       node / spot->word < ms_kind_near(spot, LENGTH);
}

static bool is_part(struct ms_kinds *k, ms_addr node, uint64_t len, struct ms_kind_block *ret)
{
	uint64_t word;

	return ms_kinds_step(k) && ms_kinds_words(k, node, &word, 1) && ms_kinds_at(k, word, ret) &&
	       ms_kind_fits(ret->usable, len);
}

/* All parts in use are blocks of one length; claimed only then. */
static bool take_parts(struct ms_kinds *k, const struct ms_kind_spot *spot, uint64_t len,
                       bool claim)
{
	ms_addr last = ms_kind_near(spot, LAST + NODE);
	struct ms_kind_block found;

	for (ms_addr node = ms_kind_near(spot, FIRST + NODE); node <= last; node += spot->word) {
		if (!is_part(k, node, len, &found))
			return false;
		if (claim)
			ms_kinds_claim(k, &found, &part, spot);
	}
	return true;
}

static bool has_end(struct ms_kinds *k, const struct ms_kind_spot *spot, int at)
{
	uint64_t word;

	return ms_kinds_words(k, ms_kind_near(spot, at + NODE), &word, 1) &&
	       word == ms_kind_near(spot, at + BEGIN);
}

static bool is_deque(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t length;
	uint64_t len;

	if (spot->offset || spot->behind < DEQUE_WORDS)
		return false;
	length = ms_kind_near(spot, LENGTH);
	len = ms_kind_near(spot, FIRST + END) - ms_kind_near(spot, FIRST + BEGIN);
	return length >= LEAST_LENGTH && length <= spot->to.usable / spot->word && len &&
	       len < UINT32_MAX && is_iterator(spot, FIRST, len) && is_iterator(spot, LAST, len) &&
	       ms_kind_near(spot, FIRST + NODE) <= ms_kind_near(spot, LAST + NODE) &&
	       has_end(k, spot, FIRST) && has_end(k, spot, LAST) && take_parts(k, spot, len, false);
}

/* The part of one of the iterators: what is outside of [front, back) is a tail. */
static void leave_part(struct ms_kinds *k, const struct ms_kind_spot *spot, int at, uint64_t front,
                       uint64_t back)
{
	struct ms_tail_claim claim = { .of = MS_TAIL_DEQUE, .front = front, .back = back };
	uint64_t length = ms_kind_near(spot, LENGTH);
	struct ms_kind_block block;
	uint64_t slot;

	if (!ms_kinds_at(k, ms_kind_near(spot, at + BEGIN), &block))
		return;
	claim.words = words_into(spot, DEQUE_WORDS, &block);
	/* A map that was moved within itself has places with old pointers, too. */
	for (uint64_t i = 0; i < length; i++) {
		if (!ms_kinds_step(k) ||
		    !ms_kinds_words(k, spot->to.begin + i * spot->word, &slot, 1))
			return;
		claim.words += slot - block.begin < block.usable;
	}
	ms_kinds_tail(k, &block, &claim);
}

static void leave_deque_tails(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	const uint64_t front = ms_kind_near(spot, FIRST + CUR) - ms_kind_near(spot, FIRST + BEGIN);
	const uint64_t back = ms_kind_near(spot, LAST + CUR) - ms_kind_near(spot, LAST + BEGIN);
	const uint64_t len = ms_kind_near(spot, FIRST + END) - ms_kind_near(spot, FIRST + BEGIN);
	const ms_addr first = ms_kind_near(spot, FIRST + NODE);
	const ms_addr last = ms_kind_near(spot, LAST + NODE);
	const struct ms_tail_claim claim = {
		.of = MS_TAIL_DEQUE,
		.front = first - spot->to.begin,
		.back = last + spot->word - spot->to.begin,
		.words = words_into(spot, DEQUE_WORDS, &spot->to),
	};

	ms_kinds_tail(k, &spot->to, &claim);
	if (first == last) {
		leave_part(k, spot, FIRST, front, back);
		return;
	}
	leave_part(k, spot, FIRST, front, len);
	leave_part(k, spot, LAST, 0, back);
}

/* ---- the kind ---- */

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	if (!k->cxx)
		return;
	if (is_deque(k, spot)) {
		ms_kinds_claim(k, &spot->to, &map, spot);
		(void)take_parts(
			k, spot,
			ms_kind_near(spot, FIRST + END) - ms_kind_near(spot, FIRST + BEGIN), true);
		if (k->tails)
			leave_deque_tails(k, spot);
	} else if (is_vector(spot)) {
		ms_kinds_claim(k, &spot->to, &vector, spot);
		if (k->tails)
			leave_vector_tail(k, spot);
	}
}

const struct ms_kind ms_kind_sequences = {
	.name = "std::vector", .narrow = true, .pointer = pointer, .may = ms_kind_may_be_cxx
};
