/* SPDX-License-Identifier: Apache-2.0 */
/* The collection process, from the sweeper's side, on processes of all sorts. lsan: off */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/libc.h"
#include "held.h"
#include "sanitized.h"
#include "target/freeze/freeze.h"
#include "target/proc.h"

enum { MAX_THREADS = 1024 };

/* In a rain of signals. Sanitized, each starts with a copy of the page tables of all shadows. */
enum { FREEZES = SANITIZED ? 50 : 150 };

/* Between a test and its child. */
struct shared {
	volatile int n_threads; /* wanted */
	volatile int tids[MAX_THREADS];
	volatile int started;
	volatile int handled;
	volatile int interrupted;
	volatile int go;
	volatile int done;
	volatile pid_t child;
};

static struct shared *shared;
static struct held held;

static void setup(void)
{
	shared = child_memory(sizeof(*shared));
}

TestSuite(freeze, .init = setup, .timeout = 60);

static void count_signal(int signal)
{
	(void)signal;
	__atomic_fetch_add(&shared->handled, 1, __ATOMIC_SEQ_CST);
}

static void *sleep_as(void *arg)
{
	int i = __atomic_fetch_add(&shared->started, 1, __ATOMIC_SEQ_CST);

	shared->tids[i] = (int)syscall(SYS_gettid);
	while (arg)
		pause();
	return NULL;
}

static void start_threads(int n)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	for (int i = 0; i < n; i++)
		if (pthread_create(&thread, &attr, sleep_as, shared))
			abort();
	while (shared->started < n)
		usleep(100);
}

static void be_sleepers(void *arg)
{
	struct sigaction act = { .sa_handler = count_signal, .sa_flags = SA_RESTART };

	(void)arg;
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGRTMIN, &act, NULL);
	shared->tids[MAX_THREADS - 1] = getpid();
	start_threads(shared->n_threads - 1);
	child_ready();
	for (;;)
		pause();
}

static int find_thread(int tid)
{
	for (uint32_t i = 0; i < held.shared->n_threads; i++)
		if (held.shared->threads[i].tid == tid)
			return (int)i;
	return -1;
}

static bool comes_to(pid_t tid, char state)
{
	for (int i = 0; i < 2000 && ms_proc_state(tid) != state; i++)
		usleep(1000);
	return ms_proc_state(tid) == state;
}

static void freezes_exactly(int n)
{
	pid_t pid;

	shared->n_threads = n;
	pid = child_start(be_sleepers, NULL);
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held.shared->n_threads, n);
	cr_expect_geq(find_thread(pid), 0, "the leader");
	for (int i = 0; i < n - 1; i++)
		cr_expect_geq(find_thread(shared->tids[i]), 0, "thread %d of %d", i, n);
	for (int i = 0; i < n; i++) {
		const struct ms_frozen_thread *thread = &held.shared->threads[i];

		cr_expect(thread->stopped && thread->pc && thread->sp && thread->tp);
		cr_expect_gt(thread->n_words, 27 + 48);
		cr_expect_eq(ms_proc_state(thread->tid), 't');
	}
	cr_expect_eq(held.shared->live_tid, pid);
	cr_expect_eq(held_release(&held), MS_OK);
	cr_expect_eq(held.exit_status, 0);
	for (int i = 0; i < n - 1; i++)
		cr_expect(comes_to(shared->tids[i], 'S'), "thread %d does not run on", i);
	child_end(pid);
}

Test(freeze, takes_1_thread)
{
	freezes_exactly(1);
}

Test(freeze, takes_2_threads)
{
	freezes_exactly(2);
}

Test(freeze, takes_10_threads)
{
	freezes_exactly(10);
}

Test(freeze, takes_1024_threads)
{
	freezes_exactly(1024);
}

/* ---- threads that come and go ---- */

/* The shorter they live, the more of them begin and end while they are listed. */
enum { CREATORS = 4, LIFE_US = 5000 };

static void *live_briefly(void *arg)
{
	usleep(LIFE_US);
	return arg;
}

