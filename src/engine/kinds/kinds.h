/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_KINDS_KINDS_H
#define MS_ENGINE_KINDS_KINDS_H

/*
 * Port: what blocks are, where no symbol and no debug information says it.
 *
 * A kind is a family of structures whose layout is known: a runtime's objects, a library's
 * streams, the containers of a language. It knows a block by the block's own words, or by the
 * words of what points to it: the three words of a std::string name the block of its characters,
 * whose own words say nothing.
 *
 *	holder, of any memory         block                  its type
 *	┌─────┬─────┬─────┐        ┌──────────────┐
 *	│ ptr │ len │ cap │───────▶│ characters\0 │       buffer of std::string in Session+0x18
 *	└─────┴─────┴─────┘        └──────────────┘
 *
 * A wrong type is worse than none: a kind claims a block only when several words agree with each
 * other, and what it cannot be sure of is "likely". Classes of C++ are not its business
 * (names/types.h), nor is debug information. Layouts are those of processes with words of 8
 * bytes in this machine's order; kinds that say so know those with words of 4 bytes, too.
 *
 * To add a kind:
 *	1. src/engine/kinds/foo.c, or in one of its rooms: `const struct ms_kind ms_kind_foo`;
 *	2. a row in the table of search.c, behind those whose evidence is better;
 *	3. tests/unit/test_kinds*.c: what it knows, and what differs from that by one word.
 */

#include "base/map.h"
#include "base/workers.h"
#include "engine/graph/lookup.h"
#include "engine/loaded/peek.h"
#include "engine/names/types.h"
#include "engine/roots.h"
#include "engine/strict/tails.h"

#define MS_KIND_WORD UINT64_C(8) /* bytes */

enum {
	MS_KIND_NAMES = 128,
	MS_KIND_BEFORE = 8, /* words in front of a pointer that can be looked at */
	MS_KIND_BEHIND = 12,
	MS_KIND_COW = 3,     /* words in front of a std::string's characters, of before C++11 */
	MS_KIND_OWN = 65536, /* bytes of a block's beginning that can be looked at */
	/* Bytes of a block that were not asked for, at most; more of larger ones. */
	MS_KIND_SLACK = 40,
};

/* The name that a kind has for some blocks; each is one constant object. */
struct ms_kind_type {
	const char *name;
	uint8_t how;  /* enum ms_how */
	uint8_t sure; /* enum ms_sure */
};

/* A heap block. */
struct ms_kind_block {
	ms_addr begin;
	uint64_t usable;
	uint32_t number;
	const uint8_t *bytes; /* of a block that is looked at: its beginning; else NULL */
	size_t n;             /* as many, MS_KIND_OWN at most */
};

/* Where a text is in its block. */
struct ms_kind_text {
	uint64_t offset; /* MS_TEXT_MOST at most */
	uint64_t len;
};

/* A pointer to the begin of a block, or behind a header of MS_KIND_COW words there. */
struct ms_kind_spot {
	ms_addr at;
	const uint8_t *bytes; /* the word itself */
	size_t before;        /* words in front of it that belong to the same memory */
	size_t behind;        /* the same from the word itself on */
	uint8_t word;         /* bytes of one */
	uint64_t offset;      /* in the block */
	struct ms_kind_block to;
	uint32_t owner; /* the type of the block that has it, by its own words; or unknown */
	uint64_t owner_offset;
};

struct ms_kinds;

struct ms_kind {
	const char *name;
	bool narrow; /* it knows its layouts with words of 4 bytes, too: it asks k->word and others
	              */

	/* Whether the kind can be in this process. May claim what can be found at once. NULL: it
	 * can. */
	bool (*begin)(struct ms_kinds *k);

	/* Claim @block by its own words, and what these words lead to. NULL: none is known so. */
	void (*block)(struct ms_kinds *k, const struct ms_kind_block *block);

	/* Claim @spot->to and what belongs to it, by the words around @spot. NULL: none. */
	void (*pointer)(struct ms_kinds *k, const struct ms_kind_spot *spot);

	/*
	 * Whether pointer() could claim anything by @spot, whose owner is not known yet: by a
	 * glance at the words around it, as several threads ask at once. NULL: it could.
	 */
	bool (*may)(const struct ms_kinds *k, const struct ms_kind_spot *spot);
};

