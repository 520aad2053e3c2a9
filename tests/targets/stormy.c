/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * stormy MODE: a program that allocates without rest and checks what it gets, while
 *
 *	loops     four threads do nothing else
 *	single    one thread does
 *	forks     children are forked, allocate, and are waited for
 *	spawns    programs are started by posix_spawn(), which is vfork()
 *	threads   threads with small stacks come and go
 *	signals   a timer's signals come, on a stack of their own every other time
 *	routines  two threads switch between coroutines, on stacks from malloc and from mmap
 *	many      2,000 threads allocate now and then
 *	sleeps    nothing happens: the one thread is in poll()
 *	filtered  the same, and the kernel would end it at a call of mmap()
 *	naps      as single; when a byte comes a signal's handler waits for another, says NAP
 *	          first and WOKE afterwards. It interrupts malloc
 *	naps_apart  the same, on a signal's stack
 *
 * Prints READY, then "beat N" with the number of rounds, until standard input ends; WRONG and
 * what when a block has not what was written to it. Status 0, or 3 when something was wrong.
 * With musl there are no coroutines, and the kernel's headers are not at hand.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <ucontext.h>
#endif

enum { LIVE = 64, THREADS = 4, SMALL_STACK = 16384 + 4096, BEAT_MS = 20, CHILD_ROUNDS = 300 };
enum { ROUTINES = 8, ROUTINE_STACK = 32768, MANY = 2000, MOST_NAP_US = 1000000 };

extern char **environ;
static atomic_ulong rounds, storms;
static volatile sig_atomic_t n_signals;

static _Noreturn void wrong(const char *what)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "WRONG %s\n", what);

	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		_exit(4);
	_exit(3);
}

struct block {
	unsigned char *at;
	size_t size;
	unsigned char mark;
};

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *state >> 33;
}

static void check(const struct block *block)
{
	if (block->at && (block->at[0] != block->mark || block->at[block->size - 1] != block->mark))
		wrong("a block was overwritten");
}

/* A block by one of the functions that make them; the old one is freed or moved. */
static void replace(struct block *block, unsigned how, size_t size)
{
	unsigned char *at = NULL;

	check(block);
	if (how == 0) {
		at = realloc(block->at, size);
		if (at && block->at && at[0] != block->mark)
			wrong("realloc() lost what was in a block");
		block->at = NULL;
	} else if (how == 1) {
		at = calloc(size, 1);
		if (at && (at[0] || at[size - 1]))
			wrong("calloc() gave a block that is not empty");
	} else if (how == 2) {
		if (posix_memalign((void **)&at, 256, size) || (uintptr_t)at % 256)
			wrong("posix_memalign()");
	} else if (how == 3) {
		at = aligned_alloc(64, (size + 63) / 64 * 64);
	} else if (how == 4) {
		at = memalign(128, size);
	} else {
		at = malloc(size);
	}
	if (!at || malloc_usable_size(at) < size)
		wrong("no memory, or too little");
	free(block->at);
	block->at = at;
	block->size = size;
	block->mark = (unsigned char)(size ^ how);
	at[0] = at[size - 1] = block->mark;
}

static void allocate(uint64_t state, unsigned long n)
{
	struct block live[LIVE] = { { 0 } };

	for (unsigned long i = 0; i < n; i++) {
		uint64_t random = next_random(&state);
		size_t size = 1 + (random >> 12) % ((random >> 8) % 64 ? 700 : 200000);

		replace(&live[random % LIVE], (unsigned)(random >> 6) % 12, size);
		atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
	}
	for (unsigned i = 0; i < LIVE; i++) {
		check(&live[i]);
		free(live[i].at);
	}
}

static void *loop(void *arg)
{
	for (uint64_t seed = (uintptr_t)arg;; seed += THREADS)
		allocate(seed, 10000);
	return NULL;
}

static void *briefly(void *arg)
{
	allocate((uintptr_t)arg, 20);
	return NULL;
}

