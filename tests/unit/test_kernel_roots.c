/* SPDX-License-Identifier: Apache-2.0 */
/* lsan: off */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "held.h"
#include "target/kernel_roots.h"

static struct ms_arena arena;
static struct ms_source source;
static struct ms_words *const words = &source.kernel_words;
static struct ms_notes warnings;

static bool has(uint64_t value)
{
	const uint64_t *word;

	ms_vec_for_each (word, words)
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
		&arena, words);
	cr_expect_eq(words->n, 2);
	cr_expect(has(0x55d0c0ffee10));
	cr_expect(has(UINT64_MAX));
	ms_arena_deinit(&arena);
}

Test(kernel_roots, of_short_words_are_in_either_half)
{
	ms_kernel_roots_parse_epoll(" data: 5678abc0f7001230 \n data: 5678abd0\n", &arena, words);
	ms_kernel_roots_halve(&arena, words);
	cr_expect_eq(words->n, 3);
	cr_expect(has(0xf7001230));
	cr_expect(has(0x5678abc0));
	cr_expect(has(0x5678abd0));
	ms_arena_deinit(&arena);
}

Test(kernel_roots, reads_the_value_of_every_timer)
{
	ms_kernel_roots_parse_timers("ID: 0\nsignal: 34/000055d0c0ffee10\nnotify: signal/pid.7\n"
	                             "ClockID: 1\nID: 1\nsignal: 10/0000000000000000\n"
	                             "notify: none/pid.7\nClockID: 0\n",
	                             &arena, words);
	cr_expect_eq(words->n, 1);
	cr_expect(has(0x55d0c0ffee10));
	ms_arena_deinit(&arena);
}

/* Of Linux 6.18, shortened. */
Test(kernel_roots, counts_requests_of_rings)
{
	static const struct {
		const char *begun, *answered, *polls;
		uint32_t in_flight;
	} rows[] = {
		{ "7", "7", "", 0 },
		{ "7", "5", "", 2 },
		{ "7", "5", "  op=6, task_works=0\n", 2 },
		{ "7", "6", "  op=6, task_works=0\n  op=9, task_works=0\n", 2 },
		{ "1", "900", "  op=6, task_works=0\n", 1 }, /* of many answers */
		{ "2", "4294967295", "", 3 },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(void)snprintf(text, sizeof(text),
		               "SqHead:\t9\nCachedSqHead:\t%s\nCqTail:\t8\nCachedCqTail:\t%s\n"
		               "SQEs:\t1\n    0: opcode:POLL_ADD, fd:4, flags:0, off:0, addr:0x0, "
		               "rw_flags:0x1, buf_index:0 user_data:94313341742608\n"
		               "CQEs:\t1\n    0: user_data:94313341742624, res:1, flags:0\n"
		               "UserBufs:\t0\nPollList:\n%sCqOverflowList:\n",
		               rows[i].begun, rows[i].answered, rows[i].polls);
		words->n = 0;
		cr_expect_eq(ms_kernel_roots_parse_ring(text, &arena, words), rows[i].in_flight,
		             "row %zu", i);
		cr_expect(words->n == 2 && has(94313341742608) && has(94313341742624));
	}
	ms_arena_deinit(&arena);
}

Test(kernel_roots, nonsense_gives_nothing)
{
	ms_kernel_roots_parse_epoll("", &arena, words);
	ms_kernel_roots_parse_epoll(" data:", &arena, words);
	ms_kernel_roots_parse_timers("signal:", &arena, words);
	cr_expect_eq(ms_kernel_roots_parse_ring("", &arena, words), UINT32_MAX);
	cr_expect_eq(ms_kernel_roots_parse_ring("user_data:\nCachedSqHead:", &arena, words),
	             UINT32_MAX);
	ms_kernel_roots_parse_timers("signal: 10\n12/55\n", &arena, words);
	cr_expect_eq(words->n, 0);
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
	ms_kernel_roots_find(held.shared, NULL, &arena, &source, &warnings);
	cr_expect(has(0x1234567890a0), "epoll's data");
	cr_expect(has(0x1234567890b0), "a timer's value");
	cr_expect(has(0x1234567890c0), "a queued signal's value");
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
	ms_arena_deinit(&arena);
}

