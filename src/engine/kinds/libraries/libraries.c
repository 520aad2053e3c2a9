/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/kinds/kinds.h"

/*
 * What common libraries keep in blocks:
 *
 *	zlib         the state of a stream, which leads back to it
 *	Rust         what a fat pointer leads to: beside it stands a constant table that begins
 *	             with a function, the size and the alignment
 *	libstdc++    what it keeps for exceptions
 *	PostgreSQL   a memory context, which has its name, and the blocks that it is made of
 *
 * Source: zlib 1.2.13 deflate.h, inflate.h; libstdc++ 12 libsupc++/eh_alloc.cc; PostgreSQL 13 to
 * 16 src/include/nodes/memnodes.h, src/backend/utils/mmgr/aset.c.
 */

/* ---- zlib ---- */

static const struct ms_kind_type inflating = { "zlib inflate state", MS_HOW_OBJECT,
	                                       MS_SURE_CERTAIN };
static const struct ms_kind_type deflating = { "zlib deflate state", MS_HOW_OBJECT,
	                                       MS_SURE_CERTAIN };

enum { STREAM_STATE = 7, LEAST_ZLIB = 512, FIRST_MODE = 16180, LAST_MODE = 16211 };

static bool is_deflate_status(uint32_t status)
{
	static const uint16_t all[] = { 42, 57, 69, 73, 91, 103, 113, 666 };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (status == all[i])
			return true;
	return false;
}

static void look_for_zlib(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint32_t mode = (uint32_t)ms_kind_word(b->bytes, 1);
	ms_addr stream = ms_kind_word(b->bytes, 0);
	bool inflate = mode >= FIRST_MODE && mode <= LAST_MODE;
	uint64_t back;

	if (b->n < LEAST_ZLIB || (!inflate && !is_deflate_status(mode)) ||
	    !ms_kinds_words(k, stream + (uint64_t)STREAM_STATE * MS_KIND_WORD, &back, 1) ||
	    back != b->begin)
		return;
	ms_kinds_claim(k, b, inflate ? &inflating : &deflating, NULL);
}

/* ---- PostgreSQL ---- */

/* Words of a context's header, the others counted from its methods; and of a block's. */
enum { METHODS = 2, PARENT = 1, CHILD = 2, NAME = 5, CONTEXT_WORDS = 8, BLOCK_WORDS = 5 };

/* Of a block's: its context, the blocks around it, where it is free, and its end. */
enum { OF, FREE = 3, END = 4 };

enum { FIRST_TAG = 200, LAST_TAG = 1000, MOST_CONTEXT = 128 };

/* In place of a name: of a context that was deleted, and is kept for the next one. */
#define UNUSED UINT64_C(1)

/*
 * The name of the context at @at; 0: there is none. Releases have a word before it, or not. A
 * deleted one still has its old name; but only that above all others has no parent, and that
 * has children.
 */
static ms_addr name_of_context(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[CONTEXT_WORDS];
	uint64_t functions[2];
	uint32_t tag;

	if (!ms_kinds_words(k, at, words, CONTEXT_WORDS))
		return 0;
	tag = (uint32_t)words[0];
	for (int i = METHODS - 1; i <= METHODS && tag >= FIRST_TAG && tag <= LAST_TAG; i++) {
		ms_addr name = words[i + NAME];

		if (ms_kinds_is_constant(k, words[i]) && ms_kinds_is_constant(k, name) &&
		    ms_kinds_words(k, words[i], functions, 2) &&
		    ms_kinds_is_code(k, functions[0]) && ms_kinds_is_code(k, functions[1]))
			return words[i + PARENT] || words[i + CHILD] ? name : UNUSED;
	}
	return 0;
}

