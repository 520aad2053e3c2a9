/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * redis, and what was made of it: its values, and its hash tables with their entries.
 *
 *	value       │ type: 4, encoding: 4, clock: 24, references: 32 │ what it is of │
 *	dict 7      │ functions │ 2 tables │ 2 counts │ rehashing │ 2 sizes, powers of two │
 *	dict 4      │ functions │ data │ table, size, mask, count │ the same │ rehashing │ …
 *	entry       │ key │ value │ next │ …
 *
 * A dict is one when its tables lead to as many entries as it counts. The strings of redis are
 * text with a length in front (text.c); but one of less than 32 characters has it in a byte:
 *
 *	│ length: 5, 0: 3 │ characters … │ NUL │
 *
 * Its loop over events has tables with room for as many descriptors as it says, and the size of
 * each agrees with that (before 6.2 with a time in front of the tables):
 *
 *	aeEventLoop  │ highest, room │ next timer │ events │ fired │ timers │ stop │ epoll │ …
 *	epoll        │ descriptor │ its events │
 *
 * Source: redis 4.0 to 7.0 src/server.h, dict.h, sds.h, ae.h, ae_epoll.c.
 */

static const struct ms_kind_type value = { "redisObject", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type dict = { "dict", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type entry = { "dictEntry", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type table = { "table of dict", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type sds = { "sds string", MS_HOW_OBJECT, MS_SURE_LIKELY };

/* ---- values ---- */

enum { VALUE_BYTES = 16, MOST_EMBEDDED = 64, SHARED = INT32_MAX, MOST_REFERENCES = 1 << 16 };

/* Of types: a string, a list, a set, a sorted set, a hash. */
enum { RAW = 0, INTEGER = 1, EMBEDDED = 8, HEADER = 3 };

/* Encodings that each type can have, a bit for each. */
static const uint16_t encodings[] = {
	1 << RAW | 1 << INTEGER | 1 << EMBEDDED, /* string */
	1 << 9 | 1 << 11,                        /* list: quicklist, listpack */
	1 << 2 | 1 << 6 | 1 << 11,               /* set: dict, intset, listpack */
	1 << 5 | 1 << 7 | 1 << 11,               /* sorted set: ziplist, skip list, listpack */
	1 << 2 | 1 << 5 | 1 << 11,               /* hash: dict, ziplist, listpack */
};

/* The text behind the value itself, which has a header of a length, a room and a kind. */
static bool has_text(const struct ms_kind_block *b)
{
	return b->n >= VALUE_BYTES + HEADER + 1 && b->usable <= MOST_EMBEDDED + MS_KIND_SLACK &&
	       ms_kind_word(b->bytes, 1) == b->begin + VALUE_BYTES + HEADER &&
	       b->bytes[VALUE_BYTES + 2] == 1 &&
	       b->bytes[VALUE_BYTES] <= b->bytes[VALUE_BYTES + 1] &&
	       (size_t)VALUE_BYTES + HEADER + b->bytes[VALUE_BYTES] < b->n &&
	       !b->bytes[VALUE_BYTES + HEADER + b->bytes[VALUE_BYTES]];
}

/* What a string leads to has as many bytes in front as its length needs. */
static bool leads_to_string(struct ms_kinds *k, ms_addr at)
{
	static const uint8_t headers[] = { 1, 3, 5, 9, 17 };
	struct ms_kind_block found;

	for (size_t i = 0; i < sizeof(headers); i++)
		if (ms_kinds_at(k, at - headers[i], &found))
			return true;
	return false;
}

/* An address, too, can look like a type and some references: it is none. */
static bool is_value(struct ms_kinds *k, const struct ms_kind_block *b)
{
	const uint64_t word = ms_kind_word(b->bytes, 0);
	const uint64_t type = word & 15;
	const uint64_t encoding = word >> 4 & 15;
	const uint64_t references = word >> 32;
	struct ms_kind_block found;

	if (type >= sizeof(encodings) / sizeof(encodings[0]) ||
	    !(encodings[type] >> encoding & 1) || !references ||
	    (references > MOST_REFERENCES && references != SHARED) ||
	    ms_region_of(k->regions, word))
		return false;
	if (!type && encoding == EMBEDDED)
		return has_text(b);
	if (b->usable >= (uint64_t)2 * VALUE_BYTES)
		return false;
	if (type)
		return ms_kinds_at(k, ms_kind_word(b->bytes, 1), &found);
	if (encoding == RAW)
		return leads_to_string(k, ms_kind_word(b->bytes, 1));
	/* Small numbers are made once, and never go. */
	return references == SHARED || word >> 8 & 0xffffff;
}

/* ---- hash tables ---- */

struct dict {
	ms_addr tables[2];
	uint64_t sizes[2];
	uint64_t counts[2];
};

enum {
	WORDS = 7,
	OLD_WORDS = 11,
	MOST_DICT = 176,
	LEAST_SIZE = 4,
	ENTRY_WORDS = 3,
	NONE = UINT8_MAX
};

/* A table of no size is none. */
static bool has_size(const struct dict *d, int i)
{
	return d->tables[i] ? d->sizes[i] >= LEAST_SIZE && d->sizes[i] <= UINT32_MAX &&
	                              !(d->sizes[i] & (d->sizes[i] - 1))
	                    : !d->counts[i] && !d->sizes[i];
}

static uint64_t size_of(uint8_t power)
{
	return power < 32 ? UINT64_C(1) << power : power == NONE ? 0 : UINT64_MAX;
}

static bool read_new(const struct ms_kind_block *b, struct dict *ret)
{
	if (b->n < WORDS * MS_KIND_WORD)
		return false;
	for (int i = 0; i < 2; i++) {
		const uint8_t *powers = b->bytes + 6 * MS_KIND_WORD + 2;

		ret->tables[i] = ms_kind_word(b->bytes, 1 + (size_t)i);
		ret->counts[i] = ms_kind_word(b->bytes, 3 + (size_t)i);
		ret->sizes[i] = size_of(powers[i]);
	}
	return ret->tables[0] && has_size(ret, 0) && has_size(ret, 1);
}

static bool read_old(const struct ms_kind_block *b, struct dict *ret)
{
	if (b->n < OLD_WORDS * MS_KIND_WORD)
		return false;
	for (size_t i = 0; i < 2; i++) {
		const uint8_t *words = b->bytes + (2 + 4 * i) * MS_KIND_WORD;

		ret->tables[i] = ms_kind_word(words, 0);
		ret->sizes[i] = ms_kind_word(words, 1);
		ret->counts[i] = ms_kind_word(words, 3);
		if (ms_kind_word(words, 2) != (ret->sizes[i] ? ret->sizes[i] - 1 : 0))
			return false;
	}
	return ret->tables[0] && has_size(ret, 0) && has_size(ret, 1);
}

/* The entries of one bucket, from the one at @at on; false when one is none. */
static bool take_bucket(struct ms_kinds *k, ms_addr at, uint64_t *left, bool claim)
{
	struct ms_kind_block found;
	uint64_t words[ENTRY_WORDS];

	for (; at; at = words[ENTRY_WORDS - 1]) {
		if (!*left || !ms_kinds_step(k) || !ms_kinds_at(k, at, &found) ||
		    !ms_kinds_words(k, at, words, ENTRY_WORDS))
			return false;
		--*left;
		if (claim)
			ms_kinds_claim(k, &found, &entry, NULL);
	}
	return true;
}

/* Walk over table @i, or claim all of it. */
static bool take_table(struct ms_kinds *k, const struct dict *d, int i, bool claim)
{
	struct ms_kind_block found;
	uint64_t left = d->counts[i];
	ms_addr at;

	if (!d->tables[i])
		return true;
	if (!ms_kinds_at(k, d->tables[i], &found) ||
	    !ms_kind_fits(found.usable, d->sizes[i] * MS_KIND_WORD))
		return false;
	if (claim)
		ms_kinds_claim(k, &found, &table, NULL);
	/* What is empty is passed without a step. */
	for (uint64_t bucket = 0; bucket < d->sizes[i] && left; bucket++)
		if (!ms_kinds_words(k, d->tables[i] + bucket * MS_KIND_WORD, &at, 1) ||
		    !take_bucket(k, at, &left, claim))
			return false;
	return !left;
}

static bool take_dict(struct ms_kinds *k, const struct ms_kind_block *b, const struct dict *d)
{
	if (!take_table(k, d, 0, false) || !take_table(k, d, 1, false))
		return false;
	ms_kinds_claim(k, b, &dict, NULL);
	(void)take_table(k, d, 0, true);
	(void)take_table(k, d, 1, true);
	return true;
}

static bool look_for_dict(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint64_t function;
	struct dict d;

	if (b->n < WORDS * MS_KIND_WORD || b->usable > MOST_DICT ||
	    !ms_kinds_words(k, ms_kind_word(b->bytes, 0), &function, 1) ||
	    !ms_kinds_is_code(k, function))
		return false;
	return (read_new(b, &d) && take_dict(k, b, &d)) || (read_old(b, &d) && take_dict(k, b, &d));
}

/* ---- strings ---- */

enum { LEAST_TEXT = 3 };

static bool is_short_string(const struct ms_kind_block *b)
{
	size_t len = b->bytes[0] >> 3;

	return !(b->bytes[0] & 7) && len >= LEAST_TEXT && len + 1 < b->n &&
	       ms_kind_fits(b->usable, len + 2) && !b->bytes[len + 1] &&
	       ms_kind_printable(b->bytes + 1, len) == len;
}

/* ---- the loop over events ---- */

static const struct ms_kind_type loop = { "aeEventLoop", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type events = { "aeFileEvent[]", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type fired = { "aeFiredEvent[]", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type epoll = { "aeApiState", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type polled = { "epoll_event[]", MS_HOW_CONTAINER, MS_SURE_CERTAIN };

/* Words of it, from its table of events on; and bytes of what is in the tables. */
enum { EVENTS, FIRED, EPOLL = 4, BEFORE_SLEEP, AFTER_SLEEP, TABLES_END };
enum { EVENT_BYTES = 32, FIRED_BYTES = 8, POLLED_BYTES = 12 };
enum { LEAST_ROOM = 32, MOST_ROOM = 1 << 24, MOST_LOOP = 112 };

static bool has_table(struct ms_kinds *k, ms_addr at, uint64_t bytes, struct ms_kind_block *ret)
{
	return ms_kinds_at(k, at, ret) && ms_kind_fits(ret->usable, bytes);
}

static bool is_function(const struct ms_kinds *k, uint64_t word)
{
	return !word || ms_kinds_is_code(k, word);
}

/* With its tables from word @first on. */
static bool take_loop(struct ms_kinds *k, const struct ms_kind_block *b, size_t first)
{
	uint64_t highest = (uint32_t)ms_kind_word(b->bytes, 0);
	uint64_t room = ms_kind_word(b->bytes, 0) >> 32;
	struct ms_kind_block of_events;
	struct ms_kind_block of_fired;
	struct ms_kind_block found;
	uint64_t state[2];

	if (b->n < (first + TABLES_END) * MS_KIND_WORD || highest >= room || room < LEAST_ROOM ||
	    room > MOST_ROOM ||
	    !has_table(k, ms_kind_word(b->bytes, first + EVENTS), room * EVENT_BYTES, &of_events) ||
	    !has_table(k, ms_kind_word(b->bytes, first + FIRED), room * FIRED_BYTES, &of_fired) ||
	    !is_function(k, ms_kind_word(b->bytes, first + BEFORE_SLEEP)) ||
	    !is_function(k, ms_kind_word(b->bytes, first + AFTER_SLEEP)))
		return false;
	ms_kinds_claim(k, b, &loop, NULL);
	ms_kinds_claim(k, &of_events, &events, NULL);
	ms_kinds_claim(k, &of_fired, &fired, NULL);
	if (!ms_kinds_at(k, ms_kind_word(b->bytes, first + EPOLL), &found) ||
	    !ms_kinds_words(k, found.begin, state, 2))
		return true;
	ms_kinds_claim(k, &found, &epoll, NULL);
	if (has_table(k, state[1], room * POLLED_BYTES, &found))
		ms_kinds_claim(k, &found, &polled, NULL);
	return true;
}

static bool look_for_loop(struct ms_kinds *k, const struct ms_kind_block *b)
{
	return b->usable <= MOST_LOOP && (take_loop(k, b, 2) || take_loop(k, b, 3));
}

/* ---- the kind ---- */

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (b->n < VALUE_BYTES)
		return;
	if (look_for_dict(k, b) || look_for_loop(k, b))
		return;
	if (is_value(k, b))
		ms_kinds_claim(k, b, &value, NULL);
	else if (is_short_string(b))
		ms_kinds_claim(k, b, &sds, NULL);
}

static bool begin(struct ms_kinds *k)
{
	return ms_kinds_file(k, "redis-") || ms_kinds_file(k, "valkey-") ||
	       ms_kinds_file(k, "keydb-");
}

const struct ms_kind ms_kind_redis = { .name = "redis", .begin = begin, .block = block };
