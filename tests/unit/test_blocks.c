/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

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
	cr_assert(!ms_blocks_kill(&blocks, BASE + 64 + 1), "nor there");
	cr_assert_eq(ms_blocks_seal(&blocks), MS_OK);
	cr_assert_eq(blocks.n, 666);
	for (uint64_t i = 0; i < 1000; i++) {
		cr_assert_eq(ms_blocks_begins(&blocks, BASE + i * 64), i % 3 != 0);
		if (i % 3)
			cr_assert_eq(size_at(&blocks, BASE + i * 64), 10 + i % 40);
	}
	ms_fake_deinit(&fake);
}

Test(blocks, keeps_sizes_behind_the_only_one_killed)
{
	struct ms_blocks blocks;
	uint32_t e;

	init(&blocks);
	e = open_extent(&blocks, BASE, BASE + LEN);
	for (uint64_t i = 0; i < 1000; i++)
		put(&blocks, e, BASE + i * 64, 1 + i % 60);
	cr_assert_eq(ms_blocks_sort(&blocks), MS_OK);
	cr_assert(ms_blocks_kill(&blocks, BASE + 3 * 64));
	cr_assert_eq(ms_blocks_seal(&blocks), MS_OK);
	for (uint64_t i = 4; i < 1000; i++)
		cr_assert_eq(size_at(&blocks, BASE + i * 64), 1 + i % 60);
	ms_fake_deinit(&fake);
}

Test(blocks, are_clean_once_sealed_or_unmarked)
{
	struct ms_blocks blocks;
	struct ms_cell *cell;
	uint32_t e;

	init(&blocks);
	e = open_extent(&blocks, BASE, BASE + 512);
	put(&blocks, e, BASE, 16);
	put(&blocks, e, BASE + 64, 16);
	cell = &blocks.cells.at[0];
	for (int round = 0; round < 2; round++) {
		cell->marks = 1;
		cell->tags = 1;
		if (round)
			ms_blocks_unmark(&blocks);
		else
			finish(&blocks);
		cr_assert_eq(cell->marks, 0);
		cr_assert_eq(cell->tags, 0);
	}
	cr_assert_eq(blocks.n, 1);
	ms_fake_deinit(&fake);
}

Test(blocks, forget_an_extent_without_any)
{
	struct ms_blocks blocks;
	uint32_t e;

	init(&blocks);
	(void)open_extent(&blocks, BASE, BASE + 4096);
	e = open_extent(&blocks, BASE + 4096, BASE + 8192);
	put(&blocks, e, BASE + 4096, 16);
	finish(&blocks);
	cr_assert_eq(blocks.extents.n, 1);
	cr_assert_eq(size_at(&blocks, BASE + 4096), 16);
	ms_fake_deinit(&fake);
}

Test(blocks, drops_a_group)
{
	for (uint32_t dropped = 1; dropped < 4; dropped++) {
		ms_addr gone = BASE + dropped * 4096;
		struct ms_blocks blocks;

		init(&blocks);
		for (uint32_t group = 1; group < 4; group++) {
			ms_addr begin = BASE + group * 4096;
			uint32_t e = open_extent(&blocks, begin, begin + 4096);

			blocks.extents.at[e].group = group;
			put(&blocks, e, begin, 100 * group);
		}
		ms_blocks_drop_group(&blocks, dropped);
		cr_assert(!ms_blocks_begins(&blocks, gone));
		finish(&blocks);
		cr_assert_eq(blocks.n, 2);
		cr_assert_eq(blocks.bytes, 600 - 100 * dropped);
		cr_assert_null(ms_blocks_extent_of(&blocks, gone));
		ms_fake_deinit(&fake);
	}
}

