/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_MIHEAP_H
#define MS_TESTS_MIHEAP_H

/*
 * A fake process of mimalloc's, drawn in one line:
 *
 *	struct miheap h;
 *
 *	miheap_init(&h);
 *	miheap_draw(&h, "2.0.9", "48:uuflx 1024:ud | 64:uff");
 *	miheap_break(&h, "page0.capacity = 9");
 *	cr_expect_str_eq(miheap_try(&h, "0"), "");
 *	miheap_deinit(&h);
 *
 * The picture: pages, each the size of its blocks and one letter for each block made:
 *
 *	u  in use              f  on the free list      l  on local_free
 *	x  on thread_free      d  waiting in its heap to be freed (2.x)
 *
 *	|  what follows is of another thread's heap
 *	!  what follows is of threads that ended: of no heap
 *
 * Blocks of more than 16 MiB have a segment of their own (2.x). Lists are drawn from the
 * last block to the first.
 */

#include "alloc/mimalloc/layout.h"
#include "engine/decoder.h"
#include "fake.h"

enum { MIHEAP_PAGES = 32, MIHEAP_BLOCKS = 64, MIHEAP_HEAPS = 4 };

struct miheap_page {
	ms_addr at; /* its description */
	ms_addr area;
	ms_addr start;
	uint64_t block_bytes;
	ms_addr heap;
	uint64_t slices;
	char blocks[MIHEAP_BLOCKS + 1]; /* letters */
};

struct miheap {
	struct ms_fake fake;
	const struct ms_mi_layout *layout;
	struct miheap_page pages[MIHEAP_PAGES];
	size_t n_pages;
	ms_addr heaps[MIHEAP_HEAPS];
	size_t n_heaps;
	ms_addr segment; /* 2.x: the first one */
	ms_addr map;     /* 3.x */

	/* What the decoder told; the blocks are sealed. */
	struct ms_arena arena;
	struct ms_regions regions;
	struct ms_blocks blocks;
	struct ms_heaps found;
	struct ms_notes evidence;
	struct ms_notes warnings;
	struct ms_decoding decoding;
	struct ms_error err;
	char wrong[MS_ERROR_TEXT]; /* what miheap_try() returns */
};

void miheap_init(struct miheap *h);
void miheap_deinit(struct miheap *h);

/* Draw a copy of the version that ms_mi_layouts has by that name. */
void miheap_draw(struct miheap *h, const char *version, const char *picture);

/*
 * Write into the fake process, for instance "page0.capacity = 9, block0.3 = block1.0". The
 * operator is = or +=, the value a number or a place, which then is its address.
 *
 *	pageN   . capacity reserved used size free local thread heap next prev key start
 *	blockN  . K        the first word of block K of page N; -> stores a link to the value
 *	segment . used cookie slices info entries
 *	sliceN  . count offset size      2.x
 *	huge    . count                  2.x: of the page in the second segment, or its
 *	        . slices
 *	arena   . size                   3.x
 *	sizeN   of blocks in the first heap's queue N
 *	heapN   . delayed count key      2.x
 *	mapN    which page the map says has the slice N slices above the first page's (3.x)
 *	root    the word that leads to the page map (3.x), or to what the first thread has (2.x)
 *	list    the map's only list (3.x)
 *	queue   the link to its first page of the first heap's first queue
 */
void miheap_break(struct miheap *h, const char *damage);

/* Classify, decode, seal. Forgets what an earlier call found. */
enum ms_status miheap_decode(struct miheap *h);

/* Every block told, as "begin:usable" by address; good until the next decode. */
const char *miheap_told(struct miheap *h);

/*
 * Decode and compare with the picture: the blocks in use are told, and nothing else.
 *
 * @lost: numbers of pages whose blocks must not be told, but handed over as not proved;
 *        "*": of all pages
 *
 * Tried with view() and without. Returns "" or what is wrong, good until the next call.
 */
const char *miheap_try(struct miheap *h, const char *lost);

/* Whether all evidence together has @text. */
bool miheap_says(const struct miheap *h, const char *text);

/* Where the word of the field is, whose bytes it has: for who writes by himself. */
ms_addr miheap_place(const struct miheap *h, const char *name, unsigned *ret_bytes);

#endif
