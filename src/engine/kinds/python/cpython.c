/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/kinds/python/cpython.h"

/*
 * Objects of CPython 3.7 to 3.14, by what every one has: a count of references, and a pointer to
 * its type, which is an object itself. The type of types is its own:
 *
 *	block       object                type                     type of types
 *	┌────────┬──────────────┐     ┌──────────────┐          ┌──────────────┐
 *	│ gc, …  │ refs         │     │ refs         │          │ refs         │
 *	│        │ type       ──┼────▶│ type       ──┼────▶ …  ─▶│ type       ──┼─▶ itself
 *	└────────┴──────────────┘     │ size, name   │          │ …, "type"    │
 *	                              └──────────────┘          └──────────────┘
 *
 * In front of an object are two words for the collector of cycles, and from 3.11 on two more,
 * for its attributes and weak references. The builds that keep lists of all objects, or that
 * have no global lock, have other headers; there nothing is claimed.
 *
 * Source: Include/object.h, cpython/object.h, cpython/listobject.h, dictobject.h, setobject.h,
 * internal/pycore_object.h of these versions.
 */

/* Words of a type. */
enum { TYPE_NAME = 3, TYPE_SIZE = 4, TYPE_ITEM = 5, TYPE_FLAGS = 21, TYPE_WORDS = 22 };

enum { MOST_HEADER = 4, MOST_METATYPES = 8, MOST_KEPT = 1 << 20, WINDOW = 4096 };

/* What is kept of a type. */
#define KEPT_LIST (UINT64_C(1) << 32)
#define KEPT_DICT (UINT64_C(1) << 33)
#define KEPT_SET  (UINT64_C(1) << 34)
#define KEPT_NONE (UINT64_C(1) << 35)

