/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_JEHEAP_H
#define MS_TESTS_JEHEAP_H

/*
 * A fake process with a jemalloc in it, drawn in one line:
 *
 *	struct jeheap h;
 *
 *	jeheap_draw(&h, "5.3.0", "s320:uu.c l20480 d4 ; s16:u.m");
 *	jeheap_break(&h, "edata0.bits += 0x10000000");
 *	cr_expect_str_eq(jeheap_try(&h), "");
 *	jeheap_deinit(&h);
 *
 * The picture: arenas, separated by ";", each with extents:
 *
 *	sN:…  a slab of regions of N bytes, a letter for each from the first on: u used,
 *	      c in the thread's cache, m in one of the program's own, . free, as is the rest
 *	lN    a large block of N bytes, in use       kN  the same, in the thread's cache
 *	dN    N pages that are free                  hN  N pages that huge pages keep ready
 *
 * Sizes are those of classes. Each cache, and what there is of it, belongs to arena 0.
 */

#include "alloc/jemalloc/layout.h"
#include "engine/decoder.h"
#include "fake.h"

enum { JEHEAP_EXTENTS = 32, JEHEAP_ARENAS = 4, JEHEAP_BLOCKS = 512, JEHEAP_CACHES = 2 };

struct jeheap_block {
	ms_addr begin;
	uint64_t bytes;
};

struct jeheap_extent {
	ms_addr edata;
	ms_addr word; /* of the leaf, about its first page */
	ms_addr begin;
	uint64_t pages;
	uint32_t arena;
	uint32_t index; /* of its class */
};

struct jeheap {
	struct ms_fake fake;
	const struct ms_je_layout *layout;
	const struct ms_je_tree *tree;
	ms_addr table; /* of arenas */
	ms_addr root;
	ms_addr arenas[JEHEAP_ARENAS];
	ms_addr bases[JEHEAP_ARENAS];
	size_t n_arenas;
	struct jeheap_extent extents[JEHEAP_EXTENTS];
	size_t n_extents;
	ms_addr rings[JEHEAP_CACHES];  /* what the ring is of */
	ms_addr caches[JEHEAP_CACHES]; /* what has the bins */
	ms_addr stacks[JEHEAP_CACHES];
	struct jeheap_block live[JEHEAP_BLOCKS]; /* that must be told, by address */
	size_t n_live;

	/* What the decoder told; the blocks are sealed. */
	struct ms_arena arena;
	struct ms_regions regions;
	struct ms_blocks blocks;
	struct ms_heaps found;
	struct ms_notes evidence;
	struct ms_notes warnings;
	struct ms_decoding decoding;
	struct ms_error err;
	char wrong[MS_ERROR_TEXT];
};

/* @version: "5.3.0", or "5.3.0 wide" with a tree for 57 bits of address */
void jeheap_draw(struct jeheap *h, const char *version, const char *picture);

/*
 * Make of it a build with --disable-stats: nothing is counted, and there are no rings. The
 * first cache is in the storage of a thread.
 *
 * @own: the program's own cache stays; else its memory is a block like others
 */
void jeheap_uncount(struct jeheap *h, bool own);

void jeheap_deinit(struct jeheap *h);

/*
 * Where something is: "edataN.FIELD" (bits addr size bitmap), "wordN.P" (of the
 * leaf, about page P of extent N), "rootN", "arenaN.FIELD" (nactive internal tcaches base, lockN of
 * its locks), "binN.A" (curregs curslabs nmalloc lock) of class A in arena N, "largeN.A",
 * "baseN.FIELD" (ind blocks hooks), "ringN.FIELD" (next prev arena), "cacheN.A.K" (word K of the
 * bin of class A), "stackN". Of a wide tree also "saidN.P", the word behind wordN.P, and
 * "leavesN", the word for extent N in the table. A class is an index.
 */
ms_addr jeheap_place(const struct jeheap *h, const char *name);

/* "PLACE = N", or +=, -=, ^=; several separated by ",". */
void jeheap_break(struct jeheap *h, const char *damage);

enum ms_status jeheap_decode(struct jeheap *h);

/* Decode, with view() and without; "" when what was drawn is told, else what is wrong. */
const char *jeheap_try(struct jeheap *h);

/* Decode; "" when no block is told that was not drawn and no heap is verified. */
const char *jeheap_doubt(struct jeheap *h);

bool jeheap_is_verified(const struct jeheap *h);

/* Whether all evidence together has @text. */
bool jeheap_says(const struct jeheap *h, const char *text);

#endif
