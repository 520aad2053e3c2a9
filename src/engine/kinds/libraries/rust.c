/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/kinds/kinds.h"

/*
 * What Rust's collections keep their elements in:
 *
 *	String, Vec     │ pointer │ room │ length │   or   │ room │ pointer │ length │
 *	HashMap         │ elements … │ a byte for each place │ the first 16 of these again │
 *
 * A String is UTF-8, and no NUL ends it. Only three words are evidence of a Vec, so it is
 * "likely". In a HashMap's bytes a place is empty (255), was used (128) or has seven bits of a
 * hash; it has a power of two of places, of which an eighth is empty at least, and where they
 * are fewer than 16, those behind are empty.
 *
 * All this only where a program has been compiled from Rust: messages of its library name the
 * library's source files.
 *
 * Source: Rust 1.63 and 1.80 library/alloc/src/raw_vec.rs, vec/mod.rs; hashbrown 0.12
 * src/raw/mod.rs.
 */

static const struct ms_kind_type string = { "characters of String", MS_HOW_CONTAINER,
	                                    MS_SURE_CERTAIN };
static const struct ms_kind_type vec = { "elements of Vec", MS_HOW_CONTAINER, MS_SURE_LIKELY };
static const struct ms_kind_type table = { "table of HashMap or HashSet", MS_HOW_CONTAINER,
	                                   MS_SURE_CERTAIN };

/* ---- whether it is there ---- */

enum { WINDOW = 4096, MOST_CONSTANTS = 1 << 26 };

static bool has_text(struct ms_kinds *k, struct ms_range range, const char *text)
{
	const size_t len = strlen(text);
	uint8_t bytes[WINDOW];

	for (ms_addr at = range.begin; at < range.end; at += WINDOW - len) {
		uint64_t left = range.end - at;
		size_t got = ms_source_read(k->src, at, bytes,
		                            left < WINDOW ? (size_t)left : (size_t)WINDOW);

		if (memmem(bytes, got, text, len))
			return true;
	}
	return false;
}

/* Constants of the program itself, and not of its libraries. */
static bool begin(struct ms_kinds *k)
{
	const struct ms_region *region;

	ms_vec_for_each (region, k->regions) {
		const struct ms_mapping *mapping = ms_region_mapping(k->src, region);

		if (region->kind == MS_REGION_GLOBALS && mapping->file &&
		    mapping->prot == MS_PROT_READ &&
		    ms_range_len(region->range) <= MOST_CONSTANTS &&
		    !strstr(mapping->name, ".so") && has_text(k, region->range, "library/std/src/"))
			return true;
	}
	return false;
}

/* ---- maps ---- */

enum { LEAST_PLACES = 4, GROUP = 16, EMPTY = 0xff, DELETED = 0x80, PIECE = 512 };
enum { LARGE = 1 << 16, LARGE_PLACES = 256 };

/* Whether the byte of a place, or one behind them, is what a map of @n places has there. */
static bool may_be(uint8_t byte, uint64_t place, uint64_t n, const uint8_t first[GROUP])
{
	const uint64_t again = n < GROUP ? GROUP : n;

	if (place < n)
		return byte <= DELETED || byte == EMPTY;
	return byte == (place >= again && place - again < n ? first[place - again] : EMPTY);
}

/* The bytes of @n places, which are at @at. */
static bool are_places(struct ms_kinds *k, ms_addr at, uint64_t n)
{
	uint8_t first[GROUP];
	uint8_t bytes[PIECE];
	uint64_t full = 0;
	uint64_t empty = 0;

	if (ms_peek_read(&k->peek, at, first, GROUP) != GROUP)
		return false;
	for (uint64_t i = 0; i < n + GROUP; i += PIECE) {
		size_t len = n + GROUP - i < PIECE ? (size_t)(n + GROUP - i) : (size_t)PIECE;

		if (!ms_kinds_step(k) || ms_peek_read(&k->peek, at + i, bytes, len) != len)
			return false;
		for (size_t j = 0; j < len; j++) {
			if (!may_be(bytes[j], i + j, n, first))
				return false;
			full += i + j < n && bytes[j] < DELETED;
			empty += i + j < n && bytes[j] == EMPTY;
		}
	}
	return full && empty >= n / 8;
}

