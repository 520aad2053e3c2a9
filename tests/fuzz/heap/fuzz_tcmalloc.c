/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the decoder of gperftools' tcmalloc: a drawn process (tcheap.h), some of whose words
 * are then written over, mostly by what is there already: addresses of spans, objects, caches.
 *
 *	fuzz: -max_len=128 -len_control=0
 *
 * The first byte of an input chooses the version, the second the picture, the third whether
 * the source can be viewed; then come writes of four bytes each:
 *
 *	place   which structure
 *	word    which of its words
 *	how     set, add, flip bits; to a number or an address
 *	value   which
 *
 * It must neither crash nor run on; blocks that are told must be sorted, and inside of memory
 * that is mapped and proved, and no two may overlap; the sums must be theirs; a process that
 * nothing was written to must be told as it is drawn.
 */

#include <stdlib.h>

#include "tcheap.h"
#include "writes.h"

static const char *const versions[] = { "2.10", "2.18" };

static const char *const pictures[] = {
	"64:uf0ss1uf 16:u1f0 512:u* L3 n2 512:fuf0 r4 S1=100 | 8:uu0f 4096:uf n1",
	"64:uf",
	"8192:u L9 262144:u n1 S37=300000 | L1 1024:*",
	"48:ssss 48:0123456789 80:fu 16:uu0",
};

enum { N_VERSIONS = sizeof(versions) / sizeof(versions[0]) };
enum { N_PICTURES = sizeof(pictures) / sizeof(pictures[0]) };

enum { MAX_WRITES = 32 };

static struct tcheap *h; /* drawn once; what is written to it is taken back */

static struct {
	ms_addr place;
	uint64_t old;
} written[MAX_WRITES];
static size_t n_written;

static struct tcheap *drawn(unsigned version, unsigned picture)
{
	static struct tcheap *all[N_VERSIONS][N_PICTURES];
	struct tcheap **slot = &all[version][picture];

	if (!*slot) {
		*slot = malloc(sizeof(**slot));
		require(*slot, "there is memory");
		tcheap_init(*slot);
		(*slot)->sparse = true;
		tcheap_draw(*slot, versions[version], pictures[picture]);
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

/* A structure: often a span, an object, or a list. */
static ms_addr structure(uint8_t n)
{
	uint32_t span = n / 16 % (uint32_t)h->n_spans;

	switch (n % 16) {
	case 0:
	case 1:
	case 2:
		return tcheap_at(h, TC_SPAN, span);
	case 3:
		return tcheap_at(h, TC_ENTRY, span);
	case 4:
		return tcheap_at(h, TC_CENTRAL, span);
	case 5:
		return tcheap_at(h, TC_CENTRAL, span) + offsetof(struct ms_tc_central, used_slots);
	case 6:
		return tcheap_at(h, TC_CENTRAL, span) + offsetof(struct ms_tc_central, slots);
	case 7:
		return tcheap_at(h, TC_CACHE, n / 16 % h->n_caches);
	case 8:
		return tcheap_at(h, TC_CACHE, n / 16 % h->n_caches) +
		       offsetof(struct ms_tc_raw_cache, bytes);
	case 9:
		return tcheap_at(h, TC_CACHED, span);
	case 10:
		return tcheap_at(h, TC_HEAPS, 0);
	case 11:
		return tcheap_at(h, TC_STATS, 0);
	case 12:
		return n < 128 ? tcheap_at(h, TC_SIZES, 2 * (n / 16u)) : tcheap_at(h, TC_PAGES, 66);
	case 13:
		return n < 128 ? tcheap_at(h, TC_ALLOCATOR, 0)
		               : tcheap_at(h, TC_ROOT, 0xaaa9u + n / 16 % 4);
	}
	return tcheap_at(h, TC_OBJECT, n / 16 * 5u % (uint32_t)h->n_objects);
}

static void apply(struct write w)
{
	ms_addr place = structure(w.place) + w.word % 32 * 8u;
	uint64_t value = w.value < 64 ? number(w.value) : structure((uint8_t)(w.value * 3));

	/* A list's words are also shorter ones. */
	if (w.how >= 128)
		place += 4;
	if (!ms_source_word(&h->fake.base, place, &written[n_written].old))
		return;
	written[n_written++].place = place;
	write_word(&h->fake, place, w.how, value, value << 32);
}

static bool is_mapped(ms_addr begin, uint64_t len)
{
	uint8_t byte;

	return len && ms_source_read(&h->fake.base, begin, &byte, 1) == 1 &&
	       ms_source_read(&h->fake.base, begin + len - 1, &byte, 1) == 1;
}

static void check_block(ms_addr begin, uint64_t usable, ms_addr *end)
{
	require(begin >= *end, "blocks do not overlap");
	require(is_mapped(begin, usable), "a block is mapped");
	*end = begin + usable;
	require(!ms_range_find(&h->decoding.unproved, begin), "a block is proved");
}

/* Blocks in order, mapped, without overlap. */
static void check_blocks(void)
{
	const struct ms_heap *heap;
	const struct ms_extent *e;
	uint64_t n = h->blocks.n;
	ms_addr end = 0;

	ms_vec_for_each (e, &h->blocks.extents)
		for (uint64_t cell = 0; cell < e->n_cells; cell++)
			for (uint64_t left = h->blocks.cells.at[e->cell0 + cell].starts; left;
			     left &= left - 1) {
				uint64_t granule =
					cell * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

				check_block(ms_block_begin(e, granule),
				            ms_block_usable(&h->blocks, e, granule), &end);
			}
	ms_vec_for_each (heap, &h->found) {
		require(heap->verified == (heap->doubt == MS_DOUBT_NONE), "a doubt has a reason");
		require(heap->verified || !heap->allocations, "in doubt nothing is told");
		n -= heap->allocations;
	}
	require(!n, "the sums are those of the blocks");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum ms_status st;

	if (size < 3)
		return -1;
	h = drawn(data[0] % N_VERSIONS, data[1] % N_PICTURES);
	for (size_t i = 3; i + 4 <= size && i < 3 + 4 * MAX_WRITES; i += 4)
		apply((struct write){ data[i], data[i + 1], data[i + 2], data[i + 3] });
	h->fake.no_view = data[2] & 1;
	st = tcheap_decode(h);
	require(st == MS_OK || st == MS_E_UNSUPPORTED, "the target's memory is never a failure");
	if (st == MS_OK)
		check_blocks();
	if (size < 7)
		require(!*tcheap_try(h, ""), h->wrong);
	ms_arena_deinit(&h->arena);
	take_back();
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	for (uint8_t version = 0; version < N_VERSIONS; version++)
		for (uint8_t picture = 0; picture < N_PICTURES; picture++)
			for (uint8_t view = 0; view < 2; view++)
				take((uint8_t[]){ version, picture, view }, 3);
}