static void *create_for_ever(void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;) {
		(void)pthread_create(&thread, &attr, live_briefly, arg);
		usleep(100);
	}
	return NULL;
}

static void churn(void *arg)
{
	pthread_t thread;

	for (int i = 0; i < CREATORS; i++)
		pthread_create(&thread, NULL, create_for_ever, arg);
	child_ready();
	for (;;)
		pause();
}

/* Whether the kernel lists a thread that runs though the process is frozen. */
static void no_thread_runs(pid_t pid)
{
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list;
	int32_t tid;

	cr_assert_eq(ms_proc_list_open(&list, pid, "task", buf), 0);
	while (ms_proc_list_next(&list, &tid)) {
		char state = ms_proc_state(tid);

		cr_expect(state == 't' || state == 'Z' || state == 'X', "thread %d is %c", tid,
		          state);
	}
	ms_proc_list_close(&list);
}

Test(freeze, takes_every_thread_of_a_process_that_makes_and_ends_them)
{
	pid_t pid = child_start(churn, NULL);

	for (int i = 0; i < 20; i++) {
		cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
		no_thread_runs(pid);
		cr_assert_eq(held_release(&held), MS_OK);
		usleep(2000);
	}
	child_end(pid);
}

/* ---- vectors: a value that only a vector register holds ---- */

static void hold_in_vector(void *arg)
{
	(void)arg;
	child_ready();
#ifdef __aarch64__
	__asm__ volatile("fmov d9, %0\n1: yield\nb 1b" : : "r"(0x1122334455667788ULL) : "v9");
#else
	__asm__ volatile("movq %0, %%xmm9\n1: pause\njmp 1b"
	                 :
	                 : "r"(0x1122334455667788ULL)
	                 : "xmm9");
#endif
}

Test(freeze, captures_vector_registers)
{
	pid_t pid = child_start(hold_in_vector, NULL);
	bool found = false;

	usleep(10000);
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	for (uint64_t i = 0; i < held.shared->threads[0].n_words; i++)
		found |= held.shared->threads[0].words[i] == 0x1122334455667788ULL;
	cr_expect(found);
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
}

/* ---- group stops ---- */

Test(freeze, keeps_a_stopped_process_stopped)
{
	pid_t pid;

	shared->n_threads = 3;
	pid = child_start(be_sleepers, NULL);
	kill(pid, SIGSTOP);
	cr_assert(comes_to(pid, 'T'));
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held.shared->n_threads, 3);
	cr_expect_eq(held_release(&held), MS_OK);
	usleep(20000);
	cr_expect_eq(ms_proc_state(pid), 'T');
	cr_expect_eq(ms_proc_state(shared->tids[0]), 'T');
	kill(pid, SIGCONT);
	cr_expect(comes_to(pid, 'S'));
	child_end(pid);
}

/* Also of a process whose threads sleep in a call that is given back. */
static void be_waiting(void *arg)
{
	struct epoll_event event;
	int epoll = epoll_create1(0);

	(void)arg;
	shared->n_threads = 1;
	child_ready();
	for (;;)
		(void)epoll_wait(epoll, &event, 1, 3600 * 1000);
}

Test(freeze, a_stop_sent_meanwhile_is_not_lost)
{
	static void (*const lives[])(void *) = { be_sleepers, be_waiting };

	for (size_t i = 0; i < 2; i++) {
		pid_t pid;

		shared->n_threads = 3;
		shared->started = 0;
		pid = child_start(lives[i], NULL);
		cr_assert(comes_to(pid, 'S'));
		cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
		kill(pid, SIGSTOP);
		usleep(20000);
		cr_expect_eq(held_release(&held), MS_OK);
		cr_expect(comes_to(pid, 'T'));
		cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
		kill(pid, SIGCONT);
		cr_expect_eq(held_release(&held), MS_OK);
		cr_expect(comes_to(pid, 'S'));
		child_end(pid);
	}
}

/* ---- signals ---- */

