/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_JEMALLOC_JEMALLOC_H
#define MS_ALLOC_JEMALLOC_JEMALLOC_H

/*
 * What the files of this room share: one copy of jemalloc, as far as it has been
 * understood. A process can have several, each with a tree, arenas and caches of its
 * own: a library, and others linked into the program and into plugins.
 *
 *	root    2^18 pointers in a module's data, one for each GiB of addresses; or 2^15,
 *	 │         and a table of as many between it and a leaf
 *	 └ leaf    an entry for each page: what describes the extent there, its class, and
 *	    │      whether it is a slab. A slab is named by each of its pages, other extents
 *	    │      by the first and the last
 *	    └ edata    128 bytes: arena, state, address, size; of a slab a bitmap, 1: free
 *
 *	locate.c    the root, and the tables that stand in the same data
 *	tree.c      tables and leaves, and what an entry says
 *	extents.c   the leaves, entry by entry: every extent
 *	arenas.c    arenas, their metadata, and what they count
 *	blocks.c    the blocks of active extents
 *	tcache.c    what threads have cached, and jemalloc's own allocations
 *	hands.c     what threads that wait for a lock have in hand
 *	jemalloc.c  the decoder: the order of these, and the evidence
 */

#include "alloc/jemalloc/layout.h"
#include "alloc/misplaced.h"
#include "alloc/proof.h"
#include "engine/decoder.h"
#include "engine/loaded/peek.h"

enum { MS_JE_WORD = 8, MS_JE_PIECE_BYTES = 1 << 16 };

/* Memory that the tree knows. */
struct ms_je_extent {
	struct ms_range range; /* first: searched by it. Whole pages */
	ms_addr edata;
	ms_addr addr;  /* of a large block: within the first page */
	uint64_t bits; /* the first word of edata */
};

struct ms_je_extents MS_VEC(struct ms_je_extent);

struct ms_je_leaf {
	struct ms_range range; /* first: sorted by it */
	ms_addr about;         /* the page of its first entry */
};

struct ms_je_leaves MS_VEC(struct ms_je_leaf);

/* What was found of an arena, to be compared with what it counts. */
struct ms_je_tally {
	uint64_t slabs[MS_JE_BINS];
	uint64_t regions[MS_JE_BINS]; /* in use */
	uint64_t large[MS_JE_CLASSES - MS_JE_BINS];
	uint64_t pages;          /* of active extents */
	uint64_t internal_bytes; /* of jemalloc's own allocations */
	uint64_t n_internal;
	uint64_t n_cached;
	uint64_t cached_bytes;
	uint64_t n_used; /* blocks put: all of these */
	uint64_t used_bytes;
	uint64_t free_bytes; /* in slabs, and in what is cached for later */
};

struct ms_je_arena {
	ms_addr addr;
	ms_addr base;
	uint32_t ind;
	uint32_t group; /* of its extents */
	struct ms_je_tally tally;
	struct ms_proof proof;
};

struct ms_je_arenas MS_VEC(struct ms_je_arena);

struct ms_je_copy {
	const struct ms_je_tree *tree;
	const struct ms_je_bits *bits;
	const struct ms_je_layout *layout; /* NULL: none fits */
	const struct ms_region *region;    /* where the root is */
	struct ms_range data;              /* of its module, around the root */
	ms_addr root;
	ms_addr table; /* of pointers to arenas; 0: it was not found */
	uint32_t n_leaves;
	struct ms_je_extents extents; /* by address */
	struct ms_ranges metadata;    /* tidy */
	struct ms_je_arenas arenas;
	uint16_t *by_ind; /* 1 + an index in arenas, for each of MS_JE_ARENAS; 0: none */
	uint32_t n_shards[MS_JE_BINS]; /* bins of a class in an arena */
	uint32_t n_caches;
	uint32_t n_bins[2]; /* caches' bins: without blocks of other classes; with such */
	struct ms_misplaced misplaced;         /* these */
	struct MS_VEC(uint64_t) waiting_words; /* of threads that wait for a lock; sorted */
	uint64_t held_bytes;                   /* of what counts as roots for these words' sake */
	bool base_stacks; /* a cache's stack is metadata, which is not counted */
	bool counts;      /* bins and large blocks are counted (ms_je_counts()) */
	uint32_t pad;     /* bytes that a large block's extent has more, for any_length */
	uint32_t group;   /* of extents without an arena */
	bool no_memory;
	bool broken;           /* the tree contradicts itself: extents are not known */
	struct ms_proof proof; /* of all of its arenas */
};

struct ms_je_copies MS_VEC(struct ms_je_copy);

struct ms_jemalloc {
	struct ms_decoding *d;
	struct ms_peek *peek;
	uint64_t *words; /* MS_JE_PIECE_BYTES, to read a leaf or a module's data into */
	uint64_t *table; /* MS_JE_ARENAS, to read the table of arenas into */
	struct ms_je_copies copies;
	uint32_t zeros; /* pieces without a word that were read in leaves, for a bound */
};

/* locate.c: find the roots, and what fits them. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_je_locate(struct ms_jemalloc *je);

/* extents.c: fill copy->extents; a contradiction disproves @copy. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_je_read_extents(struct ms_jemalloc *je, struct ms_je_copy *copy);

/*
 * tree.c: an entry of two words in one, as an entry of one word has it; 0 where there is no
 * extent. What jemalloc does not write becomes a word that it does not write.
 */
uint64_t ms_je_entry_pack(const struct ms_je_bits *bits, const uint64_t pair[2]);

/* tree.c: what an entry leads to; false when it is no extent, or says something else. */
bool ms_je_extent_of(const struct ms_jemalloc *je, const struct ms_je_bits *bits, uint64_t word,
                     struct ms_je_extent *ret);

