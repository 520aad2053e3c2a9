/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_JEMALLOC_LAYOUT_H
#define MS_ALLOC_JEMALLOC_LAYOUT_H

/*
 * Where jemalloc's structures have which member, in 64-bit builds with 4 KiB pages and
 * 16 bytes of alignment: as Debian builds it, and Rust. Offsets are in bytes. What each version has
 * is read off its headers; a layout that does not fit is found out by the structures themselves
 * (arenas.c).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MS_JE_PAGE = 4096,
	MS_JE_BINS = 36,     /* size classes of slabs' regions: SC_NBINS */
	MS_JE_CLASSES = 232, /* all of them: SC_NSIZES */
	MS_JE_REGIONS = 512, /* of one slab, at most: SC_LG_SLAB_MAXREGS */
	MS_JE_BITMAP_WORDS = MS_JE_REGIONS / 64,
	MS_JE_ARENAS = 4095, /* MALLOCX_ARENA_LIMIT */
	MS_JE_LOCKS = 8,
	MS_JE_LOOKUPS_BYTES = 384, /* rtree_ctx_t */
};

/* What describes an extent: edata_t, extent_t before 5.3. */
enum {
	MS_JE_EDATA_BYTES = 128,
	MS_JE_EDATA_ADDR = 8,
	MS_JE_EDATA_SIZE = 16,
	MS_JE_EDATA_PAGESLAB = 24, /* of the huge page allocator; from 5.3 on */
	MS_JE_EDATA_BITMAP = 64,
};

/*
 * The tree of extents. jemalloc counts the bits that an address may have on the machine
 * that builds it: 48, or 57 where the processor can have five levels of page tables. Then
 * the tree has a level more, and an entry has no room for all in one word.
 */
struct ms_je_tree {
	uint32_t root_words;   /* pointers to tables, or to leaves */
	uint32_t table_words;  /* pointers to leaves; 0: there are no tables */
	uint32_t leaf_entries; /* one for each page */
	uint8_t entry_words;   /* 2: what is said of an extent stands behind its address */
	uint8_t leaf_shift;    /* log2 of the memory that a leaf is about */
	uint8_t root_shift;    /* and of what a pointer of the root leads to */
};

enum { MS_JE_TREES = 2 };

extern const struct ms_je_tree ms_je_trees[MS_JE_TREES];

/* Where its first word and a word of a leaf have which bits. */
struct ms_je_bits {
	uint8_t state; /* in the first word */
	uint8_t state_bits;
	uint8_t class_;
	uint8_t nfree;
	uint8_t leaf_below; /* bits of a leaf's word, where entries are one, that the address has
	                       not */
	uint8_t leaf_low;   /* those of them that can be set */
	bool leaf_state;    /* the leaf has the state, too, from bit 2 on */
};

/* An entry's bits that are of an address, and how many the flags have where they are apart. */
#define MS_JE_ENTRY_ADDRESS UINT64_C(0x0000ffffffffffc0)
enum { MS_JE_LEAF_FLAGS = 5 };

enum { MS_JE_SLAB_BIT = 12, MS_JE_NFREE_BITS = 10, MS_JE_CLASS_BITS = 8, MS_JE_ARENA_BITS = 12 };

enum ms_je_state {
	MS_JE_ACTIVE,
	MS_JE_DIRTY,
	MS_JE_MUZZY,
	MS_JE_RETAINED,
	MS_JE_TRANSITION, /* from here on a thread is at work on it */
};

struct ms_je_layout {
	const char *version;
	const struct ms_je_bits *bits;

	/* base_t */
	uint16_t base_blocks;
	uint16_t base_hooks[2]; /* pointers that the program may have set; 0: none */

	/* arena_t */
	uint32_t arena_ind; /* 0: only its base has it */
	uint32_t arena_base;
	uint32_t arena_internal;
	uint32_t arena_large_stats;
	uint32_t arena_tcaches;
	uint32_t arena_nactive;
	uint32_t arena_bins;
	bool bins_are_pointers;
	uint8_t large_stats_bytes;
	bool any_length; /* a large block has whole pages, not its class's bytes */
	uint32_t arena_locks[MS_JE_LOCKS]; /* until 0 */
	uint32_t base_lock;
	uint32_t lock_held; /* in a mutex: whether it is held */

	/* bin_t */
	uint16_t bin_bytes;
	uint16_t bin_stats;

	/* What is in the list of an arena's caches; the links are at its begin or at list_link. */
	uint16_t list_link;
	uint16_t list_arena;
	uint16_t list_stack;  /* where the cache's stack is; 0: known by its bins alone */
	uint16_t list_tcache; /* pointer to the cache; 0: it is in there itself */

	/* The cache's bins. */
	uint16_t small_bins;
	uint16_t large_bins; /* where those from MS_JE_BINS on are */
	uint16_t max_bins;
	bool counted;    /* bins have a count and a pointer behind them */
	bool tells_max;  /* bins have their limit, and can be off by themselves */
	uint64_t behind; /* the word behind the stack, if not counted */

	/* What a thread has, relative to its own cache, which is in its storage. */
	int32_t tdata;   /* an internal allocation before it; 0: none */
	int32_t lookups; /* what it looked up in the tree: addresses, but of no block */
};

/* bin_stats_t, in all versions. */
enum {
	MS_JE_BIN_NMALLOC = 0,
	MS_JE_BIN_NDALLOC = 8,
	MS_JE_BIN_CURREGS = 24,
	MS_JE_BIN_CURSLABS = 64,
};

extern const struct ms_je_layout ms_je_layouts[];
extern const size_t ms_je_n_layouts;

/* Bytes of a block of size class @index, which is below MS_JE_CLASSES. */
static inline uint64_t ms_je_class_bytes(uint32_t index)
{
	/* 8, then 4 classes to each doubling of 16, 64, 128 ... */
	if (index == 0)
		return 8;
	if (index < 5)
		return UINT64_C(16) * index;
	return (UINT64_C(64) << (index - 5) / 4) +
	       ((index - 5) % 4 + 1) * (UINT64_C(16) << (index - 5) / 4);
}

static inline uint32_t ms_je_field(uint64_t word, unsigned shift, unsigned bits)
{
	return (uint32_t)(word >> shift) & ((1u << bits) - 1);
}

#endif
