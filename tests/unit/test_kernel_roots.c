/* SPDX-License-Identifier: Apache-2.0 */
/* lsan: off */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "held.h"
#include "target/kernel_roots.h"

static struct ms_arena arena;
static struct ms_words words;

static bool has(uint64_t value)
{
	const uint64_t *word;

	ms_vec_for_each (word, &words)
		if (*word == value)
			return true;
	return false;
}

Test(kernel_roots, reads_the_data_of_every_registration)
{
	ms_kernel_roots_parse_epoll(
		"pos:\t0\nflags:\t02\nmnt_id:\t16\nino:\t1053\n"
		"tfd:        5 events:       19 data:     55d0c0ffee10  pos:0 "
		"ino:c81 sdev:d\n"
		"tfd:        6 events: 80000019 data: ffffffffffffffff  pos:0 "
		"ino:c82 sdev:d\n"
		"tfd:        7 events:       19 data:                0  pos:0\n",
		&arena, &words);
	cr_expect_eq(words.n, 2);
	cr_expect(has(0x55d0c0ffee10));
	cr_expect(has(UINT64_MAX));
	ms_arena_deinit(&arena);
}

Test(kernel_roots, reads_the_value_of_every_timer)
{
	ms_kernel_roots_parse_timers("ID: 0\nsignal: 34/000055d0c0ffee10\nnotify: signal/pid.7\n"
	                             "ClockID: 1\nID: 1\nsignal: 10/0000000000000000\n"
	                             "notify: none/pid.7\nClockID: 0\n",
	                             &arena, &words);
	cr_expect_eq(words.n, 1);
	cr_expect(has(0x55d0c0ffee10));
	ms_arena_deinit(&arena);
}

Test(kernel_roots, nonsense_gives_nothing)
{
	ms_kernel_roots_parse_epoll("", &arena, &words);
	ms_kernel_roots_parse_epoll(" data:", &arena, &words);
	ms_kernel_roots_parse_timers("signal:", &arena, &words);
	ms_kernel_roots_parse_timers("signal: 10\n12/55\n", &arena, &words);
	cr_expect_eq(words.n, 0);
	ms_arena_deinit(&arena);
}

static void be_holder(void *arg)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 0x1234567890a0 };
	struct sigevent notify = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	sigset_t blocked;
	int fds[2];
	timer_t timer;

	(void)arg;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_ptr = (void *)0x1234567890c0 });
	notify.sigev_value.sival_ptr = (void *)0x1234567890b0;
	if (pipe(fds) || timer_create(CLOCK_MONOTONIC, &notify, &timer) ||
	    epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, fds[0], &event))
		_exit(1);
	child_ready();
	for (;;)
		pause();
}

Test(kernel_roots, finds_what_a_process_gave_to_the_kernel)
{
	pid_t pid = child_start(be_holder, NULL);
	struct held held;

	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	ms_kernel_roots_find(held.shared, &arena, &words);
	cr_expect(has(0x1234567890a0), "epoll's data");
	cr_expect(has(0x1234567890b0), "a timer's value");
	cr_expect(has(0x1234567890c0), "a queued signal's value");
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
	ms_arena_deinit(&arena);
}
