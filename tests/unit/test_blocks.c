/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "engine/blocks.h"
#include "fake.h"

enum { BASE = 0x100000, LEN = 1 << 20 };

static struct ms_fake fake;

static void init(struct ms_blocks *blocks)
{
	ms_fake_init(&fake);
	ms_fake_map(&fake, BASE, LEN, MS_PROT_READ | MS_PROT_WRITE, "");
	ms_blocks_init(blocks, &fake.base, &fake.arena);
}

static uint32_t open_extent(struct ms_blocks *blocks, ms_addr begin, ms_addr end)
{
	uint32_t extent;

	cr_assert_eq(ms_blocks_open(blocks, (struct ms_range){ begin, end }, 4, &extent), MS_OK);
	return extent;
}

static void put(struct ms_blocks *blocks, uint32_t extent, ms_addr begin, uint64_t size)
{
	cr_assert_eq(ms_blocks_put(blocks, extent, begin, size), MS_OK);
}

static void finish(struct ms_blocks *blocks)
{
	cr_assert_eq(ms_blocks_sort(blocks), MS_OK);
	cr_assert_eq(ms_blocks_seal(blocks), MS_OK);
}

/* The size of the block that begins at @addr. */
static uint64_t size_at(const struct ms_blocks *blocks, ms_addr addr)
{
	const struct ms_extent *e = ms_blocks_extent_of(blocks, addr);

	cr_assert_not_null(e);
	return ms_block_size(blocks, e, ms_granule_of(e, addr));
}

Test(blocks, counts_and_measures_what_was_put)
{
	struct ms_blocks blocks;
	uint32_t e;

	init(&blocks);
	e = open_extent(&blocks, BASE, BASE + LEN);
	for (uint64_t i = 0; i < 1000; i++)
		put(&blocks, e, BASE + i * 1024, 8 + i);
	finish(&blocks);
	cr_assert_eq(blocks.n, 1000);
	cr_assert_eq(blocks.bytes, 1000 * 8 + 999 * 1000 / 2);
	for (uint64_t i = 0; i < 1000; i++)
		cr_assert_eq(size_at(&blocks, BASE + i * 1024), 8 + i);
	ms_fake_deinit(&fake);
}

Test(blocks, takes_killed_blocks_out_and_keeps_the_others_sizes)
{
	struct ms_blocks blocks;
	uint32_t e;

	init(&blocks);
	e = open_extent(&blocks, BASE, BASE + LEN);
	for (uint64_t i = 0; i < 1000; i++)
		put(&blocks, e, BASE + i * 64, 10 + i % 40);
	cr_assert_eq(ms_blocks_sort(&blocks), MS_OK);
	for (uint64_t i = 0; i < 1000; i += 3)
		cr_assert(ms_blocks_kill(&blocks, BASE + i * 64));
	cr_assert(!ms_blocks_kill(&blocks, BASE), "killed twice");
	cr_assert(!ms_blocks_kill(&blocks, BASE + 64 + 16), "no block begins there");
	cr_assert_eq(ms_blocks_seal(&blocks), MS_OK);
	cr_assert_eq(blocks.n, 666);
	for (uint64_t i = 0; i < 1000; i++) {
		cr_assert_eq(ms_blocks_begins(&blocks, BASE + i * 64), i % 3 != 0);
		if (i % 3)
			cr_assert_eq(size_at(&blocks, BASE + i * 64), 10 + i % 40);
	}
	ms_fake_deinit(&fake);
}

Test(blocks, drops_a_group)
{
	struct ms_blocks blocks;
	uint32_t e;

	init(&blocks);
	for (uint32_t group = 1; group < 4; group++) {
		e = open_extent(&blocks, BASE + group * 4096, BASE + (group + 1) * 4096);
		blocks.extents.at[e].group = group;
		put(&blocks, e, BASE + group * 4096, 100 * group);
	}
	ms_blocks_drop_group(&blocks, 2);
	finish(&blocks);
	cr_assert_eq(blocks.n, 2);
	cr_assert_eq(blocks.bytes, 400);
	cr_assert_null(ms_blocks_extent_of(&blocks, BASE + 2 * 4096));
	ms_fake_deinit(&fake);
}

