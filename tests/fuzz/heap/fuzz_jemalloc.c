/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the decoder of jemalloc: a drawn process (jeheap.h), some of whose words are
 * then written over, mostly by what is there already.
 *
 *	fuzz: -max_len=96 -len_control=0
 *
 * The first byte of an input chooses the version, the second the picture, the third
 * whether the source can be viewed; then come writes of four bytes each (writes.h):
 *
 *	place   where: what describes an extent, the tree, an arena, a bin, a cache, …
 *	word    which of its words
 *	how     set, add, flip bits
 *	value   a number or an address
 *
 * It must neither crash nor run on; blocks must be in order and not overlap; a
 * process that nothing was written to must be told as it is drawn.
 */

#include <stdlib.h>
#include <string.h>

#include "jeheap.h"
#include "writes.h"

static const char *const versions[] = { "5.2.1", "5.3.0", "5.3.1", "5.3.0 wide", "5.2.1 wide" };

static const char *const pictures[] = {
	"s16:uu.cm s320:ucmu l20480 k16384 d3",
	"s8:u d1 h2 s14336:uu l16384 ; s16:uc l1048576 ; s48:m d7",
	"",
};

enum {
	N_VERSIONS = sizeof(versions) / sizeof(versions[0]),
	N_PICTURES = sizeof(pictures) / sizeof(pictures[0]),
	MAX_WRITES = 16,
};

static struct jeheap *h; /* drawn once; what is written to it is taken back */

static struct {
	ms_addr place;
	uint64_t old;
} written[MAX_WRITES];
static size_t n_written;

static struct jeheap *drawn(unsigned version, unsigned picture)
{
	static struct jeheap *all[N_VERSIONS][N_PICTURES];
	struct jeheap **slot = &all[version][picture];

	if (!*slot) {
		*slot = malloc(sizeof(**slot));
		require(*slot, "there is memory");
		jeheap_draw(*slot, versions[version], pictures[picture]);
	}
	return *slot;
}

/* An address that means something. */
static ms_addr address(uint8_t n)
{
	const struct jeheap_extent *e = &h->extents[n / 8 % h->n_extents];
	size_t arena = n / 8 % h->n_arenas;
	size_t cache = n / 8 % JEHEAP_CACHES;

	switch (n % 8) {
	case 0:
		return e->word;
	case 1:
		return h->root + (e->begin >> h->tree->root_shift) * 8;
	case 2:
		return h->arenas[arena] + (n / 8 % 4) * 0x400u * 8;
	case 3:
		return n & 128 ? h->table : h->bases[arena];
	case 4:
		return n & 128 ? h->caches[cache] : h->rings[cache];
	case 5:
		return e->begin;
	case 6:
		return n & 128 ? h->stacks[cache] : h->arenas[arena] + h->layout->arena_nactive;
	}
	return e->edata;
}

static void apply(struct write w)
{
	ms_addr place = address(w.place) + w.word * 8u;
	uint64_t value = w.value < 64 ? number(w.value) : address(w.value);

	if (!ms_source_word(&h->fake.base, place, &written[n_written].old))
		return;
	written[n_written++].place = place;
	write_word(&h->fake, place, w.how, value, value + w.value);
}

static void take_back(void)
{
	while (n_written) {
		n_written--;
		ms_fake_put(&h->fake, written[n_written].place, written[n_written].old);
	}
}

static void check_blocks(void)
{
	ms_addr end = 0;

	for (uint32_t i = 0; i < ms_blocks_numbers(&h->blocks); i++) {
		struct ms_block b = ms_block_numbered(&h->blocks, i);
		const struct ms_extent *e = &h->blocks.extents.at[b.extent];
		ms_addr begin = ms_block_begin(e, b.granule);

		require(begin >= end, "blocks do not overlap");
		end = begin + ms_block_usable(&h->blocks, e, b.granule);
		require(end > begin, "a block has bytes");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return -1;
	h = drawn(data[0] % N_VERSIONS, data[1] % N_PICTURES);
	for (size_t i = 3; i + 4 <= size && i < 3 + 4 * MAX_WRITES; i += 4)
		apply((struct write){ data[i], data[i + 1], data[i + 2], data[i + 3] });
	h->fake.no_view = data[2] & 1;
	require(jeheap_decode(h) == MS_OK, "the target's memory is never a failure");
	check_blocks();
	if (size < 7)
		require(!*jeheap_try(h), h->wrong);
	ms_arena_deinit(&h->arena);
	take_back();
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	/* Of an extent its class, its word in the tree; a counter, a ring, a bin. */
	static const uint8_t writes[][4] = {
		{ 23, 0, 1, 9 }, { 16, 0, 0, 71 }, { 6, 0, 1, 1 }, { 4, 0, 0, 68 }, { 132, 3, 2, 4 }
	};

	for (uint8_t version = 0; version < N_VERSIONS; version++)
		for (uint8_t picture = 0; picture < N_PICTURES; picture++)
			for (uint8_t i = 0; i < 5; i++) {
				uint8_t seed[7] = { version, picture, i % 2 };

				memcpy(seed + 3, writes[i], 4);
				take(seed, i ? sizeof(seed) : 3);
			}
}
