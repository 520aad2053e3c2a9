/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * What redis keeps elements in, in order:
 *
 *	listpack       │ bytes: 32 │ elements: 16 │ element … │ 255 │        all in one block
 *	element        │ encoding, length or number │ … │ bytes of this, 7 in each byte │
 *	quicklist      │ head │ tail │ elements │ nodes: 64 │ …
 *	quicklistNode  │ previous │ next │ listpack │ its bytes │ … │
 *	zskiplist      │ header │ tail │ length │ level │
 *	zskiplistNode  │ string │ score │ backward │ level × (forward, span) │
 *
 * Each is walked from one end to the other, and is one when that ends where it has to.
 *
 * Source: redis 7.0 src/listpack.c, quicklist.h, server.h; 5.0 and 6.0 have the same skip list.
 */

static const struct ms_kind_type packed = { "listpack", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type quick = { "quicklist", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type quick_node = { "quicklistNode", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type skip = { "zskiplist", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type skip_node = { "zskiplistNode", MS_HOW_OBJECT, MS_SURE_CERTAIN };

/* ---- listpacks ---- */

enum { PACK_HEAD = 6, LEAST_PACK = PACK_HEAD + 1, PACK_END = 0xff, UNKNOWN_COUNT = UINT16_MAX };

/* Bytes in front of a string of up to 2^32 bytes, and a number's. */
enum { LONG_STRING = 0xf0, NUMBER_16 = 0xf1, NUMBER_64 = 0xf4, LONG_HEAD = 5 };

static uint64_t number_at(const uint8_t *bytes, size_t n)
{
	uint64_t number = 0;

	memcpy(&number, bytes, n);
	return number;
}

/* Bytes of the element at @bytes, of which @n may be read, without its length behind; 0: none. */
static uint64_t element_bytes(const uint8_t *bytes, uint64_t n)
{
	static const uint8_t numbers[] = { 3, 4, 5, 9 };
	uint8_t first = bytes[0];

	if (first < 0x80)
		return 1;
	if (first < 0xc0)
		return (uint64_t)1 + (first & 0x3f);
	if (first < 0xe0)
		return 2;
	if (first < LONG_STRING)
		return n < 2 ? 0 : (uint64_t)2 + ((uint64_t)(first & 0xf) << 8 | bytes[1]);
	if (first == LONG_STRING)
		return n < LONG_HEAD ? 0 : LONG_HEAD + number_at(bytes + 1, LONG_HEAD - 1);
	return first <= NUMBER_64 ? numbers[first - NUMBER_16] : 0;
}

/* Bytes that the length @len takes behind an element, if it is at @bytes; 0: another is. */
static uint64_t length_bytes(const uint8_t *bytes, uint64_t n, uint64_t len)
{
	uint64_t width = 1;

	while (width < LONG_HEAD && len >> (7 * width))
		width++;
	/* The last values of each width but the first take one byte more. */
	if (width > 1 && width < LONG_HEAD && len == (UINT64_C(1) << (7 * width)) - 1)
		width++;
	if (width > n)
		return 0;
	for (uint64_t i = 0; i < width; i++) {
		uint8_t part = (uint8_t)(len >> (7 * (width - 1 - i)) & 0x7f);

		if (bytes[i] != (i ? part | 0x80 : part))
			return 0;
	}
	return width;
}

/* All elements, up to the end at @bytes + @n. */
static bool are_elements(const uint8_t *bytes, uint64_t n, uint64_t count)
{
	uint64_t found = 0;
	uint64_t at = 0;

	while (at < n) {
		uint64_t len = element_bytes(bytes + at, n - at);
		uint64_t behind =
			len && len < n - at ? length_bytes(bytes + at + len, n - at - len, len) : 0;

		if (!behind)
			return false;
		at += len + behind;
		found++;
	}
	return count == UNKNOWN_COUNT || found == count;
}

static bool is_packed(const struct ms_kind_block *b)
{
	uint64_t bytes = number_at(b->bytes, sizeof(uint32_t));
	uint64_t count = number_at(b->bytes + sizeof(uint32_t), sizeof(uint16_t));

	return bytes >= LEAST_PACK && bytes <= b->n && ms_kind_fits(b->usable, bytes) &&
	       b->bytes[bytes - 1] == PACK_END &&
	       are_elements(b->bytes + PACK_HEAD, bytes - LEAST_PACK, count);
}

/* ---- quick lists ---- */

enum { HEAD, TAIL, ELEMENTS, NODES, QUICK_WORDS = 5, MOST_QUICK = 64 };
enum { PREVIOUS, NEXT, ENTRY, ENTRY_BYTES, NODE_WORDS, NODE_BYTES = 40 };

/* A node, and what it has, which says how long it is. */
static bool is_quick_node(struct ms_kinds *k, ms_addr at, struct ms_kind_block *ret,
                          uint64_t words[NODE_WORDS])
{
	struct ms_kind_block found;
	uint32_t bytes = 0;

	return ms_kinds_step(k) && ms_kinds_at(k, at, ret) &&
	       ms_kind_fits(ret->usable, NODE_BYTES) && ms_kinds_words(k, at, words, NODE_WORDS) &&
	       ms_kinds_at(k, words[ENTRY], &found) &&
	       ms_kind_fits(found.usable, words[ENTRY_BYTES]) &&
	       ms_peek_read(&k->peek, found.begin, &bytes, sizeof(bytes)) == sizeof(bytes) &&
	       bytes == words[ENTRY_BYTES];
}

/* From the head to the tail; false when that is not all. */
static bool take_nodes(struct ms_kinds *k, const struct ms_kind_block *b, bool claim)
{
	uint64_t left = ms_kind_word(b->bytes, NODES);
	ms_addr at = ms_kind_word(b->bytes, HEAD);
	uint64_t words[NODE_WORDS];
	struct ms_kind_block found;
	ms_addr before = 0;

	for (; left && is_quick_node(k, at, &found, words) && words[PREVIOUS] == before; left--) {
		if (claim)
			ms_kinds_claim(k, &found, &quick_node, NULL);
		before = at;
		at = words[NEXT];
	}
	return !left && !at && before == ms_kind_word(b->bytes, TAIL);
}

static bool is_quick(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint64_t nodes = ms_kind_word(b->bytes, NODES);

	return nodes && nodes <= ms_kind_word(b->bytes, ELEMENTS) && take_nodes(k, b, false);
}

/* ---- skip lists ---- */

enum { FIRST, LAST, LENGTH, LEVEL, SKIP_WORDS, MOST_LEVEL = 64, LEAST_LEVEL = 32 };
enum { STRING, SCORE, BACKWARD, FORWARD, SPAN, SKIP_NODE_WORDS, SKIP_HEAD = 24, LEVEL_BYTES = 16 };

/* A node has as many levels as its block has room for; the header the most. */
static bool is_skip_node(struct ms_kinds *k, ms_addr at, uint64_t least, struct ms_kind_block *ret,
                         uint64_t words[SKIP_NODE_WORDS])
{
	return ms_kinds_step(k) && ms_kinds_at(k, at, ret) &&
	       ret->usable >= SKIP_HEAD + least * LEVEL_BYTES &&
	       ret->usable < SKIP_HEAD + (uint64_t)(MOST_LEVEL + 2) * LEVEL_BYTES &&
	       ms_kinds_words(k, at, words, SKIP_NODE_WORDS);
}

static bool is_ordered(uint64_t before, uint64_t score)
{
	double a;
	double b;

	memcpy(&a, &before, sizeof(a));
	memcpy(&b, &score, sizeof(b));
	return a <= b;
}

/* From the header to the last; the first has nothing behind it. */
static bool take_skip_nodes(struct ms_kinds *k, const struct ms_kind_block *b, bool claim)
{
	uint64_t left = ms_kind_word(b->bytes, LENGTH);
	ms_addr at = ms_kind_word(b->bytes, FIRST);
	uint64_t words[SKIP_NODE_WORDS];
	struct ms_kind_block found;
	ms_addr before = 0;
	uint64_t score;

	if (!is_skip_node(k, at, LEAST_LEVEL, &found, words) || words[STRING] || words[SCORE] ||
	    words[BACKWARD])
		return false;
	if (claim)
		ms_kinds_claim(k, &found, &skip_node, NULL);
	for (; left; left--) {
		at = words[FORWARD];
		score = before ? words[SCORE] : 0;
		if (!is_skip_node(k, at, 1, &found, words) || words[BACKWARD] != before ||
		    (before && !is_ordered(score, words[SCORE])))
			return false;
		if (claim)
			ms_kinds_claim(k, &found, &skip_node, NULL);
		before = at;
	}
	return !words[FORWARD] && before == ms_kind_word(b->bytes, LAST);
}

static bool is_skip(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint32_t level = (uint32_t)ms_kind_word(b->bytes, LEVEL);

	return ms_kind_word(b->bytes, LENGTH) && level && level <= MOST_LEVEL &&
	       take_skip_nodes(k, b, false);
}

/* ---- the kind ---- */

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (is_packed(b)) {
		ms_kinds_claim(k, b, &packed, NULL);
	} else if (b->n >= QUICK_WORDS * MS_KIND_WORD && b->usable <= MOST_QUICK &&
	           is_quick(k, b)) {
		ms_kinds_claim(k, b, &quick, NULL);
		(void)take_nodes(k, b, true);
	} else if (b->n >= SKIP_WORDS * MS_KIND_WORD && b->usable <= MOST_QUICK && is_skip(k, b)) {
		ms_kinds_claim(k, b, &skip, NULL);
		(void)take_skip_nodes(k, b, true);
	}
}

const struct ms_kind ms_kind_redis_lists = { .name = "lists of redis", .block = block };
