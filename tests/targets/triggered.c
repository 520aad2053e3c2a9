/* SPDX-License-Identifier: Apache-2.0 */
/*
 * triggered MODE [BLOCKS]: a program with two leaks that works on while it is triggered
 * and checks itself; BLOCKS live ones besides make a search of it last. It takes commands,
 * a line each, and ends with its input: status 0 when all was well and it has no child
 * that it does not know of.
 *
 *	fork     fork a child that idles, too; prints "child PID"
 *	vfork    another thread does, and its child idles for a while; prints "child PID"
 *	exit     end at once
 *	count    print how often its own handler of the signal was called
 *	grow     have 48 MiB more in memory; prints "grown 0"
 *	leave    go to the folder /; prints "left 0"
 *	free     print "free N", the lowest descriptor that is free
 */
#include "truth.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { TRIGGER = 35, THREADS = 3, CHILD_STATUS = 7, FDS = 64, SENTINEL = 4321, SPELL_S = 3 };

bool memunreachable_install_handler(void) __attribute__((weak));
extern char **environ;

static volatile sig_atomic_t over, called;
static pthread_t threads[THREADS];
static int n_threads;
static int tube[2];
static void **blocks;

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "triggered: %s (errno %d)\n", what, errno);
	_exit(9);
}

static void go(void *(*work)(void *), size_t stack_bytes)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	if (stack_bytes)
		must(!pthread_attr_setstacksize(&attr, stack_bytes), "stack size");
	must(!pthread_create(&threads[n_threads++], &attr, work, NULL), "thread");
	pthread_attr_destroy(&attr);
}

static void mask_trigger(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, TRIGGER);
	pthread_sigmask(how, &set, NULL);
}

/* ---- what the threads do ---- */

static void *allocate(void *arg)
{
	enum { SLOTS = 64 };
	unsigned char *slots[SLOTS] = { 0 };
	size_t sizes[SLOTS] = { 0 };
	unsigned seed = 12345;

	while (!over) {
		unsigned i = (seed = seed * 1103515245 + 12345) >> 16 & (SLOTS - 1);

		if (slots[i])
			must(slots[i][0] == i && slots[i][sizes[i] - 1] == i, "a block changed");
		free(slots[i]);
		sizes[i] = (seed >> 8) % 5000 + 1;
		slots[i] = malloc(sizes[i]);
		memset(slots[i], (int)i, sizes[i]);
	}
	for (int i = 0; i < SLOTS; i++)
		free(slots[i]);
	return arg;
}

static void reap(pid_t child, int expected)
{
	int status = 0;
	pid_t pid;

	must(child > 0, "no child");
	while ((pid = waitpid(-1, &status, 0)) < 0 && errno == EINTR)
		;
	must(pid == child, "waitpid() saw a child of nobody");
	must(WIFEXITED(status) && WEXITSTATUS(status) == expected, "a child's status");
}

static void *start_children(void *arg)
{
	char name[] = "/bin/true";
	char *argv[] = { name, NULL };

	while (!over) {
		pid_t child = fork();

		if (!child)
			_exit(CHILD_STATUS);
		reap(child, CHILD_STATUS);
		child = vfork();
		if (!child)
			_exit(CHILD_STATUS);
		reap(child, CHILD_STATUS);
		must(!posix_spawn(&child, name, NULL, NULL, argv, environ), "posix_spawn");
		reap(child, 0);
	}
	return arg;
}

/* Fails only as it should, and keeps errno else; never EINTR where SA_RESTART holds. */
static void *call(void *arg)
{
	char byte;

	mask_trigger(SIG_UNBLOCK);
	while (!over) {
		errno = SENTINEL;
		for (volatile int i = 0; i < 1000000; i++)
			;
		__asm__ volatile("" : : : "memory");
		must(errno == SENTINEL, "errno was not kept");
		must(close(-1) < 0 && errno == EBADF, "close");
		must(read(tube[0], &byte, 1) == 1, "read");
		must(open("/nonexistent", O_RDONLY) < 0 && errno == ENOENT, "open");
	}
	return arg;
}

static void *feed(void *arg)
{
	const struct timespec pause = { 0, 2000000 };

	while (!over) {
		must(write(tube[1], "x", 1) == 1, "write");
		nanosleep(&pause, NULL);
	}
	return arg;
}

static void *take_alone(void *arg)
{
	const struct timespec pause = { 0, 2000000 };

	mask_trigger(SIG_UNBLOCK);
	while (!over)
		nanosleep(&pause, NULL);
	return arg;
}

static void *take_on_altstack(void *arg)
{
	enum { CANARY = 0x5a };
	size_t size = (size_t)getauxval(AT_MINSIGSTKSZ) + 2048;
	unsigned char *memory = malloc(size + 256);
	stack_t stack = { .ss_sp = memory + 256, .ss_size = size };

	memset(memory, CANARY, 256);
	must(!sigaltstack(&stack, NULL), "sigaltstack");
	take_alone(arg);
	for (int i = 0; i < 256; i++)
		must(memory[i] == CANARY, "the alternate stack was too small");
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	free(memory);
	return arg;
}