Test(freeze, a_signal_sent_meanwhile_is_delivered_once)
{
	pid_t pid;

	shared->n_threads = 2;
	pid = child_start(be_sleepers, NULL);
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	kill(pid, SIGUSR1);
	usleep(20000);
	cr_expect_eq(shared->handled, 0);
	cr_expect_eq(held_release(&held), MS_OK);
	cr_expect(child_waits_for(&shared->handled));
	usleep(20000);
	cr_expect_eq(shared->handled, 1);
	child_end(pid);
}

/*
 * Send signals as fast as they are taken, until go is 0: there always are some on the way, more
 * than are taken while this waits for room. Returns how many went off.
 */
static void *send_signals(void *arg)
{
	pid_t pid = *(pid_t *)arg;
	intptr_t sent = 0;

	while (shared->go) {
		if (sent - shared->handled < 60)
			sent += !sigqueue(pid, SIGRTMIN, (union sigval){ 0 });
		else
			(void)usleep(20);
	}
	return (void *)sent;
}

/* Freeze again and again in a rain of signals; @end lets go of the process each time. */
static void loses_no_signal(void (*end)(void))
{
	pthread_t sender;
	void *sent;
	pid_t pid;

	shared->n_threads = 2;
	shared->go = 1;
	pid = child_start(be_sleepers, NULL);
	pthread_create(&sender, NULL, send_signals, &pid);
	for (int i = 0; i < FREEZES; i++) {
		cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
		end();
	}
	shared->go = 0;
	pthread_join(sender, &sent);
	for (int i = 0; i < 2000 && shared->handled < (intptr_t)sent; i++)
		usleep(1000);
	cr_expect_eq(shared->handled, (intptr_t)sent);
	cr_expect(comes_to(pid, 'S'));
	child_end(pid);
}

static void end_in_order(void)
{
	cr_assert_eq(held_release(&held), MS_OK);
}

/* As when memory runs out, or someone is impatient. */
static void end_by_kill(void)
{
	kill(held.collection, SIGKILL);
	cr_assert_eq(held_release(&held), MS_E_DIED);
}

static void end_by_closing(void)
{
	int status;

	close(held.channel);
	waitpid(held.collection, &status, 0);
	ms_collection_destroy(held.shared);
	ms_arena_deinit(&held.arena);
}

Test(freeze, signals_in_flight_are_given_back)
{
	loses_no_signal(end_in_order);
}

Test(freeze, signals_in_flight_survive_the_death_of_the_collection_process)
{
	loses_no_signal(end_by_kill);
}

Test(freeze, lets_go_when_the_sweeper_is_gone)
{
	loses_no_signal(end_by_closing);
}

/* ---- interrupted calls ---- */

static void *wait_in_epoll(void *arg)
{
	struct epoll_event event;

	(void)arg;
	epoll_wait(epoll_create1(0), &event, 1, -1);
	shared->interrupted++;
	return NULL;
}

static void *wait_in_semop(void *arg)
{
	struct sembuf take = { 0, -1, 0 };
	int id = semget(IPC_PRIVATE, 1, 0600);

	shared->tids[0] = id;
	semop(id, &take, 1);
	shared->interrupted++;
	return arg;
}

static void *wait_for_signal(void *arg)
{
	struct timespec hour = { 3600, 0 };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigtimedwait(&set, &info, &hour);
	shared->interrupted++;
	return arg;
}

static void wait_in_calls(void *arg)
{
	pthread_t thread;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pthread_create(&thread, NULL, wait_in_epoll, arg);
	pthread_create(&thread, NULL, wait_in_semop, arg);
	pthread_create(&thread, NULL, wait_for_signal, arg);
	usleep(100000);
	child_ready();
	for (;;)
		pause();
}

Test(freeze, no_sleeping_call_is_interrupted_by_200_freezes)
{
	pid_t pid = child_start(wait_in_calls, NULL);

	for (int i = 0; i < 200; i++) {
		cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
		/* SIGCHLD, which is ignored, interrupts nobody either. */
		if (i % 2)
			kill(pid, SIGCHLD);
		cr_assert_eq(held_release(&held), MS_OK);
	}
	usleep(10000);
	cr_expect_eq(shared->interrupted, 0);
	child_end(pid);
	(void)semctl(shared->tids[0], 0, IPC_RMID);
}

