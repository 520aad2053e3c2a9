/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two hundred threads, each the only holder of a block: `crowd SCENARIO`, `crowd list`; see
 * truth.h. Each checks what it got back from the call that it is in; one that was broken off, or
 * was back early, ends the program with status 97.
 */
#include "truth.h"

#include <pthread.h>
#include <sys/epoll.h>

enum { N_THREADS = 200, SHORT_MS = 5, LONG_MS = LIFE_SECONDS * 1000, WRONG = 97 };

static pthread_barrier_t barrier;
static int epoll;

static int wait_in_poll(int ms)
{
	return poll(NULL, 0, ms);
}

static int wait_in_epoll(int ms)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, ms);
}

static int wait_in_nanosleep(int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	return nanosleep(&ts, NULL);
}

static int compute(int ms)
{
	volatile uint64_t sum = 0;
	const uint64_t n = (uint64_t)ms * 1000;

	for (uint64_t i = 1; i <= n; i++)
		sum += i;
	return sum == n * (n + 1) / 2 ? 0 : -1;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

NOINLINE static void wrong(const char *what)
{
	say_text(what);
	_exit(WRONG);
}

static void check(int (*call)(int), int ms)
{
	uint64_t since = now_ns();

	if (call(ms))
		wrong(call == compute ? "WRONG sum\n" : call == wait_in_epoll ? "WRONG epoll_wait\n" :
		                                                             "WRONG poll or nanosleep\n");
	if (call != compute && now_ns() - since + 100000 < (uint64_t)ms * 1000000)
		wrong("WRONG: back early\n");
}

/* In a function of its own: its frame is where the only pointer is. */
NOINLINE static void hold(int (*call)(int), int ms)
{
	void *volatile block = fresh(64);

	pthread_barrier_wait(&barrier);
	for (;;) {
		check(call, ms);
		*(volatile char *)block = 1;
	}
}

static int (*const calls[])(int) = { wait_in_poll, wait_in_epoll, wait_in_nanosleep };

static void *sleep_long(void *arg)
{
	hold(calls[(uintptr_t)arg % 3], LONG_MS);
	return NULL;
}

/* One in fifty computes; none of the others sleeps for long. */
static void *be_busy(void *arg)
{
	uintptr_t i = (uintptr_t)arg;

	/* epoll_wait() is broken off where its thread was not seen asleep before. */
	hold(i % 50 == 1 ? compute : i % 2 ? wait_in_nanosleep : wait_in_poll, SHORT_MS * (int)(i % 50 + 1));
	return NULL;
}

static void start(void *(*body)(void *))
{
	pthread_attr_t attr;
	pthread_t id;

	leak(100);
	epoll = epoll_create1(0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
	for (uintptr_t i = 0; i < N_THREADS; i++)
		if (pthread_create(&id, &attr, body, (void *)i))
			_exit(98);
	pthread_attr_destroy(&attr);
	pthread_barrier_wait(&barrier);
}

static void asleep(void)
{
	start(sleep_long);
}

static void busy(void)
{
	start(be_busy);
}

static const struct scenario scenarios[] = {
	{ "asleep", asleep, 0 },
	{ "busy", busy, 0 },
};

int main(int argc, char **argv)
{
	return run_scenario(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),
	                    argc > 1 ? argv[1] : "asleep");
}
