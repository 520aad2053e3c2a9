/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/python/plain.h"

#include <string.h>

#include "engine/kinds/python/cpython.h"

/*
 * Words of objects of CPython 3.8 to 3.14, with a global lock, that are not references:
 *
 *	str    │ references │ type │ length │ hash │ state … │ text, zero ─┬─ residual │
 *	bytes  │ references │ type │ size │ hash │ data, zero ─┬─ residual │
 *	list   │ links of the collector │ references │ type │ size │ items │ room │
 *	                                                               └─▶ │ items ─┬─ room │
 *	code   │ references │ type │ size │ … │ instructions, and what these keep for speed │
 *	tuple  │ links of the collector │ references │ type │ size │ items ─┬─ residual │
 *	others of the interpreter's types │ … of the type's bytes ─┬─ residual │
 *
 * Addresses that instructions keep are borrowed. Behind other objects only the last word of a
 * block is plain, which is there because sizes are rounded up: a type of an extension may
 * allocate more than it says.
 *
 * An object in use has a count of references that is not 0, and CPython leaves 0 in one that it
 * gives back, so that residual objects are none. Of the data of bytes only the last word is
 * plain, if it is not full: some programs keep addresses in such data, as they do in int.
 *
 * Source: Include/cpython/{unicodeobject,bytesobject,listobject}.h and Include/internal/
 * pycore_gc.h of these versions.
 */

/* Words of an object. */
enum { REFERENCES, TYPE, SIZE, STATE = 4, LIST_ITEMS = 3, LIST_ROOM = 4, BYTES_DATA = 4 };

enum {
	MOST_HEADER = 4, /* words in front of an object: attributes (3.11 and later), links */
	LINKS = 2,
	OBJECT_WORDS = 2,
	PIECE_WORDS = 512,
};

/* What is known of a type; above that the offset of a str's text, or the bytes of an object. */
enum {
	OTHER = 1,
	COLLECTED = 2,
	TEXT = 4,
	BYTES = 8,
	LIST = 16,
	CODE = 32,
	TUPLE = 64,
	FIXED = 128
};
enum { OFFSET_SHIFT = 8, MOST_FIXED = 1 << 16 };

/* Bytes of one without data; of a str of any kind, by version, and of an ASCII one. */
enum { BYTES_OBJECT = 33 };
enum { STR_3_11 = 80, ASCII_3_11 = 48, STR_3_12 = 64, ASCII_3_12 = 40 };

static uint64_t facts_of_text(uint64_t type_bytes)
{
	if (type_bytes == STR_3_11)
		return TEXT | ASCII_3_11 << OFFSET_SHIFT;
	return type_bytes == STR_3_12 ? TEXT | ASCII_3_12 << OFFSET_SHIFT : 0;
}

/* A class of the program may have the same name, but keeps its attributes behind the data. */
static bool is_type(const struct ms_cpython_type *type, const char *name, int flag)
{
	return (type->flags >> flag & 1) && !strcmp(type->name, name);
}

/* Whether the type at @at is the interpreter's own, and no class of a program or an extension. */
static bool is_interpreters(struct ms_kinds *k, ms_addr at, const struct ms_cpython_type *type)
{
	const struct ms_region *own = ms_region_of(k->regions, k->python_type);
	const struct ms_region *region = ms_region_of(k->regions, at);

	return !(type->flags >> MS_CPYTHON_MADE & 1) && own && region &&
	       region->module == own->module && type->bytes < MOST_FIXED;
}

static uint64_t facts_of_size(const struct ms_cpython_type *type)
{
	enum { INSTRUCTION = 2 };
	uint64_t bytes = type->bytes << OFFSET_SHIFT;

	if (type->item_bytes == INSTRUCTION && !strcmp(type->name, "code"))
		return CODE | bytes;
	if (type->item_bytes == MS_KIND_WORD && is_type(type, "tuple", MS_CPYTHON_TUPLE))
		return TUPLE | bytes;
	return type->item_bytes || type->flags >> MS_CPYTHON_STR & 1 ? 0 : FIXED | bytes;
}

