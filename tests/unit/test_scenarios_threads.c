/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmemunreachable's ThreadCapture scenarios. lsan: off; check: alone
 *
 * What must happen between seizing a thread and interrupting it is done by a ptrace()
 * of this file, which the collection process calls instead of the C library's.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "held.h"
#include "own_ptrace.h"
#include "target/proc.h"

enum { MAX_THREADS = 1024, STACK_BYTES = 64 * 1024, QUICK_NS = 5000000000, SETTLE_US = 20000 };

/* Between a test and its children. */
struct shared {
	volatile int tids[MAX_THREADS];
	volatile int started;
	volatile int listed; /* in tids */
	volatile int handled;
	volatile int signal; /* sent to the target before the first interrupt; 0: none */
	volatile int sent;   /* it was */
	volatile int wait;   /* for the target to act on it, before the interrupt */
};

static struct shared *shared;
static struct held held;
static char list_buf[MS_PROC_LIST_BYTES];

static void setup(void)
{
	shared = child_memory(sizeof(*shared));
}

TestSuite(scenarios_threads, .init = setup, .timeout = 60);

static void before_ptrace(enum __ptrace_request request, pid_t tid)
{
	(void)tid;
	if (request != PTRACE_INTERRUPT || !shared->signal || shared->sent)
		return;
	shared->sent = 1;
	(void)kill(held.shared->pid, shared->signal);
	(void)usleep(shared->wait ? SETTLE_US : 0);
}

static void count_signal(int signal)
{
	(void)signal;
	__atomic_fetch_add(&shared->handled, 1, __ATOMIC_SEQ_CST);
}

static void *sleep_as(void *arg)
{
	int i = __atomic_fetch_add(&shared->started, 1, __ATOMIC_SEQ_CST);

	shared->tids[i] = (int)syscall(SYS_gettid);
	__atomic_fetch_add(&shared->listed, 1, __ATOMIC_SEQ_CST);
	while (arg)
		pause();
	return NULL;
}

/* @arg: an int, the number of threads. */
static void be_sleepers(void *arg)
{
	struct sigaction act = { .sa_handler = count_signal };
	int n = *(int *)arg;
	pthread_attr_t attr;
	pthread_t thread;

	sigaction(SIGUSR1, &act, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	shared->tids[0] = getpid();
	shared->started = 1;
	shared->listed = 1;
	for (int i = 1; i < n; i++)
		if (pthread_create(&thread, &attr, sleep_as, shared))
			abort();
	while (shared->listed < n)
		usleep(100);
	child_ready();
	for (;;)
		pause();
}

static bool is_ours(int tid)
{
	for (int i = 0; i < shared->started; i++)
		if (shared->tids[i] == tid)
			return true;
	return false;
}

/* Whether the kernel's list of @pid has exactly the threads it started. */
static void lists_exactly(pid_t pid, int n)
{
	struct ms_proc_list list;
	int listed = 0;
	int32_t tid;

	cr_assert_eq(ms_proc_list_open(&list, pid, "task", list_buf), 0);
	while (ms_proc_list_next(&list, &tid)) {
		cr_expect(is_ours(tid), "thread %d of %d", tid, n);
		listed++;
	}
	ms_proc_list_close(&list);
	cr_expect_eq(listed, n);
}

static int thread_numbers[] = { 1, 2, 10, MAX_THREADS };

ParameterizedTestParameters(scenarios_threads, lists_and_captures_exactly)
{
	return cr_make_param_array(int, thread_numbers,
	                           sizeof(thread_numbers) / sizeof(thread_numbers[0]));
}

ParameterizedTest(int *n, scenarios_threads, lists_and_captures_exactly)
{
	pid_t pid = child_start(be_sleepers, n);

	lists_exactly(pid, *n);
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held.shared->n_threads, *n);
	for (uint32_t i = 0; i < held.shared->n_threads; i++) {
		const struct ms_frozen_thread *thread = &held.shared->threads[i];

		cr_expect(is_ours(thread->tid), "thread %d of %d", thread->tid, *n);
		cr_expect(thread->stopped && thread->sp && thread->n_words);
		for (uint32_t k = 0; k < i; k++)
			cr_assert_neq(thread->tid, held.shared->threads[k].tid, "taken twice");
	}
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
}

/* Seized threads that act on a signal at once, and such as are interrupted before. */
struct meanwhile {
	int n;
	int wait;
};

static struct meanwhile meanwhiles[] = { { 1, 0 }, { 2, 0 }, { 10, 0 },
	                                 { 1, 1 }, { 2, 1 }, { 10, 1 } };

ParameterizedTestParameters(scenarios_threads, a_target_killed_before_the_interrupt_is_gone)
{
	return cr_make_param_array(struct meanwhile, meanwhiles,
	                           sizeof(meanwhiles) / sizeof(meanwhiles[0]));
}

ParameterizedTest(struct meanwhile *m, scenarios_threads,
                  a_target_killed_before_the_interrupt_is_gone)
{
	pid_t pid = child_start(be_sleepers, &m->n);
	uint64_t begun = ms_now_ns();

	shared->signal = SIGKILL;
	shared->wait = m->wait;
	cr_expect_eq(held_freeze(&held, pid), MS_E_GONE, "%s", held.err.text);
	cr_expect_eq(shared->sent, 1);
	cr_expect_lt(ms_now_ns() - begun, QUICK_NS, "it waited");
	(void)!held_release(&held);
	cr_expect_eq(waitpid(pid, NULL, 0), pid, "its parent must see it end");
}

ParameterizedTestParameters(scenarios_threads, a_signal_before_the_interrupt_is_kept_for_later)
{
	return cr_make_param_array(struct meanwhile, meanwhiles,
	                           sizeof(meanwhiles) / sizeof(meanwhiles[0]));
}

ParameterizedTest(struct meanwhile *m, scenarios_threads,
                  a_signal_before_the_interrupt_is_kept_for_later)
{
	pid_t pid = child_start(be_sleepers, &m->n);

	shared->signal = SIGUSR1;
	shared->wait = m->wait;
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(shared->sent, 1);
	cr_expect_eq(held.shared->n_threads, m->n);
	usleep(SETTLE_US);
	cr_expect_eq(shared->handled, 0, "handled while frozen");
	cr_expect_eq(held_release(&held), MS_OK);
	cr_expect(child_waits_for(&shared->handled), "lost");
	usleep(SETTLE_US);
	cr_expect_eq(shared->handled, 1);
	child_end(pid);
}
