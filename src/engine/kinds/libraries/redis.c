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
 * A dict is one when its tables lead to as many entries as it counts. What its keys are, and its
 * values, is what all of them are. A value by itself is known where it leads to a string; and the
 * strings of redis (sds), to whose characters pointers lead, have in front of them:
 *
 *	│ length │ room │ kind: 1 to 4 │ characters … │ NUL │      numbers of 1 to 8 bytes
 *	                │ length, 0: 3 │ characters … │ NUL │      of less than 32
 *
 * All this is looked for in every program: others have the same dicts and strings.
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
static const struct ms_kind_type sds = { "sds string", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type sorted = { "zset", MS_HOW_CONTAINER, MS_SURE_CERTAIN };

/* ---- strings ---- */

enum { LONGEST_HEADER = 17, KIND_MASK = 7, KIND_BITS = 3 };

/*
 * Whether the characters of a string are at @at: the byte in front of them says which header it
 * has, of so many bytes, and that how long it is.
 */
static bool is_string(struct ms_kinds *k, ms_addr at, struct ms_kind_block *ret)
{
	static const uint8_t headers[] = { 1, 3, 5, 9, LONGEST_HEADER };
	uint64_t len = 0;
	uint64_t room = 0;
	uint8_t end = 1;
	uint8_t flags;
	uint64_t head;

	if (!ms_peek_read(&k->peek, at - 1, &flags, 1) ||
	    (flags & KIND_MASK) >= sizeof(headers) / sizeof(headers[0]))
		return false;
	head = headers[flags & KIND_MASK];
	if (!ms_kinds_at(k, at - head, ret) || ret->usable <= head)
		return false;
	if (head == 1)
		len = room = flags >> KIND_BITS;
	else if (ms_peek_read(&k->peek, ret->begin, &len, (size_t)head / 2) != head / 2 ||
	         ms_peek_read(&k->peek, ret->begin + head / 2, &room, (size_t)head / 2) != head / 2)
		return false;
	/* One without characters has room for them as a rule, and so a longer header. */
	return (len || head > 1) && len <= room && room < ret->usable - head &&
	       ms_kind_fits(ret->usable, head + room + 1) &&
	       ms_peek_read(&k->peek, at + len, &end, 1) && !end;
}

/* ---- values ---- */

enum {
	VALUE_BYTES = 16,
	MOST_VALUE = 128,
	SHARED = INT32_MAX,
	SHARED_NUMBERS = 10000,
	MOST_REFERENCES = 1 << 16
};

/* Of types: a string, a list, a set, a sorted set, a hash. */
enum { STRING, SORTED = 3 };
enum { RAW = 0, INTEGER = 1, SKIP_LIST = 7, EMBEDDED = 8, HEADER = 3 };

/* Encodings that each type can have, a bit for each. */
static const uint16_t encodings[] = {
	1 << RAW | 1 << INTEGER | 1 << EMBEDDED, /* string */
	1 << 9 | 1 << 11,                        /* list: quicklist, listpack */
	1 << 2 | 1 << 6 | 1 << 11,               /* set: dict, intset, listpack */
	1 << 5 | 1 << SKIP_LIST | 1 << 11,       /* sorted set: ziplist, skip list, listpack */
	1 << 2 | 1 << 5 | 1 << 11,               /* hash: dict, ziplist, listpack */
};

/* What a value says of itself. */
struct head {
	struct ms_kind_block of;
	uint64_t type;
	uint64_t encoding;
	uint64_t references;
	uint64_t leads_to; /* or a number */
};

/* An address, too, can look like a type and some references: it is none. */
static bool read_head(struct ms_kinds *k, const struct ms_kind_block *b, struct head *ret)
{
	uint64_t words[VALUE_BYTES / sizeof(uint64_t)];

	if (!ms_kinds_words(k, b->begin, words, VALUE_BYTES / MS_KIND_WORD))
		return false;
	*ret = (struct head){ *b, words[0] & 15, words[0] >> 4 & 15, words[0] >> 32, words[1] };
	return ret->type < sizeof(encodings) / sizeof(encodings[0]) &&
	       (encodings[ret->type] >> ret->encoding & 1) && ret->references &&
	       (ret->references <= MOST_REFERENCES || ret->references == SHARED) &&
	       (ret->encoding == EMBEDDED || b->usable < (uint64_t)2 * VALUE_BYTES) &&
	       !ms_region_of(k->regions, words[0]);
}

/* The text behind the value itself has its own header. */
static bool has_text(struct ms_kinds *k, const struct head *h)
{
	uint8_t text[HEADER];
	uint8_t end = 1;

	return h->leads_to == h->of.begin + VALUE_BYTES + HEADER &&
	       ms_peek_read(&k->peek, h->of.begin + VALUE_BYTES, text, HEADER) == HEADER &&
	       text[2] == 1 && text[0] <= text[1] &&
	       ms_kind_fits(h->of.usable, (uint64_t)VALUE_BYTES + HEADER + text[1] + 1) &&
	       ms_peek_read(&k->peek, h->leads_to + text[0], &end, 1) && !end;
}

/* Whether it is one by what it leads to, or by a number that is made once and never goes. */
static bool is_value_by_itself(struct ms_kinds *k, const struct head *h)
{
	struct ms_kind_block found;

	if (h->type != STRING)
		return false;
	if (h->encoding == INTEGER)
		return h->references == SHARED && h->leads_to < SHARED_NUMBERS;
	return h->encoding == EMBEDDED ? has_text(k, h) : is_string(k, h->leads_to, &found);
}

/* Whether it may be one where values are: some of them are numbers, or lead to any block. */
static bool may_be_value(struct ms_kinds *k, ms_addr at, struct head *ret)
{
	struct ms_kind_block found;

	return ms_kinds_at(k, at, &found) && read_head(k, &found, ret) &&
	       ((ret->type == STRING && ret->encoding == INTEGER) ||
	        (ret->type != STRING && ms_kinds_at(k, ret->leads_to, &found)) ||
	        is_value_by_itself(k, ret));
}

static void take_value(struct ms_kinds *k, const struct head *h)
{
	struct ms_kind_block found;
	uint64_t words[2];
	uint64_t first;

	ms_kinds_claim(k, &h->of, &value, NULL);
	if (h->type == STRING && h->encoding == RAW && is_string(k, h->leads_to, &found))
		ms_kinds_claim(k, &found, &sds, NULL);
	/* A dict and a skip list, whose functions and first node are found by these. */
	if (h->type == SORTED && h->encoding == SKIP_LIST && ms_kinds_at(k, h->leads_to, &found) &&
	    ms_kind_fits(found.usable, sizeof(words)) && ms_kinds_words(k, found.begin, words, 2) &&
	    ms_kinds_words(k, words[0], &first, 1) && ms_kinds_words(k, words[1], &first, 1))
		ms_kinds_claim(k, &found, &sorted, NULL);
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

/* What all entries of a dict have. */
enum { STRING_KEYS = 1, STRING_VALUES = 2, OBJECT_VALUES = 4 };

/* Words of an entry. */
enum { KEY, VALUE, NEXT };

static unsigned kinds_of(struct ms_kinds *k, const uint64_t words[ENTRY_WORDS])
{
	struct ms_kind_block found;
	struct head head;
	unsigned all = 0;

	if (is_string(k, words[KEY], &found))
		all |= STRING_KEYS;
	if (!words[VALUE] || is_string(k, words[VALUE], &found))
		all |= STRING_VALUES;
	if (may_be_value(k, words[VALUE], &head))
		all |= OBJECT_VALUES;
	return all;
}

static void take_entry(struct ms_kinds *k, const struct ms_kind_block *b,
                       const uint64_t words[ENTRY_WORDS], unsigned all)
{
	struct ms_kind_block found;
	struct head head;

	ms_kinds_claim(k, b, &entry, NULL);
	if ((all & STRING_KEYS) && is_string(k, words[KEY], &found))
		ms_kinds_claim(k, &found, &sds, NULL);
	if ((all & STRING_VALUES) && is_string(k, words[VALUE], &found))
		ms_kinds_claim(k, &found, &sds, NULL);
	if ((all & OBJECT_VALUES) && may_be_value(k, words[VALUE], &head))
		take_value(k, &head);
}

/* A walk over a dict: it is looked at, and then claimed. */
struct walk {
	uint64_t left; /* entries that the table counts */
	unsigned all;  /* what those so far have */
	bool claim;
};

/* The entries of one bucket, from the one at @at on; false when one is none. */
static bool take_bucket(struct ms_kinds *k, ms_addr at, struct walk *w)
{
	struct ms_kind_block found;
	uint64_t words[ENTRY_WORDS];

	for (; at; at = words[NEXT]) {
		if (!w->left || !ms_kinds_step(k) || !ms_kinds_at(k, at, &found) ||
		    !ms_kinds_words(k, at, words, ENTRY_WORDS))
			return false;
		w->left--;
		if (w->claim)
			take_entry(k, &found, words, w->all);
		else if (w->all)
			w->all &= kinds_of(k, words);
	}
	return true;
}

static bool take_table(struct ms_kinds *k, const struct dict *d, int i, struct walk *w)
{
	struct ms_kind_block found;
	ms_addr at;

	if (!d->tables[i])
		return true;
	if (!ms_kinds_at(k, d->tables[i], &found) ||
	    !ms_kind_fits(found.usable, d->sizes[i] * MS_KIND_WORD))
		return false;
	if (w->claim)
		ms_kinds_claim(k, &found, &table, NULL);
	w->left = d->counts[i];
	/* What is empty is passed without a step. */
	for (uint64_t bucket = 0; bucket < d->sizes[i] && w->left; bucket++)
		if (!ms_kinds_words(k, d->tables[i] + bucket * MS_KIND_WORD, &at, 1) ||
		    !take_bucket(k, at, w))
			return false;
	return !w->left;
}

static bool take_dict(struct ms_kinds *k, const struct ms_kind_block *b, const struct dict *d)
{
	struct walk w = { .all = STRING_KEYS | STRING_VALUES | OBJECT_VALUES };

	if (!take_table(k, d, 0, &w) || !take_table(k, d, 1, &w))
		return false;
	ms_kinds_claim(k, b, &dict, NULL);
	w.claim = true;
	(void)take_table(k, d, 0, &w);
	(void)take_table(k, d, 1, &w);
	return true;
}

/* Its functions are a variable of the program, and the first is always there. */
static bool has_functions(struct ms_kinds *k, ms_addr at)
{
	uint64_t function;
	uint8_t prot;

	return ms_kinds_module(k, at, &prot) && ms_kinds_words(k, at, &function, 1) &&
	       ms_kinds_is_code(k, function);
}

static bool look_for_dict(struct ms_kinds *k, const struct ms_kind_block *b)
{
	struct dict d;

	if (b->n < WORDS * MS_KIND_WORD || b->usable > MOST_DICT ||
	    !has_functions(k, ms_kind_word(b->bytes, 0)))
		return false;
	return (read_new(b, &d) && take_dict(k, b, &d)) || (read_old(b, &d) && take_dict(k, b, &d));
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
enum { LEAST_ROOM = 32, MOST_LOOP = 112 };

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
	struct ms_kind_block of_state;
	struct ms_kind_block of_polled;
	uint64_t state[2];

	if (b->n < (first + TABLES_END) * MS_KIND_WORD || highest >= room || room < LEAST_ROOM ||
	    !has_table(k, ms_kind_word(b->bytes, first + EVENTS), room * EVENT_BYTES, &of_events) ||
	    !has_table(k, ms_kind_word(b->bytes, first + FIRED), room * FIRED_BYTES, &of_fired) ||
	    !has_table(k, ms_kind_word(b->bytes, first + EPOLL), sizeof(state), &of_state) ||
	    !ms_kinds_words(k, of_state.begin, state, 2) ||
	    !has_table(k, state[1], room * POLLED_BYTES, &of_polled) ||
	    !is_function(k, ms_kind_word(b->bytes, first + BEFORE_SLEEP)) ||
	    !is_function(k, ms_kind_word(b->bytes, first + AFTER_SLEEP)))
		return false;
	ms_kinds_claim(k, b, &loop, NULL);
	ms_kinds_claim(k, &of_events, &events, NULL);
	ms_kinds_claim(k, &of_fired, &fired, NULL);
	ms_kinds_claim(k, &of_state, &epoll, NULL);
	ms_kinds_claim(k, &of_polled, &polled, NULL);
	return true;
}

static bool look_for_loop(struct ms_kinds *k, const struct ms_kind_block *b)
{
	return b->usable <= MOST_LOOP && (take_loop(k, b, 2) || take_loop(k, b, 3));
}

/* ---- the kind ---- */

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	struct head head;

	if (b->n < VALUE_BYTES)
		return;
	if (look_for_dict(k, b) || look_for_loop(k, b))
		return;
	if (read_head(k, b, &head) && is_value_by_itself(k, &head))
		take_value(k, &head);
}

const struct ms_kind ms_kind_redis = { .name = "redis", .block = block };
