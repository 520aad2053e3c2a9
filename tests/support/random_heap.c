/* SPDX-License-Identifier: Apache-2.0 */
#include "random_heap.h"

#include <assert.h>
#include <string.h>

enum {
	RW = MS_PROT_READ | MS_PROT_WRITE,
	SINGLE_BYTES = 5 * RH_MIB + 4096,
	SHORT_BYTES = 3 * 4096,
	NODE_BYTES = 1 * RH_MIB,
	N_NODES = 4,
	MAX_BLOCKS = 1 << 16,
};

#define SHORT UINT64_C(0x38000000)
#define NODE  UINT64_C(0x40000000)

uint64_t random_heap_next(struct random_heap *h)
{
	h->random ^= h->random << 13;
	h->random ^= h->random >> 7;
	h->random ^= h->random << 17;
	return h->random;
}

static void note_block(struct random_heap *h, ms_addr at, uint64_t len)
{
	assert(h->n < MAX_BLOCKS);
	h->at[h->n] = at;
	h->len[h->n++] = len;
}

static uint64_t random_size(struct random_heap *h, bool huge)
{
	uint64_t r = random_heap_next(h);

	if (huge)
		return 5 * RH_MIB;
	switch (r % 64) {
	case 0:
		return 2040 + r / 64 % 80; /* about as long as a large one */
	case 1:
		return 8 + r / 64 % 30000;
	default:
		return 8 + r / 64 % 1000;
	}
}

/* Blocks with a header of 8 bytes before each, like glibc's; one in eight is free. */
static void put_blocks(struct random_heap *h, ms_addr begin, size_t bytes, bool huge)
{
	uint32_t extent;
	uint64_t len;
	int i = 0;

	assert(!ms_blocks_open(&h->blocks, (struct ms_range){ begin, begin + bytes }, 4, &extent));
	for (ms_addr at = begin + 16;; at = ms_align_up(at + len + 8, 16)) {
		len = random_size(h, huge && ++i == 700) | 8;
		len = (len & ~UINT64_C(15)) + 8;
		if (at + len + 16 > begin + bytes)
			break;
		assert(!ms_blocks_put(&h->blocks, extent, at, len));
		note_block(h, at, len);
	}
}

static void put_single(struct random_heap *h, struct ms_range range, enum ms_extent_kind kind)
{
	uint32_t extent;

	assert(!ms_blocks_open_single(&h->blocks, range, kind, &extent));
	note_block(h, range.begin, ms_range_len(range));
}

static uint64_t random_pointer(struct random_heap *h)
{
	uint64_t r = random_heap_next(h);
	size_t i = (size_t)(random_heap_next(h) % h->n);
	uint64_t value = h->at[i];

	switch (r % 8) {
	case 0:
		value += r / 8 % (h->len[i] + 24);
		break;
	case 1:
		value -= r / 8 % 24;
		break;
	case 2:
		value ^= RH_GUARD;
		value = value << 17 | value >> 47;
		break;
	case 3:
		return r;
	default:
		break;
	}
	return value;
}

/* Blocks with few pointers, and some that are full of them. */
static void put_pointers(struct random_heap *h)
{
	for (size_t i = 0; i < h->n; i++) {
		uint64_t r = random_heap_next(h);
		uint64_t in_heap = h->at[i] < RH_SINGLE ? 8 : 0;
		uint64_t n = r % 16 == 0 ? h->len[i] / 8 : r / 16 % 3 / 2;

		if (h->at[i] >= NODE || h->len[i] > 100000)
			n = 200;
		if (h->at[i] == SHORT)
			n = h->len[i] / 16;
		for (uint64_t k = 0; k < n; k++) {
			/* Also into the word behind it. */
			ms_addr at = h->at[i] + random_heap_next(h) % (h->len[i] - 7 + in_heap);

			if (random_heap_next(h) % 8)
				at = ms_align_down(at, 8);
			ms_fake_put(&h->fake, at, random_pointer(h));
		}
	}
	for (int i = 0; i < 40; i++)
		ms_fake_put(&h->fake, RH_ROOT + random_heap_next(h) % (RH_ROOT_BYTES - 8) / 8 * 8,
		            random_pointer(h));
}

void random_heap_draw(struct random_heap *h, uint64_t seed, bool no_view)
{
	memset(h, 0, sizeof(*h));
	h->random = seed;
	ms_fake_init(&h->fake);
	h->fake.no_view = no_view;
	h->at = ms_arena_alloc(&h->fake.arena, MAX_BLOCKS * sizeof(*h->at));
	h->len = ms_arena_alloc(&h->fake.arena, MAX_BLOCKS * sizeof(*h->len));
	ms_fake_map(&h->fake, RH_ROOT, RH_ROOT_BYTES, RW, "");
	ms_fake_map(&h->fake, RH_LOWER, RH_LOWER_BYTES, RW, "[heap]");
	ms_fake_map(&h->fake, RH_UPPER, RH_UPPER_BYTES, RW, "");
	ms_fake_map(&h->fake, RH_SINGLE - 16, SINGLE_BYTES, RW, "");
	ms_fake_map(&h->fake, SHORT, SHORT_BYTES, RW, "");
	for (unsigned i = 0; i < N_NODES; i++) {
		ms_fake_map(&h->fake, NODE + i * NODE_BYTES, NODE_BYTES, RW, "");
		h->fake.absent[h->fake.base.mappings.n - 1] = i == 1;
	}
	ms_blocks_init(&h->blocks, &h->fake.base, &h->fake.arena);
	put_blocks(h, RH_UPPER, RH_UPPER_BYTES, true);
	put_single(h, (struct ms_range){ NODE, NODE + N_NODES * NODE_BYTES }, MS_EXTENT_MAPPING);
	put_single(h, (struct ms_range){ RH_SINGLE, RH_SINGLE - 16 + SINGLE_BYTES },
	           MS_EXTENT_HEAP);
	put_blocks(h, RH_LOWER, RH_LOWER_BYTES, false);
	put_single(h, (struct ms_range){ SHORT, SHORT + SHORT_BYTES }, MS_EXTENT_HEAP);
	put_pointers(h);
	memset(ms_fake_at(&h->fake, NODE + NODE_BYTES), 0, NODE_BYTES); /* the absent one */
	assert(!ms_blocks_sort(&h->blocks));
	for (size_t i = 0; i < h->n; i += 1 + random_heap_next(h) % 15)
		(void)ms_blocks_kill(&h->blocks, h->at[i]);
	assert(!ms_blocks_seal(&h->blocks));
}