/*
 * tree.c: the next word of a root or table that is there and not 0.
 *
 * @rest: in/out; what is left of it
 * @ret_at: where the word is
 */
bool ms_je_next_pointer(const struct ms_jemalloc *je, struct ms_range *rest, ms_addr *ret_at,
                        uint64_t *ret);

/* tree.c: whether a table or leaf of so many bytes can be where @word points to. */
bool ms_je_may_be_table(const struct ms_jemalloc *je, uint64_t word, uint64_t bytes);

/*
 * tree.c: whether what a pointer of a root leads to has an extent's page that its own
 * description agrees with.
 *
 * @bits: in/out; NULL: try those of all layouts. Set to those that fit
 * @ret:  the page
 */
bool ms_je_tree_shows(struct ms_jemalloc *je, const struct ms_je_tree *tree, ms_addr child,
                      const struct ms_je_bits **bits, ms_addr *ret);

/* tree.c: all leaves, by what they are about; overlapping ones disprove @copy. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_je_find_leaves(struct ms_jemalloc *je, struct ms_je_copy *copy,
                                               struct ms_je_leaves *ret);

/* arenas.c: choose the layout, fill arenas and metadata. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_je_read_arenas(struct ms_jemalloc *je, struct ms_je_copy *copy);

/*
 * arenas.c: whether bins and large blocks are counted. Builds with --disable-stats, as Rust's
 * are by default, leave these counters zero.
 */
bool ms_je_counts(const struct ms_jemalloc *je, const struct ms_je_copy *copy);

/* arenas.c: compare what was found with what each arena counts. */
void ms_je_check_arenas(struct ms_jemalloc *je, struct ms_je_copy *copy);

/* blocks.c: put the blocks of active extents. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_je_put_blocks(struct ms_jemalloc *je, struct ms_je_copy *copy);

/* tcache.c: take cached blocks and jemalloc's own for free. Blocks are sorted.
 * MS_E_NOMEM only. */
ms_must_check enum ms_status ms_je_take_caches(struct ms_jemalloc *je, struct ms_je_copy *copy);

/* hands.c: fill copy->waiting_words, and hold the large blocks that these words lead to. MS_E_NOMEM
 * only. */
ms_must_check enum ms_status ms_je_look_in_hands(struct ms_jemalloc *je,
                                                 const struct ms_claim *claim,
                                                 struct ms_je_copy *copy);

/*
 * hands.c: a bin is empty. Whoever fills it has put blocks into its room: make that a root if a
 * thread's word leads to the bin. False: no memory.
 */
ms_must_check bool ms_je_hold_room(struct ms_jemalloc *je, struct ms_je_copy *copy,
                                   struct ms_range bin, struct ms_range room);

/* The arena of @extent; NULL: none is known. */
static inline struct ms_je_arena *ms_je_arena_of(const struct ms_je_copy *copy,
                                                 const struct ms_je_extent *extent)
{
	uint32_t ind = ms_je_field(extent->bits, 0, MS_JE_ARENA_BITS);
	uint16_t at = copy->by_ind && ind < MS_JE_ARENAS ? copy->by_ind[ind] : 0;

	return at ? &copy->arenas.at[at - 1] : NULL;
}

/* Whether blocks are in an extent whose description begins with @first; free ones have no class. */
static inline bool ms_je_in_use(const struct ms_je_bits *bits, uint64_t first)
{
	return ms_je_field(first, bits->state, bits->state_bits) == MS_JE_ACTIVE &&
	       ms_je_field(first, bits->class_, MS_JE_CLASS_BITS) < MS_JE_CLASSES;
}

static inline uint32_t ms_je_class_of(const struct ms_je_copy *copy,
                                      const struct ms_je_extent *extent)
{
	return ms_je_field(extent->bits, copy->bits->class_, MS_JE_CLASS_BITS);
}

static inline bool ms_je_is_slab(const struct ms_je_extent *extent)
{
	return ms_je_field(extent->bits, MS_JE_SLAB_BIT, 1);
}

static inline uint64_t ms_je_entry_bytes(const struct ms_je_tree *tree)
{
	return tree->entry_words * (uint64_t)MS_JE_WORD;
}

static inline uint64_t ms_je_leaf_bytes(const struct ms_je_tree *tree)
{
	return tree->leaf_entries * ms_je_entry_bytes(tree);
}

/* The entry at @at as one word; 0: there is no extent. */
static inline uint64_t ms_je_entry_at(const struct ms_je_tree *tree, const struct ms_je_bits *bits,
                                      const uint64_t *at)
{
	return tree->entry_words == 1 ? *at : ms_je_entry_pack(bits, at);
}

/* Where word @n of an array is. */
static inline ms_addr ms_je_nth(ms_addr array, uint64_t n)
{
	return array + n * MS_JE_WORD;
}

/* The word at @addr; false when it cannot be read. */
static inline bool ms_je_word(const struct ms_jemalloc *je, ms_addr addr, uint64_t *ret)
{
	return ms_peek_read(je->peek, addr, ret, sizeof(*ret)) == sizeof(*ret);
}

/* The same, 0 when it cannot. */
static inline uint64_t ms_je_word_or_0(const struct ms_jemalloc *je, ms_addr addr)
{
	uint64_t word;

	return ms_je_word(je, addr, &word) ? word : 0;
}

/* Whether something of the program's can be at @addr. */
static inline bool ms_je_is_writable(const struct ms_jemalloc *je, ms_addr addr)
{
	return ms_region_is_writable(je->d->src, je->d->regions, addr);
}

#endif