extern const struct ms_kind ms_kind_cpython;
extern const struct ms_kind ms_kind_libc;
extern const struct ms_kind ms_kind_libraries;
extern const struct ms_kind ms_kind_openssl;
extern const struct ms_kind ms_kind_x509;
extern const struct ms_kind ms_kind_sqlite;
extern const struct ms_kind ms_kind_glib;
extern const struct ms_kind ms_kind_qt;
extern const struct ms_kind ms_kind_qimage;
extern const struct ms_kind ms_kind_qobject;
extern const struct ms_kind ms_kind_fontconfig;
extern const struct ms_kind ms_kind_redis;
extern const struct ms_kind ms_kind_redis_lists;
extern const struct ms_kind ms_kind_rust;
extern const struct ms_kind ms_kind_nodes;
extern const struct ms_kind ms_kind_strings;
extern const struct ms_kind ms_kind_libcxx;
extern const struct ms_kind ms_kind_sequences;
extern const struct ms_kind ms_kind_functions;
extern const struct ms_kind ms_kind_text;

enum { MS_KINDS_MOST = 24 };

struct ms_kind_name {
	const struct ms_kind_type *type;
	uint32_t number; /* without an owner; 0: none yet */
};

/* One search. What is below the line is the kinds' own. */
struct ms_kinds {
	struct ms_types *types;
	const struct ms_blocks *blocks;
	const struct ms_roots *roots;
	const struct ms_regions *regions;
	struct ms_source *src;
	uint64_t word; /* bytes of one, in the process */
	struct ms_arena *arena;
	struct ms_arena passing; /* for what the search alone needs */
	uint32_t *numbers;       /* of each block: its type */
	ms_types_span *texts;    /* of each: where its text is; NULL: none has been found */
	struct ms_lookup lookup;
	struct ms_peek peek;
	uint64_t steps;         /* that may be taken yet along links of containers */
	bool whole;             /* every block is looked at, not the unmarked ones alone */
	struct ms_tails *tails; /* what containers do not use is said here; NULL: not asked */
	bool here[MS_KINDS_MOST];
	struct ms_range window; /* memory that buffer has a copy of: blocks that are looked at */
	uint8_t *buffer;
	uint32_t holder; /* of the word that was shown last */
	uint32_t owner;  /* its type, by its own words; or unknown */
	struct ms_kind_name names[MS_KIND_NAMES];
	size_t n_names;
	struct ms_map owned; /* of a name, an owner and an offset: the type */

	struct MS_VEC(uint32_t) met; /* blocks of a container, by their numbers, in a walk of it */

	bool cxx;               /* C++'s containers may be there */
	bool libcxx;            /* those of LLVM's library */
	struct ms_map with_new; /* of modules: whether they allocate as C++ does */
	ms_addr python_type;    /* CPython's type of types */
	struct ms_map python;   /* of addresses of its types: what is kept of each */
	struct ms_map contexts; /* of names of PostgreSQL's: the type */
	ms_addr quarks;         /* GLib's texts by their numbers */
	struct ms_map classes;  /* of addresses of its classes: what is kept of each */
	uint32_t fontconfig;    /* its module */
};

/* ms_kind.may of kinds that can be where C++ is. */
static inline bool ms_kind_may_be_cxx(const struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	(void)spot;
	return k->cxx;
}

/* ---- looking ---- */

static inline uint64_t ms_kind_word(const uint8_t *bytes, size_t i)
{
	uint64_t value;

	memcpy(&value, bytes + i * MS_KIND_WORD, sizeof(value));
	return value;
}

/* The same of a process whose words may have 4 bytes. */
static inline uint64_t ms_kind_word_of(const struct ms_kinds *k, const uint8_t *bytes, size_t i)
{
	return k->word == MS_KIND_WORD ? ms_kind_word(bytes, i)
	                               : ms_abi_word(&k->src->abi, bytes + i * k->word);
}

