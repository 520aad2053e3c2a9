/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * OpenSSL: a BIO, whose method is a constant table that begins with a number and a name; an SSL
 * and what it is made from, whose method is one of functions behind a protocol's version; a hash
 * table, with the loads at which it grows and shrinks; a stack.
 *
 *	SSL_CTX   │ library, or nothing │ method │ …      (before 3.0: method │ …)
 *	SSL       │ version             │ method │ …      (from 3.2: type │ SSL_CTX │ method │ …)
 *
 * Source: OpenSSL 1.1.1 to 3.2 ssl/ssl_local.h, include/internal/bio.h, crypto/bio/bio_local.h,
 * crypto/lhash/lhash_local.h, crypto/stack/stack.c.
 */

/* ---- BIO ---- */

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

/* ---- SSL ---- */

static const struct ms_kind_type ssl = { "SSL", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type ssl_ctx = { "SSL_CTX", MS_HOW_OBJECT, MS_SURE_CERTAIN };

/* Words of its method: version and flags, what it leaves out, functions. */
enum { MASK = 1, SSL_FUNCTIONS, SSL_METHOD_WORDS = 14, MOST_FLAGS = 256, SSL_LEAST = 512 };

/* Of TLS and DTLS, each or any of them. */
static bool is_protocol(uint32_t version)
{
	return (version >= 0x300 && version <= 0x304) || version == 0xfeff || version == 0xfefd ||
	       version == 0x100 || version == 0x10000 || version == 0x1ffff;
}

static bool is_ssl_method(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[SSL_METHOD_WORDS];

	if (!ms_kinds_is_constant(k, at) || !ms_kinds_words(k, at, words, SSL_METHOD_WORDS) ||
	    !is_protocol((uint32_t)words[0]) || words[0] >> 32 >= MOST_FLAGS ||
	    words[MASK] > UINT32_MAX)
		return false;
	for (int i = SSL_FUNCTIONS; i < SSL_METHOD_WORDS; i++)
		if (!ms_kinds_is_code(k, words[i]))
			return false;
	return true;
}

static bool is_ssl_context(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint64_t first = ms_kind_word(b->bytes, 0);
	struct ms_kind_block other;

	return is_ssl_method(k, first) || ((!first || ms_kinds_at(k, first, &other)) &&
	                                   is_ssl_method(k, ms_kind_word(b->bytes, 1)));
}

static bool is_ssl(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint32_t first = (uint32_t)ms_kind_word(b->bytes, 0);
	struct ms_kind_block other;

	if (is_protocol(first))
		return is_ssl_method(k, ms_kind_word(b->bytes, 1));
	return !first && ms_kinds_at(k, ms_kind_word(b->bytes, 1), &other) &&
	       is_ssl_method(k, ms_kind_word(b->bytes, 2)) &&
	       is_ssl_method(k, ms_kind_word(b->bytes, 3));
}

static void look_for_ssl(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (b->n < SSL_LEAST)
		return;
	if (is_ssl(k, b))
		ms_kinds_claim(k, b, &ssl, NULL);
	else if (is_ssl_context(k, b))
		ms_kinds_claim(k, b, &ssl_ctx, NULL);
}

/* ---- hash tables and stacks ---- */

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
	ms_kinds_tail(k, &items,
	              &(struct ms_tail_claim){
			      .of = MS_TAIL_VECTOR, .back = n * MS_KIND_WORD, .words = 1 });
}

/* ---- the kind ---- */

static bool begin(struct ms_kinds *k)
{
	return ms_mapped_file(k->src, "libcrypto") || ms_mapped_file(k->src, "libssl");
}

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (b->n < STACK_BYTES)
		return;
	look_for_bio(k, b);
	look_for_ssl(k, b);
	look_for_stack(k, b);
	if (b->n >= LH_WORDS * MS_KIND_WORD && ms_kind_word(b->bytes, LH_UP) == LOAD_UP &&
	    ms_kind_word(b->bytes, LH_DOWN) == LOAD_DOWN &&
	    ms_kinds_is_code(k, ms_kind_word(b->bytes, LH_COMPARE)) &&
	    ms_kinds_is_code(k, ms_kind_word(b->bytes, LH_HASH)))
		take_lhash(k, b);
}

const struct ms_kind ms_kind_openssl = { .name = "OpenSSL", .begin = begin, .block = block };
