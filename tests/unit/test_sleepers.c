/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is noted of threads that sleep, before they are stopped. lsan: off
 *
 * How this process moves from processor to processor is noted by a sched_setaffinity() of this
 * file, which is called instead of the C library's.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "held.h"
#include "target/freeze/sleepers.h"
#include "target/proc.h"

enum { LONG_MS = 1000000 };

/* Between a test and its child. */
struct shared {
	volatile pid_t second;
};

static struct shared *shared;
static pid_t child;
static struct ms_collection *collection;
static struct ms_freezer freezer;
static int n_alone; /* times that one processor alone was chosen */
static int n_alone_urgent;

static bool is_urgent(void)
{
	return sched_getscheduler(0) == SCHED_FIFO || getpriority(PRIO_PROCESS, 0) == -20;
}

/* Count, then make the system call. */
int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set)
{
	if (CPU_COUNT_S(bytes, set) == 1) {
		n_alone++;
		n_alone_urgent += is_urgent();
	}
	return syscall(SYS_sched_setaffinity, pid, bytes, set) < 0 ? -1 : 0;
}

/* In a call that the kernel does not make once more by itself. */
static void sleep_long(void)
{
	struct epoll_event event;

	(void)epoll_wait(epoll_create1(0), &event, 1, LONG_MS);
}

static void *be_second(void *arg)
{
	(void)arg;
	shared->second = gettid();
	sleep_long();
	return NULL;
}

static void be_two(void *arg)
{
	pthread_t thread;

	(void)arg;
	if (pthread_create(&thread, NULL, be_second, NULL))
		abort();
	while (!shared->second || ms_proc_state(shared->second) != 'S')
		usleep(100);
	child_ready();
	sleep_long();
}

static void setup(void)
{
	struct ms_error err;

	shared = child_memory(sizeof(*shared));
	child = child_start(be_two, NULL);
	while (ms_proc_state(child) != 'S')
		usleep(100);
	cr_assert_eq(ms_collection_create(child, 1000000000, &collection, &err), MS_OK);
}

static void teardown(void)
{
	ms_arena_deinit(&freezer.arena);
	ms_collection_destroy(collection);
	child_end(child);
}

TestSuite(sleepers, .init = setup, .fini = teardown, .timeout = 60);

static void find(pid_t only)
{
	struct ms_error err;

	cr_assert_eq(ms_freezer_init(&freezer, collection, only, &err), MS_OK, "%s", err.text);
}

Test(sleepers, each_thread_with_a_time_out_is_noted)
{
	find(0);
	cr_assert_eq(freezer.sleepers.n, 2);
	for (size_t i = 0; i < 2; i++)
		cr_expect_gt(freezer.sleepers.at[i].since_ns, 0);
}

Test(sleepers, of_one_that_is_stopped_alone_no_other_is_noted)
{
	find(shared->second);
	cr_assert_eq(freezer.sleepers.n, 1);
	cr_expect_eq(freezer.sleepers.at[0].tid, shared->second);
}

/* Pinned to one busy processor, an ordinary process may wait for seconds. */
Test(sleepers, it_runs_before_others_where_it_may_run_on_one_processor_alone)
{
	cpu_set_t before;
	cpu_set_t after;

	cr_assert_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	find(0);
	cr_assert_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	cr_expect(CPU_EQUAL(&before, &after));
	cr_expect_gt(n_alone, 0);
	if (!geteuid())
		cr_expect_eq(n_alone_urgent, n_alone - (CPU_COUNT(&before) == 1 ? 1 : 0));
	cr_expect_not(is_urgent());
}
