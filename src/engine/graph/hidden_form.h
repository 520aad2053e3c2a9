/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_HIDDEN_FORM_H
#define MS_ENGINE_GRAPH_HIDDEN_FORM_H

/*
 * A form in which a program may keep an address other than as a word: how it is recognized, what
 * evidence it takes, and why what it keeps is only a possible leak. It neither reads memory, nor
 * follows what it finds.
 *
 * To add one: a file with a const struct ms_hidden_form; its place in the table of hidden.c; a row
 * in hidden.h and in docs/LIMITS.md; cases in tests/unit/test_hidden.c, and a program that
 * keeps blocks so in tests/e2e/test_hidden.py.
 */

#include "base/map.h"
#include "engine/ahead.h"
#include "engine/graph/hidden.h"
#include "engine/graph/lookup.h"
#include "engine/graph/shared.h"
#include "engine/graph/walk.h"
#include "engine/graph/words.h"

enum {
	MS_HIDDEN_WORD = 8,     /* bytes, where only wide programs are looked at */
	MS_HIDDEN_LANES = 16,   /* bytes that are looked at at once */
	MS_HIDDEN_AT_ONCE = 64, /* words */
	MS_HIDDEN_ENOUGH = 8, /* blocks that pointers of one kind lead to: the program keeps such */
	MS_HIDDEN_ZONES = 4,
	MS_HIDDEN_FORMS = 6,
	MS_HIDDEN_KINDS = 1024, /* of pointers of one form */
	MS_HIDDEN_PIECE = 1 << 20,
};

/* Bytes of two neighbours make such an address easily: it leads to the first byte, or nowhere. */
static const uint64_t ms_hidden_small = UINT64_C(1) << 32;

/* Memory that one worker looks at. */
struct ms_hidden_piece {
	struct ms_range range;        /* where words begin */
	ms_addr end;                  /* of the memory that they may reach into */
	const uint8_t *host;          /* bytes of it, or NULL */
	const struct ms_extent *heap; /* NULL: all bytes of it count */
	bool code;                    /* a word may stand at every byte */
};

/* A block that one pointer leads to. */
struct ms_hidden_clue {
	struct ms_block block;
	uint16_t kind; /* of the pointer: enough blocks must have such */
	uint8_t form;
	bool certain; /* it needs no others */
};

/* What one worker has. */
struct ms_hidden_seeker {
	struct ms_lookup lookup;
	struct MS_VEC(struct ms_hidden_clue) clues;
	bool out_of_memory;
	uint8_t form;                                  /* whose turn it is */
	uint64_t also[MS_HIDDEN_FORMS];                /* of kind 0: lead to marked blocks */
	uint8_t buffer[MS_HIDDEN_PIECE + MS_WORD_MAX]; /* for sources that cannot be viewed */
};

struct ms_hidden {
	struct ms_blocks *blocks;
	const struct ms_abi *abi;
	struct ms_range zones[MS_HIDDEN_ZONES]; /* unmarked blocks begin in these */
	unsigned n_zones;
	/* Of blocks with a header and nothing behind it, by the address behind: where it begins. */
	struct ms_map empty;
	struct ms_ahead ahead; /* of these */
	struct MS_VEC(struct ms_hidden_piece) pieces;
	uint64_t left; /* bytes that may be looked at */
	bool limited;
	struct MS_VEC(struct ms_hidden_clue) clues; /* of all seekers, once all memory was seen */
	uint64_t *believed;                         /* kinds of each form that have enough */
	struct ms_walk *walk;                       /* NULL: the sweep is not over */
	struct ms_hidden_kept *kept;
	struct ms_shared_arena arena;
	unsigned n_seekers;
	struct ms_hidden_seeker *seekers[MS_WORKERS_MAX];
};

struct ms_hidden_form {
	const char *name;
	enum ms_reason reason;
	bool wide; /* only programs with words of 64 bits have it */
	/* Look at the words of @p, whose bytes begin at @bytes, and say what is found. */
	void (*look)(struct ms_hidden *h, struct ms_hidden_seeker *k,
	             const struct ms_hidden_piece *p, const uint8_t *bytes);
};

extern const struct ms_hidden_form ms_unaligned_form;
extern const struct ms_hidden_form ms_odd_form;
extern const struct ms_hidden_form ms_numbered_form;
extern const struct ms_hidden_form ms_shifted_form;
extern const struct ms_hidden_form ms_front_form;
extern const struct ms_hidden_form ms_behind_form;

/*
 * A pointer at @addr, in @p, leads to @block; @certain: else only if enough of the same @kind,
 * which is below MS_HIDDEN_KINDS, lead to others. Nothing happens where the block is marked, or
 * the pointer is in no marked one.
 */
void ms_hidden_say(struct ms_hidden *h, struct ms_hidden_seeker *k, const struct ms_hidden_piece *p,
                   ms_addr addr, struct ms_hidden_clue clue);

/* A pointer of kind 0 leads to a marked block: it is no less evidence for that kind. */
static inline void ms_hidden_say_also(struct ms_hidden_seeker *k)
{
	k->also[k->form]++;
}

/* The same, certain, of the block that begins at @value, if one does. */
void ms_hidden_say_begin(struct ms_hidden *h, struct ms_hidden_seeker *k,
                         const struct ms_hidden_piece *p, ms_addr addr, uint64_t value);

/*
 * Keep the unmarked block of @extent that begins in @granule in h->empty if it can be a header
 * with nothing behind it. False without memory.
 */
bool ms_behind_form_keep(struct ms_hidden *h, const struct ms_extent *extent, uint64_t granule);

/* Whether an unmarked block may begin at @addr. */
static inline bool ms_hidden_in_zones(const struct ms_hidden *h, ms_addr addr)
{
	bool in = false;

	for (unsigned i = 0; i < h->n_zones; i++)
		in |= addr - h->zones[i].begin < ms_range_len(h->zones[i]);
	return in;
}

/*
 * A bit for each of the @n words at @bytes, MS_HIDDEN_AT_ONCE at most, that may be an address of
 * the heap. Most words of most programs are none, and are passed over.
 */
static inline uint64_t ms_hidden_addresses(const struct ms_hidden *h,
                                           const struct ms_lookup *lookup, const uint8_t *bytes,
                                           size_t n)
{
	uint64_t all = 0;

	if (ms_abi_is_plain(h->abi))
		return ms_words_between(bytes, n, lookup->low, lookup->span + 1, &all);
	return n < MS_HIDDEN_AT_ONCE ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

#endif
