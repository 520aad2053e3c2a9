/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * leave HOW [WHO]: makes leaks and leaves at once in the way HOW, for memscan run. WHO
 * else is there at that time: "sleepers", which hold blocks on their stacks and in a
 * register; "workers", which are in malloc all the time; or "ballast", which is no thread
 * but some 30 MiB of blocks; or "io_uring", a thread that the kernel has in the process.
 */
#include "truth.h"

#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { N_THREADS = 6, STATUS = 7 };

extern char **environ;

static pthread_barrier_t barrier;
static void *volatile kept;

static void *sleep_on(void *unused)
{
	void *volatile held = fresh(1234);

	(void)unused;
	tell("live", held);
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void *work(void *unused)
{
	void *blocks[64] = { NULL };

	(void)unused;
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0;; i++) {
		free(blocks[i % 64]);
		blocks[i % 64] = malloc(i * 37 % 5000);
	}
	return NULL;
}

static void start(void *(*body)(void *))
{
	pthread_t id;

	pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
	for (int i = 0; i < N_THREADS; i++)
		pthread_create(&id, NULL, body, NULL);
	pthread_barrier_wait(&barrier);
}

/* A list of blocks that are alive, more than is copied to be scanned. */
static void load(void)
{
	static void *volatile list;

	for (int i = 0; i < 400000; i++) {
		void **block = fresh(240);

		block[0] = list;
		list = block;
	}
}

NOINLINE static void make(void)
{
	void **parent = fresh(64);

	for (size_t i = 1; i < 30; i++)
		leak(i * 40);
	leak(300000);
	parent[0] = fresh(100);
	tell("leak", parent[0]);
	tell("leak", parent);
	kept = fresh(500);
	tell("live", kept);
}

static void *leave_later(void *unused)
{
	(void)unused;
	usleep(20000);
	leak(777);
	forget();
	exit(STATUS);
}

static void *end_later(void *unused)
{
	(void)unused;
	usleep(20000);
	leak(778);
	forget();
	return NULL;
}

static void *become_true(void *unused)
{
	(void)unused;
	execl("/bin/true", "true", NULL);
	_exit(98);
}

static void by_thread(void *(*body)(void *))
{
	pthread_t id;

	pthread_create(&id, NULL, body, NULL);
	id = 0;
	forget();
	pthread_exit(NULL);
}

static void by_vfork(void)
{
	for (int i = 0; i < 5; i++) {
		pid_t child = vfork();
		int status;

		if (child == 0)
			_exit(3);
		if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3)
			_exit(96);
	}
}

static void by_spawn(void)
{
	char *argv[] = { "true", NULL };
	pid_t child;
	int status;

	if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) != 0 ||
	    waitpid(child, &status, 0) != child || status != 0)
		_exit(96);
}

static void by_fork(void)
{
	int status;

	fflush(NULL);
	if (fork() == 0) {
		leak(4444);
		forget();
		_exit(0);
	}
	wait(&status);
}

/* A process of the kind that PTRACE_O_TRACECLONE attaches to as well. */
static void by_clone(void)
{
	int status;
	long child = syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);

	if (child == 0)
		syscall(SYS_exit_group, 5);
	if (waitpid((pid_t)child, &status, __WALL) != child || WEXITSTATUS(status) != 5)
		_exit(96);
}

/* A debugger of its own child. */
static void by_tracing(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(5);
	}
	if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		_exit(95);
	ptrace(PTRACE_CONT, child, NULL, NULL);
	if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5)
		_exit(96);
}

/* Have a worker of the kernel's: a read of an empty pipe that was to be asynchronous. */
static void start_io_uring(void)
{
	struct io_uring_params params = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, 4, &params);
	int ends[2];
	unsigned *index, *tail, *mask;
	struct io_uring_sqe *entries;
	static char byte;
	char *ring;

	if (fd < 0 || pipe(ends) != 0)
		_exit(77);
	ring = mmap(NULL, params.sq_off.array + params.sq_entries * sizeof(unsigned),
	            PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
	entries = mmap(NULL, params.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE,
	               MAP_SHARED, fd, IORING_OFF_SQES);
	if (ring == MAP_FAILED || entries == MAP_FAILED)
		_exit(77);
	entries[0].opcode = IORING_OP_READ;
	entries[0].flags = IOSQE_ASYNC;
	entries[0].fd = ends[0];
	entries[0].addr = (uintptr_t)&byte;
	entries[0].len = 1;
	index = (unsigned *)(ring + params.sq_off.array);
	tail = (unsigned *)(ring + params.sq_off.tail);
	mask = (unsigned *)(ring + params.sq_off.ring_mask);
	index[*tail & *mask] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0) != 1)
		_exit(77);
	usleep(50000);
}

static void ignore(int number)
{
	(void)number;
}

/* Signals that end nothing: caught, ignored, blocked, without effect. */
static void survive_signals(void)
{
	sigset_t set;

	signal(SIGUSR1, ignore);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	raise(SIGUSR2);
	raise(SIGTERM);
	raise(SIGCHLD);
	raise(SIGWINCH);
	raise(SIGCONT);
}

static void die_by(int number)
{
	raise(number);
	_exit(94);
}

static void leave(const char *how)
{
	if (strcmp(how, "exit") == 0)
		exit(STATUS);
	if (strcmp(how, "_exit") == 0)
		_exit(STATUS);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(STATUS);
	if (strcmp(how, "exit_group") == 0)
		syscall(SYS_exit_group, STATUS);
	if (strcmp(how, "exit_call") == 0)
		syscall(SYS_exit, STATUS);
	if (strcmp(how, "pthread_exit") == 0)
		pthread_exit(NULL);
	if (strcmp(how, "thread") == 0)
		by_thread(leave_later);
	if (strcmp(how, "last_thread") == 0)
		by_thread(end_later);
	if (strcmp(how, "exec_thread") == 0)
		by_thread(become_true);
	if (strcmp(how, "exec") == 0)
		become_true(NULL);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "fault") == 0)
		*(volatile int *)8 = 1;
	if (how[0] == '-')
		die_by(atoi(how + 1));
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "return";
	const char *who = argc > 2 ? argv[2] : "";

	if (strcmp(who, "sleepers") == 0)
		start(sleep_on);
	if (strcmp(who, "workers") == 0)
		start(work);
	if (strcmp(who, "io_uring") == 0)
		start_io_uring();
	if (strcmp(who, "ballast") == 0)
		load();
	if (strcmp(how, "signals") == 0)
		survive_signals();
	make();
	if (strcmp(how, "fork") == 0)
		by_fork();
	if (strcmp(how, "vfork") == 0)
		by_vfork();
	if (strcmp(how, "spawn") == 0)
		by_spawn();
	if (strcmp(how, "clone") == 0)
		by_clone();
	if (strcmp(how, "tracing") == 0)
		by_tracing();
	forget();
	leave(how);
	return STATUS;
}
