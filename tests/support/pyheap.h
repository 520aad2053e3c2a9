/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_PYHEAP_H
#define MS_TESTS_PYHEAP_H

/*
 * A fake process of CPython's, drawn in one line:
 *
 *	struct pyheap h;
 *
 *	pyheap_init(&h);
 *	pyheap_draw(&h, PYHEAP_3_11, "32 uufu 64 u ; 512 e 48 ufff ; - ");
 *	pyheap_pool(&h, 1)->count = 7;
 *	cr_expect_str_empty(pyheap_try(&h), "%s", h.wrong);
 *	pyheap_deinit(&h);
 *
 * The picture: arenas, separated by ";"; "-" is an arena object without one.
 *
 *	N   a pool for blocks of N bytes      u   a block in use
 *	e   all that is carved of it is free  f   a free one
 *
 * Pools have the numbers of the picture, from 0 on, and arenas too. Pools of one size are
 * linked in a ring, if some of their blocks, and not all, are free.
 */

#include "alloc/pymalloc/pymalloc.h"
#include "fake.h"

enum pyheap_version { PYHEAP_3_9, PYHEAP_3_11, PYHEAP_3_13, PYHEAP_VERSIONS };

enum { PYHEAP_POOLS = 64, PYHEAP_ARENAS = 8, PYHEAP_BLOCKS = 1024 };

struct pyheap_block {
	ms_addr at;
	uint64_t bytes;
	size_t pool;
	bool used;
};

struct pyheap {
	struct ms_fake fake;
	enum pyheap_version version;
	ms_addr table;   /* of the rings */
	ms_addr pointer; /* the word that points to the array of arenas */
	ms_addr array;
	struct pyheap_block blocks[PYHEAP_BLOCKS]; /* by address within an arena */
	size_t n_blocks;
	ms_addr pools[PYHEAP_POOLS];
	size_t n_pools;
	size_t n_arenas;

	bool ended;             /* the program is */
	struct ms_range others; /* what another decoder claims, if it is not empty */

	/* What the decoder told; the blocks are sealed. */
	struct ms_arena arena;
	struct ms_regions regions;
	struct ms_blocks told;
	struct ms_heaps heaps;
	struct ms_notes evidence;
	struct ms_notes warnings;
	struct ms_decoding decoding;
	char wrong[MS_ERROR_TEXT]; /* what pyheap_try() returns */
};

void pyheap_init(struct pyheap *h);
void pyheap_deinit(struct pyheap *h);
void pyheap_draw(struct pyheap *h, enum pyheap_version version, const char *picture);

/* Bytes of the fake process, to be changed. */
struct ms_py_pool *pyheap_pool(struct pyheap *h, size_t pool);
struct ms_py_object *pyheap_object(struct pyheap *h, size_t arena);

uint32_t pyheap_pool_bytes(const struct pyheap *h);

/* The block of @number, of all that were drawn. */
ms_addr pyheap_block(const struct pyheap *h, size_t number);

/* Decode; MS_OK, or MS_E_UNSUPPORTED where no heap is found. */
enum ms_status pyheap_decode(struct pyheap *h);

/* Decode, and say what is not told as it was drawn; "": all is, and it is verified. */
const char *pyheap_try(struct pyheap *h);

/* Whether the blocks told are those drawn in use but for those of @pool, which is roots. */
const char *pyheap_try_without(struct pyheap *h, size_t pool);

/* Whether a line of evidence has @text. */
bool pyheap_says(const struct pyheap *h, const char *text);

#endif
