/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order threads are stopped and let go. lsan: off
 *
 * What is asked of the kernel is noted by a ptrace() of this file, which the collection process
 * calls instead of the C library's.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "held.h"
#include "own_ptrace.h"
#include "target/proc.h"

/* The thread at work is neither the first nor the last of the kernel's list. */
enum { N_THREADS = 64, AT_WORK = N_THREADS / 2, MAX_REQUESTS = 1024 };

/* Between a test and its children. */
struct shared {
	volatile pid_t tids[N_THREADS];
	volatile int n_requests;
	struct {
		enum __ptrace_request what;
		pid_t tid;
	} requests[MAX_REQUESTS];
};

static struct shared *shared;
static struct held held;

static void setup(void)
{
	shared = child_memory(sizeof(*shared));
}

TestSuite(freeze_order, .init = setup, .timeout = 60);

static void before_ptrace(enum __ptrace_request request, pid_t tid)
{
	int i = shared->n_requests < MAX_REQUESTS ? shared->n_requests++ : MAX_REQUESTS - 1;

	shared->requests[i].what = request;
	shared->requests[i].tid = tid;
}

static void *sleep_or_work(void *arg)
{
	int me = (int)(uintptr_t)arg;

	shared->tids[me] = gettid();
	while (me != AT_WORK)
		pause();
	for (int i = 0; i < N_THREADS; i++)
		while (i != me && (!shared->tids[i] || ms_proc_state(shared->tids[i]) != 'S'))
			usleep(100);
	child_ready();
	for (volatile unsigned n = 0;; n++)
		;
	return NULL;
}

static void be_threads(void *arg)
{
	pthread_t thread;

	(void)arg;
	for (uintptr_t i = 1; i < N_THREADS; i++)
		if (pthread_create(&thread, NULL, sleep_or_work, (void *)i))
			abort();
	(void)sleep_or_work(0);
}

/*
 * How many requests for @what concern @tid or, if @others, every other thread; where the first and
 * the last of them are.
 */
static int count(enum __ptrace_request what, pid_t tid, bool others, int *ret_first, int *ret_last)
{
	int n = 0;

	for (int i = 0; i < shared->n_requests; i++) {
		if (shared->requests[i].what != what || (shared->requests[i].tid == tid) == others)
			continue;
		if (!n++)
			*ret_first = i;
		*ret_last = i;
	}
	return n;
}

Test(freeze_order, stops_those_at_work_last_and_lets_them_go_first)
{
	int first, last, worker_first, worker_last;
	pid_t pid = child_start(be_threads, NULL);
	pid_t worker = shared->tids[AT_WORK];

	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held.shared->n_threads, N_THREADS);
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
	cr_assert_lt(shared->n_requests, MAX_REQUESTS);
	cr_assert_geq(count(PTRACE_INTERRUPT, worker, true, &first, &last), N_THREADS - 1);
	cr_assert_geq(count(PTRACE_INTERRUPT, worker, false, &worker_first, &worker_last), 1);
	cr_expect_lt(last, worker_first, "asked to stop");
	cr_assert_eq(count(PTRACE_DETACH, worker, true, &first, &last), N_THREADS - 1);
	cr_assert_eq(count(PTRACE_DETACH, worker, false, &worker_first, &worker_last), 1);
	cr_expect_lt(worker_last, first, "let go");
}
