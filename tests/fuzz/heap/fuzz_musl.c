/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the decoders of musl's mallocs: a drawn process (muslheap.h, oldheap.h), some of
 * whose words are then written over.
 *
 *	fuzz: -max_len=128 -len_control=0
 *
 * The first byte of an input chooses the picture, the second whether the source can be viewed;
 * then come writes of four bytes each:
 *
 *	place   where: a descriptor, a slot's header, a word of the context, …
 *	word    which of its words
 *	how     set, add, flip bits; to a number, an address
 *	value   which
 *
 * They must neither crash nor run on; blocks that are told must be sorted and inside of memory
 * that is mapped, and no two may overlap; where something is in doubt, no block is told; a
 * process that nothing was written to must be told as it is drawn.
 */

#include <string.h>

#include "muslheap.h"
#include "oldheap.h"
#include "writes.h"

static const char *const pictures[] = {
	"c3 u50 u44+1 f a u1 ; F2 ; m200000+7 ; c15 u400 (1 u20 f u8 ) a ; d7 u100 ; d9 f",
	"c31 u9 (15 (3 u60 f ) u490 f (1 u28 u5 ) ) f (9 u150 a ) u8 ; F101 ; c1 u5 ; c1 f u2",
	"m1000+65536 ; m300000 ; c9 u20+1 u30+7 p f z u9",
};

static const char *const old_pictures[] = {
	"u24 f100 u8 f100 u5 | u9 f5000 u70 ; m200000 m300000+4064 g2 m100000 - m9",
	"u24 f40 d100 d32 u5",
};

enum {
	N_NEW = sizeof(pictures) / sizeof(pictures[0]),
	N_OLD = sizeof(old_pictures) / sizeof(old_pictures[0]),
	MAX_WRITES = 32,
};

/* Drawn once; what is written to them is taken back. */
static struct muslheap *heap;
static struct oldheap *old;

static struct {
	ms_addr place;
	uint64_t old;
} written[MAX_WRITES];
static size_t n_written;

static struct muslheap *drawn(unsigned picture)
{
	static struct muslheap *all[N_NEW];
	struct muslheap **slot = &all[picture];

	if (!*slot) {
		*slot = malloc(sizeof(**slot));
		require(*slot, "there is memory");
		muslheap_init(*slot);
		muslheap_draw(*slot, pictures[picture]);
	}
	return *slot;
}

static struct oldheap *old_drawn(unsigned picture)
{
	static struct oldheap *all[N_OLD];
	struct oldheap **slot = &all[picture];

	if (!*slot) {
		*slot = malloc(sizeof(**slot));
		require(*slot, "there is memory");
		oldheap_draw(*slot, old_pictures[picture]);
	}
	return *slot;
}

static void write_over(struct ms_fake *fake, ms_addr place, uint8_t how, uint64_t value)
{
	if (!ms_source_word(&fake->base, place, &written[n_written].old))
		return;
	written[n_written++].place = place;
	write_word(fake, place, how, value, value << 32);
}

static void take_back(struct ms_fake *fake)
{
	while (n_written) {
		n_written--;
		ms_fake_put(fake, written[n_written].place, written[n_written].old);
	}
}

/* An address that means something. */
static ms_addr address(uint8_t n)
{
	size_t i = n / 8;

	switch (n % 8) {
	case 0:
		return muslheap_place(heap, "ctx");
	case 1:
		return muslheap_place(heap, i % 2 ? "area0" : "area1");
	case 2:
	case 3:
		return heap->groups[i % heap->n_groups].descriptor;
	case 4:
		return heap->groups[i % heap->n_groups].at;
	case 5:
		return heap->slots[i % heap->n_slots].end - 16;
	}
	return heap->slots[i % heap->n_slots].at - 8;
}

static ms_addr old_address(uint8_t n)
{
	return n % 8 == 0 ? old->mal + n / 8 * 24u : old->chunks[n / 8 % old->n_chunks].at;
}

static void check_blocks(struct ms_source *src, const struct ms_blocks *blocks, bool doubt)
{
	const struct ms_extent *e;
	ms_addr end = 0;
	uint8_t byte;

	require(!doubt || !blocks->n, "no block where there is doubt");
	ms_vec_for_each (e, &blocks->extents)
		for (uint64_t cell = 0; cell < e->n_cells; cell++)
			for (uint64_t left = blocks->cells.at[e->cell0 + cell].starts; left;
			     left &= left - 1) {
				uint64_t granule =
					cell * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);
				ms_addr begin = ms_block_begin(e, granule);
				uint64_t size = ms_block_size(blocks, e, granule);

				require(size && begin >= end, "blocks do not overlap");
				end = begin + size;
				require(ms_source_read(src, begin, &byte, 1) == 1 &&
				                ms_source_read(src, end - 1, &byte, 1) == 1,
				        "a block is mapped");
			}
}

static void run_new(const uint8_t *data, size_t size)
{
	heap = drawn(data[0] % N_NEW);
	for (size_t i = 2; i + 4 <= size && i < 2 + 4 * MAX_WRITES; i += 4) {
		ms_addr place = address(data[i]) + data[i + 1] % (data[i] % 8 ? 5u : 116u) * 8u;
		uint64_t value = data[i + 3] < 64 ? number(data[i + 3]) : address(data[i + 3]);

		write_over(&heap->fake, place, data[i + 2], value);
	}
	heap->fake.no_view = data[1] & 1;
	require(muslheap_decode(heap) == MS_OK, "the target's memory is never a failure");
	check_blocks(&heap->fake.base, &heap->blocks, heap->found.n && heap->found.at[0].doubt);
	if (size < 6)
		require(!*muslheap_try(heap, true), heap->wrong);
	ms_arena_deinit(&heap->arena);
	take_back(&heap->fake);
}

static void run_old(const uint8_t *data, size_t size)
{
	old = old_drawn(data[0] % N_OLD);
	for (size_t i = 2; i + 4 <= size && i < 2 + 4 * MAX_WRITES; i += 4) {
		ms_addr place = old_address(data[i]) + data[i + 1] % 4 * 8u;
		uint64_t value = data[i + 3] < 64 ? number(data[i + 3]) : old_address(data[i + 3]);

		write_over(&old->fake, place, data[i + 2], value);
	}
	old->fake.no_view = data[1] & 1;
	require(oldheap_decode(old) == MS_OK, "the target's memory is never a failure");
	check_blocks(&old->fake.base, &old->blocks, old->found.n && old->found.at[0].doubt);
	if (size < 6)
		require(old->found.n == 1 && old->found.at[0].verified, "it is as it is drawn");
	ms_arena_deinit(&old->arena);
	take_back(&old->fake);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return -1;
	if (data[0] & 0x80)
		run_old(data, size);
	else
		run_new(data, size);
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	/* A descriptor's masks, a slot's header, a link, a counter, a group's descriptor. */
	static const uint8_t writes[][4] = {
		{ 2, 3, 2, 1 }, { 6, 0, 2, 11 }, { 3, 1, 0, 66 }, { 0, 60, 1, 1 }, { 4, 0, 0, 74 }
	};

	for (uint8_t i = 0; i < 20; i++) {
		uint8_t seed[6] = { (uint8_t)(i % 5 < 3 ? i % 5 : 0x80 + i % 5), i & 1 };

		memcpy(seed + 2, writes[i % 5], 4);
		take(seed, i < 10 ? 2 : sizeof(seed));
	}
}