/* ---- signal stacks ---- */

enum { STACK_BYTES = 16384 };

static char main_stack[STACK_BYTES], thread_stack[STACK_BYTES];
static pthread_barrier_t *both;

static void use_stack(void *memory)
{
	stack_t stack = { .ss_sp = memory, .ss_size = STACK_BYTES };

	sigaltstack(&stack, NULL);
}

static void *sleep_with_stack(void *memory)
{
	use_stack(memory);
	pthread_barrier_wait(both);
	while (memory)
		pause();
	return NULL;
}

static void handle(int signal)
{
	(void)signal;
}

static void be_stacked(void *with_handler)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };
	pthread_barrier_t barrier;
	pthread_t thread;

	/* Those of the test's runner. */
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	if (with_handler)
		sigaction(SIGUSR1, &action, NULL);
	both = &barrier;
	pthread_barrier_init(&barrier, NULL, 2);
	use_stack(main_stack);
	pthread_create(&thread, NULL, sleep_with_stack, thread_stack);
	pthread_barrier_wait(&barrier);
	child_ready();
	for (;;)
		pause();
}

static void finds_stacks(bool expected, void *with_handler, bool registered_by_code)
{
	pid_t pid = child_start(be_stacked, with_handler);
	struct held held;

	memset(&source, 0, sizeof(source));
	held_hide_signal_stacks(!registered_by_code);
	cr_assert_eq(held_freeze_to_clone(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held.shared->n_unasked, 0);
	ms_kernel_roots_find(held.shared, NULL, &arena, &source, &warnings);
	cr_expect_eq(has((uintptr_t)main_stack), expected);
	cr_expect_eq(has((uintptr_t)thread_stack), expected);
	cr_expect_eq(warnings.n, 0);
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
	ms_arena_deinit(&arena);
}

Test(kernel_roots, finds_the_signal_stack_of_each_thread)
{
	finds_stacks(true, &arena, false);
}

/* Without a handler of any signal, those are registered that are to have one. */
Test(kernel_roots, finds_signal_stacks_that_no_handler_uses_yet)
{
	finds_stacks(true, NULL, true);
}

Test(kernel_roots, asks_nobody_where_there_is_no_handler_and_no_code_for_stacks)
{
	finds_stacks(false, NULL, false);
}

/* A frozen process whose library has not the code for it. */
Test(kernel_roots, says_how_many_could_not_be_asked)
{
	pid_t pid = child_start(be_stacked, &arena);
	struct held held;

	warnings = (struct ms_notes){ 0 };
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held.shared->n_unasked, 2);
	ms_kernel_roots_find(held.shared, NULL, &arena, &source, &warnings);
	cr_assert_eq(warnings.n, 1);
	cr_expect(strstr(warnings.at[0].text, "2 threads"), "%s", warnings.at[0].text);
	cr_expect_eq(source.unknown_stack_bytes, 2048);
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
	ms_arena_deinit(&arena);
}

/* @n threads, of which the first @n_unasked could not be asked. */
static void says(uint32_t n, uint32_t n_unasked, uint64_t last_stack_bytes, uint64_t unknown)
{
	struct ms_collection *frozen =
		ms_arena_alloc(&arena, sizeof(*frozen) + n * sizeof(frozen->threads[0]));
	struct ms_range *last = &frozen->threads[n - 1].signal_stack;

	memset(&source, 0, sizeof(source));
	warnings = (struct ms_notes){ 0 };
	*frozen = (struct ms_collection){ .n_threads = n, .n_unasked = n_unasked };
	*last = (struct ms_range){ 0x1000, 0x1000 + last_stack_bytes };
	ms_kernel_roots_find(frozen, NULL, &arena, &source, &warnings);
	cr_expect_eq(source.unknown_stack_bytes, unknown);
	cr_expect_eq(warnings.n, n_unasked ? 1 : 0);
	ms_arena_deinit(&arena);
}

Test(kernel_roots, threads_that_could_not_be_asked_are_like_the_others)
{
	says(3, 0, 0, 0);
	says(3, 0, 8192, 0);
	says(3, 2, 0, 0);
	says(3, 2, 8192, 8192);
	says(3, 3, 0, 2048);
}
