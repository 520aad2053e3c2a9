/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/gate.h"

enum { THREADS = 4, CLOSINGS = 100 };

static atomic_bool ended;
static atomic_uint entered;
static volatile unsigned halves[THREADS][2]; /* equal while nobody is inside */

static void start(void)
{
	cr_assert(ms_gate_init());
}

static void *come_and_go(void *nth)
{
	volatile unsigned *own = halves[(size_t)nth];

	while (!ended) {
		cr_assert(ms_gate_enter());
		own[0] = own[0] + 1;
		for (volatile int i = 0; i < 200; i++)
			;
		own[1] = own[1] + 1;
		ms_gate_leave();
		entered++;
	}
	return NULL;
}

static void *enter_once(void *unused)
{
	cr_assert(ms_gate_enter());
	ms_gate_leave();
	return unused;
}

Test(gate, is_entered_once_by_a_thread, .init = start)
{
	cr_assert(ms_gate_enter());
	cr_assert_not(ms_gate_enter());
	ms_gate_leave();
	cr_assert(ms_gate_enter());
	ms_gate_leave();
	cr_assert_not(ms_gate_exclude());
	cr_assert_not(ms_gate_enter());
	ms_gate_include(false);
	cr_assert(ms_gate_enter());
	ms_gate_leave();
}

static void let_some_enter(void)
{
	unsigned since = entered;

	while (entered - since < THREADS)
		(void)sched_yield();
}

static void close_again_and_again(void)
{
	pthread_t thread[THREADS];

	for (size_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, come_and_go, (void *)i), 0);
	for (int i = 0; i < CLOSINGS; i++) {
		let_some_enter();
		ms_gate_close();
		for (size_t k = 0; k < THREADS; k++)
			cr_assert_eq(halves[k][0], halves[k][1]);
		ms_gate_open();
	}
	ended = true;
	for (size_t i = 0; i < THREADS; i++)
		(void)pthread_join(thread[i], NULL);
}

Test(gate, has_nobody_inside_when_closed, .init = start)
{
	close_again_and_again();
}

Test(gate, needs_no_slots)
{
	close_again_and_again();
}

Test(gate, outlives_more_threads_than_it_has_slots, .init = start)
{
	for (int i = 0; i < 3000; i++) {
		pthread_t thread;

		cr_assert_eq(pthread_create(&thread, NULL, enter_once, NULL), 0);
		(void)pthread_join(thread, NULL);
	}
	close_again_and_again();
}

Test(gate, of_a_forked_child_has_only_its_thread, .init = start)
{
	pthread_t thread;
	int status;
	pid_t child;

	cr_assert_eq(pthread_create(&thread, NULL, come_and_go, NULL), 0);
	let_some_enter();
	child = fork(); /* with the other thread anywhere */
	if (child == 0) {
		ms_gate_reset();
		ms_gate_close();
		ms_gate_open();
		_exit(ms_gate_enter() ? 0 : 1);
	}
	ended = true;
	(void)pthread_join(thread, NULL);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

/* ---- closed to all ---- */

/* How a child ends that calls @what behind a gate that it has closed to all. */
static int end_behind(void (*what)(void))
{
	const struct itimerval limit = { .it_value = { 0, 300000 } };
	int status = 0;
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (child == 0) {
		(void)signal(SIGALRM, SIG_DFL);
		ms_gate_close_to_all();
		(void)setitimer(ITIMER_REAL, &limit, NULL);
		what();
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return status;
}

static void enter(void)
{
	(void)ms_gate_enter();
}

static void open_and_enter(void)
{
	cr_assert(ms_gate_is_ours());
	ms_gate_open();
	cr_assert_not(ms_gate_is_ours());
	cr_assert(ms_gate_enter());
	ms_gate_leave();
	ms_gate_close();
	cr_assert(ms_gate_is_ours());
	cr_assert(ms_gate_enter());
	ms_gate_leave();
	ms_gate_close();
	ms_gate_open();
	ms_gate_open();
	cr_assert_not(ms_gate_is_ours());
}

static void *open_later(void *unused)
{
	(void)usleep(50000);
	ms_gate_open();
	return unused;
}

static void have_it_opened(void)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, open_later, NULL), 0);
	cr_assert(ms_gate_enter());
	ms_gate_leave();
	(void)pthread_join(thread, NULL);
}

Test(gate, closed_to_all_keeps_its_closer_waiting, .init = start)
{
	cr_assert(WIFSIGNALED(end_behind(enter)));
	cr_assert(WIFSIGNALED(end_behind(ms_gate_close)));
	cr_assert(WIFSIGNALED(end_behind(ms_gate_close_to_all)));
	cr_assert_eq(end_behind(open_and_enter), 0);
	cr_assert_eq(end_behind(have_it_opened), 0);
}

Test(gate, closed_to_all_without_slots)
{
	cr_assert(WIFSIGNALED(end_behind(enter)));
	cr_assert_eq(end_behind(have_it_opened), 0);
}
