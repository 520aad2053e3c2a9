/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "drawn_scan.h"
#include "engine/origins/estimate.h"
#include "engine/origins/origins.h"

/* What samples stand for, by themselves and in the report of a whole scan. */

struct sample {
	uint64_t interval;
	uint64_t asked;
	uint64_t size;
	unsigned times;
};

static const struct {
	struct sample samples[2];
	struct ms_estimate wanted; /* by the formula, in the numbers of another language */
} rows[] = {
	{ { { 0, 64, 72, 1 } }, { 1, 1, 0, 72, 0 } },
	{ { { 524288, 64, 72, 1 } }, { 1, 8193, 8192, 589860, 589824 } },
	{ { { 524288, 524288, 524296, 1 } }, { 1, 2, 1, 829424, 503071 } },
	{ { { 524288, 1 << 26, 1 << 26, 1 } }, { 1, 1, 0, 1 << 26, 0 } },
	{ { { 65536, 100, 104, 2 }, { 65536, 30000, 30008, 1 } },
	  { 3, 1314, 927, 218117, 116249 } },
	{ { { UINT64_C(1) << 32, 0, 24, 1 } },
	  { 1, UINT64_C(4294967297), UINT64_C(4294967296), UINT64_C(103079215116),
	    UINT64_C(103079215104) } },
	{ { { 4096, 2048, 2056, 1 } }, { 1, 3, 2, 5225, 4069 } },
	{ { { 0, 0, 0, 0 } }, { 0, 0, 0, 0, 0 } },
};

static void assert_estimate(const struct ms_estimate *a, const struct ms_estimate *b, size_t i)
{
	cr_expect_eq(a->samples, b->samples, "%zu: %lu samples", i, a->samples);
	cr_expect_eq(a->count, b->count, "%zu: %lu", i, a->count);
	cr_expect_eq(a->count_error, b->count_error, "%zu: error %lu", i, a->count_error);
	cr_expect_eq(a->bytes, b->bytes, "%zu: %lu bytes", i, a->bytes);
	cr_expect_eq(a->bytes_error, b->bytes_error, "%zu: error %lu bytes", i, a->bytes_error);
}

Test(estimate, is_what_the_formula_gives)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ms_estimate_sum sum = { 0 };
		struct ms_estimate estimate;

		for (size_t k = 0; k < 2; k++) {
			const struct sample *s = &rows[i].samples[k];

			for (unsigned times = 0; times < s->times; times++)
				ms_estimate_add(&sum, s->interval, s->asked, s->size);
		}
		estimate = ms_estimate(&sum);
		assert_estimate(&estimate, &rows[i].wanted, i);
	}
}

/* ---- of a scan; each block has 32 bytes ---- */

enum { DISTANCE = 64 };

static const struct ms_estimate one = { 1, 3, 2, 81, 63 };
static const struct ms_estimate two = { 2, 5, 3, 163, 90 };
static const struct ms_estimate none = { 0 };

static void draw_sampled(const char *stacks)
{
	draw((unsigned)strlen(stacks));
	allocators = stacks;
	sampled = DISTANCE;
}

Test(sampled, leaks_of_a_stack_are_one_and_stand_for_more)
{
	draw_sampled("ab.a.");
	scan((struct ms_scan_options){ .limit = 10 });
	cr_assert_eq(report.leaks.n, 3);
	cr_expect_eq(report.leaks.at[0].address, block(0));
	cr_expect_eq(report.leaks.at[0].similar_count, 1);
	assert_estimate(&report.leaks.at[0].sampled, &two, 0);
	assert_estimate(&report.leaks.at[1].sampled, &none, 1);
	cr_expect_eq(report.leaks.at[1].stack, 0);
	cr_expect_eq(report.leaks.at[1].similar_count, 1, "those without a stack are one, too");
	assert_estimate(&report.leaks.at[2].sampled, &one, 2);
	ms_fake_deinit(&fake);
}

Test(sampled, a_leak_by_itself_stands_for_itself)
{
	draw_sampled("aa");
	scan((struct ms_scan_options){ .limit = 10, .no_merge = true });
	cr_assert_eq(report.leaks.n, 2);
	assert_estimate(&report.leaks.at[0].sampled, &one, 0);
	assert_estimate(&report.leaks.at[1].sampled, &one, 1);
	ms_fake_deinit(&fake);
}

/* Block 0 holds 1, so that 1 has no entry; 2 is alive. */
static void draw_held(void)
{
	draw_sampled("bac");
	ms_fake_put(&fake, block(0), block(1));
	ms_fake_put(&fake, DATA, block(2));
}

Test(sampled, stacks_have_the_leaks_that_hang_on_others_too)
{
	draw_held();
	scan((struct ms_scan_options){ .limit = 10 });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.sites.n, 2);
	cr_expect_eq(report.sampling.stacks, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_estimate(&report.sites.at[i].live, &one, i);
		assert_estimate(&report.sites.at[i].leaked, &one, i);
		cr_expect_eq(report.pcs.at[report.stacks.at[report.sites.at[i].stack - 1].first],
		             MODULE + 16u * i);
	}
	ms_fake_deinit(&fake);
}