static uint64_t look_at_type(struct ms_kinds *k, ms_addr at)
{
	uint64_t facts = OTHER;
	struct ms_cpython_type type;

	if (!ms_cpython_type(k, at, &type))
		return facts;
	if (type.flags >> MS_CPYTHON_COLLECTED & 1)
		facts |= COLLECTED;
	if (is_type(&type, "str", MS_CPYTHON_STR))
		facts |= facts_of_text(type.bytes);
	if (is_type(&type, "bytes", MS_CPYTHON_BYTES) && type.bytes == BYTES_OBJECT)
		facts |= BYTES;
	if (is_type(&type, "list", MS_CPYTHON_LIST))
		facts |= LIST;
	if (is_interpreters(k, at, &type))
		facts |= facts_of_size(&type);
	return facts;
}

/* ---- objects ---- */

struct search {
	struct ms_kinds *k;
	struct ms_collector *collector;
	struct ms_ranges *hidden;
	struct ms_marks *wide;
	bool failed; /* no memory */
};

/* Hide the word @value at @at if it looks like a pointer to a block. */
static void hide(struct search *p, ms_addr at, uint64_t value)
{
	struct ms_kind_block ignored;

	if (ms_kinds_within(p->k, value, &ignored))
		p->failed |= !ms_ranges_add(p->k->arena, p->hidden, at, at + MS_KIND_WORD);
}

/* The words of [@begin, @end), of which the beginning is one's. */
static void hide_all(struct search *p, ms_addr begin, ms_addr end)
{
	uint64_t words[PIECE_WORDS];

	while (begin < end) {
		uint64_t left = (end - begin + MS_KIND_WORD - 1) / MS_KIND_WORD;
		size_t n = left < PIECE_WORDS ? (size_t)left : (size_t)PIECE_WORDS;

		if (!ms_kinds_words(p->k, begin, words, n))
			return;
		for (size_t i = 0; i < n; i++, begin += MS_KIND_WORD)
			hide(p, begin, words[i]);
	}
}

/* What follows @len bytes at @offset, from the word on that has fewer of them than a pointer. */
static void hide_behind(struct search *p, const struct ms_kind_block *b, uint64_t offset,
                        uint64_t len)
{
	uint64_t at = offset + len / MS_KIND_WORD * MS_KIND_WORD;

	if (len >= b->usable)
		return;
	for (; at + MS_KIND_WORD <= b->n; at += MS_KIND_WORD)
		hide(p, b->begin + at, ms_kind_word(b->bytes, at / MS_KIND_WORD));
	if (b->n < b->usable)
		hide_all(p, b->begin + at, b->begin + b->usable);
}

/* In one piece, and ASCII: of other characters the text begins elsewhere. */
static void look_at_text(struct search *p, const struct ms_kind_block *b, uint64_t offset)
{
	enum { IN_ONE_PIECE = 1 << 5, ASCII = 1 << 6 };

	if (b->n > offset && (ms_kind_word(b->bytes, STATE) & IN_ONE_PIECE) &&
	    (ms_kind_word(b->bytes, STATE) & ASCII))
		hide_behind(p, b, offset, ms_kind_word(b->bytes, SIZE));
}

/* The last word of a block whose object at @offset has @bytes. */
static void hide_rest(struct search *p, const struct ms_kind_block *b, uint64_t offset,
                      uint64_t bytes)
{
	if (bytes < b->usable && b->usable - bytes - offset == MS_KIND_WORD)
		hide_all(p, b->begin + b->usable - MS_KIND_WORD, b->begin + b->usable);
}

static void look_at_list(struct search *p, const uint8_t *words)
{
	const uint64_t size = ms_kind_word(words, SIZE);
	const uint64_t room = ms_kind_word(words, LIST_ROOM);
	struct ms_kind_block items;

	if (size > room || !ms_kinds_at(p->k, ms_kind_word(words, LIST_ITEMS), &items) ||
	    room > items.usable / MS_KIND_WORD)
		return;
	hide_all(p, items.begin + size * MS_KIND_WORD, items.begin + items.usable);
}

