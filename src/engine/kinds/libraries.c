/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/kinds/kinds.h"

/*
 * What common libraries keep in blocks:
 *
 *	zlib         the state of a stream, which leads back to it
 *	OpenSSL      a BIO, whose method is a constant table that begins with a number and a name;
 *	             a hash table, with the loads at which it grows and shrinks; a stack
 *	Rust         what a fat pointer leads to: beside it stands a constant table that begins
 *	             with a function, the size and the alignment
 *	libstdc++    what it keeps for exceptions
 *	PostgreSQL   a memory context, which has its name, and the blocks that it is made of
 *
 * Source: zlib 1.2.13 deflate.h, inflate.h; OpenSSL 3.0 and 1.1.1 include/internal/bio.h,
 * crypto/bio/bio_local.h,
 * crypto/lhash/lhash_local.h, crypto/stack/stack.c; libstdc++ 12 libsupc++/eh_alloc.cc; PostgreSQL
 *13 to 16 src/include/nodes/memnodes.h, src/backend/utils/mmgr/aset.c.
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

/* ---- OpenSSL ---- */

static const struct ms_kind_type bio = { "BIO", MS_HOW_OBJECT, MS_SURE_CERTAIN };

enum { METHOD_WORDS = 8, BIO_LEAST = 96, MOST_METHOD = 1 << 16, MOST_NAME = 64 };

/* BIO_METHOD: number, name, and functions of which some may not be there. */
static bool is_method(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[METHOD_WORDS];
	char name[MOST_NAME];
	int functions = 0;

	if (!ms_kinds_is_constant(k, at) || !ms_kinds_words(k, at, words, METHOD_WORDS) ||
	    !words[0] || words[0] >= MOST_METHOD || !ms_kinds_is_constant(k, words[1]) ||
	    !ms_kinds_text(k, words[1], name, sizeof(name)))
		return false;
	for (int i = 2; i < METHOD_WORDS; i++) {
		functions += ms_kinds_is_code(k, words[i]);
		if (words[i] && !ms_kinds_is_code(k, words[i]))
			return false;
	}
	return functions >= 4;
}

static void look_for_bio(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (b->n < BIO_LEAST || b->usable > (uint64_t)2 * BIO_LEAST)
		return;
	for (size_t i = 0; i < 2; i++)
		if (is_method(k, ms_kind_word(b->bytes, i)))
			ms_kinds_claim(k, b, &bio, NULL);
}

