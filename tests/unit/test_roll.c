/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "held.h"
#include "sanitized.h"
#include "target/freeze/roll.h"

enum { FREEZES = SANITIZED ? 20 : 100 };

/* ---- on a live process that does nothing but allocate ---- */

struct counts {
	volatile int stop;
	volatile int handled;
	volatile int bad;
};

static struct counts *counts;

static void count_signal(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	counts->bad += info->si_value.sival_int != 4711;
	__atomic_fetch_add(&counts->handled, 1, __ATOMIC_SEQ_CST);
}

static void *allocate(void *arg)
{
	void *blocks[64] = { NULL };
	unsigned random = (unsigned)(uintptr_t)arg + 1;

	while (!counts->stop) {
		unsigned i = (random = random * 1103515245 + 12345) >> 16 & 63;

		free(blocks[i]);
		blocks[i] = random & 0x400 ? calloc(1, random >> 14) : malloc(random >> 20);
	}
	return NULL;
}

static void allocate_in_two_threads(void *arg)
{
	struct sigaction act = { .sa_sigaction = count_signal,
		                 .sa_flags = SA_SIGINFO | SA_RESTART };
	pthread_t thread;

	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGRTMIN, &act, NULL);
	pthread_create(&thread, NULL, allocate, arg);
	child_ready();
	allocate(NULL);
	pthread_join(thread, NULL);
}

/* As the collection process judges, but from what it captured. */
static bool any_inside(const struct held *held)
{
	for (uint32_t i = 0; i < held->shared->n_threads; i++) {
		const struct ms_frozen_thread *thread = &held->shared->threads[i];
		ms_addr back;

		const struct ms_cpu cpu = { .call = thread->call, .result = thread->result };

		if (!ms_inside_is_waiting(&cpu) &&
		    ms_inside_is(held->shared, thread->pc, NULL, 0, &back))
			return true;
	}
	return false;
}

static void start_allocating(pid_t *ret)
{
	counts = child_memory(sizeof(*counts));
	*ret = child_start(allocate_in_two_threads, NULL);
}

Test(roll, no_thread_is_left_in_malloc)
{
	uint32_t rolled = 0;
	uint32_t stuck = 0;
	pid_t pid;

	start_allocating(&pid);
	for (int i = 0; i < FREEZES; i++) {
		struct held held;

		cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
		rolled += held.shared->n_rolled;
		stuck += held.shared->n_unrolled;
		cr_expect(held.shared->n_unrolled || !any_inside(&held), "scan %d", i);
		cr_assert_eq(held_release(&held), MS_OK);
	}
	if (!SANITIZED)
		cr_expect_gt(rolled, 10, "this test must find threads in malloc");
	if (child_meets_breakpoints())
		cr_expect_eq(stuck, 0);
	child_end(pid);
}

Test(roll, signals_that_come_meanwhile_are_delivered_with_what_they_carry)
{
	int sent = 0;
	pid_t pid;

	start_allocating(&pid);
	for (int i = 0; i < FREEZES; i++) {
		struct held held;

		for (int n = 0; n < 10; n++)
			sent += !sigqueue(pid, SIGRTMIN, (union sigval){ .sival_int = 4711 });
		cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
		for (int n = 0; n < 10; n++)
			sent += !sigqueue(pid, SIGRTMIN, (union sigval){ .sival_int = 4711 });
		cr_assert_eq(held_release(&held), MS_OK);
	}
	for (int i = 0; i < 2000 && counts->handled < sent; i++)
		usleep(1000);
	cr_expect_eq(counts->handled, sent);
	cr_expect_eq(counts->bad, 0);
	cr_expect_eq(kill(pid, 0), 0, "it must live");
	child_end(pid);
}
