/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_RANDOM_HEAP_H
#define MS_TESTS_RANDOM_HEAP_H

/*
 * Heaps drawn by chance: what every way of following pointers must agree about.
 *
 * A heap has two extents of small and large blocks, one of them of several pieces (edges.h)
 * and with a block longer than a piece, blocks that were freed, chunks that are extents of
 * their own, and a node of several mappings, of which some hold nothing. Words point to
 * blocks, into them, just beside them and nowhere; some are mangled with RH_GUARD, some stand
 * at odd addresses.
 */

#include "engine/blocks.h"
#include "engine/libc/mangling.h"
#include "fake.h"

enum {
	RH_MIB = 1 << 20,
	RH_UPPER_BYTES = 14 * RH_MIB,
	RH_LOWER_BYTES = 1 * RH_MIB,
	RH_ROOT_BYTES = 8192,
};

#define RH_ROOT   UINT64_C(0x10000000)
#define RH_LOWER  UINT64_C(0x20000000)
#define RH_UPPER  UINT64_C(0x20400000)
#define RH_SINGLE UINT64_C(0x30000010) /* a block of 5 MiB */
#define RH_GUARD  UINT64_C(0x9d1f3a5b7c2e4f60)

static const struct ms_mangling rh_mangling = { .guard = RH_GUARD, .rotate = 17 };

struct random_heap {
	struct ms_fake fake;
	struct ms_blocks blocks; /* sealed */
	ms_addr *at;             /* of all blocks, and their lengths */
	uint64_t *len;
	size_t n;
	uint64_t random;
	struct ms_error err;
};

/* Draw the heap of @seed, which is not 0. @no_view: its bytes can only be read */
void random_heap_draw(struct random_heap *h, uint64_t seed, bool no_view);

uint64_t random_heap_next(struct random_heap *h);

#endif
