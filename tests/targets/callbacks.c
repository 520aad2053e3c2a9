/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that hold a function to be called with them: `callbacks`; see truth.h.
 *
 *	watcher   only epoll has it, and it has the function on_ready
 *	line      only the watcher has it
 *	timer     only a timer of the kernel has it, and it has libc's free()
 *	numbers   holds addresses that are in code, but begin no function
 *	leaked    nothing has it, and it has the function on_ready
 *	lost      nothing has it, and it holds addresses as numbers does
 */
#include "truth.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct watcher {
	int descriptor;
	void (*ready)(struct watcher *watcher);
	char *line;
};

struct timer {
	uint64_t due;
	void (*give_back)(void *ptr);
};

static uint64_t *g_numbers;

static NOINLINE void on_ready(struct watcher *watcher)
{
	say_text(watcher->line);
}

static NOINLINE void watch(void)
{
	struct watcher *watcher = fresh(sizeof(*watcher));
	struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = watcher } };

	watcher->descriptor = eventfd(0, 0);
	watcher->ready = on_ready;
	watcher->line = fresh(301);
	memset(watcher->line, 0xe1, 300);
	if (epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, watcher->descriptor, &event))
		_exit(1);
	tell("watcher", watcher);
	tell("line", watcher->line);
}

static NOINLINE void start_timer(void)
{
	struct timer *timer = fresh(sizeof(*timer));
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
		                  .sigev_signo = SIGUSR1,
		                  .sigev_value = { .sival_ptr = timer } };
	timer_t id;

	timer->due = 1;
	timer->give_back = free;
	if (timer_create(CLOCK_MONOTONIC, &event, &id))
		_exit(1);
	tell("timer", timer);
}

static NOINLINE void count(void)
{
	g_numbers = fresh(64);
	for (int i = 0; i < 8; i++)
		g_numbers[i] = (uint64_t)(uintptr_t)on_ready + 5 + (uint64_t)i;
	tell("numbers", g_numbers);
}

/* Of sizes that no other block has. */
static NOINLINE void lose(void)
{
	struct watcher *watcher = fresh(400);
	uint64_t *lost = fresh(500);

	watcher->ready = on_ready;
	lost[3] = (uint64_t)(uintptr_t)on_ready + 5;
	tell("leaked", watcher);
	tell("lost", lost);
}

int main(void)
{
	lose();
	watch();
	start_timer();
	count();
	ready();
}