Test(blocks, finds_where_a_block_starts_from_far_inside)
{
	struct ms_blocks blocks;
	const struct ms_extent *e;
	uint32_t extent;

	init(&blocks);
	extent = open_extent(&blocks, BASE, BASE + LEN);
	put(&blocks, extent, BASE + 32, 64);
	put(&blocks, extent, BASE + 4096, 700000);
	put(&blocks, extent, BASE + 720000, 24);
	finish(&blocks);
	e = ms_blocks_extent_of(&blocks, BASE);
	cr_assert_eq(ms_block_start(&blocks, e, 0), UINT64_MAX);
	cr_assert_eq(ms_block_start(&blocks, e, 2), 2);
	cr_assert_eq(ms_block_start(&blocks, e, 255), 2);
	cr_assert_eq(ms_block_start(&blocks, e, 700000 / 16), 256);
	cr_assert_eq(ms_block_start(&blocks, e, LEN / 16 - 1), 45000);
	ms_fake_deinit(&fake);
}

Test(blocks, tells_where_a_blocks_words_end)
{
	struct ms_blocks blocks;
	const struct ms_extent *e;
	uint32_t extent;

	init(&blocks);
	extent = open_extent(&blocks, BASE, BASE + LEN);
	put(&blocks, extent, BASE, 24);
	put(&blocks, extent, BASE + 32, 1);
	put(&blocks, extent, BASE + 48, 100000);
	finish(&blocks);
	e = ms_blocks_extent_of(&blocks, BASE);
	cr_assert_eq(ms_block_words_end(&blocks, e, 0), BASE + 32);
	cr_assert_eq(ms_block_words_end(&blocks, e, 2), BASE + 48);
	cr_assert_eq(ms_block_words_end(&blocks, e, 3), BASE + 48 + 100000);
	ms_fake_deinit(&fake);
}

Test(blocks, holds_a_block_of_gigabytes)
{
	struct ms_blocks blocks;
	uint64_t huge = UINT64_C(5) << 30;
	uint32_t extent;

	init(&blocks);
	cr_assert_eq(ms_blocks_open_single(&blocks, (struct ms_range){ BASE, BASE + 2 * huge },
	                                   MS_EXTENT_HEAP, &extent),
	             MS_OK);
	extent = open_extent(&blocks, BASE + 2 * huge, BASE + 4 * huge);
	put(&blocks, extent, BASE + 2 * huge, huge);
	put(&blocks, extent, BASE + 3 * huge, 8);
	finish(&blocks);
	cr_assert_eq(blocks.bytes, 3 * huge + 8);
	cr_assert_eq(size_at(&blocks, BASE), 2 * huge);
	cr_assert_eq(size_at(&blocks, BASE + 2 * huge), huge);
	cr_assert_eq(size_at(&blocks, BASE + 3 * huge), 8);
	ms_fake_deinit(&fake);
}

Test(blocks, shrinks_the_last_extent)
{
	struct ms_blocks blocks;
	uint32_t extent;

	init(&blocks);
	extent = open_extent(&blocks, BASE, BASE + LEN);
	put(&blocks, extent, BASE + 16, 32);
	ms_blocks_shrink(&blocks, BASE + 64);
	extent = open_extent(&blocks, BASE + 4096, BASE + 8192);
	put(&blocks, extent, BASE + 4096, 40);
	finish(&blocks);
	cr_assert_eq(size_at(&blocks, BASE + 16), 32);
	cr_assert_eq(size_at(&blocks, BASE + 4096), 40);
	cr_assert_null(ms_blocks_extent_of(&blocks, BASE + 64));
	cr_assert_leq(blocks.cells.n, 7);
	ms_fake_deinit(&fake);
}

Test(blocks, sorts_extents_by_address)
{
	struct ms_blocks blocks;

	init(&blocks);
	for (uint64_t i = 0; i < 100; i++) {
		ms_addr begin = BASE + (i * 37 % 100) * 4096;
		uint32_t e = open_extent(&blocks, begin, begin + 4096);

		put(&blocks, e, begin, 1 + i);
	}
	finish(&blocks);
	for (uint64_t i = 0; i < 100; i++)
		cr_assert_eq(size_at(&blocks, BASE + (i * 37 % 100) * 4096), 1 + i);
	for (size_t i = 0; i < 100; i++)
		cr_assert_eq(blocks.extents.at[i].first, i);
	ms_fake_deinit(&fake);
}
