/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzing the decoder of mimalloc: a drawn process (miheap.h), some of whose words are
 * then written over, mostly with addresses and sizes that are there already.
 *
 *	fuzz: -max_len=128 -len_control=0
 *
 * The first byte of an input chooses the layout, the second the picture, the third whether
 * the source can be viewed; then come writes of four bytes each:
 *
 *	place   where: a page's description, a block, a heap, a segment or map, …
 *	word    which of its words
 *	how     set, add, flip bits; to a number, an address, a link
 *	value   which
 *
 * It must neither crash nor run on; blocks that are told must be sorted, and inside of
 * memory that is mapped, and no two may overlap; a process that nothing was written to
 * must be told as it is drawn.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "miheap.h"
#include "writes.h"

static const char *const pictures[] = {
	"48:uuffllxxu 64:uf 64:ux 10240:ufu",
	"16:uffffxl | 64:udx 64:ud ! 400000:u 80:xu",
	"4194304:u 64:uuul 65536:u",
	"48:u 20480:ufu | 96:uuf ! 48:fu",
	"48:", /* a page without blocks: a copy without pages is not claimed */
};

enum { N_PICTURES = sizeof(pictures) / sizeof(pictures[0]), MAX_LAYOUTS = 16, MAX_WRITES = 32 };

static struct miheap *h; /* drawn once; what is written to it is taken back */

static struct {
	ms_addr place;
	uint64_t old;
} written[MAX_WRITES];
static size_t n_written;

/* Only 2.x has blocks that wait in heaps. */
static const char *picture_for(const struct ms_mi_layout *layout, const char *picture)
{
	static char text[128];

	(void)snprintf(text, sizeof(text), "%s", picture);
	for (char *c = text; layout->map.is_there && *c; c++)
		*c = *c == 'd' ? 'x' : *c;
	return text;
}

static struct miheap *drawn(unsigned layout, unsigned picture)
{
	static struct miheap *all[MAX_LAYOUTS][N_PICTURES];
	struct miheap **slot = &all[layout][picture];

	if (!*slot) {
		*slot = malloc(sizeof(**slot));
		require(*slot, "there is memory");
		miheap_init(*slot);
		miheap_draw(*slot, ms_mi_layouts[layout].versions,
		            picture_for(&ms_mi_layouts[layout], pictures[picture]));
		fuzz_keep();
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
	const struct miheap_page *page = h->n_pages ? &h->pages[n / 8 % h->n_pages] : NULL;
	unsigned bytes;

	switch (n % 8) {
	case 0:
		return h->map ? miheap_place(h, "list", &bytes) : h->segment;
	case 1:
		return h->map && page ? miheap_place(h, "map0", &bytes)
		                      : h->segment + h->layout->segment.slices;
	case 2:
		return h->heaps[n / 8 % h->n_heaps];
	case 3:
		return h->heaps[0] + h->layout->heap.delayed;
	case 4:
		return page ? page->start : h->segment;
	case 5:
		return page ? page->start + page->block_bytes : h->segment;
	}
	return page ? page->at : h->segment;
}

static void apply(struct write w)
{
	const uint64_t words = w.place % 8 < 2 ? 64 : 16;
	ms_addr place = address(w.place) + w.word % words * MS_MI_WORD;
	uint64_t value = w.value < 64 ? number(w.value) : address(w.value);

	if (!ms_source_word(&h->fake.base, place, &written[n_written].old))
		return;
	written[n_written++].place = place;
	write_word(&h->fake, place, w.how, value, value | 1);
}

static bool is_mapped(ms_addr begin, uint64_t len)
{
	uint8_t byte;

	return len && ms_source_read(&h->fake.base, begin, &byte, 1) == 1 &&
	       ms_source_read(&h->fake.base, begin + len - 1, &byte, 1) == 1;
}

/* Blocks in order, mapped, without overlap. */
static void check_blocks(void)
{
	const char *told = miheap_told(h);
	ms_addr end = 0;
	unsigned long long begin;
	unsigned long long usable;
	int len;

	while (sscanf(told, "%llx:%llu %n", &begin, &usable, &len) == 2) {
		require(begin >= end, "blocks do not overlap");
		require(is_mapped(begin, usable), "a block is mapped");
		end = begin + usable;
		told += len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return -1;
	require(ms_n_mi_layouts <= MAX_LAYOUTS, "there is room for layouts");
	h = drawn(data[0] % (unsigned)ms_n_mi_layouts, data[1] % N_PICTURES);
	for (size_t i = 3; i + 4 <= size && i < 3 + 4 * MAX_WRITES; i += 4)
		apply((struct write){ data[i], data[i + 1], data[i + 2], data[i + 3] });
	h->fake.no_view = data[2] & 1;
	require(miheap_decode(h) == MS_OK, "the target's memory is never a failure");
	check_blocks();
	if (size < 7)
		require(!*miheap_try(h, ""), h->wrong);
	ms_arena_deinit(&h->arena);
	take_back();
	return 0;
}

void fuzz_seeds(fuzz_take take)
{
	/* A counter, a link, a head of a list, the map or a slice, a heap's list. */
	static const uint8_t writes[][4] = {
		{ 6, 2, 1, 1 }, { 4, 0, 0, 68 }, { 14, 1, 0, 13 }, { 0, 1, 0, 70 }, { 3, 0, 0, 68 }
	};

	for (uint8_t layout = 0; layout < ms_n_mi_layouts; layout++)
		for (uint8_t picture = 0; picture < N_PICTURES; picture++) {
			uint8_t seed[7] = { layout, picture, layout % 2 };

			memcpy(seed + 3, writes[(layout + picture) % 5], 4);
			take(seed, picture % 2 ? 3 : sizeof(seed));
		}
}
