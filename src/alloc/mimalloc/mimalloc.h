/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ALLOC_MIMALLOC_MIMALLOC_H
#define MS_ALLOC_MIMALLOC_MIMALLOC_H

/*
 * What the files of this room share: mimalloc as it is in one process, which can hold
 * several copies, one in each program or library that has it.
 *
 * Blocks of one size lie in a page, side by side. A page knows how many it has made, and
 * three lists of those that are free; every other one is in use. In 2.x pages lie in
 * segments, with their descriptions at the begin; in 3.x a map says which page has an address.
 *
 *	layout.c    where the fields stand
 *	locate.c    each copy's first heap, in a module's data
 *	segments.c  2.x: segments, and the pages in them
 *	map.c       3.x: the page map, and the pages in it
 *	heaps.c     all heaps that pages belong to; blocks that wait there to be freed
 *	pages.c     one page: its lists against its counters, and its blocks
 *	mimalloc.c  the decoder: the order of these, and the evidence
 */

#include "alloc/mimalloc/layout.h"
#include "alloc/proof.h"
#include "base/workers.h"
#include "engine/decoder.h"
#include "engine/loaded/peek.h"

/* One page, as its description says. */
struct ms_mi_page {
	ms_addr at;           /* its description */
	struct ms_range area; /* its memory */
	ms_addr start;        /* its first block */
	uint64_t block_bytes; /* from one block to the next */
	uint64_t used;
	uint32_t capacity; /* blocks made, */
	uint32_t reserved; /* of so many that there is room for */
	ms_addr free;
	ms_addr local_free;
	ms_addr thread_free;
	ms_addr heap;     /* that it belongs to; 0: none, as its thread has ended */
	ms_addr links[2]; /* other pages of its heap and size */
	bool proved;      /* its blocks are reported */
	uint64_t keys[2];
};

struct ms_mi_pages MS_VEC(struct ms_mi_page);

/* Blocks: how many, and their usable bytes. */
struct ms_mi_sum {
	uint64_t n;
	uint64_t bytes;
};

/* One copy of mimalloc. */
struct ms_mi_copy {
	const struct ms_mi_layout *layout;
	const struct ms_region *data; /* where its first heap is */
	ms_addr table;            /* of queues, in its first heap: where the first size stands */
	ms_addr main_heap;        /* 2.x: that heap */
	uint64_t cookie;          /* 2.x */
	ms_addr map;              /* 3.x: its page map */
	uint32_t group;           /* of its extents */
	struct ms_ranges memory;  /* that pages are made of */
	struct ms_ranges maps;    /* 3.x: of the page map */
	struct ms_mi_pages pages; /* that have blocks, or room for them */
	uint64_t n_segments;      /* 2.x */
	uint64_t n_heaps;
	struct MS_VEC(ms_addr) delayed; /* blocks that wait to be freed, by address */
	struct ms_mi_sum live;
	struct ms_mi_sum idle; /* on lists */
	uint64_t n_delayed;    /* of these, from heaps' lists */
	bool dropped;          /* nor anything else of it */
	struct ms_proof proof; /* of pages and segments */
};

struct ms_mi_copies MS_VEC(struct ms_mi_copy);

/* A table of queues: a heap of some version has it. */
struct ms_mi_table {
	const struct ms_region *data;
	ms_addr at;      /* its first size, */
	uint64_t stride; /* and how far the next ones are from one another */
};

/* From one page to another of its heap and size. */
struct ms_mi_link {
	ms_addr from;
	ms_addr to;
};

struct ms_mimalloc {
	struct ms_decoding *d;
	struct ms_peek *peek;
	uint8_t *buffer; /* of MS_MI_BUFFER */
	uint64_t *taken; /* a bit for each block of a page */
	struct ms_mi_copies copies;
	struct MS_VEC(struct ms_mi_table) tables; /* all that were found in modules */
};

enum { MS_MI_BUFFER = 1 << 17, MS_MI_CAPACITY = 1 << 16 };