/* The word that stands @i words behind the pointer; @i may be negative, as far as there are. */
static inline uint64_t ms_kind_near(const struct ms_kind_spot *spot, int i)
{
	const uint8_t *at = spot->bytes + (ptrdiff_t)i * spot->word;
	uint64_t value;
	uint32_t narrow;

	if (spot->word == sizeof(value)) {
		memcpy(&value, at, sizeof(value));
		return value;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

/* @spot as an owner's, whose holder begins @words before the pointer. */
static inline struct ms_kind_spot ms_kind_holder(const struct ms_kind_spot *spot, unsigned words)
{
	struct ms_kind_spot holder = *spot;

	holder.owner_offset -= (uint64_t)words * spot->word;
	return holder;
}

/* The heap block that begins at @addr; false when none does. */
bool ms_kinds_begin(struct ms_lookup *lookup, ms_addr addr, struct ms_kind_block *ret);
bool ms_kinds_at(struct ms_kinds *k, ms_addr addr, struct ms_kind_block *ret);

/* The heap block that has the byte at @addr; false when none does. */
bool ms_kinds_within(struct ms_kinds *k, ms_addr addr, struct ms_kind_block *ret);

/* Read @n words at @addr; false when not all are readable. */
bool ms_kinds_words(struct ms_kinds *k, ms_addr addr, uint64_t *ret, size_t n);

/* Read a text of fewer than @cap bytes, of which all are printable; false when it is none. */
bool ms_kinds_text(struct ms_kinds *k, ms_addr addr, char *ret, size_t cap);

/* Whether @addr is in a program's or library's file or data; its mapping's rights. */
bool ms_kinds_module(const struct ms_kinds *k, ms_addr addr, uint8_t *ret_prot);

bool ms_kinds_is_code(const struct ms_kinds *k, ms_addr addr);
bool ms_kinds_is_constant(const struct ms_kinds *k, ms_addr addr);
bool ms_kinds_is_data(const struct ms_kinds *k, ms_addr addr);

/*
 * Whether a block of @usable bytes may be what an allocator gives for @asked: not smaller, and
 * no larger than to the next of its sizes.
 */
static inline bool ms_kind_fits(uint64_t usable, uint64_t asked)
{
	return asked <= usable && usable - asked <= MS_KIND_SLACK + asked / 4;
}

/* How many of the @n bytes at @bytes are printable, in UTF-8, up to the first that is not. */
size_t ms_kind_printable(const uint8_t *bytes, size_t n);

/* ---- claiming ---- */

/*
 * Say what @block is, unless better evidence has said it, or as good one before: false then.
 * @spot: its owner goes into the name; NULL: not.
 */
bool ms_kinds_claim(struct ms_kinds *k, const struct ms_kind_block *block,
                    const struct ms_kind_type *type, const struct ms_kind_spot *spot);

/*
 * The same of a block that has a text of @len bytes at @offset, as the block or its holder says:
 * what stands behind these is not shown.
 */
void ms_kinds_claim_text(struct ms_kinds *k, const struct ms_kind_block *block,
                         const struct ms_kind_type *type, const struct ms_kind_spot *spot,
                         struct ms_kind_text text);

/* The same with a type that a kind has made, of ms_types_add(). */
bool ms_kinds_claim_as(struct ms_kinds *k, const struct ms_kind_block *block, uint32_t number);

/* The same for the block that begins at @addr, if one does. */
void ms_kinds_claim_at(struct ms_kinds *k, ms_addr addr, const struct ms_kind_type *type,
                       const struct ms_kind_spot *spot);

/* Whether @block has a type that no holder's words are to change. */
bool ms_kinds_is_claimed(const struct ms_kinds *k, const struct ms_kind_block *block);

/*
 * Say which bytes of @block a container uses, for --strict-containers. @claim: all but the
 * block's own numbers.
 */
void ms_kinds_tail(struct ms_kinds *k, const struct ms_kind_block *block,
                   const struct ms_tail_claim *claim);

/* A step along links of a container; false when there were too many in all. */
static inline bool ms_kinds_step(struct ms_kinds *k)
{
	return k->steps && k->steps--;
}

/* ---- searching ---- */

/* A search in sealed @blocks, without types and of unmarked blocks alone; NULL: no memory. */
struct ms_kinds *ms_kinds_open(const struct ms_blocks *blocks, const struct ms_roots *roots);
void ms_kinds_close(struct ms_kinds *k);

/* Give @look each block that is looked at, with its beginning, in the order of addresses. */
typedef void ms_kinds_look(void *ctx, const struct ms_kind_block *block);
void ms_kinds_visit(struct ms_kinds *k, ms_kinds_look *look, void *ctx);

/*
 * Find the types of sealed @blocks and let @types keep them: of all blocks, or of those alone
 * that are not marked. What was found before, in a search with the same @numbers, stays.
 *
 * @numbers: in/out; NULL at first: made in the blocks' arena
 *
 * Returns MS_E_NOMEM.
 * Cost: two reads of all that is looked at, by address, and with tails one more, all but the
 * first by all workers; for each holder that may be a container, a read of what it holds.
 */
struct ms_kinds_search {
	struct ms_types *types;
	struct ms_blocks *blocks;
	const struct ms_roots *roots;
	struct ms_workers *workers; /* NULL: the caller does all */
	uint32_t *numbers;
	ms_types_span *texts; /* in/out, likewise */
	/* Get what containers say of their blocks, and are judged; of all blocks alone. NULL */
	struct ms_tails *tails;
};

ms_must_check enum ms_status ms_kinds_find(struct ms_kinds_search *search, bool whole);

#endif