static const struct ms_kind_type lhash = { "LHASH of OpenSSL", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type lhash_table = { "buckets of LHASH", MS_HOW_CONTAINER,
	                                         MS_SURE_CERTAIN };
static const struct ms_kind_type lhash_node = { "node of LHASH", MS_HOW_CONTAINER,
	                                        MS_SURE_CERTAIN };

/* Words of a hash table. A load is a number of nodes to a bucket, times 256. */
enum { LH_COMPARE = 1, LH_HASH, LH_BUCKETS, LH_UP = 5, LH_DOWN, LH_ITEMS, LH_WORDS };
enum { LOAD_UP = 512, LOAD_DOWN = 256, LH_NODE_BYTES = 24 };

/* The node at @at of a bucket; the next is @ret. */
static bool take_node(struct ms_kinds *k, ms_addr at, ms_addr *ret)
{
	struct ms_kind_block node;
	uint64_t words[2];

	if (!ms_kinds_step(k) || !ms_kinds_at(k, at, &node) ||
	    !ms_kind_fits(node.usable, LH_NODE_BYTES) || !ms_kinds_words(k, at, words, 2))
		return false;
	ms_kinds_claim(k, &node, &lhash_node, NULL);
	*ret = words[1];
	return true;
}

static void take_lhash(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint32_t n = (uint32_t)ms_kind_word(b->bytes, LH_BUCKETS);
	uint64_t left = ms_kind_word(b->bytes, LH_ITEMS);
	struct ms_kind_block table;
	ms_addr at;

	if (!ms_kinds_at(k, ms_kind_word(b->bytes, 0), &table) || n > table.usable / MS_KIND_WORD)
		return;
	ms_kinds_claim(k, b, &lhash, NULL);
	ms_kinds_claim(k, &table, &lhash_table, NULL);
	for (uint32_t i = 0; i < n && left; i++) {
		if (!ms_kinds_step(k) ||
		    !ms_kinds_words(k, table.begin + (uint64_t)i * MS_KIND_WORD, &at, 1))
			return;
		while (at && left-- && take_node(k, at, &at))
			;
	}
}

static const struct ms_kind_type stack = { "STACK of OpenSSL", MS_HOW_OBJECT, MS_SURE_LIKELY };
static const struct ms_kind_type stack_data = { "items of STACK", MS_HOW_CONTAINER,
	                                        MS_SURE_LIKELY };

/* │ number │ items │ sorted, room │ comparison │ */
enum { STACK_BYTES = 32, LEAST_ROOM = 4 };

static void look_for_stack(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint64_t n = ms_kind_word(b->bytes, 0);
	uint64_t room = ms_kind_word(b->bytes, 2) >> 32;
	uint64_t compare = ms_kind_word(b->bytes, 3);
	struct ms_kind_block items;

	if (!ms_kind_fits(b->usable, STACK_BYTES) || b->usable >= UINT64_C(2) * STACK_BYTES ||
	    n > room || room < LEAST_ROOM || (uint32_t)ms_kind_word(b->bytes, 2) > 1 ||
	    (compare && !ms_kinds_is_code(k, compare)) ||
	    !ms_kinds_at(k, ms_kind_word(b->bytes, 1), &items) ||
	    !ms_kind_fits(items.usable, room * MS_KIND_WORD))
		return;
	ms_kinds_claim(k, b, &stack, NULL);
	ms_kinds_claim(k, &items, &stack_data, NULL);
}

static void look_for_openssl(struct ms_kinds *k, const struct ms_kind_block *b)
{
	look_for_bio(k, b);
	look_for_stack(k, b);
	if (b->n >= LH_WORDS * MS_KIND_WORD && ms_kind_word(b->bytes, LH_UP) == LOAD_UP &&
	    ms_kind_word(b->bytes, LH_DOWN) == LOAD_DOWN &&
	    ms_kinds_is_code(k, ms_kind_word(b->bytes, LH_COMPARE)) &&
	    ms_kinds_is_code(k, ms_kind_word(b->bytes, LH_HASH)))
		take_lhash(k, b);
}

/* ---- PostgreSQL ---- */

/* Words of a context's header, its name counted from its methods; and of a block's. */
enum { METHODS = 2, NAME = 5, CONTEXT_WORDS = 8, BLOCK_WORDS = 5 };

/* Of a block's: its context, the blocks around it, where it is free, and its end. */
enum { OF, FREE = 3, END = 4 };

enum { FIRST_TAG = 200, LAST_TAG = 1000, MOST_CONTEXT = 128 };

/* The name of the context at @at; 0: there is none. Releases have a word before it, or not. */
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
			return name;
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
	memcpy(type.name, before, sizeof(before));
	if (number || !ms_kinds_text(k, name, type.name + sizeof(before) - 1, MOST_CONTEXT))
		return number;
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

/* The block has the size that the table says, or that behind the counts of an Arc. */
static bool is_rust(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t words[TABLE_WORDS];
	ms_addr at;

	if (spot->offset || spot->behind < 2)
		return false;
	at = ms_kind_near(spot, 1);
	if (at % MS_KIND_WORD || !ms_kinds_is_constant(k, at) ||
	    !ms_kinds_words(k, at, words, TABLE_WORDS))
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

static bool begin(struct ms_kinds *k)
{
	k->openssl = ms_kinds_file(k, "libcrypto") || ms_kinds_file(k, "libssl");
	return true;
}

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (b->n < BLOCK_WORDS * MS_KIND_WORD)
		return;
	look_for_zlib(k, b);
	if (k->openssl)
		look_for_openssl(k, b);
	look_for_context(k, b);
}

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	if (is_rust(k, spot))
		ms_kinds_claim(k, &spot->to, &rust, NULL);
	else if (is_pool(k, spot))
		ms_kinds_claim(k, &spot->to, &pool, NULL);
}

const struct ms_kind ms_kind_libraries = {
	.name = "libraries", .begin = begin, .block = block, .pointer = pointer
};
