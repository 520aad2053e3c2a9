/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_MIMALLOC_LAYOUT_H
#define MS_ALLOC_MIMALLOC_LAYOUT_H

/*
 * Where mimalloc's fields stand, 64-bit.
 *
 * A layout is recognized by the data itself (locate.c): a heap by its table of queues, one
 * for each size of blocks, whose sizes are the same in all versions; what stands before and
 * behind the table, by what it leads to. Builds of one version differ: with MI_SECURE the
 * links of free blocks are encoded by keys, which each page has.
 *
 * Source: mimalloc include/mimalloc-types.h and include/mimalloc/types.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MS_MI_WORD = 8,
	MS_MI_SLICE = 1 << 16,         /* pages are made of slices of so many bytes */
	MS_MI_SEGMENT = 32 << 20,      /* 2.x: segments begin at multiples of it, */
	MS_MI_SEGMENT_SLICES = 512,    /* and have so many slices, but for huge ones */
	MS_MI_HUGE_BLOCK = 0x80000000, /* 2.0: in place of sizes that are no smaller */
	MS_MI_QUEUES = 75,             /* in a heap */
	MS_MI_PAGE_MAX = 160,          /* bytes of a page's description that are looked at, most */
	MS_MI_MAP_ENTRIES = 1 << 18,   /* 3.x: parts of a page map, for 47 bits of addresses, */
	MS_MI_MAP_SLICES = 1 << 13,    /* and slices that each has */
};

/* A number of some bytes in a structure. */
struct ms_mi_field {
	uint16_t at;
	uint16_t bytes; /* 0: there is none */
};

/* struct mi_page_s: one page, which has blocks of one size. */
struct ms_mi_page_layout {
	struct ms_mi_field capacity; /* blocks that have been made so far */
	struct ms_mi_field reserved; /* blocks that there is room for */
	struct ms_mi_field used;
	struct ms_mi_field block_size;
	uint16_t free;
	uint16_t local_free;
	uint16_t thread_free;
	uint16_t heap;
	uint16_t keys; /* two words that encode links; 0: links are plain */
	uint16_t next; /* two words: links to other pages of its heap and size */
	uint16_t
		start; /* word with the first block's address; 0: it follows from the size (gap), */
	struct ms_mi_field offset; /* or from this, which is how far it is from the description, */
	uint8_t offset_unit;       /* in so many bytes */
	uint16_t memory; /* 3.x: two words, its memory's base and size, or first its arena */
	uint8_t flags;   /* low bits of thread_free that are not the link's */
	uint8_t padding; /* bytes at the end of each block, as a rule (pages.c) */
};

/* Where in its memory a page has its first block, in versions that do not keep that. */
enum ms_mi_gap {
	MS_MI_GAP_FIXED,   /* 384 bytes behind the begin, where blocks are at most 1 KiB */
	MS_MI_GAP_BY_SIZE, /* three blocks of at most 64 bytes behind it, one of at most 512 */
};

/* struct mi_segment_s, of 2.x: memory with its description at its begin. */
struct ms_mi_segment_layout {
	uint16_t used; /* pages */
	uint16_t cookie;
	uint16_t slices_n;    /* slices in it, */
	uint16_t info_slices; /* those of them that describe it, */
	uint16_t entries;     /* and those that are described */
	uint16_t slices;      /* the descriptions: the first slice of a page is its mi_page_s */
	uint16_t slice_bytes;
	uint16_t gap; /* enum ms_mi_gap */
	/* In such a description, u32: */
	uint16_t slice_count;
	uint16_t slice_offset; /* from the page's own description, bytes; 0: it is one */
};

/* struct mi_heap_s: what one thread allocates from. */
struct ms_mi_heap_layout {
	uint16_t queues;
	uint16_t queue_bytes; /* of each: first page, last page, … */
	uint16_t queue_size;  /* … and where in it the size of its blocks is */
	uint16_t delayed;     /* 2.x: a list of blocks that other threads freed; 0: there is none */
	uint16_t cookie;
	uint16_t keys;       /* of that list */
	uint16_t page_count; /* 0: not known */
};

/* struct mi_tld_s: what a thread has beside its heaps. */
struct ms_mi_tld_layout {
	uint16_t backing; /* its first heap */
};

/* The page map, of 3.x: which page a slice of memory is of. */
struct ms_mi_map_layout {
	bool is_there;
	bool keeps_gone;       /* slices of pages that are gone stay in it until others have them */
	uint16_t header;       /* bytes in front of it */
	uint16_t arena_slices; /* in an arena, which begins with its base and size: its slices */
};

struct ms_mi_layout {
	const char *versions;
	struct ms_mi_heap_layout heap;
	struct ms_mi_tld_layout tld;
	struct ms_mi_segment_layout segment;
	struct ms_mi_map_layout map;
	struct ms_mi_page_layout page;
};

extern const struct ms_mi_layout ms_mi_layouts[];
extern const size_t ms_n_mi_layouts;

#endif
