/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/kinds/kinds.h"

/*
 * Buffers of std::string, which hold what is too long for the string itself:
 *
 *	libstdc++      │ ptr │ length │ capacity │ …    a block of capacity + 1 bytes
 *	libc++         │ bytes of the block + 1 │ length │ ptr │
 *	before C++11   │ ptr │    to the characters behind │ length │ capacity │ references - 1 │
 *
 * In all of them a NUL stands behind the characters, of which none is a NUL: strings of binary
 * data are left alone.
 *
 * Source: libstdc++ 12 bits/basic_string.h and cow_string.h; libc++ 14 include/string.
 */

enum { SHORT_CAPACITY = 15, MOST_REFERENCES = 1 << 20, PIECE = 512 };

static const struct ms_kind_type buffer = { "buffer of std::string", MS_HOW_CONTAINER,
	                                    MS_SURE_CERTAIN };

/* Whether @len bytes other than NUL, and then one, are at @at. Only the ends of long ones count. */
static bool is_terminated(struct ms_kinds *k, ms_addr at, uint64_t len)
{
	uint64_t n = len < PIECE ? len : (uint64_t)PIECE;
	char bytes[PIECE + 1];

	if (!len || ms_peek_read(&k->peek, at + len - n, bytes, (size_t)n + 1) != n + 1)
		return false;
	return !bytes[n] && !memchr(bytes, '\0', (size_t)n);
}

/* A GString has a power of two allocated, more than its length. */
static bool may_be_glib(uint64_t len, uint64_t capacity)
{
	return len < capacity && !(capacity & (capacity - 1));
}

static bool is_libstdcxx(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t len;
	uint64_t capacity;

	if (spot->behind < 3)
		return false;
	len = ms_kind_near(spot, 1);
	capacity = ms_kind_near(spot, 2);
	return capacity > SHORT_CAPACITY && len <= capacity && capacity < UINT64_MAX &&
	       ms_kind_fits(spot->to.usable, capacity + 1) && !may_be_glib(len, capacity) &&
	       is_terminated(k, spot->to.begin, len);
}

static bool is_libcxx(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t len;
	uint64_t bytes;

	if (!k->libcxx || spot->before < 2)
		return false;
	len = ms_kind_near(spot, -1);
	bytes = ms_kind_near(spot, -2);
	return bytes % 16 == 1 && len < bytes - 1 && ms_kind_fits(spot->to.usable, bytes - 1) &&
	       is_terminated(k, spot->to.begin, len);
}

static bool is_cow(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	const uint64_t header = MS_KIND_COW * k->word;
	uint64_t words[MS_KIND_COW];

	if (spot->to.usable <= header || !ms_kinds_words(k, spot->to.begin, words, MS_KIND_COW) ||
	    words[0] > words[1] || words[1] >= UINT64_MAX - header ||
	    (uint32_t)words[2] >= MOST_REFERENCES)
		return false;
	return ms_kind_fits(spot->to.usable, words[1] + header + 1) &&
	       is_terminated(k, spot->to.begin + header, words[0]);
}

/* A text of @len bytes is at @offset, and a NUL. */
static void claim(struct ms_kinds *k, const struct ms_kind_spot *spot,
                  const struct ms_kind_spot *holder, uint64_t offset, uint64_t len)
{
	ms_kinds_claim_text(k, &spot->to, &buffer, holder,
	                    (struct ms_kind_text){ .offset = offset, .len = len });
	ms_kinds_tail(k, &spot->to,
	              &(struct ms_tail_claim){
			      .of = MS_TAIL_STRING, .back = offset + len + 1, .words = 1 });
}

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	struct ms_kind_spot holder;
	uint64_t len;

	if (!k->cxx)
		return;
	if (spot->offset) {
		if (!is_cow(k, spot))
			return;
		if (!ms_kinds_words(k, spot->to.begin, &len, 1))
			return;
		claim(k, spot, spot, MS_KIND_COW * k->word, len);
	} else if (is_libstdcxx(k, spot)) {
		claim(k, spot, spot, 0, ms_kind_near(spot, 1));
	} else if (is_libcxx(k, spot)) {
		holder = ms_kind_holder(spot, 2);
		claim(k, spot, &holder, 0, ms_kind_near(spot, -1));
	}
}

const struct ms_kind ms_kind_strings = {
	.name = "std::string", .narrow = true, .pointer = pointer, .may = ms_kind_may_be_cxx
};