/* Elements before it fill up whole groups; as many bytes as they and the places take were asked
 * for. */
static bool is_table(struct ms_kinds *k, const struct ms_kind_block *b, uint64_t n)
{
	uint64_t asked = ms_align_down(b->usable - n % GROUP, GROUP) + n % GROUP;
	uint64_t elements = asked - n - GROUP;

	return asked > n + GROUP && elements >= n && elements % (n < GROUP ? GROUP : n) == 0 &&
	       are_places(k, b->begin + elements, n);
}

/* Of a large block pages were made: its last one may be used in part. */
static bool is_large_table(struct ms_kinds *k, const struct ms_kind_block *b, uint64_t n)
{
	const uint64_t page = k->src->abi.page_bytes;
	uint64_t most = b->usable - n - GROUP;
	uint64_t elements = ms_align_down(most, n);

	if (b->usable < LARGE || n < LARGE_PLACES)
		return false;
	for (; elements >= n && most - elements < page; elements -= n)
		if (are_places(k, b->begin + elements, n))
			return true;
	return false;
}

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	for (uint64_t n = LEAST_PLACES; 2 * n + GROUP <= b->usable; n *= 2)
		if (is_table(k, b, n) || is_large_table(k, b, n)) {
			ms_kinds_claim(k, b, &table, NULL);
			return;
		}
}

/* ---- strings and vectors ---- */

enum { LEAST_TEXT = 3, LOOKED_AT = 512, LEAST_ROOM = 4, MOST_ROOM = 1 << 24, ROUNDED = 24 };

/* The room and length that the words around a pointer may be. */
struct room {
	uint64_t room;
	uint64_t len;
};

/* The room is all that an allocator gives for; and a few printable bytes can be an address. */
static bool is_string(struct ms_kinds *k, const struct ms_kind_block *b, struct room r)
{
	uint8_t text[LOOKED_AT];
	size_t n = r.len < LOOKED_AT ? (size_t)r.len : (size_t)LOOKED_AT;
	uint64_t first;
	size_t printable;

	if (r.len < LEAST_TEXT || r.len > r.room || r.room > b->usable ||
	    b->usable - r.room >= ROUNDED + r.room / 4 || !ms_kinds_words(k, b->begin, &first, 1) ||
	    (n < MS_KIND_WORD && ms_region_of(k->regions, first)) ||
	    ms_peek_read(&k->peek, b->begin, text, n) != n)
		return false;
	printable = ms_kind_printable(text, n);
	/* A character may be cut where no more are looked at. */
	return printable == n || (n == LOOKED_AT && printable + 3 >= n);
}

/* The room is one that vectors grow to, or all of it is used. */
static bool is_vec(const struct ms_kind_block *b, struct room r)
{
	uint64_t size;

	if (!r.len || r.len > r.room || r.room > MOST_ROOM ||
	    (r.len < r.room && (r.room < LEAST_ROOM || r.room & (r.room - 1))))
		return false;
	size = b->usable / r.room;
	if (size >= MS_KIND_WORD)
		size = ms_align_down(size, MS_KIND_WORD);
	return size && b->usable - size * r.room < ROUNDED;
}

static void claim(struct ms_kinds *k, const struct ms_kind_spot *spot, struct room r)
{
	if (is_string(k, &spot->to, r))
		ms_kinds_claim_text(k, &spot->to, &string, spot,
		                    (struct ms_kind_text){ .len = r.len });
	else if (is_vec(&spot->to, r))
		ms_kinds_claim(k, &spot->to, &vec, spot);
}

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	if (spot->offset)
		return;
	if (spot->behind >= 3)
		claim(k, spot, (struct room){ ms_kind_near(spot, 1), ms_kind_near(spot, 2) });
	if (spot->before >= 1 && spot->behind >= 2)
		claim(k, spot, (struct room){ ms_kind_near(spot, -1), ms_kind_near(spot, 1) });
}

const struct ms_kind ms_kind_rust = {
	.name = "Rust", .begin = begin, .block = block, .pointer = pointer
};
