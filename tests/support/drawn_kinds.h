/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_DRAWN_KINDS_H
#define MS_TESTS_DRAWN_KINDS_H

/*
 * A process whose blocks are drawn word by word, to be named by engine/kinds:
 *
 *	DK_HEAP      blocks, in the order in which they are made
 *	DK_LIBRARY   a module with code, constants, C++ classes (classes.h) and data
 */

#include "classes.h"
#include "engine/kinds/kinds.h"

#define DK_HEAP      UINT64_C(0x10000000)
#define DK_LIBRARY   UINT64_C(0x40000000)
#define DK_CODE      (DK_LIBRARY + CLASSES_PAGE + 0x100)
#define DK_CONSTANTS (DK_LIBRARY + 0x800) /* free for a test: half a page */
#define DK_DATA      (DK_LIBRARY + 3 * (ms_addr)CLASSES_PAGE)

enum { DK_HEAP_BYTES = 1 << 20, DK_BLOCKS = 4096 };

struct drawn_kinds {
	struct ms_fake fake;
	struct ms_arena found; /* what was found last, and all that follows */
	struct ms_regions regions;
	struct ms_roots roots;
	struct ms_blocks blocks;
	struct ms_types *types;
	ms_addr next; /* the next block's begin */
	ms_addr at[DK_BLOCKS];
	uint64_t len[DK_BLOCKS];
	size_t n;
	bool live_only;             /* what is marked is not searched */
	bool strict;                /* what containers do not use is looked for */
	struct ms_workers *workers; /* that look; NULL: one */
	struct ms_tails tails;
};

/* @library: the name of the module's file */
void drawn_kinds_init(struct drawn_kinds *d, const char *library);
void drawn_kinds_deinit(struct drawn_kinds *d);

/* A block of at least @len bytes, as malloc would give it; zeros. */
ms_addr drawn_kinds_block(struct drawn_kinds *d, uint64_t len);

/* Write @n words. */
void drawn_kinds_put(struct drawn_kinds *d, ms_addr at, const uint64_t *words, size_t n);

#define dk_put(d, at, ...)                                      \
	drawn_kinds_put((d), (at), (uint64_t[]){ __VA_ARGS__ }, \
	                sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* Search, and forget what was found before. */
void drawn_kinds_find(struct drawn_kinds *d);

/* What the block at @at is after that; "" for nothing. */
const struct ms_type *drawn_kinds_type(struct drawn_kinds *d, ms_addr at);
const char *drawn_kinds_name(struct drawn_kinds *d, ms_addr at);

/* The first of @n words at @at that can be another without a change of the name of @block; or n.
 */
size_t drawn_kinds_idle_word(struct drawn_kinds *d, ms_addr at, size_t n, ms_addr block);

#endif
