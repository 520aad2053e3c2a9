/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "target/arch/arch.h"
#include "target/freeze/remaining.h"

#define MS  UINT64_C(1000000)
#define DAY (UINT64_C(86400000) * MS)

static uint32_t mark;

static uint64_t left(uint64_t timeout_ns, uint64_t since_ns, uint32_t with, uint64_t now_ns)
{
	const struct ms_waiting waiting = { timeout_ns, since_ns, with };

	return ms_remaining(&waiting, now_ns, &mark);
}

Test(remaining, what_has_passed_is_taken_off)
{
	cr_expect_eq(left(3000 * MS, 1000 * MS, 0, 3000 * MS), 1000 * MS);
}

Test(remaining, all_is_left_when_nothing_is_known)
{
	cr_expect_eq(left(3000 * MS, 0, 0, 5000 * MS), 3000 * MS);
	cr_expect_neq(mark, 0, "the next scan knows");
}

Test(remaining, nothing_is_left_at_the_deadline_and_behind)
{
	cr_expect_eq(left(3000 * MS, 1000 * MS, 0, 4000 * MS), 0);
	cr_expect_eq(left(3000 * MS, 1000 * MS, 0, 9000 * MS), 0);
}

Test(remaining, is_rounded_up_to_a_millisecond_once)
{
	uint64_t now = 1000 * MS + 1;
	uint64_t first = left(3000 * MS, now, 0, now);

	cr_expect_geq(first, 3000 * MS);
	cr_expect_lt(first, 3001 * MS);
	for (int i = 0; i < 1000; i++) {
		now += 2 * MS + 7;
		cr_expect_eq(left(3000 * MS, 0, mark, now), 1000 * MS + 1 + first - now);
	}
}

Test(remaining, the_mark_counts_more_than_when_the_thread_ran_last)
{
	(void)left(3000 * MS, 1000 * MS, 0, 1500 * MS);
	cr_expect_eq(left(3000 * MS, 1500 * MS, mark, 2000 * MS), 2000 * MS);
}

Test(remaining, marks_are_right_where_they_begin_again)
{
	const uint64_t round = (uint64_t)MS_MARK_LIMIT * MS;

	for (uint64_t now = round - 3 * MS; now <= round + 3 * MS; now += MS) {
		cr_expect_eq(left(4 * MS, now, 0, now), 4 * MS);
		cr_expect(mark > 0 && mark <= MS_MARK_LIMIT);
		cr_expect_eq(left(4 * MS, 0, mark, now + MS), 3 * MS);
		cr_expect_eq(left(4 * MS, 0, mark, now + 5 * MS), 0);
	}
}

Test(remaining, a_mark_by_another_clock_is_not_believed)
{
	(void)left(3000 * MS, 0, 0, 100 * DAY);
	cr_expect_eq(left(3000 * MS, 0, mark, 99 * DAY), 3000 * MS, "far ahead");
	(void)left(3000 * MS, 0, 0, 100 * DAY);
	cr_expect_eq(left(3000 * MS, 0, mark, 101 * DAY), 3000 * MS, "long over");
}

Test(remaining, time_outs_too_long_for_a_mark_have_none)
{
	cr_expect_eq(left(20 * DAY, DAY, 0, 2 * DAY), 19 * DAY);
	cr_expect_eq(mark, 0);
	cr_expect_eq(left(UINT64_MAX, DAY, 0, 2 * DAY), UINT64_MAX);
	cr_expect_eq(mark, 0);
}