static uint32_t context_type(struct ms_kinds *k, ms_addr at)
{
	static const char before[] = "memory context ";
	struct ms_type type = { .how = MS_HOW_OBJECT };
	ms_addr name = name_of_context(k, at);
	uint32_t number;

	if (!name)
		return MS_TYPE_UNKNOWN;
	number = (uint32_t)ms_map_find(&k->contexts, name);
	if (number)
		return number;
	memcpy(type.name, before, sizeof(before));
	if (name == UNUSED)
		(void)strcpy(type.name, "unused memory context");
	else if (!ms_kinds_text(k, name, type.name + sizeof(before) - 1, MOST_CONTEXT))
		return MS_TYPE_UNKNOWN;
	ms_types_module(k->types, name, type.module);
	number = ms_types_add(k->types, &type);
	if (number && !ms_map_add(&k->contexts, k->arena, name, number))
		return MS_TYPE_UNKNOWN;
	return number;
}

/* A context begins its first block; other blocks lead to it. */
static void look_for_context(struct ms_kinds *k, const struct ms_kind_block *b)
{
	ms_addr of = ms_kind_word(b->bytes, OF);
	uint64_t len = ms_kind_word(b->bytes, END) - b->begin;
	uint64_t used = ms_kind_word(b->bytes, FREE) - b->begin;
	uint32_t number = MS_TYPE_UNKNOWN;

	if ((uint32_t)of >= FIRST_TAG && (uint32_t)of <= LAST_TAG)
		number = context_type(k, b->begin);
	else if (used <= len && len <= b->usable && ms_kind_fits(b->usable, len))
		number = context_type(k, of);
	if (number != MS_TYPE_UNKNOWN)
		ms_kinds_claim_as(k, b, number);
}

/* ---- Rust ---- */

static const struct ms_kind_type rust = { "Rust trait object", MS_HOW_CONTAINER, MS_SURE_LIKELY };

enum { DROP, SIZE, ALIGN, METHOD, TABLE_WORDS, MOST_ALIGN = 4096, COUNTS = 16 };

/* A table stands in constant memory. */
static bool may_be_rust(const struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	ms_addr at;

	if (spot->offset || spot->behind < 2)
		return false;
	at = ms_kind_near(spot, 1);
	return at % MS_KIND_WORD == 0 && ms_kinds_is_constant(k, at);
}

/* The block has the size that the table says, or that behind the counts of an Arc. */
static bool is_rust(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t words[TABLE_WORDS];

	if (!may_be_rust(k, spot) || !ms_kinds_words(k, ms_kind_near(spot, 1), words, TABLE_WORDS))
		return false;
	return (!words[DROP] || ms_kinds_is_code(k, words[DROP])) && words[SIZE] && words[ALIGN] &&
	       words[ALIGN] <= MOST_ALIGN && !(words[ALIGN] & (words[ALIGN] - 1)) &&
	       words[SIZE] % words[ALIGN] == 0 && ms_kinds_is_code(k, words[METHOD]) &&
	       words[SIZE] < UINT64_MAX - COUNTS &&
	       (ms_kind_fits(spot->to.usable, words[SIZE]) ||
	        ms_kind_fits(spot->to.usable, words[SIZE] + COUNTS));
}

/* ---- libstdc++ ---- */

static const struct ms_kind_type pool = { "emergency pool of libstdc++", MS_HOW_CONTAINER,
	                                  MS_SURE_CERTAIN };

enum { LEAST_POOL = 4096 };

/* What exceptions are made in when there is no memory: │ first free │ pool │ its bytes │ */
static bool is_pool(const struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t len;

	if (!k->cxx || spot->offset || !spot->before || spot->behind < 2)
		return false;
	len = ms_kind_near(spot, 1);
	return len >= LEAST_POOL && ms_kind_fits(spot->to.usable, len) &&
	       ms_kind_near(spot, -1) - spot->to.begin < len && ms_kinds_is_data(k, spot->at);
}

/* ---- the kind ---- */

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (b->n < BLOCK_WORDS * MS_KIND_WORD)
		return;
	look_for_zlib(k, b);
	look_for_context(k, b);
}

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	if (is_rust(k, spot))
		ms_kinds_claim(k, &spot->to, &rust, NULL);
	else if (is_pool(k, spot))
		ms_kinds_claim(k, &spot->to, &pool, NULL);
}

static bool may(const struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	return may_be_rust(k, spot) || is_pool(k, spot);
}

const struct ms_kind ms_kind_libraries = {
	.name = "libraries", .block = block, .pointer = pointer, .may = may
};