static void wait_for_handler(void *arg)
{
	struct sigaction act = { .sa_handler = count_signal };
	struct epoll_event event;

	(void)arg;
	sigaction(SIGUSR1, &act, NULL);
	child_ready();
	if (epoll_wait(epoll_create1(0), &event, 1, -1) < 0 && errno == EINTR)
		shared->interrupted = 1;
	for (;;)
		pause();
}

Test(freeze, a_handled_signal_still_interrupts)
{
	pid_t pid = child_start(wait_for_handler, NULL);

	usleep(20000);
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	kill(pid, SIGUSR1);
	cr_assert_eq(held_release(&held), MS_OK);
	cr_expect(child_waits_for(&shared->interrupted), "EINTR was swallowed");
	cr_expect_eq(shared->handled, 1);
	child_end(pid);
}

/* ---- processes that end ---- */

Test(freeze, a_process_that_is_not_there_is_gone)
{
	cr_expect_eq(held_freeze(&held, 0x3ffffff), MS_E_GONE);
}

Test(freeze, a_target_killed_before_the_freeze_is_gone)
{
	pid_t pid;

	shared->n_threads = 2;
	pid = child_start(be_sleepers, NULL);
	kill(pid, SIGKILL);
	cr_assert(comes_to(pid, 'Z'));
	cr_expect_eq(held_freeze(&held, pid), MS_E_GONE, "%s", held.err.text);
	child_end(pid);
}

Test(freeze, a_target_killed_while_frozen_does_not_hang_us)
{
	pid_t pid;

	shared->n_threads = 5;
	pid = child_start(be_sleepers, NULL);
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	kill(pid, SIGKILL);
	cr_expect_eq(held_release(&held), MS_OK);
	cr_expect_eq(waitpid(pid, NULL, 0), pid, "its parent must see it end");
}

static void *kill_soon(void *arg)
{
	usleep((useconds_t)(rand() % 2000));
	kill(*(pid_t *)arg, SIGKILL);
	return NULL;
}

Test(freeze, a_target_killed_on_the_way_is_gone_or_frozen_and_nothing_hangs)
{
	for (int i = 0; i < 30; i++) {
		enum ms_status st;
		pthread_t killer;
		pid_t pid;

		shared->n_threads = 40;
		shared->started = 0;
		pid = child_start(be_sleepers, NULL);
		pthread_create(&killer, NULL, kill_soon, &pid);
		st = held_freeze(&held, pid);
		cr_expect(st == MS_OK || st == MS_E_GONE, "%d %s", st, held.err.text);
		if (held.shared)
			(void)!held_release(&held);
		pthread_join(killer, NULL);
		cr_expect_eq(waitpid(pid, NULL, 0), pid);
	}
}

/* ---- odd processes ---- */

static void *report_ready(void *arg)
{
	shared->tids[0] = (int)syscall(SYS_gettid);
	while (ms_proc_state(getpid()) != 'Z')
		usleep(1000);
	child_ready();
	return sleep_as(arg);
}

static void end_leader(void *arg)
{
	pthread_t thread;

	(void)arg;
	shared->started = 0;
	pthread_create(&thread, NULL, report_ready, shared);
	pthread_exit(NULL);
}

Test(freeze, takes_the_threads_behind_a_zombie_leader)
{
	pid_t pid = child_start(end_leader, NULL);

	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held.shared->n_threads, 1);
	cr_expect_eq(held.shared->live_tid, shared->tids[0]);
	cr_expect_eq(held.shared->threads[0].tid, shared->tids[0]);
	cr_expect_eq(held_release(&held), MS_OK);
	child_end(pid);
}