static void fork_one(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		allocate((uint64_t)getpid(), CHILD_ROUNDS);
		_exit(7);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		wrong("fork() or waitpid()");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
		wrong("a child did not end as it should");
}

static void spawn_one(void)
{
	char *argv[] = { (char *)"true", NULL };
	pid_t child;
	int status;

	if (posix_spawnp(&child, "true", NULL, NULL, argv, environ) ||
	    waitpid(child, &status, 0) != child || status)
		wrong("posix_spawn()");
}

static void thread_storm(void)
{
	pthread_attr_t small;
	pthread_t threads[THREADS];

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, SMALL_STACK);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], &small, briefly, (void *)(i + 1)))
			wrong("pthread_create()");
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_attr_destroy(&small);
}

static void on_signal(int number)
{
	volatile unsigned char deep[512];

	memset((void *)deep, number, sizeof(deep));
	n_signals++;
	if (deep[100] != (unsigned char)number)
		wrong("a handler's stack");
}

static void give_signals_a_stack(void)
{
	static char space[64 << 10];
	const stack_t stack = { .ss_sp = space, .ss_size = sizeof(space) };

	sigaltstack(&stack, NULL);
}

static void start_signals(void)
{
	const struct sigaction plain = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	const struct sigaction apart = { .sa_handler = on_signal,
		                         .sa_flags = SA_RESTART | SA_ONSTACK };
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	const struct itimerval worked = { { 0, 1300 }, { 0, 1300 } };

	give_signals_a_stack();
	sigaction(SIGALRM, &plain, NULL);
	sigaction(SIGPROF, &apart, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	setitimer(ITIMER_PROF, &worked, NULL);
}

static void say(const char *word)
{
	size_t n = strlen(word);

	if (write(STDOUT_FILENO, word, n) != (ssize_t)n)
		_exit(4);
}

/* By a signal for input that comes. */
static void on_input(int number)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char byte;

	(void)number;
	/* The second byte has a signal, too. */
	if (poll(&input, 1, 0) <= 0)
		return;
	if (read(STDIN_FILENO, &byte, 1) <= 0)
		_exit(0);
	say("NAP\n");
	if (read(STDIN_FILENO, &byte, 1) <= 0)
		_exit(0);
	say("WOKE\n");
}

static _Noreturn void nap(int flags)
{
	const struct sigaction action = { .sa_handler = on_input, .sa_flags = SA_RESTART | flags };
	char line[80];

	give_signals_a_stack();
	sigaction(SIGIO, &action, NULL);
	fcntl(STDIN_FILENO, F_SETOWN, getpid());
	fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_ASYNC);
	for (unsigned long i = 0;; i++) {
		for (int n = 0; n < 100000; n++) {
			void *volatile kept = malloc(1000); /* or the compiler leaves both out */

			free(kept);
		}
		snprintf(line, sizeof(line), "beat %lu storm 0 signal 0\n", i + 1);
		say(line);
	}
}

static void *storm(void *arg)
{
	const char *mode = arg;

	for (;; atomic_fetch_add(&storms, 1)) {
		if (!strcmp(mode, "forks"))
			fork_one();
		else if (!strcmp(mode, "spawns"))
			spawn_one();
		else
			thread_storm();
	}
	return NULL;
}

static void start(void *(*body)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, arg))
		wrong("pthread_create()");
}

#ifdef __GLIBC__
static void forbid_mmap(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		wrong("seccomp");
}

/* ---- coroutines ---- */

struct routine {
	ucontext_t own, caller;
	struct block live[LIVE];
	uint64_t state;
};

/* Its blocks live on while others run, whose stacks may be such blocks. */
static void routine(unsigned low, unsigned high)
{
	struct routine *r = (struct routine *)((uintptr_t)high << 32 | low);

	for (;;) {
		uint64_t random = next_random(&r->state);

		replace(&r->live[random % LIVE], (unsigned)(random >> 6) % 12,
		        1 + (random >> 12) % 700);
		atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
		if (swapcontext(&r->own, &r->caller))
			wrong("swapcontext()");
	}
}