/* locate.c: add every table, and a copy for each first heap. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_mi_locate(struct ms_mimalloc *mi);

/*
 * locate.c: whether the heap of @table has pages: one that was never called has none.
 */
bool ms_mi_is_used(const struct ms_mimalloc *mi, const struct ms_mi_table *table);

/* segments.c: find the memory and the pages of @copy, and its layout. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_mi_find_segments(struct ms_mimalloc *mi, struct ms_mi_copy *copy);

/* map.c: find the page map of @copy, its memory, its pages, and its layout. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_mi_find_map(struct ms_mimalloc *mi, struct ms_mi_copy *copy);

/* heaps.c: take the blocks that wait in heaps to be freed. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_mi_read_heaps(struct ms_mimalloc *mi, struct ms_mi_copy *copy);

/*
 * heaps.c: count links between pages that lead to none that is known; @ret_first is the first
 * of them. False: no memory.
 */
bool ms_mi_astray(struct ms_mimalloc *mi, const struct ms_mi_copy *copy, uint64_t *ret,
                  struct ms_mi_link *ret_first);

/* pages.c: put the blocks of all pages that are proved. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_mi_read_pages(struct ms_mimalloc *mi, struct ms_mi_copy *copy);

/*
 * pages.c: fill @ret, but for its memory, from the description at @at, of which @bytes are all
 * that its layout knows. False: it contradicts itself.
 */
bool ms_mi_fill_page(const struct ms_mi_layout *layout, ms_addr at, const uint8_t *bytes,
                     struct ms_mi_page *ret);

/*
 * pages.c: count pages of @copy with a free block that is none, or leads to none: all of them
 * where the layout is a wrong one.
 */
uint64_t ms_mi_misfits(const struct ms_mimalloc *mi, const struct ms_mi_copy *copy);

/* locate.c: how far memory that can be an allocator's goes on from the begin of @range. */
struct ms_range ms_mi_mapped(const struct ms_mimalloc *mi, struct ms_range range);

/* locate.c: forget what was found of @copy's memory. */
void ms_mi_forget(struct ms_mi_copy *copy);

/* As ms_source_read(), for little. */
static inline size_t ms_mi_read(const struct ms_mimalloc *mi, ms_addr addr, void *buf, size_t len)
{
	return ms_peek_read(mi->peek, addr, buf, len);
}

/* The word at @addr, or 0 when it cannot be read. */
static inline uint64_t ms_mi_word(const struct ms_mimalloc *mi, ms_addr addr)
{
	uint64_t word;

	return ms_mi_read(mi, addr, &word, sizeof(word)) == sizeof(word) ? word : 0;
}

/* The number that @field is in the structure at @bytes. */
static inline uint64_t ms_mi_field(const uint8_t *bytes, struct ms_mi_field field)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < field.bytes; i++)
		value |= (uint64_t)bytes[field.at + i] << 8 * i;
	return value;
}

/* The word at @at of the structure at @bytes. */
static inline uint64_t ms_mi_word_of(const uint8_t *bytes, uint16_t at)
{
	return ms_mi_field(bytes, (struct ms_mi_field){ at, MS_MI_WORD });
}

/* What the keys make of an address. */
static inline uint64_t ms_mi_encode(ms_addr addr, const uint64_t keys[2])
{
	uint64_t x = addr ^ keys[1];
	unsigned by = keys[0] % 64;

	return (by ? x << by | x >> (64 - by) : x) + keys[0];
}

/* Undo what the keys did to a link, which ends its list when it leads to @null. */
static inline ms_addr ms_mi_decode(uint64_t stored, const uint64_t keys[2], ms_addr null)
{
	uint64_t x = stored - keys[0];
	unsigned by = keys[0] % 64;
	ms_addr link = (by ? x >> by | x << (64 - by) : x) ^ keys[1];

	return link == null ? 0 : link;
}

#endif
