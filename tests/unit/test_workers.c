/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/workers.h"

enum { ITEMS = 10000, ROUNDS = 200 };

struct work {
	_Atomic unsigned times[ITEMS];
	_Atomic unsigned inside[MS_WORKERS_MAX]; /* calls of one worker that run now */
	_Atomic unsigned overlaps;
};

static void count_item(void *ctx, unsigned worker, size_t item)
{
	struct work *work = ctx;

	work->overlaps += atomic_fetch_add(&work->inside[worker], 1) != 0;
	work->times[item]++;
	work->inside[worker]--;
}

static void run_and_check(struct ms_workers *workers)
{
	static struct work work;

	for (unsigned round = 1; round <= ROUNDS; round++) {
		ms_workers_run(workers, ITEMS, count_item, &work);
		for (size_t i = 0; i < ITEMS; i++)
			cr_assert_eq(work.times[i], round, "item %zu, round %u", i, round);
	}
	cr_assert_eq(work.overlaps, 0);
}

Test(workers, do_each_item_once)
{
	for (unsigned n = 1; n <= 5; n++) {
		struct ms_workers *workers;
		struct ms_error err;

		cr_assert_eq(ms_workers_start(n, &workers, &err), MS_OK);
		cr_assert_eq(ms_workers_count(workers), n);
		if (n == 3)
			run_and_check(workers);
		ms_workers_stop(workers);
	}
}

Test(workers, give_the_caller_its_processors_back)
{
	struct ms_workers *workers;
	struct ms_error err;
	cpu_set_t before;
	cpu_set_t behind;

	cr_assert_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	cr_assert_eq(ms_workers_start(2, &workers, &err), MS_OK);
	ms_workers_stop(workers);
	cr_assert_eq(sched_getaffinity(0, sizeof(behind), &behind), 0);
	cr_assert(CPU_EQUAL(&before, &behind));
}

Test(workers, are_the_caller_alone_without_a_pool)
{
	cr_assert_eq(ms_workers_count(NULL), 1);
	run_and_check(NULL);
}

static void count_call(void *ctx, unsigned worker, size_t item)
{
	(void)worker;
	(void)item;
	++*(unsigned *)ctx;
}

Test(workers, have_nothing_to_do_without_items)
{
	unsigned calls = 0;

	ms_workers_run(NULL, 0, count_call, &calls);
	cr_assert_eq(calls, 0);
}