static const struct ms_kind_type items = { "items of list", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type keys = { "keys of dict", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type values = { "values of dict", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type table = { "table of set", MS_HOW_CONTAINER, MS_SURE_CERTAIN };

/* ---- the type of types ---- */

static bool is_named_type(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[TYPE_SIZE + 1];
	char name[MS_CPYTHON_NAME];

	return ms_kinds_words(k, at, words, TYPE_SIZE + 1) && words[1] == at &&
	       words[TYPE_SIZE] >= TYPE_WORDS * MS_KIND_WORD && words[TYPE_SIZE] < WINDOW &&
	       ms_kinds_text(k, words[TYPE_NAME], name, sizeof(name)) && !strcmp(name, "type");
}

/* A word with its own address, less one word, is where it may be. */
static ms_addr search_data(struct ms_kinds *k, struct ms_range data)
{
	uint8_t bytes[WINDOW];

	while (data.begin < data.end) {
		uint64_t left = ms_range_len(data);
		size_t got = ms_source_read(k->src, data.begin, bytes,
		                            left < WINDOW ? (size_t)left : (size_t)WINDOW);

		for (size_t i = 0; i < got / MS_KIND_WORD; i++) {
			ms_addr at = data.begin + (i - 1) * MS_KIND_WORD;

			if (ms_kind_word(bytes, i) == at && is_named_type(k, at))
				return at;
		}
		data.begin += got / MS_KIND_WORD * MS_KIND_WORD;
		if (got < MS_KIND_WORD)
			data.begin = ms_align_up(data.begin + 1, k->src->abi.page_bytes);
	}
	return 0;
}

bool ms_cpython_begin(struct ms_kinds *k)
{
	struct ms_data data;

	for (size_t i = 0; !k->python_type && ms_next_data(k->src, k->regions, &i, &data);)
		k->python_type = search_data(k, data.range);
	return k->python_type;
}

/* ---- types ---- */

static bool is_type(struct ms_kinds *k, ms_addr at)
{
	uint64_t word;

	for (int i = 0; i < MOST_METATYPES; i++) {
		if (!ms_kinds_words(k, at + MS_KIND_WORD, &word, 1) || word % MS_KIND_WORD)
			return false;
		if (word == k->python_type)
			return true;
		if (word == at)
			return false;
		at = word;
	}
	return false;
}

bool ms_cpython_type(struct ms_kinds *k, ms_addr at, struct ms_cpython_type *ret)
{
	uint64_t words[TYPE_WORDS];

	if (!is_type(k, at) || !ms_kinds_words(k, at, words, TYPE_WORDS) ||
	    !ms_kinds_text(k, words[TYPE_NAME], ret->name, sizeof(ret->name)))
		return false;
	ret->bytes = words[TYPE_SIZE];
	ret->item_bytes = words[TYPE_ITEM];
	ret->flags = words[TYPE_FLAGS];
	return true;
}

static uint64_t look_at_type(struct ms_kinds *k, ms_addr at)
{
	struct ms_type type = { .how = MS_HOW_OBJECT };
	struct ms_cpython_type found;
	uint64_t kept;

	if (!ms_cpython_type(k, at, &found))
		return KEPT_NONE;
	(void)snprintf(type.name, sizeof(type.name), "%s", found.name);
	ms_types_module(k->types, at, type.module);
	kept = ms_types_add(k->types, &type);
	if (kept == MS_TYPE_UNKNOWN)
		return KEPT_NONE;
	if (found.flags >> MS_CPYTHON_LIST & 1)
		kept |= KEPT_LIST;
	if (found.flags >> MS_CPYTHON_DICT & 1)
		kept |= KEPT_DICT;
	if (!strcmp(type.name, "set") || !strcmp(type.name, "frozenset"))
		kept |= KEPT_SET;
	return kept;
}

uint64_t ms_cpython_known(struct ms_kinds *k, ms_addr at, ms_cpython_look *look)
{
	uint64_t known = ms_map_find(&k->python, at);

	if (known)
		return known;
	known = look(k, at);
	/* Without memory it is asked again. */
	if (k->python.used < MOST_KEPT)
		(void)ms_map_add(&k->python, &k->passing, at, known);
	return known;
}

/* ---- objects ---- */

static bool may_be_type(const struct ms_kinds *k, uint64_t word)
{
	const struct ms_region *region;

	if (!word || word % MS_KIND_WORD)
		return false;
	region = ms_region_of(k->regions, word);
	return region && region->kind != MS_REGION_SKIP;
}

/*
 * A count of references is no pointer: in the upper half are zeros, or flags in the upper
 * quarter (3.14). A program at a fixed address has its data, and what its first heap gives, below
 * that: of two attributes in a row the second may be a type.
 */
bool ms_cpython_is_count(const struct ms_kinds *k, uint64_t word)
{
	return (uint32_t)word && !(word >> 32 & 0xffff) && !may_be_type(k, word);
}

/* What belongs to the object whose words are at @words, of which there are @n. */
static void claim_parts(struct ms_kinds *k, const uint8_t *words, size_t n, uint64_t kept)
{
	if ((kept & KEPT_LIST) && n > 3)
		ms_kinds_claim_at(k, ms_kind_word(words, 3), &items, NULL);
	if ((kept & KEPT_DICT) && n > 5) {
		ms_kinds_claim_at(k, ms_kind_word(words, 4), &keys, NULL);
		ms_kinds_claim_at(k, ms_kind_word(words, 5), &values, NULL);
	}
	if ((kept & KEPT_SET) && n > 5)
		ms_kinds_claim_at(k, ms_kind_word(words, 5), &table, NULL);
}

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	size_t n = b->n / MS_KIND_WORD;

	for (size_t i = 0; i <= MOST_HEADER && i + 1 < n; i += 2) {
		uint64_t kept;

		if (!ms_cpython_is_count(k, ms_kind_word(b->bytes, i)) ||
		    !may_be_type(k, ms_kind_word(b->bytes, i + 1)))
			continue;
		kept = ms_cpython_known(k, ms_kind_word(b->bytes, i + 1), look_at_type);
		if (kept & KEPT_NONE)
			continue;
		ms_kinds_claim_as(k, b, (uint32_t)kept);
		claim_parts(k, b->bytes + i * MS_KIND_WORD, n - i, kept);
		return;
	}
}

const struct ms_kind ms_kind_cpython = { .name = "CPython",
	                                 .begin = ms_cpython_begin,
	                                 .block = block };