static void make_routine(struct routine *r, unsigned i)
{
	uintptr_t at = (uintptr_t)r;
	void *stack = i % 2 ? malloc(ROUTINE_STACK)
	                    : mmap(NULL, ROUTINE_STACK, PROT_READ | PROT_WRITE,
	                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!stack || stack == MAP_FAILED || getcontext(&r->own))
		wrong("a coroutine's stack");
	r->state = i;
	r->own.uc_stack = (stack_t){ .ss_sp = stack, .ss_size = ROUTINE_STACK };
	makecontext(&r->own, (void (*)(void))routine, 2, (unsigned)at, (unsigned)(at >> 32));
}

static void *switch_about(void *arg)
{
	struct routine *all = calloc(ROUTINES, sizeof(*all));
	uint64_t state = (uintptr_t)arg;

	for (unsigned i = 0; i < ROUTINES; i++)
		make_routine(&all[i], i);
	for (;; atomic_fetch_add(&storms, 1)) {
		struct routine *r = &all[next_random(&state) % ROUTINES];

		if (swapcontext(&r->caller, &r->own))
			wrong("swapcontext()");
	}
	return NULL;
}
#else
static void forbid_mmap(void)
{
	wrong("seccomp");
}

static void *switch_about(void *arg)
{
	(void)arg;
	wrong("coroutines");
}
#endif

/* ---- threads that live on ---- */

static void *now_and_then(void *arg)
{
	uint64_t state = (uintptr_t)arg;

	for (;;) {
		allocate(state, 5);
		usleep((useconds_t)(next_random(&state) % MOST_NAP_US));
	}
	return NULL;
}

static void start_many(void)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 4 * SMALL_STACK);
	for (uintptr_t i = 0; i < MANY; i++)
		if (pthread_create(&thread, &small, now_and_then, (void *)i))
			wrong("pthread_create()");
	pthread_attr_destroy(&small);
}

/* Beat until the input ends. The main thread allocates, too, unless it is to sleep. */
static void beat(const char *mode)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[80];
	char byte;
	int wait = !strcmp(mode, "single") || !strcmp(mode, "signals") ? 0 : BEAT_MS;

	for (unsigned long i = 0;; i++) {
		int n = poll(&input, 1, wait);

		if (n > 0 && read(STDIN_FILENO, &byte, 1) <= 0)
			return;
		if (!wait)
			allocate(i, 10000);
		n = snprintf(line, sizeof(line), "beat %lu storm %lu signal %d\n",
		             atomic_load(&rounds), atomic_load(&storms), (int)n_signals);
		if (write(STDOUT_FILENO, line, (size_t)n) != n)
			return;
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "loops";

	signal(SIGPIPE, SIG_IGN);
	if (!strcmp(mode, "loops"))
		for (uintptr_t i = 1; i <= THREADS; i++)
			start(loop, (void *)i);
	else if (!strcmp(mode, "forks") || !strcmp(mode, "spawns") || !strcmp(mode, "threads"))
		start(storm, argv[1]);
	if (!strcmp(mode, "forks") || !strcmp(mode, "threads") || !strcmp(mode, "spawns"))
		start(loop, (void *)1);
	if (!strcmp(mode, "routines"))
		for (uintptr_t i = 1; i <= THREADS / 2; i++)
			start(switch_about, (void *)i);
	if (!strcmp(mode, "many"))
		start_many();
	if (!strcmp(mode, "signals"))
		start_signals();
	if (!strcmp(mode, "filtered"))
		forbid_mmap();
	puts("READY");
	fflush(stdout);
	if (!strncmp(mode, "naps", 4))
		nap(strcmp(mode, "naps") ? SA_ONSTACK : 0);
	beat(mode);
	_exit(0);
}
