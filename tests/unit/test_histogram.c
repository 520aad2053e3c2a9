/* SPDX-License-Identifier: Apache-2.0 */
/* All live blocks by type and size. */
#include <criterion/criterion.h>
#include <string.h>

#include "classes.h"
#include "drawn_scan.h"
#include "engine/live/histogram.h"

static struct ms_live sum_of(const struct ms_live_list *list)
{
	struct ms_live sum = { 0 };
	const struct ms_live *live;

	ms_vec_for_each (live, list) {
		sum.allocations += live->allocations;
		sum.bytes += live->bytes;
		sum.leaked_allocations += live->leaked_allocations;
		sum.leaked_bytes += live->leaked_bytes;
	}
	return sum;
}

static void assert_adds_up(void)
{
	struct ms_live sum = sum_of(&report.live);

	cr_assert_eq(sum.allocations, report.totals.allocations);
	cr_assert_eq(sum.bytes, report.totals.allocation_bytes);
	cr_assert_eq(sum.leaked_allocations, report.totals.leaked_allocations);
	cr_assert_eq(sum.leaked_bytes, report.totals.leaked_bytes);
}

/* Two classes, of which one has two virtual tables; block 5 is of no type. */
static void draw_classes(void)
{
	draw(6);
	classes_map(&fake, LIBRARY, "/lib/libshop.so");
	classes_add(&fake, LIBRARY, 0, "4Item");
	classes_add(&fake, LIBRARY, 1, "4Book");
	classes_add(&fake, LIBRARY, 2, "4Item");
	ms_fake_put(&fake, block(0), classes_vtable(LIBRARY, 0));
	ms_fake_put(&fake, block(1), classes_vtable(LIBRARY, 1));
	ms_fake_put(&fake, block(2), classes_vtable(LIBRARY, 2));
	ms_fake_put(&fake, block(3), classes_vtable(LIBRARY, 0));
	ms_fake_put(&fake, block(4), classes_vtable(LIBRARY, 1));
	ms_fake_put(&fake, DATA, block(0));
	ms_fake_put(&fake, DATA + 8, block(1));
	ms_fake_put(&fake, DATA + 16, block(5));
}

static void assert_row(size_t i, const char *name, uint64_t allocations, uint64_t leaked)
{
	const struct ms_live *live = &report.live.at[i];

	cr_assert_str_eq(live->type ? report.types.at[live->type - 1].name : "", name, "%zu", i);
	cr_assert_eq(live->size, USABLE);
	cr_assert_eq(live->least_size, USABLE);
	cr_assert_eq(live->allocations, allocations, "%zu", i);
	cr_assert_eq(live->bytes, allocations * USABLE);
	cr_assert_eq(live->leaked_allocations, leaked, "%zu", i);
	cr_assert_eq(live->leaked_bytes, leaked * USABLE);
}

Test(histogram, counts_all_blocks_by_type_and_size)
{
	draw_classes();
	scan((struct ms_scan_options){ .heap = true });
	cr_assert(report.heap);
	cr_assert_eq(report.live.n, 3);
	assert_row(0, "Item", 3, 2);
	assert_row(1, "Book", 2, 1);
	assert_row(2, "", 1, 0);
	assert_adds_up();
	ms_fake_deinit(&fake);
}

Test(histogram, is_not_cut_by_the_limit_which_it_hands_on)
{
	draw_classes();
	scan((struct ms_scan_options){ .heap = true, .limit = 1 });
	cr_assert_eq(report.live.n, 3);
	cr_assert_eq(report.live_limit, 1);
	cr_assert_eq(report.leaks.n, 1);
	assert_adds_up();
	ms_fake_deinit(&fake);
}

Test(histogram, is_made_only_when_it_is_asked_for)
{
	draw_classes();
	scan((struct ms_scan_options){ 0 });
	cr_assert_not(report.heap);
	cr_assert_eq(report.live.n, 0);
	ms_fake_deinit(&fake);
}

/* Block 2 only an interior pointer holds; block 3 matches a suppression. */
Test(histogram, has_as_leaked_what_the_totals_have)
{
	struct ms_suppression pattern = { "^Item$", "file", 1 };
	const struct ms_suppressions suppressions = { &pattern, 1, 1 };

	draw_classes();
	ms_fake_put(&fake, DATA + 24, block(2) + 8);
	scan((struct ms_scan_options){
		.heap = true, .possible = true, .suppressions = &suppressions });
	cr_assert_eq(report.totals.suppressed_allocations, 2);
	assert_row(0, "Item", 3, 0);
	assert_row(1, "Book", 2, 1);
	assert_adds_up();
	ms_fake_deinit(&fake);
}

