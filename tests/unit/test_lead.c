/* SPDX-License-Identifier: Apache-2.0 */
/* Threads caught inside malloc, and led out of it in a clone. lsan: off; check: alone */
#include <criterion/criterion.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "held.h"
#include "sanitized.h"
#include "target/freeze/inside.h"

enum {
	CLONES = SANITIZED ? 8 : 25,
	MOST_CLONES = SANITIZED ? CLONES : 1000,
	STUCK = 3,
	SHORT_MS = 100,
	WALK = 60000,
	THREADS = 4
};

static struct held held;

TestSuite(lead, .timeout = 60);

/* What clones of @pid have shown. */
struct sum {
	unsigned clones;
	unsigned inside; /* caught there, not waiting */
	unsigned led;
	unsigned left;    /* inside still */
	unsigned refused; /* no clone: its thread was just stopped by a signal */
};

/* Clone @pid @n times, and then until @seen is true; a NULL @seen stops at @n. */
static struct sum clone_often(pid_t pid, int n, bool (*seen)(const struct sum *))
{
	struct sum sum = { 0 };

	for (int i = 0; i < n || (seen && i < MOST_CLONES && !seen(&sum)); i++) {
		const struct ms_thread *t;
		struct ms_source *source;

		sum.clones++;
		if (held_fork(&held, pid, &source) != MS_OK) {
			cr_assert_eq(held.err.status, MS_E_UNSUPPORTED, "%s", held.err.text);
			sum.refused++;
			continue;
		}
		ms_inside_mark(held.shared, source);
		ms_vec_for_each (t, &source->threads)
			sum.left += t->in_malloc != MS_MALLOC_OUT;
		sum.inside += held.shared->n_inside;
		sum.led += held.shared->n_rolled;
		source->ops->close(source);
		held_end(&held);
	}
	child_end(pid);
	return sum;
}

static bool some_inside(const struct sum *sum)
{
	return sum->inside;
}

static bool some_waiting(const struct sum *sum)
{
	return sum->led > sum->inside;
}

static bool some_left(const struct sum *sum)
{
	return sum->left;
}

static void expect_all_led(const struct sum *sum)
{
	cr_expect_eq(sum->left, 0);
	cr_expect_eq(sum->refused, 0);
}

/* malloc_consolidate() walks through thousands of chunks, which it holds in registers. */
static void consolidate(void *arg)
{
	static void *blocks[WALK];

	(void)arg;
	child_ready();
	for (;;) {
		for (size_t i = 0; i < WALK; i++)
			blocks[i] = malloc(40);
		for (size_t i = 0; i < WALK; i++) {
			/* 7919 is prime to WALK: each of them once, far from the last */
			free(blocks[i * 7919 % WALK]);
			blocks[i * 7919 % WALK] = NULL;
		}
		for (int i = 0; i < 8; i++) {
			void *volatile large = malloc(70000);

			free(large);
		}
	}
}

Test(lead, out_of_a_long_walk)
{
	struct sum sum = clone_often(child_start(consolidate, NULL), CLONES, some_inside);

	cr_expect(some_inside(&sum) || SANITIZED, "it was never caught inside malloc");
	expect_all_led(&sum);
}

static void *contend(void *arg)
{
	for (unsigned i = 0;; i++) {
		void *volatile block = malloc(2000 + i * 997 % 20000);

		memset(block, 1, 1500);
		free(block);
	}
	return arg;
}

static void contend_in_one_arena(void *arg)
{
	pthread_t thread;

	(void)mallopt(M_ARENA_MAX, 1);
	for (int i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, contend, arg);
	child_ready();
	(void)contend(arg);
}

/* Who waits for a lock goes on when its holder has left. */
Test(lead, out_of_locks)
{
	struct sum sum = clone_often(child_start(contend_in_one_arena, NULL), CLONES, some_waiting);

	cr_expect(some_waiting(&sum) || SANITIZED, "no thread waited for a lock");
	expect_all_led(&sum);
}

static volatile unsigned long spins;

static void __attribute__((noinline)) spin(void)
{
	for (;;)
		spins++;
}

static void *tell_when_it_spins(void *arg)
{
	while (!spins)
		usleep(100);
	child_ready();
	for (;;)
		pause();
	return arg;
}

static void spin_for_ever(void *arg)
{
	pthread_t thread;

	pthread_create(&thread, NULL, tell_when_it_spins, arg);
	spin();
}

Test(lead, who_does_not_come_out_in_time_is_left_inside)
{
	ms_addr code = (uintptr_t)spin;
	struct sum sum;

	held_claim_malloc((struct ms_range){ code, code + 32 });
	held_lead_for(SHORT_MS);
	sum = clone_often(child_start(spin_for_ever, NULL), STUCK, NULL);
	cr_expect_eq(sum.led, 0);
	cr_expect_eq(sum.left, STUCK);
	cr_expect_eq(sum.refused, 0);
}

static void handle(int number)
{
	(void)number;
	usleep(20000);
}

static void allocate_and_handle(void *arg)
{
	const struct itimerval often = { { 0, 30000 }, { 0, 30000 } };

	(void)arg;
	(void)signal(SIGALRM, handle);
	(void)setitimer(ITIMER_REAL, &often, NULL);
	child_ready();
	(void)contend(NULL);
}

/* The rest of the handler is the program's, and not run. */
Test(lead, who_handles_a_signal_inside_is_left_inside)
{
	struct sum sum = clone_often(child_start(allocate_and_handle, NULL), CLONES, some_left);

	cr_expect(some_left(&sum) || SANITIZED, "it was never caught in a handler over malloc");
	cr_expect_lt(sum.refused, sum.clones / 2, "%u clones were refused: %s", sum.refused,
	             held.err.text);
}