Test(sampled, with_all_live_blocks_there_are_those_that_leaked_nothing)
{
	draw_held();
	scan((struct ms_scan_options){ .limit = 2, .heap = true });
	cr_assert_eq(report.sites.n, 2);
	cr_expect_eq(report.sampling.stacks, 3);
	ms_fake_deinit(&fake);
	draw_held();
	scan((struct ms_scan_options){ .limit = 10, .heap = true });
	cr_assert_eq(report.sites.n, 3);
	assert_estimate(&report.sites.at[2].live, &one, 2);
	assert_estimate(&report.sites.at[2].leaked, &none, 2);
	ms_fake_deinit(&fake);
}

Test(sampled, no_possible_leak_is_a_leak_of_its_stack)
{
	draw_sampled("a");
	ms_fake_put(&fake, DATA, block(0) + 8);
	scan((struct ms_scan_options){ .limit = 10, .possible = true });
	cr_assert_eq(report.leaks.n, 1);
	assert_estimate(&report.leaks.at[0].sampled, &one, 0);
	cr_expect_eq(report.sites.n, 0);
	ms_fake_deinit(&fake);
}

Test(sampled, stacks_that_are_no_samples_have_no_estimate)
{
	draw_sampled("aa");
	sampled = 0;
	scan((struct ms_scan_options){ .limit = 10 });
	cr_assert_eq(report.leaks.n, 1);
	cr_expect_neq(report.leaks.at[0].stack, 0);
	assert_estimate(&report.leaks.at[0].sampled, &none, 0);
	cr_expect_eq(report.sites.n, 0);
	cr_expect_not(report.sampling.on);
	ms_fake_deinit(&fake);
}

/* ---- what was there before attach ---- */

static void assert_older(uint64_t live, uint64_t live_error, uint64_t leaked, uint64_t leaked_error)
{
	const struct ms_older *older = &report.sampling.older;

	cr_assert(report.sampling.has_older);
	cr_expect_eq(older->live_bytes, live, "%lu", older->live_bytes);
	cr_expect_eq(older->live_bytes_error, live_error, "%lu", older->live_bytes_error);
	cr_expect_eq(older->leaked_bytes, leaked, "%lu", older->leaked_bytes);
	cr_expect_eq(older->leaked_bytes_error, leaked_error, "%lu", older->leaked_bytes_error);
}

/* Each block has 32 bytes, a sample stands for 81, with an error of 63. */
Test(sampled, what_samples_do_not_stand_for_is_older)
{
	draw_sampled("a.........");
	sampled_whole = true;
	ms_fake_put(&fake, DATA, block(9));
	scan((struct ms_scan_options){ .limit = 10 });
	assert_older(320 - 81, 63 + DISTANCE, 288 - 81, 63 + DISTANCE);
	ms_fake_deinit(&fake);
}

Test(sampled, no_more_is_older_than_there_is)
{
	draw_sampled("aa");
	sampled_whole = true;
	scan((struct ms_scan_options){ .limit = 10 });
	assert_older(0, 64, 0, 64);
	ms_fake_deinit(&fake);
}

Test(sampled, nothing_is_older_where_blocks_may_have_been_missed)
{
	draw_sampled("a.");
	scan((struct ms_scan_options){ .limit = 10 });
	cr_expect_not(report.sampling.has_older);
	ms_fake_deinit(&fake);
}

/* Of 32 bytes: 28 distances of one byte, but not of two. */
Test(sampled, a_leak_that_would_be_a_sample_is_older)
{
	for (unsigned whole = 0; whole < 2; whole++)
		for (unsigned distance = 1; distance < 3; distance++) {
			draw_sampled("..a");
			sampled = distance;
			sampled_whole = whole;
			scan((struct ms_scan_options){ .limit = 10 });
			cr_assert_eq(report.leaks.n, 2);
			cr_expect_eq(report.leaks.at[0].similar_count, 1);
			cr_expect_eq(report.leaks.at[0].older, whole && distance == 1, "%u %u",
			             whole, distance);
			cr_expect_not(report.leaks.at[1].older, "it has a stack");
			ms_fake_deinit(&fake);
		}
}

Test(sampled, of_several_heaps_nothing_is_older)
{
	struct ms_report heaps = { .sampling = { .on = 1, .whole = 1 }, .heaps = { .n = 2 } };

	cr_expect_not(ms_origin_is_older(&heaps, 1 << 20));
	heaps.heaps.n = 1;
	cr_expect(ms_origin_is_older(&heaps, 1));
	heaps.sampling.on = 0;
	cr_expect_not(ms_origin_is_older(&heaps, 1));
}
