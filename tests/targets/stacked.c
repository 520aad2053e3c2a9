/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stacked THREADS BYTES [busy | same]: threads on stacks of their own, which lie side by side in
 * one block of the heap, all of it written to; BYTES each, 0: on ordinary stacks. They sleep; or
 * compute and allocate (busy); or all have the same stack pointer, as near as it goes (same).
 * Prints READY. A line "fork" of its input: prints "fork NS", the time of a fork(); any other:
 * prints "gap NS", the longest time that a thread that does nothing but read the clock stood still
 * since the line before. Ends with its input, status 0.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define NEAR 1024 /* what lies between two stack pointers that are the same */

static char *heap;
static size_t stack_bytes;
static int busy, same, n;
static _Atomic uint64_t longest;
static atomic_int n_begun;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Urgent, so that it stands when it is stopped, and not when others have the processors. */
static void *read_clock(void *arg)
{
	uint64_t last = now();

	(void)arg;
	(void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -20);
	for (;;) {
		uint64_t at = now();

		if (at - last > atomic_load(&longest))
			atomic_store(&longest, at - last);
		last = at;
	}
	return NULL;
}

static void live(void)
{
	atomic_fetch_add(&n_begun, 1);
	while (!busy)
		pause();
	for (;;) {
		char *volatile block = malloc(1000);

		memset(block, 1, 1000);
		free(block);
	}
}

/* glibc's thread stays the same, on another stack. */
static void *go_elsewhere(void *arg)
{
	ucontext_t there, here;

	if (!stack_bytes)
		live();
	getcontext(&there);
	there.uc_stack.ss_sp = heap + (uintptr_t)arg * (same ? NEAR : stack_bytes);
	there.uc_stack.ss_size = same ? 4 * NEAR : stack_bytes;
	there.uc_link = &here;
	makecontext(&there, live, 0);
	swapcontext(&here, &there);
	return NULL;
}

static void time_fork(void)
{
	uint64_t since = now();
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	printf("fork %llu\n", (unsigned long long)(now() - since));
	(void)waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t thread;
	char line[64];
	size_t bytes;

	if (argc < 3)
		return 2;
	n = atoi(argv[1]);
	stack_bytes = (size_t)atol(argv[2]);
	busy = argc > 3 && !strcmp(argv[3], "busy");
	same = argc > 3 && !strcmp(argv[3], "same");
	bytes = ((size_t)n + 1) * stack_bytes;
	heap = malloc(bytes);
	memset(heap, 1, bytes);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	pthread_create(&thread, NULL, read_clock, NULL);
	for (intptr_t i = 0; i < n; i++)
		if (pthread_create(&thread, &attr, go_elsewhere, (void *)i))
			return 1;
	while (atomic_load(&n_begun) < n)
		usleep(1000);
	puts("READY");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "fork\n"))
			time_fork();
		else
			printf("gap %llu\n", (unsigned long long)atomic_exchange(&longest, 0));
		fflush(stdout);
	}
	return 0;
}
