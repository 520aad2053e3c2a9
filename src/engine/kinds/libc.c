/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * What glibc and its loader keep in blocks:
 *
 *	FILE      a number in its flags that nothing else has, and a table of functions
 *	DIR       a file descriptor, and how long the buffer behind its six words is
 *	link_map  of a library that was loaded: it has its own address in its sixth word
 *	obstack   its chunks: where each ends, and the one before; the holder knows the first
 *	dtv       of a thread: its table of thread-local storage, known from the thread itself
 *
 * Where words have 4 bytes a DIR is not known, which has other members then.
 *
 * Source: glibc 2.31 to 2.41 libio/bits/types/struct_FILE.h, libioP.h; sysdeps/unix/sysv/linux/
 * dirstream.h; include/link.h; malloc/obstack.h, which other programs have a copy of.
 */

static const struct ms_kind_type file = { "FILE", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type file_buffer = { "buffer of FILE", MS_HOW_CONTAINER,
	                                         MS_SURE_CERTAIN };
static const struct ms_kind_type dir = { "DIR", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type link_map = { "struct link_map", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type dtv = { "table of thread-local storage", MS_HOW_CONTAINER,
	                                 MS_SURE_CERTAIN };

/* ---- FILE ---- */

#define FILE_MAGIC UINT64_C(0xfbad)

enum { BUFFER_BASE = 7, BUFFER_END = 8, FILE_TABLE = 27, FILE_TABLE_I386 = 37 };

static bool has_magic(uint64_t flags)
{
	return (flags >> 16 & 0xffff) == FILE_MAGIC;
}

static bool is_file(const struct ms_kinds *k, const struct ms_kind_block *b)
{
	const size_t table = k->word == MS_KIND_WORD ? FILE_TABLE : FILE_TABLE_I386;

	if (b->n < (table + 1) * k->word || !has_magic(ms_kind_word_of(k, b->bytes, 0)))
		return false;
	return ms_kinds_is_constant(k, ms_kind_word_of(k, b->bytes, table));
}

/* The pointer is the seventh of a FILE, whose block or global it stands in. */
static bool is_file_buffer(const struct ms_kind_spot *spot)
{
	uint64_t len;

	if (spot->offset || spot->before < BUFFER_BASE || spot->behind < 2 ||
	    !has_magic(ms_kind_near(spot, -BUFFER_BASE)))
		return false;
	len = ms_kind_near(spot, BUFFER_END - BUFFER_BASE) - spot->to.begin;
	return len && ms_kind_fits(spot->to.usable, len);
}

/* ---- DIR ---- */

enum { DIR_WORDS = 6, MOST_DESCRIPTOR = 1 << 24, LEAST_DIR_BYTES = 1024 };

static bool is_dir(const struct ms_kind_block *b)
{
	uint64_t room;
	uint64_t filled;

	if (b->n < DIR_WORDS * MS_KIND_WORD)
		return false;
	room = ms_kind_word(b->bytes, 1);
	filled = ms_kind_word(b->bytes, 2);
	/* A descriptor, and a lock that is free or held. */
	return (uint32_t)ms_kind_word(b->bytes, 0) < MOST_DESCRIPTOR &&
	       ms_kind_word(b->bytes, 0) >> 32 <= 2 && room >= LEAST_DIR_BYTES &&
	       !(room & (room - 1)) && filled <= room && ms_kind_word(b->bytes, 3) <= filled &&
	       room < b->usable && ms_kind_fits(b->usable, room + DIR_WORDS * MS_KIND_WORD);
}

/* ---- link_map ---- */

enum { LINK_NAME = 1, LINK_DYNAMIC = 2, LINK_REAL = 5, LINK_WORDS = 64, MOST_NAME = 4096 };

static bool is_link_map(const struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint8_t prot;

	return b->n >= LINK_WORDS * k->word &&
	       ms_kind_word_of(k, b->bytes, LINK_REAL) == b->begin &&
	       ms_kinds_module(k, ms_kind_word_of(k, b->bytes, LINK_DYNAMIC), &prot) &&
	       ms_kind_word_of(k, b->bytes, 0) % k->src->abi.page_bytes == 0;
}

/* ---- obstack ---- */

static const struct ms_kind_type chunk = { "chunk of obstack", MS_HOW_CONTAINER, MS_SURE_CERTAIN };

/* A chunk's two words, and those of the holder from its chunk on. */
enum { LIMIT, PREVIOUS, CHUNK_WORDS, BASE = 1, NEXT, HOLDER_LIMIT, HOLDER_WORDS };

enum { LEAST_CHUNK = 64 };

static bool is_chunk(struct ms_kinds *k, ms_addr at, struct ms_kind_block *ret,
                     uint64_t words[CHUNK_WORDS])
{
	return ms_kinds_step(k) && ms_kinds_at(k, at, ret) && ret->usable >= LEAST_CHUNK &&
	       ms_kinds_words(k, at, words, CHUNK_WORDS) && words[LIMIT] > at &&
	       ms_kind_fits(ret->usable, words[LIMIT] - at);
}

/* By the words around @spot alone. */
static bool may_be_obstack(const struct ms_kind_spot *spot)
{
	ms_addr at = spot->to.begin;
	ms_addr limit;

	if (spot->offset || !spot->before || spot->behind < HOLDER_WORDS)
		return false;
	limit = ms_kind_near(spot, HOLDER_LIMIT);
	return limit > at && ms_kind_near(spot, -1) >= LEAST_CHUNK &&
	       ms_kind_near(spot, BASE) - at < spot->to.usable &&
	       ms_kind_near(spot, NEXT) - at <= limit - at && limit - at <= spot->to.usable;
}

/* The chunks from @spot->to on. */
static void look_for_obstack(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t words[CHUNK_WORDS];
	struct ms_kind_block found;
	ms_addr at = spot->to.begin;

	if (!is_chunk(k, at, &found, words) || words[LIMIT] != ms_kind_near(spot, HOLDER_LIMIT))
		return;
	do {
		ms_kinds_claim(k, &found, &chunk, NULL);
		at = words[PREVIOUS];
	} while (is_chunk(k, at, &found, words));
}

/* ---- the kind ---- */

static bool begin(struct ms_kinds *k)
{
	const struct ms_stacks *stacks = &k->roots->stacks;

	for (size_t i = 0; i < stacks->words.n && i < stacks->word_owners.n; i++) {
		ms_addr at = ms_abi_address(&k->src->abi, stacks->words.at[i]);

		/* It is pointed to behind the length that is its first entry. */
		if (stacks->word_owners.at[i].tls)
			ms_kinds_claim_at(k, at, &dtv, NULL);
		if (stacks->word_owners.at[i].tls)
			ms_kinds_claim_at(k, at - 2 * k->word, &dtv, NULL);
	}
	return true;
}

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (is_file(k, b))
		ms_kinds_claim(k, b, &file, NULL);
	else if (is_link_map(k, b))
		ms_kinds_claim(k, b, &link_map, NULL);
	else if (k->word == MS_KIND_WORD && is_dir(b))
		ms_kinds_claim(k, b, &dir, NULL);
}

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	if (is_file_buffer(spot))
		ms_kinds_claim(k, &spot->to, &file_buffer, NULL);
	else if (may_be_obstack(spot))
		look_for_obstack(k, spot);
}

static bool may(const struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	(void)k;
	return is_file_buffer(spot) || may_be_obstack(spot);
}

const struct ms_kind ms_kind_libc = { .name = "libc",
	                              .narrow = true,
	                              .begin = begin,
	                              .block = block,
	                              .pointer = pointer,
	                              .may = may };
