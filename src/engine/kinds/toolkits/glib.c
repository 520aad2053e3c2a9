/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * GLib: objects, by the node that describes their type and that leads back to the class that they
 * point to; hash tables, by their holder; arrays, and those of pointers that free what is in them;
 * the pages that small structures are cut from.
 *
 *	block            instance            class          node of the type
 *	│ private data … │ class, refs, … │  │ node, … │    │ …, data, name, …, node itself, …, 80 │
 *	                                                       data: …, class, sizes
 *
 * A name is a number, its index in an array of texts that a variable of libglib has.
 *
 *	GHashTable   │ size │ mod, mask │ nodes, used │ … │ keys │ hashes │ values │ 2 functions │
 *	GPtrArray    │ items │ length, room │ references │ function │
 *	GArray       │ elements │ length, room │ bytes of one, 2 bits │ references │ 0 or function │
 *	page         │ slices … │ free ones │ their number │ next │ previous │ 16 bytes │
 *
 * Pages have 128 to 8192 bytes, and begin where a power of two does. Their ends make rings.
 *
 * Source: GLib 2.64 to 2.80 gobject/gtype.c, gtype.h, glib/gquark.c, ghash.c, garray.c; to 2.74
 * glib/gslice.c.
 */

static const struct ms_kind_type class = { "GTypeClass", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type node = { "node of a GType", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type keys = { "keys of GHashTable", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type hashes = { "hashes of GHashTable", MS_HOW_CONTAINER,
	                                    MS_SURE_CERTAIN };
static const struct ms_kind_type values = { "values of GHashTable", MS_HOW_CONTAINER,
	                                    MS_SURE_CERTAIN };
static const struct ms_kind_type table = { "GHashTable", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type items = { "items of GPtrArray", MS_HOW_CONTAINER, MS_SURE_LIKELY };
static const struct ms_kind_type elements = { "elements of GArray", MS_HOW_CONTAINER,
	                                      MS_SURE_CERTAIN };
static const struct ms_kind_type slices = { "page of GSlice", MS_HOW_CONTAINER, MS_SURE_CERTAIN };

enum { MOST_REFERENCES = 1 << 20, MOST_NAME = 128, ROUNDED = 32 };

/* A block that was asked for with so many bytes, or hardly fewer. */
static bool is_asked_for(uint64_t usable, uint64_t asked)
{
	return asked <= usable && usable - asked < ROUNDED;
}

/* ---- names ---- */

enum { QUARKS = 2048, TEXTS = 8, WINDOW = 4096 };

/* An array of them: the first is none, each other is a text. */
static bool are_quarks(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[TEXTS];
	struct ms_kind_block found;
	char text[MOST_NAME];

	if (!ms_kinds_at(k, at, &found) || found.usable < QUARKS * MS_KIND_WORD ||
	    found.usable % (QUARKS * MS_KIND_WORD) >= WINDOW ||
	    !ms_kinds_words(k, at, words, TEXTS) || words[0])
		return false;
	for (int i = 1; i < TEXTS; i++)
		if (!ms_kinds_text(k, words[i], text, sizeof(text)))
			return false;
	return true;
}

static ms_addr search_data(struct ms_kinds *k, struct ms_range data)
{
	uint64_t words[WINDOW / MS_KIND_WORD];

	for (; data.begin < data.end; data.begin += WINDOW) {
		uint64_t left = ms_range_len(data);
		size_t got = ms_source_read(k->src, data.begin, words,
		                            left < WINDOW ? (size_t)left : (size_t)WINDOW);

		for (size_t i = 0; i < got / MS_KIND_WORD; i++)
			if (are_quarks(k, words[i]))
				return words[i];
	}
	return 0;
}

static void find_quarks(struct ms_kinds *k, const struct ms_mapping *library)
{
	const struct ms_region *of = ms_region_of(k->regions, library->range.begin);
	struct ms_data data;

	for (size_t i = 0; of && !k->quarks && ms_next_data(k->src, k->regions, &i, &data);)
		if (data.region->module == of->module)
			k->quarks = search_data(k, data.range);
}

static bool name_of(struct ms_kinds *k, uint32_t quark, char ret[MOST_NAME])
{
	ms_addr at;

	return quark && ms_kinds_words(k, k->quarks + (ms_addr)quark * MS_KIND_WORD, &at, 1) &&
	       ms_kinds_text(k, at, ret, MOST_NAME);
}

/* ---- objects ---- */

/* Words of a type's node; and of its data, the last with the sizes of an instance. */
enum { NODE_BITS = 2, NODE_DATA = 4, NODE_QUARK, NODE_SUPERS = 9, NODE_WORDS };
enum { DATA_CLASS = 7, DATA_SIZES, DATA_WORDS };

#define OBJECT_TYPE (UINT64_C(20) << 2)

/* What is kept of a class: its type, and the sizes in front of and of an instance. */
#define KEPT_NONE (UINT64_C(1) << 63)
enum { KEPT_PRIVATE = 32, KEPT_SIZE = 47, SIZE_MASK = 0x7fff };

static uint64_t look_at_class(struct ms_kinds *k, ms_addr at)
{
	struct ms_type type = { .how = MS_HOW_OBJECT };
	uint64_t words[NODE_WORDS];
	uint64_t data[DATA_WORDS];
	uint64_t supers;
	uint64_t kept;
	ms_addr of;

	if (!ms_kinds_words(k, at, &of, 1) || of % MS_KIND_WORD ||
	    !ms_kinds_words(k, of, words, NODE_WORDS) || words[NODE_SUPERS] != of)
		return KEPT_NONE;
	supers = words[NODE_BITS] >> 32 & UINT8_MAX;
	if (!supers || !ms_kinds_words(k, of + (NODE_SUPERS + supers) * MS_KIND_WORD, &kept, 1) ||
	    kept != OBJECT_TYPE || !ms_kinds_words(k, words[NODE_DATA], data, DATA_WORDS) ||
	    data[DATA_CLASS] != at || !name_of(k, (uint32_t)words[NODE_QUARK], type.name))
		return KEPT_NONE;
	kept = ms_types_add(k->types, &type);
	if (kept == MS_TYPE_UNKNOWN)
		return KEPT_NONE;
	ms_kinds_claim_at(k, at, &class, NULL);
	ms_kinds_claim_at(k, of, &node, NULL);
	return kept | (data[DATA_SIZES] >> 16 & SIZE_MASK) << KEPT_PRIVATE |
	       (data[DATA_SIZES] & SIZE_MASK) << KEPT_SIZE;
}

static uint64_t kept_of(struct ms_kinds *k, ms_addr at)
{
	uint64_t kept = ms_map_find(&k->classes, at);

	if (kept)
		return kept;
	kept = look_at_class(k, at);
	return ms_map_add(&k->classes, k->arena, at, kept) ? kept : KEPT_NONE;
}

/* ---- pages of slices ---- */

/* Words of a page's end, and bytes from it to where the page would end. */
enum { FREE, USED, NEXT, PREVIOUS, END_WORDS, END_BYTES = 48, UNUSED = 16 };
enum { LEAST_PAGE = 128, MOST_PAGE = 8192, LEAST_SLICE = 16 };

static bool is_page(struct ms_kinds *k, const struct ms_kind_block *b, uint64_t bytes)
{
	const ms_addr end = b->begin + bytes - END_BYTES;
	const uint8_t *words = b->bytes + bytes - END_BYTES;
	ms_addr freed = ms_kind_word(words, FREE);
	uint32_t used = (uint32_t)ms_kind_word(words, USED);
	uint64_t next;
	uint64_t previous;

	return (!freed || freed - b->begin < bytes - END_BYTES) && used <= bytes / LEAST_SLICE &&
	       (freed || used) &&
	       ms_kinds_words(k, ms_kind_word(words, NEXT) + PREVIOUS * MS_KIND_WORD, &previous,
	                      1) &&
	       ms_kinds_words(k, ms_kind_word(words, PREVIOUS) + NEXT * MS_KIND_WORD, &next, 1) &&
	       previous == end && next == end;
}

static void look_for_page(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint64_t bytes = LEAST_PAGE;

	while (bytes < MOST_PAGE && bytes - UNUSED < b->usable - b->usable / 4)
		bytes *= 2;
	if (b->begin % bytes == 0 && is_asked_for(b->usable, bytes - UNUSED) &&
	    is_page(k, b, bytes))
		ms_kinds_claim(k, b, &slices, NULL);
}

/* What is private to each of its classes stands in front of an object, in steps of two words. */
static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	size_t n = b->n / MS_KIND_WORD;
	struct ms_kind_block found;

	look_for_page(k, b);
	for (size_t i = 0; k->quarks && i + 2 < n && i * MS_KIND_WORD <= SIZE_MASK; i += 2) {
		uint32_t references = (uint32_t)ms_kind_word(b->bytes, i + 1);
		ms_addr of = ms_kind_word(b->bytes, i);
		uint64_t kept;
		uint64_t before;

		if (!references || references > MOST_REFERENCES || of % (2 * MS_KIND_WORD) ||
		    !ms_kinds_at(k, of, &found))
			continue;
		kept = kept_of(k, of);
		before = kept >> KEPT_PRIVATE & SIZE_MASK;
		if (kept == KEPT_NONE || before != i * MS_KIND_WORD ||
		    !is_asked_for(b->usable, before + (kept >> KEPT_SIZE & SIZE_MASK)))
			continue;
		ms_kinds_claim_as(k, b, (uint32_t)kept);
		return;
	}
}

/* ---- hash tables ---- */

/* Words from that to the hashes on. */
enum {
	HASH_SIZE = -5,
	HASH_MASK,
	HASH_NODES,
	HASH_KEYS = -1,
	HASH_VALUES = 1,
	HASH_FUNCTION,
	HASH_EQUAL,
	HASH_BEHIND
};

enum { LEAST_HASH = 8, HASH_WORDS = 12 };

/* A word for each, or half of one while all are small. */
static bool has_column(struct ms_kinds *k, ms_addr at, uint64_t size, struct ms_kind_block *ret)
{
	return ms_kinds_at(k, at, ret) && (is_asked_for(ret->usable, size * MS_KIND_WORD) ||
	                                   is_asked_for(ret->usable, size * sizeof(uint32_t)));
}

static bool has_numbers(const struct ms_kind_spot *spot, uint64_t size)
{
	uint64_t mask = ms_kind_near(spot, HASH_MASK);
	uint64_t n = ms_kind_near(spot, HASH_NODES);

	return size >= LEAST_HASH && size <= INT32_MAX && !(size & (size - 1)) &&
	       mask >> 32 == size - 1 && (uint32_t)mask < size && (uint32_t)mask >= size / 2 &&
	       (uint32_t)n <= n >> 32 && n >> 32 <= size;
}

static void look_for_hash(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	struct ms_kind_block of_keys;
	struct ms_kind_block of_values;
	uint64_t equal;
	uint64_t size;

	if (spot->before < -HASH_SIZE || spot->behind < HASH_BEHIND)
		return;
	size = ms_kind_near(spot, HASH_SIZE);
	equal = ms_kind_near(spot, HASH_EQUAL);
	if (!has_numbers(spot, size) || !is_asked_for(spot->to.usable, size * sizeof(uint32_t)) ||
	    !ms_kinds_is_code(k, ms_kind_near(spot, HASH_FUNCTION)) ||
	    (equal && !ms_kinds_is_code(k, equal)) ||
	    !has_column(k, ms_kind_near(spot, HASH_KEYS), size, &of_keys) ||
	    !has_column(k, ms_kind_near(spot, HASH_VALUES), size, &of_values))
		return;
	ms_kinds_claim(k, &spot->to, &hashes, NULL);
	ms_kinds_claim(k, &of_keys, &keys, NULL);
	/* Of a set they are the keys, which they stay. */
	ms_kinds_claim(k, &of_values, &values, NULL);
	/* Where it is a block by itself, and not of a slice of many. */
	if (ms_kinds_at(k, spot->at - (uint64_t)-HASH_SIZE * MS_KIND_WORD, &of_keys) &&
	    is_asked_for(of_keys.usable, (uint64_t)HASH_WORDS * MS_KIND_WORD))
		ms_kinds_claim(k, &of_keys, &table, NULL);
}

/* ---- arrays ---- */

enum { ARRAY_LENGTH = 1, ARRAY_REFERENCES, ARRAY_FREE, ARRAY_WORDS };

static bool is_array(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t length;
	uint64_t room;
	uint32_t references;

	if (spot->behind < ARRAY_WORDS)
		return false;
	length = (uint32_t)ms_kind_near(spot, ARRAY_LENGTH);
	room = ms_kind_near(spot, ARRAY_LENGTH) >> 32;
	references = (uint32_t)ms_kind_near(spot, ARRAY_REFERENCES);
	return room && !(room & (room - 1)) && length <= room && references &&
	       references <= MOST_REFERENCES &&
	       is_asked_for(spot->to.usable, room * MS_KIND_WORD) &&
	       ms_kinds_is_code(k, ms_kind_near(spot, ARRAY_FREE));
}

/* Words of a GArray, and how many. */
enum { ELEMENT_BYTES = 2, COUNTED, CLEAR, ALL_WORDS, MOST_BITS = 3, MOST_BYTES = 1 << 16 };

/* Its room is a power of two in bytes; before GLib 2.76 it is counted so, too. */
static bool is_elements(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t length;
	uint64_t room;
	uint64_t each;
	uint64_t bytes = LEAST_SLICE;
	uint64_t references;

	if (spot->behind < ALL_WORDS)
		return false;
	length = (uint32_t)ms_kind_near(spot, ARRAY_LENGTH);
	room = ms_kind_near(spot, ARRAY_LENGTH) >> 32;
	each = (uint32_t)ms_kind_near(spot, ELEMENT_BYTES);
	references = (uint32_t)ms_kind_near(spot, COUNTED);
	while (bytes < spot->to.usable - spot->to.usable / 4)
		bytes *= 2;
	return length && each && each <= MOST_BYTES && length <= bytes / each &&
	       (room == bytes / each || room == bytes) && is_asked_for(spot->to.usable, bytes) &&
	       ms_kind_near(spot, ELEMENT_BYTES) >> 32 <= MOST_BITS && references &&
	       references <= MOST_REFERENCES &&
	       (!ms_kind_near(spot, CLEAR) || ms_kinds_is_code(k, ms_kind_near(spot, CLEAR)));
}

/* ---- the kind ---- */

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	if (spot->offset)
		return;
	look_for_hash(k, spot);
	if (is_array(k, spot))
		ms_kinds_claim(k, &spot->to, &items, NULL);
	else if (is_elements(k, spot))
		ms_kinds_claim(k, &spot->to, &elements, NULL);
}

static bool begin(struct ms_kinds *k)
{
	const struct ms_mapping *library = ms_mapped_file(k->src, "libglib-2.0");

	if (library)
		find_quarks(k, library);
	return library;
}

const struct ms_kind ms_kind_glib = {
	.name = "GLib", .begin = begin, .block = block, .pointer = pointer
};
