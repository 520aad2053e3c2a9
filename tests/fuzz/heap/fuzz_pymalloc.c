/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the decoder of CPython's allocator: a drawn process (pyheap.h), some of whose words
 * are then written over.
 *
 *	fuzz: -max_len=128 -len_control=0
 *
 * The first byte of an input chooses the version, the second the picture, the third
 * whether the source can be viewed; then come writes of four bytes each:
 *
 *	place   where: a pool, a block, an arena's object, the table of rings
 *	word    which of its words
 *	how     set, add, flip bits; to a number, an address
 *	value   which
 *
 * It must neither crash nor run on; blocks that are told must be sorted and inside of the
 * memory that is owned and proved; a heap that is verified counts what is told; a process
 * that nothing was written to must be told as it is drawn.
 */

#include <string.h>

#include "pyheap.h"
#include "writes.h"

static const char *const pictures[] = {
	"32 uufuf 64 fuu 512 u 48 e ; - ; 48 ufff 32 uu 16 fffu 32 u",
	"64 uf 64 fuuf 64 fu 32 fu ; 48 fu",
	"- ; 16 e 16 uf 512 fu 272 e 272 uf",
	"",
};

enum { N_PICTURES = sizeof(pictures) / sizeof(pictures[0]), MAX_WRITES = 32 };

static struct pyheap *h; /* drawn once; what is written to it is taken back */

static struct {
	ms_addr place;
	uint64_t old;
} written[MAX_WRITES];
static size_t n_written;

static struct pyheap *drawn(unsigned version, unsigned picture)
{
	static struct pyheap *all[PYHEAP_VERSIONS][N_PICTURES];
	struct pyheap **slot = &all[version][picture];

	if (!*slot) {
		*slot = malloc(sizeof(**slot));
		require(*slot, "there is memory");
		pyheap_init(*slot);
		pyheap_draw(*slot, (enum pyheap_version)version, pictures[picture]);
	}
	return *slot;
}

static void take_back(void)
{
	while (n_written) {
		n_written--;
		ms_fake_put(&h->fake, written[n_written].place, written[n_written].old);
	}
}

/* An address that means something. */
static ms_addr address(uint8_t n)
{
	switch (n % 5) {
	case 0:
		return h->n_pools ? h->pools[n / 5 % h->n_pools] : 0;
	case 1:
		return h->n_blocks ? h->blocks[n / 5 % h->n_blocks].at : 0;
	case 2:
		return h->table + 16 * (n / 5u);
	case 3:
		return n / 5 ? h->pointer : h->table;
	}
	return h->array + sizeof(struct ms_py_object) * (n / 5 % 16);
}

static void apply(struct write w)
{
	ms_addr place = address(w.place) + w.word % 6 * 8u;
	uint64_t value = w.value < 64 ? number(w.value) : address(w.value);

	if (!ms_source_word(&h->fake.base, place, &written[n_written].old))
		return;
	written[n_written++].place = place;
	write_word(&h->fake, place, w.how, value, value << 32);
}

/* Sealed extents are by address, and blocks inside of them too. */
static void check_blocks(void)
{
	const struct ms_extent *extent;
	const struct ms_range *r;
	ms_addr end = 0;

	for (uint32_t i = 0; i < ms_blocks_numbers(&h->told); i++) {
		struct ms_block block = ms_block_numbered(&h->told, i);
		ms_addr begin;

		extent = &h->told.extents.at[block.extent];
		begin = ms_block_begin(extent, block.granule);
		require(begin >= end, "blocks do not overlap");
		end = begin + ms_block_usable(&h->told, extent, block.granule);
		require(end > begin && end <= extent->range.end, "a block is in its extent");
		r = ms_range_find(&h->decoding.owned, begin);
		require(r && end <= r->end, "a block is in memory that is owned");
		ms_vec_for_each (r, &h->decoding.unproved)
			require(end <= r->begin || begin >= r->end,
			        "no block is in memory that is not proved");
	}
}

static void check_sums(void)
{
	const struct ms_heap *heap;
	uint64_t n = 0;
	uint64_t bytes = 0;
	bool verified = true;

	ms_vec_for_each (heap, &h->heaps) {
		require(heap->verified == (heap->doubt == MS_DOUBT_NONE), "a doubt has a reason");
		verified &= heap->verified;
		n += heap->allocations;
		bytes += heap->allocation_bytes;
	}
	require(n == h->told.n && bytes == h->told.bytes, "heaps count the blocks that are told");
	require(!verified || !h->decoding.unproved.n, "what is verified is proved");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum ms_status st;

	if (size < 3)
		return -1;
	h = drawn(data[0] % PYHEAP_VERSIONS, data[1] % N_PICTURES);
	for (size_t i = 3; i + 4 <= size && i < 3 + 4 * MAX_WRITES; i += 4)
		apply((struct write){ data[i], data[i + 1], data[i + 2], data[i + 3] });
	h->fake.no_view = data[2] & 1;
	st = pyheap_decode(h);
	require(st == MS_OK || st == MS_E_UNSUPPORTED, "the target's memory is never a failure");
	if (!st) {
		check_blocks();
		check_sums();
	}
	if (size < 7 && *pictures[data[1] % N_PICTURES])
		require(!*pyheap_try(h), h->wrong);
	ms_arena_deinit(&h->arena);
	take_back();
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	/* A counter, a link, an object's address, the table, what leads to the array. */
	static const uint8_t writes[][4] = {
		{ 0, 0, 1, 1 }, { 1, 0, 0, 71 }, { 4, 0, 1, 11 }, { 2, 0, 0, 65 }, { 8, 0, 1, 64 }
	};

	for (uint8_t version = 0; version < PYHEAP_VERSIONS; version++)
		for (uint8_t picture = 0; picture < N_PICTURES; picture++) {
			uint8_t seed[7] = { version, picture, (version + picture) % 2 };

			memcpy(seed + 3, writes[(version + picture) % 5], 4);
			take(seed, picture % 2 ? 3 : sizeof(seed));
		}
}