/* The parent sleeps uninterruptibly until its child is told to go on. */
static void be_vfork_parent(void *arg)
{
	pid_t pid;

	(void)arg;
	child_ready();
	pid = vfork();
	if (!pid) {
		shared->child = (pid_t)syscall(SYS_getpid);
		for (int i = 0; i < 20000 && !shared->go; i++)
			syscall(SYS_ppoll, NULL, 0, &(struct timespec){ 0, 1000000 }, NULL, 0);
		syscall(SYS_exit, 0);
	}
	shared->done = 1;
	for (;;)
		pause();
}

Test(freeze, takes_a_vfork_parent_as_it_sleeps)
{
	pid_t pid = child_start(be_vfork_parent, NULL);

	cr_assert(comes_to(pid, 'D'));
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held.shared->n_threads, 1);
	cr_expect_eq(held.shared->n_unstopped, 1);
	cr_expect_eq(held.shared->live_tid, pid);
	cr_expect_eq(held.shared->threads[0].stopped, 0);
	cr_expect_neq(held.shared->threads[0].sp, 0);
	cr_expect_neq(held.shared->threads[0].pc, 0);
	/* It wakes while it is held, and may not run. */
	shared->go = 1;
	usleep(50000);
	cr_expect_eq(shared->done, 0);
	cr_expect_eq(held_release(&held), MS_OK);
	cr_expect(child_waits_for(&shared->done));
	child_end(pid);
}

Test(freeze, a_process_that_is_traced_already_names_its_tracer)
{
	struct held second;
	pid_t pid;

	shared->n_threads = 1;
	pid = child_start(be_sleepers, NULL);
	cr_assert_eq(held_freeze(&held, pid), MS_OK, "%s", held.err.text);
	cr_expect_eq(held_freeze(&second, pid), MS_E_DENIED);
	cr_expect(strstr(second.err.text, "is traced already"), "%s", second.err.text);
	cr_expect(second.err.advice[0]);
	(void)!held_release(&second);
	cr_expect_eq(held_release(&held), MS_OK);
	cr_expect(comes_to(pid, 'S'));
	child_end(pid);
}

/* A tracer of one thread that lets go of it and takes it again, without end. */
static void trace_now_and_then(void *arg)
{
	pid_t tid = *(const pid_t *)arg;

	child_ready();
	for (;;) {
		if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
			continue;
		(void)ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
		(void)waitpid(tid, NULL, __WALL);
		(void)ptrace(PTRACE_DETACH, tid, NULL, NULL);
	}
}

Test(freeze, a_tracer_that_comes_and_goes_is_named_or_out_of_the_way)
{
	pid_t pid, tracer, tid;

	shared->n_threads = 2;
	pid = child_start(be_sleepers, NULL);
	tid = shared->tids[0];
	tracer = child_start(trace_now_and_then, &tid);
	for (int i = 0; i < FREEZES; i++) {
		enum ms_status st = held_freeze(&held, pid);

		cr_expect(st == MS_OK || strstr(held.err.text, "is traced already"), "%s: %s",
		          held.err.text, held.err.advice);
		(void)!held_release(&held);
	}
	child_end(tracer);
	cr_expect(comes_to(pid, 'S'));
	child_end(pid);
}

static void rest(void *arg)
{
	(void)arg;
	child_ready();
	for (;;)
		pause();
}

static pid_t successor;

/* End process @pid and start one like it, with its id. */
static void replace(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&pid,
		.set_tid_size = 1,
	};

	child_end(pid);
	(void)usleep(30000); /* a start is known in ticks of 10 ms */
	successor = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (successor == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

/* It is a fork of the same parent, so all its addresses are the same. */
Test(freeze, another_process_with_the_same_id_is_not_taken_for_it)
{
	pid_t pid = child_start(rest, NULL);
	enum ms_status st;

	held_call_between(replace);
	st = held_freeze_to_clone(&held, pid);
	if (successor < 0) {
		(void)!held_release(&held);
		cr_skip_test("this user may not choose the id of a process");
	}
	cr_assert_eq(successor, pid);
	cr_expect_eq(st, MS_E_GONE, "%d", st);
	cr_expect(strstr(held.err.text, "another has its id now"), "%s", held.err.text);
	(void)!held_release(&held);
	child_end(successor);
}
