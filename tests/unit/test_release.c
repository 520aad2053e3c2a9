/* SPDX-License-Identifier: Apache-2.0 */
/* Letting go of a thread that was asked to stop and has not had the time to. lsan: off */
#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "held.h"
#include "target/freeze/freeze.h"
#include "target/proc.h"

enum { PATIENCE_MS = 2000 };

static struct shared {
	volatile int returned;
} * shared;

TestSuite(release, .timeout = 30);

static void pin(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* In a call that returns EINTR when it is broken off. */
static void be_waiter(void *arg)
{
	struct epoll_event event;
	int instance = epoll_create1(0);

	(void)arg;
	child_ready();
	(void)epoll_wait(instance, &event, 1, -1);
	shared->returned = 1;
	for (;;)
		pause();
}

static bool set_first(bool first)
{
	const struct sched_param param = { .sched_priority = first ? 1 : 0 };

	return !sched_setscheduler(0, first ? SCHED_FIFO : SCHED_OTHER, &param);
}

/* It cannot run before this process, which has the same processor, waits. */
static void ask_to_stop(pid_t tid)
{
	cr_assert_eq(ptrace(PTRACE_SEIZE, tid, NULL, NULL), 0);
	if (!set_first(true)) {
		child_end(tid);
		cr_skip_test("this needs the right to run before others");
	}
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
}

Test(release, waits_for_one_that_was_asked_to_stop)
{
	struct ms_freezer freezer = { 0 };
	struct ms_collection *collection;
	struct ms_tracee *tracee;
	struct ms_error err;
	pid_t pid;

	shared = child_memory(sizeof(*shared));
	pin();
	pid = child_start(be_waiter, NULL);
	while (ms_proc_state(pid) != 'S')
		(void)usleep(1000);
	cr_assert_eq(ms_collection_create(pid, UINT64_C(5000000000), &collection, &err), MS_OK);
	cr_assert_eq(ms_freezer_init(&freezer, collection, 0, &err), MS_OK, "%s", err.text);
	tracee = ms_vec_push(&freezer.arena, &freezer.tracees);
	cr_assert(tracee);
	*tracee = (struct ms_tracee){ .tid = pid, .state = MS_TRACEE_RUNNING };
	ms_collection_set_signals();
	ask_to_stop(pid);
	ms_collection_set_tick(true);
	ms_freezer_release(&freezer);
	ms_collection_set_tick(false);
	(void)set_first(false);
	cr_expect_eq(freezer.tracees.at[0].state, MS_TRACEE_GONE);
	(void)usleep(20000);
	cr_expect_eq(ms_proc_state(pid), 'S');
	cr_expect_eq(shared->returned, 0);
	ms_arena_deinit(&freezer.arena);
	ms_collection_destroy(collection);
	child_end(pid);
}