Test(blocks, finds_where_a_block_starts_from_far_inside)
{
	struct ms_blocks blocks;
	const struct ms_extent *e;
	uint32_t extent;

	init(&blocks);
	extent = open_extent(&blocks, BASE - 8192, BASE - 4096);
	for (ms_addr at = BASE - 8192; at < BASE - 4096; at += 256)
		put(&blocks, extent, at, 16);
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

Test(blocks, tells_big_blocks_apart_and_counts_those_that_stay)
{
	static const uint64_t sizes[] = { UINT64_C(5) << 30, UINT32_MAX, UINT64_C(6) << 30,
		                          UINT32_MAX - 1 };
	struct ms_blocks blocks;
	uint64_t step = UINT64_C(6) << 30;
	uint32_t e;

	init(&blocks);
	e = open_extent(&blocks, BASE, BASE + 4 * step);
	for (uint64_t i = 0; i < 4; i++)
		put(&blocks, e, BASE + i * step, sizes[i]);
	cr_assert_eq(ms_blocks_sort(&blocks), MS_OK);
	cr_assert(ms_blocks_kill(&blocks, BASE));
	cr_assert_eq(ms_blocks_seal(&blocks), MS_OK);
	cr_assert_eq(blocks.bytes, sizes[1] + sizes[2] + sizes[3]);
	for (uint64_t i = 1; i < 4; i++)
		cr_assert_eq(size_at(&blocks, BASE + i * step), sizes[i]);
	ms_fake_deinit(&fake);
}

Test(blocks, shrinks_to_what_is_needed_and_never_grows)
{
	/* Where the extent of 4096 bytes is to end, and where it does; 64 granules are 1024. */
	static const struct {
		int wanted;
		uint64_t end;
		size_t n_cells;
	} cases[] = {
		{ 1024, 1024, 1 }, { 1025, 1025, 2 }, { 0, 1, 1 }, { -8, 1, 1 }, { 8192, 4096, 5 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_blocks blocks;
		struct ms_extent *e;

		init(&blocks);
		(void)open_extent(&blocks, BASE, BASE + 4096);
		e = &blocks.extents.at[0];
		ms_blocks_shrink(&blocks, 0, BASE + (ms_addr)cases[i].wanted);
		cr_expect_eq(ms_range_len(e->range), cases[i].end, "wanted %d", cases[i].wanted);
		cr_expect_eq(e->n_cells, cases[i].n_cells, "wanted %d", cases[i].wanted);
		ms_fake_deinit(&fake);
	}
}

Test(blocks, shrinks_the_last_extent)
{
	struct ms_blocks blocks;
	uint32_t extent;

	init(&blocks);
	extent = open_extent(&blocks, BASE, BASE + LEN);
	put(&blocks, extent, BASE + 16, 32);
	ms_blocks_shrink(&blocks, extent, BASE + 64);
	extent = open_extent(&blocks, BASE + 4096, BASE + 8192);
	put(&blocks, extent, BASE + 4096, 40);
	finish(&blocks);
	cr_assert_eq(size_at(&blocks, BASE + 16), 32);
	cr_assert_eq(size_at(&blocks, BASE + 4096), 40);
	cr_assert_null(ms_blocks_extent_of(&blocks, BASE + 64));
	cr_assert_leq(blocks.cells.n, 7);
	ms_fake_deinit(&fake);
}

Test(blocks, measures_what_lives_before_it_is_sealed)
{
	struct ms_blocks blocks;
	uint32_t e;

	init(&blocks);
	e = open_extent(&blocks, BASE, BASE + LEN);
	put(&blocks, e, BASE, 40);
	put(&blocks, e, BASE + 64, 5000);
	put(&blocks, e, BASE + 6000 / 16 * 16, 33);
	cr_assert_eq(ms_blocks_sort(&blocks), MS_OK);
	cr_expect_eq(ms_blocks_usable(&blocks, BASE), 40);
	cr_expect_eq(ms_blocks_usable(&blocks, BASE + 64), 5000);
	cr_expect_eq(ms_blocks_usable(&blocks, BASE + 6000 / 16 * 16), 33);
	cr_expect_eq(ms_blocks_usable(&blocks, BASE + 16), 0, "no block begins there");
	cr_expect_eq(ms_blocks_usable(&blocks, BASE + LEN), 0, "nor there");
	cr_expect(ms_blocks_kill(&blocks, BASE + 64));
	cr_expect_eq(ms_blocks_usable(&blocks, BASE + 64), 0, "killed");
	cr_assert_eq(ms_blocks_seal(&blocks), MS_OK);
	cr_expect_eq(blocks.bytes, 40 + 33);
	ms_fake_deinit(&fake);
}

Test(blocks, that_are_taken_back_leave_nothing)
{
	struct ms_blocks blocks;
	uint32_t e;

	init(&blocks);
	e = open_extent(&blocks, BASE, BASE + 4096);
	put(&blocks, e, BASE, 24);
	e = open_extent(&blocks, BASE + 4096, BASE + 8192);
	for (ms_addr at = BASE + 4096; at < BASE + 8192; at += 32)
		put(&blocks, e, at, 24);
	ms_blocks_cancel(&blocks, e);
	e = open_extent(&blocks, BASE + 4096, BASE + 8192);
	put(&blocks, e, BASE + 4096 + 1024, 24);
	finish(&blocks);
	cr_expect_eq(blocks.n, 2);
	cr_expect_eq(blocks.bytes, 48);
	cr_expect(!ms_blocks_begins(&blocks, BASE + 4096));
	ms_fake_deinit(&fake);
}

Test(blocks, that_end_alike_cost_nothing_but_cells)
{
	struct ms_blocks blocks;
	uint32_t e;

	init(&blocks);
	e = open_extent(&blocks, BASE, BASE + LEN);
	for (ms_addr at = BASE; at < BASE + LEN; at += 64)
		put(&blocks, e, at, at % 256 ? 56 : 24);
	cr_expect_eq(blocks.odds.n, 0);
	put(&blocks, open_extent(&blocks, BASE + LEN, BASE + 2 * LEN), BASE + LEN, 16);
	finish(&blocks);
	cr_expect_eq(blocks.odds.n, 0);
	cr_expect_eq(size_at(&blocks, BASE + 64), 56);
	cr_expect_eq(size_at(&blocks, BASE + 256), 24);
	cr_expect_eq(size_at(&blocks, BASE + LEN), 16);
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

/* ---- what something else knows of them ---- */

enum { BLOCKS = 300 };

static ms_addr nth(size_t i)
{
	return BASE + i * 208;
}

/* An extent of BLOCKS blocks of 200 bytes, every third a bit shorter, and one by itself. */
static uint64_t draw_numbered(struct ms_blocks *blocks)
{
	struct ms_range single = { BASE + LEN + 16, BASE + LEN + 6000 };
	uint64_t n;
	uint32_t e;

	init(blocks);
	e = open_extent(blocks, BASE, BASE + LEN);
	for (size_t i = 0; i < BLOCKS; i++)
		put(blocks, e, nth(i), i % 3 ? 200 : 197);
	cr_assert_eq(ms_blocks_open_single(blocks, single, MS_EXTENT_HEAP, &e), MS_OK);
	cr_assert_eq(ms_blocks_sort(blocks), MS_OK);
	cr_assert(ms_blocks_kill(blocks, nth(7)));
	cr_assert_eq(ms_blocks_number(blocks, &n), MS_OK);
	return n;
}

Test(blocks, are_numbered_by_address)
{
	struct ms_blocks blocks;
	struct ms_numbered found;

	cr_expect_eq(draw_numbered(&blocks), BLOCKS);
	cr_assert(ms_blocks_at(&blocks, nth(6) + 199 - 2 - 1, &found));
	cr_expect_eq(found.number, 6);
	cr_expect_eq(found.begin, nth(6));
	cr_expect_eq(found.usable, 197);
	cr_expect_not(ms_blocks_at(&blocks, nth(6) + 197, &found));
	cr_expect_not(ms_blocks_at(&blocks, nth(7), &found), "killed");
	cr_assert(ms_blocks_at(&blocks, nth(8) + 5, &found));
	cr_expect_eq(found.number, 7);
	cr_assert(ms_blocks_at(&blocks, BASE + LEN + 5999, &found));
	cr_expect_eq(found.number, BLOCKS - 1);
	cr_expect_eq(found.usable, 6000 - 16);
	cr_expect_not(ms_blocks_at(&blocks, BASE + LEN, &found));
	ms_fake_deinit(&fake);
}

/* Blocks that begin @front units later, and have so much less; every tenth is free. */
static uint64_t trim(struct ms_blocks *blocks, bool exact)
{
	static uint32_t front[BLOCKS];
	static uint32_t less[BLOCKS];
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		front[i] = i % 7;
		less[i] = i % 10 == 9 ? MS_TRIM_FREE : i % 80;
	}
	ms_blocks_trim(blocks, &(struct ms_trims){ front, less, exact });
	cr_assert_eq(ms_blocks_seal(blocks), MS_OK);
	for (uint32_t i = 0; i < BLOCKS - 1; i++) {
		size_t drawn = i < 7 ? i : i + 1;

		if (i % 10 == 9) {
			cr_expect_not(ms_blocks_begins(blocks, nth(drawn)));
			continue;
		}
		cr_expect_eq(size_at(blocks, nth(drawn) + i % 7 * 16),
		             (drawn % 3 ? 200 : 197) - i % 7 * 16 - i % 80, "%u", i);
		bytes += size_at(blocks, nth(drawn) + i % 7 * 16);
	}
	return bytes;
}

Test(blocks, are_told_as_they_were_asked_for)
{
	struct ms_blocks blocks;
	const struct ms_extent *e;

	cr_assert_eq(draw_numbered(&blocks), BLOCKS);
	cr_expect_eq(trim(&blocks, false), blocks.bytes);
	cr_expect_eq(blocks.n, BLOCKS - BLOCKS / 10);
	e = ms_blocks_extent_of(&blocks, BASE);
	cr_expect_eq(ms_block_usable(&blocks, e, ms_granule_of(e, nth(5) + 80)), 120);
	cr_expect_eq(ms_block_usable(&blocks, e, ms_granule_of(e, nth(6) + 96)), 101);
	cr_expect_eq(ms_block_words_end(&blocks, e, ms_granule_of(e, nth(5) + 80)), nth(5) + 195);
	ms_fake_deinit(&fake);
}

Test(blocks, may_end_where_they_were_asked_to)
{
	struct ms_blocks blocks;
	const struct ms_extent *e;
	uint64_t granule;

	cr_assert_eq(draw_numbered(&blocks), BLOCKS);
	cr_expect_eq(trim(&blocks, true), blocks.bytes);
	e = ms_blocks_extent_of(&blocks, BASE);
	granule = ms_granule_of(e, nth(76) + 5 * 16);
	cr_expect_eq(ms_block_usable(&blocks, e, granule), 200 - 80 - 75);
	cr_expect_eq(ms_block_words_end(&blocks, e, granule), nth(76) + 5 * 16 + 45);
	ms_fake_deinit(&fake);
}

Test(blocks, that_stand_alone_are_trimmed_too)
{
	static uint32_t less[BLOCKS];
	struct ms_blocks blocks;

	for (int exact = 0; exact < 2; exact++) {
		static uint32_t front[BLOCKS];

		cr_assert_eq(draw_numbered(&blocks), BLOCKS);
		memset(less, 0, sizeof(less));
		front[BLOCKS - 1] = 10;
		less[BLOCKS - 1] = 84;
		ms_blocks_trim(&blocks, &(struct ms_trims){ front, less, exact });
		cr_assert_eq(ms_blocks_seal(&blocks), MS_OK);
		cr_expect_null(ms_blocks_extent_of(&blocks, BASE + LEN + 16 + 159));
		cr_expect_eq(size_at(&blocks, BASE + LEN + 16 + 160), 6000 - 16 - 160 - 84);
		cr_expect_eq(ms_blocks_usable(&blocks, BASE + LEN + 16 + 160),
		             6000 - 16 - 160 - (exact ? 84 : 0));
		ms_fake_deinit(&fake);
	}
}

/* Two extents with empty cells before, between and behind blocks, and a node between them. */
Test(blocks, have_numbers_that_lead_back_to_them)
{
	struct ms_blocks blocks;
	uint32_t number = 0;
	uint32_t low, high, node;

	init(&blocks);
	high = open_extent(&blocks, BASE + LEN / 2, BASE + LEN);
	for (uint64_t i = 0; i < 100; i++)
		put(&blocks, high, BASE + LEN / 2 + 4096 + i * i * 16, 8);
	cr_assert(!ms_blocks_open_single(&blocks,
	                                 (struct ms_range){ BASE + LEN / 4, BASE + LEN / 2 },
	                                 MS_EXTENT_MAPPING, &node));
	low = open_extent(&blocks, BASE, BASE + LEN / 4);
	for (uint64_t i = 0; i < 500; i++)
		put(&blocks, low, BASE + i * 32, 8);
	finish(&blocks);
	cr_assert_eq(ms_blocks_numbers(&blocks), 601);
	for (uint32_t e = 0; e < 3; e++)
		for (uint64_t i = 0; i < blocks.extents.at[e].n_cells * MS_CELL_GRANULES; i++) {
			struct ms_block block = { e, i };

			if (!(ms_blocks_cell(&blocks, &blocks.extents.at[e], i)->starts &
			      ms_granule_bit(i)))
				continue;
			cr_assert_eq(ms_block_number(&blocks, block), number);
			block = ms_block_numbered(&blocks, number++);
			cr_assert_eq(block.extent, e);
			cr_assert_eq(block.granule, i);
		}
	cr_assert_eq(number, 601);
	ms_fake_deinit(&fake);
}

/* What lies in it is asked for once for each pointer: its end is not looked for again. */
Test(blocks, over_many_cells_have_their_ends_listed)
{
	enum { CELL = 1024 };
	static const uint64_t cells[] = { 7, 8, 9, 10, 64, 300, 3, 9, 500 };
	enum { N = sizeof(cells) / sizeof(cells[0]), KILLED = 5 };
	struct ms_blocks blocks;
	ms_addr begins[N];
	ms_addr at = BASE + 512;
	uint32_t extent;

	init(&blocks);
	extent = open_extent(&blocks, BASE, BASE + LEN);
	for (size_t i = 0; i < N; i++) {
		begins[i] = at;
		put(&blocks, extent, at, cells[i] * CELL - 8);
		at += cells[i] * CELL + 16;
	}
	cr_assert_eq(ms_blocks_sort(&blocks), MS_OK);
	cr_assert(ms_blocks_kill(&blocks, begins[KILLED]));
	cr_assert_eq(ms_blocks_seal(&blocks), MS_OK);
	cr_expect_eq(blocks.longs.n, 6, "%zu are listed", blocks.longs.n);
	for (size_t i = 0; i < N; i++)
		if (i != KILLED)
			cr_expect_eq(size_at(&blocks, begins[i]), cells[i] * CELL - 8, "block %zu",
			             i);
	ms_fake_deinit(&fake);
}
