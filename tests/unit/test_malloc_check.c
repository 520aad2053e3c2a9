/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "alloc/decoders.h"
#include "fake.h"

/* Some blocks that lie next to each other, and one in a mapping of its own. */
enum {
	HEAP = 0x100000,
	BLOCK = 128,
	USABLE = BLOCK - 8,
	BLOCKS = 40,
	ALONE = 0x200010,
	ALONE_USABLE = 4080
};

struct check_case {
	char title[40];
	char allocator[16];
	unsigned int checked; /* blocks that have glibc's bytes, the first ones */
	unsigned int asked;   /* bytes of each */
	bool dropped;         /* the heap is not proved */
	bool trimmed;
};

static struct check_case check_cases[] = {
	{ "all", "glibc", BLOCKS, 100, false, true },
	{ "nothing was asked for", "glibc", BLOCKS, 0, false, true },
	{ "all but a byte", "glibc", BLOCKS, USABLE - 1, false, true },
	{ "most", "glibc", BLOCKS - 4, 100, false, true },
	{ "too few of them", "glibc", BLOCKS - 8, 100, false, false },
	{ "none", "glibc", 0, 100, false, false },
	{ "another allocator", "jemalloc", BLOCKS, 100, false, false },
	{ "a heap of nobody's", "glibc", BLOCKS, 100, true, false },
};

/* As mem2mem_check() of glibc 2.36 does it. */
static void check_block(struct ms_fake *fake, ms_addr begin, size_t usable, size_t asked)
{
	const ms_addr chunk = begin - 16;
	uint8_t magic = (uint8_t)(chunk >> 3 ^ chunk >> 11);
	size_t step;

	magic = magic == 1 ? 2 : magic;
	for (size_t i = usable - 1; i > asked; i -= step) {
		step = i - asked < 0xff ? i - asked : 0xff;
		step -= step == magic;
		*(uint8_t *)ms_fake_at(fake, begin + i) = (uint8_t)step;
	}
	*(uint8_t *)ms_fake_at(fake, begin + asked) = magic;
}

static uint64_t size_at(const struct ms_blocks *blocks, ms_addr at)
{
	const struct ms_extent *e = ms_blocks_extent_of(blocks, at);

	return ms_block_size(blocks, e, ms_granule_of(e, at));
}

ParameterizedTestParameters(malloc_check, sizes)
{
	return cr_make_param_array(struct check_case, check_cases,
	                           sizeof(check_cases) / sizeof(check_cases[0]));
}

ParameterizedTest(struct check_case *c, malloc_check, sizes)
{
	const struct ms_range range = { HEAP, HEAP + BLOCKS * BLOCK };
	const struct ms_range alone = { ALONE, ALONE + ALONE_USABLE };
	struct ms_notes evidence = { 0 };
	struct ms_heap heap = { .allocation_bytes = BLOCKS * USABLE + ALONE_USABLE };
	struct ms_heaps heaps = { .at = &heap, .n = 1 };
	struct ms_decoding d = { 0 };
	struct ms_blocks blocks;
	struct ms_fake fake;
	uint32_t extent;
	const size_t asked = c->asked ? c->asked : 1;
	size_t trimmed;

	ms_fake_init(&fake);
	(void)ms_fake_map(&fake, HEAP, 8192, MS_PROT_READ | MS_PROT_WRITE, "[heap]");
	(void)ms_fake_map(&fake, ALONE - 16, 4096, MS_PROT_READ | MS_PROT_WRITE, "");
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	cr_assert(!ms_blocks_open(&blocks, range, 4, &extent));
	for (unsigned int i = 0; i < BLOCKS; i++) {
		cr_assert(!ms_blocks_put(&blocks, extent, HEAP + i * BLOCK, USABLE));
		if (i < c->checked)
			check_block(&fake, HEAP + i * BLOCK, USABLE, c->asked);
	}
	blocks.extents.at[extent].dropped = c->dropped;
	check_block(&fake, ALONE, ALONE_USABLE, c->asked);
	cr_assert(!ms_blocks_open_single(&blocks, alone, MS_EXTENT_HEAP, &extent));
	cr_assert(!ms_blocks_sort(&blocks));
	(void)snprintf(heap.allocator, sizeof(heap.allocator), "%s", c->allocator);
	d = (struct ms_decoding){ .src = &fake.base,
		                  .arena = &fake.arena,
		                  .blocks = &blocks,
		                  .heaps = &heaps,
		                  .evidence = &evidence };

	cr_expect_eq(ms_malloc_check_annotator.annotate(&d), MS_OK);
	cr_expect_eq(evidence.n, c->trimmed, "%s", c->title);
	cr_expect_eq(heap.n_evidence, c->trimmed);
	cr_assert(!ms_blocks_seal(&blocks));
	trimmed = c->trimmed ? c->checked : 0;
	if (!c->dropped)
		for (unsigned int i = 0; i < BLOCKS; i++)
			cr_expect_eq(size_at(&blocks, HEAP + i * BLOCK),
			             i < trimmed ? asked : USABLE, "%s: block %u", c->title, i);
	cr_expect_eq(size_at(&blocks, ALONE), trimmed ? asked : ALONE_USABLE, "%s", c->title);
	cr_expect_eq(heap.allocation_bytes,
	             BLOCKS * USABLE + ALONE_USABLE -
	                     (trimmed ? trimmed * (USABLE - asked) + ALONE_USABLE - asked : 0));
	ms_fake_deinit(&fake);
}
