/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_OLDHEAP_H
#define MS_TESTS_OLDHEAP_H

/*
 * A fake process of musl's, its oldmalloc drawn in one line:
 *
 *	struct oldheap h;
 *
 *	oldheap_draw(&h, "u24 f100 u5 | u9 f5000 ; m200000 m300000+64 g1000 d100");
 *	cr_assert_eq(oldheap_decode(&h), MS_OK);
 *	...
 *	oldheap_deinit(&h);
 *
 *	uN  used, malloc(N)      fN  free, of as many bytes      |  the segment ends, on in another
 *	;   behind it come mappings
 *	mN  used, with a mapping of its own, beside the one before; mN+K: K bytes later
 *	gN  N pages of the program's own    -  a page without access
 *	dN  used, in the data of the library
 */

#include "engine/decoder.h"
#include "fake.h"

enum { OLDHEAP_CHUNKS = 64 };

struct oldheap_chunk {
	char kind;
	ms_addr at; /* of the chunk, or of the header in front of the block */
	uint64_t usable;
};

struct oldheap {
	struct ms_fake fake;
	struct oldheap_chunk chunks[OLDHEAP_CHUNKS]; /* in the picture's order */
	size_t n_chunks;
	ms_addr mal;

	/* What the decoder told; the blocks are sealed. */
	struct ms_arena arena;
	struct ms_regions regions;
	struct ms_blocks blocks;
	struct ms_heaps found;
	struct ms_notes evidence;
	struct ms_decoding decoding;
	struct ms_error err;
};

void oldheap_draw(struct oldheap *h, const char *picture);
void oldheap_deinit(struct oldheap *h);

/* Classify, decode, seal. Forgets what an earlier call found. */
enum ms_status oldheap_decode(struct oldheap *h);

/* Whether a block of that chunk was told. */
bool oldheap_is_told(const struct oldheap *h, size_t chunk);

#endif