static uint32_t checksum(void)
{
	uint32_t hash = 2166136261U;

	for (uint32_t i = 0; i < 2000000; i++)
		hash = (hash ^ (i & 255)) * 16777619U;
	return hash;
}

static void use_up_descriptors(void)
{
	const struct rlimit limit = { FDS, FDS };

	must(!setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
	while (dup(0) >= 0)
		;
	must(errno == EMFILE, "descriptors are left");
}

static void own_handler(int number)
{
	(void)number;
	called = called + 1;
}

/* ---- commands ---- */

static void say_number(const char *what, long n)
{
	char line[64];

	snprintf(line, sizeof(line), "%s %ld\n", what, n);
	say_text(line);
}

static void fork_one(void)
{
	pid_t child = fork();

	if (child) {
		say_number("child", child);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void *vfork_one(void *arg)
{
	const struct timespec spell = { SPELL_S, 0 };
	struct timespec left = spell;
	pid_t child = vfork();

	if (!child) {
		say_number("child", getpid());
		while (nanosleep(&left, &left))
			;
		_exit(0);
	}
	waitpid(child, NULL, 0);
	return arg;
}

static void grow(void)
{
	enum { BYTES = 48 << 20 };
	void *more = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	must(more != MAP_FAILED, "mmap");
	say_number("grown", 0);
}

static bool obey(const char *line)
{
	int fd;

	if (!strcmp(line, "fork\n")) {
		fork_one();
	} else if (!strcmp(line, "vfork\n")) {
		go(vfork_one, 0);
	} else if (!strcmp(line, "count\n")) {
		say_number("count", called);
	} else if (!strcmp(line, "free\n")) {
		fd = dup(0);
		say_number("free", fd);
		close(fd);
	} else if (!strcmp(line, "grow\n")) {
		grow();
	} else if (!strcmp(line, "leave\n")) {
		say_number("left", chdir("/"));
	} else {
		return false;
	}
	return true;
}

/* A line of standard input, without buffers; false at its end. */
static bool read_line(char *line, size_t size)
{
	size_t n = 0;

	while (n + 1 < size) {
		ssize_t got = read(STDIN_FILENO, line + n, 1);

		if (got <= 0)
			return false;
		if (line[n++] == '\n')
			break;
	}
	line[n] = '\0';
	return true;
}

/* Until its input says something. */
static void compute(void)
{
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
	uint32_t right = checksum();

	while (poll(&in, 1, 0) <= 0)
		must(checksum() == right, "a wrong checksum");
}

/* ---- the program ---- */

static void start(const char *mode)
{
	if (!strcmp(mode, "malloc")) {
		for (int i = 0; i < THREADS; i++)
			go(allocate, 0);
	} else if (!strcmp(mode, "forks")) {
		go(start_children, 0);
	} else if (!strcmp(mode, "calls")) {
		must(!pipe(tube), "pipe");
		mask_trigger(SIG_BLOCK); /* it is the calling thread's */
		go(call, 0);
		go(feed, 0);
	} else if (!strcmp(mode, "tiny")) {
		mask_trigger(SIG_BLOCK);
		go(take_alone, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	} else if (!strcmp(mode, "altstack")) {
		mask_trigger(SIG_BLOCK);
		go(take_on_altstack, 0);
	} else if (!strcmp(mode, "fds")) {
		use_up_descriptors();
	} else if (!strcmp(mode, "own")) {
		signal(TRIGGER, own_handler);
	} else {
		must(!strcmp(mode, "idle") || !strcmp(mode, "compute"), "no such mode");
	}
}

static void make_blocks(size_t n)
{
	blocks = calloc(n + 1, sizeof(*blocks));
	for (size_t i = 0; i < n; i++)
		blocks[i] = fresh(48);
}

static NOINLINE void plant(void)
{
	leak(3000);
	leak(70);
}

/* In a child, before the library knows that it is one: its handler of forks comes later. */
static void raise_trigger(void)
{
	(void)raise(SIGRTMIN + 1);
}

__attribute__((constructor(101))) static void come_before_the_library(void)
{
	if (getenv("RAISE_IN_CHILD"))
		must(!pthread_atfork(NULL, NULL, raise_trigger), "no handler of forks");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "idle";
	char line[32];

	if (memunreachable_install_handler && getenv("INSTALL_HANDLER") &&
	    *getenv("INSTALL_HANDLER"))
		must(memunreachable_install_handler(), "no handler");
	make_blocks(argc > 2 ? strtoul(argv[2], NULL, 10) : 0);
	plant();
	forget();
	start(mode);
	forget();
	say_text("READY\n");
	if (!strcmp(mode, "compute"))
		compute();
	while (read_line(line, sizeof(line)) && obey(line))
		;
	if (!strcmp(line, "exit\n"))
		_exit(0);
	over = 1;
	must(!tube[1] || write(tube[1], "x", 1) == 1, "write");
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	must(waitpid(-1, NULL, __WALL | WNOHANG) < 0 && errno == ECHILD, "a child is left");
	return 0;
}
