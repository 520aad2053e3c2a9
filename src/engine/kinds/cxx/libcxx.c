/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "engine/kinds/kinds.h"

/*
 * The std::deque of LLVM's library:
 *
 *	│ map │ its parts: first │ end │ end of map │ start │ size │
 *	        map: pointers to blocks of one length; those from first to end are in use
 *
 * Elements are counted through the parts, from start on. How long they are is nowhere said:
 * 4096 bytes have as many of them as there is room for, or 16 that are too long for that. So
 * several lengths can be right, and for what is not used (strict/tails.h) the one counts that
 * leaves least; lengths of no whole words are of elements without pointers.
 *
 * Source: libc++ 14 include/deque (__deque_base, __block_size), __split_buffer.
 */

static const struct ms_kind_type map = { "map of std::deque", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type elements = { "elements of std::deque", MS_HOW_CONTAINER,
	                                      MS_SURE_CERTAIN };

/* Words from the map on. */
enum { FIRST = 1, LAST, ROOM, START, SIZE, DEQUE_WORDS };

enum { PART_BYTES = 4096, LONG = 256, LONG_ONES = 16, MOST_PARTS = 1 << 24, ROUNDED = 32 };

struct deque {
	const struct ms_kind_spot *spot;
	uint64_t from; /* places in the map: those of the parts */
	uint64_t n;
	uint64_t usable; /* of each part */
	uint64_t start;
	uint64_t size;
};

/* A place among the parts. */
struct place {
	uint64_t part;
	uint64_t offset;
};

/* How many elements of @len bytes a part has; 0: it would not be as long as it is. */
static uint64_t elements_in(const struct deque *q, uint64_t len)
{
	uint64_t n;

	assert(len);
	n = len < LONG ? PART_BYTES / len : LONG_ONES;
	return n * len <= q->usable && q->usable - n * len < ROUNDED ? n : 0;
}

/* One place is free behind the last, and less than two parts at either end. */
static bool may_have(const struct deque *q, uint64_t n)
{
	uint64_t room = q->n * n - 1;

	return n && q->start < 2 * n && q->size <= room && q->start <= room - q->size &&
	       room - q->size - q->start < 2 * n;
}

/* Of the lengths that @q's parts allow, none is less; and hardly more of them are than 256. */
static uint64_t least_length(const struct deque *q)
{
	return q->usable < PART_BYTES + ROUNDED ? 1 : (q->usable - ROUNDED) / LONG_ONES;
}

static bool has_any_length(const struct deque *q)
{
	for (uint64_t len = least_length(q); len <= q->usable / LONG_ONES; len++)
		if (may_have(q, elements_in(q, len)))
			return true;
	return false;
}

static bool part_at(struct ms_kinds *k, const struct deque *q, uint64_t i,
                    struct ms_kind_block *ret)
{
	uint64_t at;

	return ms_kinds_step(k) &&
	       ms_kinds_words(k, q->spot->to.begin + (q->from + i) * k->word, &at, 1) &&
	       ms_kinds_at(k, at, ret);
}

static bool have_one_length(struct ms_kinds *k, struct deque *q)
{
	struct ms_kind_block part;

	for (uint64_t i = 0; i < q->n; i++) {
		if (!part_at(k, q, i, &part) || (i && part.usable != q->usable))
			return false;
		q->usable = part.usable;
	}
	return true;
}

static bool is_deque(struct ms_kinds *k, const struct ms_kind_spot *spot, struct deque *ret)
{
	uint64_t first;
	uint64_t last;
	uint64_t room;

	if (spot->offset || spot->behind < DEQUE_WORDS)
		return false;
	first = ms_kind_near(spot, FIRST) - spot->to.begin;
	last = ms_kind_near(spot, LAST) - spot->to.begin;
	room = ms_kind_near(spot, ROOM) - spot->to.begin;
	*ret = (struct deque){ .spot = spot,
		               .from = first / k->word,
		               .n = (last - first) / k->word,
		               .start = ms_kind_near(spot, START),
		               .size = ms_kind_near(spot, SIZE) };
	return first < last && last <= room && ms_kind_fits(spot->to.usable, room) &&
	       (first | last | room) % k->word == 0 && ret->n < MOST_PARTS &&
	       ret->size < UINT32_MAX && ret->start < UINT32_MAX && have_one_length(k, ret) &&
	       has_any_length(ret);
}

/* ---- what is not used ---- */

static void leave_map(struct ms_kinds *k, const struct deque *q)
{
	struct ms_tail_claim claim = { .of = MS_TAIL_DEQUE,
		                       .front = q->from * k->word,
		                       .back = (q->from + q->n) * k->word };

	for (int i = 0; i <= ROOM; i++)
		claim.words += ms_kind_near(q->spot, i) - q->spot->to.begin < q->spot->to.usable;
	ms_kinds_tail(k, &q->spot->to, &claim);
}

/* In use are the bytes [@front, @back) of part @i. */
static void leave_part(struct ms_kinds *k, const struct deque *q, uint64_t i, uint64_t front,
                       uint64_t back)
{
	struct ms_tail_claim claim = { .of = MS_TAIL_DEQUE, .front = front, .back = back };
	const uint64_t room = (ms_kind_near(q->spot, ROOM) - q->spot->to.begin) / k->word;
	struct ms_kind_block part;
	uint64_t slot;

	if (!part_at(k, q, i, &part))
		return;
	/* Places outside of those in use have old pointers, too. */
	for (uint64_t at = 0; at < room; at++) {
		if (!ms_kinds_step(k) ||
		    !ms_kinds_words(k, q->spot->to.begin + at * k->word, &slot, 1))
			return;
		claim.words += slot - part.begin < part.usable;
	}
	ms_kinds_tail(k, &part, &claim);
}

static bool is_before(struct place a, struct place b)
{
	return a.part < b.part || (a.part == b.part && a.offset < b.offset);
}

/* The bytes that elements of any length that is possible have; false when there is none. */
static bool bytes_in_use(const struct deque *q, struct place *ret_front, struct place *ret_back)
{
	uint64_t len = ms_align_up(least_length(q), q->spot->word);
	bool any = false;

	for (; len <= q->usable / LONG_ONES; len += q->spot->word) {
		const uint64_t n = elements_in(q, len);
		const uint64_t end = q->start + q->size;
		struct place front;
		struct place back;

		if (!may_have(q, n))
			continue;
		front = (struct place){ q->start / n, q->start % n * len };
		back = (struct place){ end / n, end % n * len };
		if (!any || is_before(front, *ret_front))
			*ret_front = front;
		if (!any || is_before(*ret_back, back))
			*ret_back = back;
		any = true;
	}
	return any;
}

static void leave_tails(struct ms_kinds *k, const struct deque *q)
{
	struct place front = { 0 };
	struct place back = { 0 };

	leave_map(k, q);
	if (!bytes_in_use(q, &front, &back))
		return;
	for (uint64_t i = 0; i < q->n; i++)
		if (i < front.part || i > back.part)
			leave_part(k, q, i, 0, 0);
		else if (i == front.part || i == back.part)
			leave_part(k, q, i, i == front.part ? front.offset : 0,
			           i == back.part ? back.offset : q->usable);
}

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	struct ms_kind_block part;
	struct deque q;

	if (!k->libcxx || !is_deque(k, spot, &q))
		return;
	ms_kinds_claim(k, &spot->to, &map, spot);
	for (uint64_t i = 0; i < q.n && part_at(k, &q, i, &part); i++)
		ms_kinds_claim(k, &part, &elements, spot);
	if (k->tails)
		leave_tails(k, &q);
}

const struct ms_kind ms_kind_libcxx = { .name = "std::deque of libc++",
	                                .narrow = true,
	                                .pointer = pointer,
	                                .may = ms_kind_may_be_cxx };