static void note_wide(struct search *p, const struct ms_kind_block *b)
{
	const struct ms_blocks *blocks = p->k->blocks;
	const struct ms_extent *extent = ms_lookup_extent(&p->k->lookup, b->begin);
	uint64_t granule;

	if (!extent)
		return;
	granule = ms_granule_of(extent, b->begin);
	p->wide->at[ms_blocks_cell(blocks, extent, granule) - blocks->cells.at] |=
		ms_granule_bit(granule);
}

static void look_at_collected(struct search *p, const struct ms_kind_block *b, size_t i)
{
	const size_t offset = (i - LINKS) * MS_KIND_WORD;

	note_wide(p, b);
	p->failed |=
		!ms_collector_add(p->collector, p->k->arena, b->begin + offset, b->bytes + offset);
}

/* The object at word @i of @b. */
static void look_at_object(struct search *p, const struct ms_kind_block *b, size_t i)
{
	const uint8_t *words = b->bytes + i * MS_KIND_WORD;
	const uint64_t left = b->n / MS_KIND_WORD - i;
	const uint64_t type = ms_kind_word(words, TYPE);
	uint64_t facts;

	if (!type || type % MS_KIND_WORD ||
	    !ms_cpython_is_count(p->k, ms_kind_word(words, REFERENCES)))
		return;
	facts = ms_cpython_known(p->k, type, look_at_type);
	if ((facts & COLLECTED) && i >= LINKS)
		look_at_collected(p, b, i);
	if ((facts & TEXT) && !i)
		look_at_text(p, b, facts >> OFFSET_SHIFT);
	if ((facts & BYTES) && !i && left > BYTES_DATA)
		hide_behind(p, b, BYTES_DATA * MS_KIND_WORD, ms_kind_word(words, SIZE));
	if ((facts & LIST) && i == LINKS && left > LIST_ROOM)
		look_at_list(p, words);
	if ((facts & CODE) && !i)
		hide_behind(p, b, facts >> OFFSET_SHIFT, 0);
	if ((facts & TUPLE) && i == LINKS && left > SIZE)
		hide_rest(p, b, LINKS * MS_KIND_WORD,
		          (facts >> OFFSET_SHIFT) + ms_kind_word(words, SIZE) * MS_KIND_WORD);
	if ((facts & FIXED) && i == (facts & COLLECTED ? LINKS : 0))
		hide_rest(p, b, i * MS_KIND_WORD, facts >> OFFSET_SHIFT);
}

static void look_at_block(void *ctx, const struct ms_kind_block *b)
{
	for (size_t i = 0; i <= MOST_HEADER && i + OBJECT_WORDS <= b->n / MS_KIND_WORD; i += 2)
		look_at_object(ctx, b, i);
}

/* ---- the search ---- */

enum ms_status ms_plain_find(struct ms_blocks *blocks, const struct ms_roots *roots,
                             struct ms_collector *collector, struct ms_ranges *hidden,
                             struct ms_marks *wide)
{
	struct search p = { .collector = collector, .hidden = hidden, .wide = wide };

	if (!blocks->extents.n || !ms_abi_is_native(&blocks->src->abi) ||
	    blocks->src->abi.word_bytes != MS_KIND_WORD || !ms_mapped_file(blocks->src, "python"))
		return MS_OK;
	p.k = ms_kinds_open(blocks, roots);
	if (!p.k)
		return MS_E_NOMEM;
	p.k->whole = true;
	if (ms_cpython_begin(p.k)) {
		p.failed = !ms_marks_none(blocks, wide);
		if (!p.failed)
			ms_kinds_visit(p.k, look_at_block, &p);
		p.failed |= !ms_collector_link(collector, p.k, hidden);
	}
	ms_kinds_close(p.k);
	return p.failed ? MS_E_NOMEM : MS_OK;
}