Test(histogram, adds_up_under_every_option)
{
	static const struct ms_scan_options cases[] = {
		{ .heap = true, .no_fold = true },  { .heap = true, .no_merge = true },
		{ .heap = true, .possible = true }, { .heap = true, .unaligned = true },
		{ .heap = true, .min_size = 1000 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		draw_classes();
		ms_fake_put(&fake, block(2), block(3));
		ms_fake_put(&fake, DATA + 24, block(4) + 8);
		scan(cases[i]);
		assert_adds_up();
		ms_fake_deinit(&fake);
	}
}

Test(histogram, of_two_scans_the_second_has_it)
{
	draw_classes();
	scan((struct ms_scan_options){ .heap = true, .keep_lost = true });
	cr_assert_eq(report.lost.n, 3);
	cr_assert_not(report.heap);
	ms_fake_deinit(&fake);
	draw(2);
	ms_fake_put(&fake, DATA, block(0));
	ms_fake_put(&fake, DATA + 8, block(1));
	scan((struct ms_scan_options){ .heap = true, .keep_lost = true });
	cr_assert_eq(report.lost.n, 0);
	cr_assert(report.heap, "without leaks there is no second scan");
	assert_adds_up();
	ms_fake_deinit(&fake);
}

/* ---- more kinds than there is room for ---- */

/* The histogram of one leaked block of each of @n sizes from @first on, and their bytes. */
static uint64_t count_sizes(uint64_t first, uint64_t n)
{
	static struct ms_regions regions;
	static struct ms_blocks blocks;
	struct ms_histogram *histogram;
	uint64_t bytes = 0;

	draw(0);
	histogram = ms_histogram_new(ms_types_new(&fake.base, &regions, &fake.arena), &fake.arena);
	cr_assert_not_null(histogram);
	for (uint64_t size = first; size < first + n; size++) {
		cr_assert(ms_histogram_add_leaked(histogram, HEAP, size));
		bytes += size;
	}
	cr_assert(ms_histogram_write(histogram, &blocks, &report));
	return bytes;
}

Test(histogram, groups_sizes_when_there_are_too_many_and_omits_none)
{
	enum { SIZES = 300000 };
	uint64_t bytes = count_sizes(1, SIZES);
	const struct ms_live *live;
	size_t grouped = 0;

	cr_assert_lt(report.live.n, MS_LIVE_MOST);
	cr_assert_eq(sum_of(&report.live).leaked_allocations, SIZES);
	cr_assert_eq(sum_of(&report.live).leaked_bytes, bytes);
	ms_vec_for_each (live, &report.live) {
		cr_assert_leq(live->least_size, live->size);
		grouped += live->least_size < live->size;
		cr_assert_geq(live->leaked_bytes, live->leaked_allocations * live->least_size);
		cr_assert_leq(live->leaked_bytes, live->leaked_allocations * live->size);
	}
	cr_assert(grouped > 5 && grouped < 20, "%zu", grouped);
	cr_assert_eq(report.warnings.n, 1);
	ms_fake_deinit(&fake);
}

Test(histogram, says_nothing_of_groups_while_there_are_none)
{
	(void)count_sizes(1, 40000);
	cr_assert_eq(report.live.n, 40000);
	cr_assert_eq(report.warnings.n, 0);
	ms_fake_deinit(&fake);
}

Test(histogram, takes_any_size)
{
	uint64_t bytes = count_sizes(UINT64_C(1) << 46, 3);

	cr_assert_eq(report.live.n, 1);
	cr_assert_eq(report.live.at[0].least_size, UINT64_C(1) << 46);
	cr_assert_eq(report.live.at[0].leaked_bytes, bytes);
	ms_fake_deinit(&fake);
	(void)count_sizes(UINT64_MAX - 1, 1);
	cr_assert_eq(report.live.at[0].size, UINT64_MAX);
	ms_fake_deinit(&fake);
	(void)count_sizes(0, 1);
	cr_assert_eq(report.live.at[0].size, 0);
	ms_fake_deinit(&fake);
}
