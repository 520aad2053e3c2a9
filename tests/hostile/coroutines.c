/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coroutines: the main thread and others wait on stacks that only they know: in memory from
 * malloc, in a mapping of their own, and in the mapping of the thread's own stack below it; with
 * live data directly below each. The frames that they left hold pointers, too.
 *
 * Prints "READY" when all wait; with the end of its input "changed N", status 0 or 1.
 */
#define _GNU_SOURCE
#include "held.h"

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

enum {
	WAYS = 3,
	STACK = 128 << 10,
	DATA = 16 << 10,
	FRAME = 8 << 10,
};

static struct place {
	char below[DATA];
	char stack[STACK];
	char between[DATA];
	char thread[STACK];
} * places[WAYS + 1];

static struct held below[WAYS + 1];
static struct held between[WAYS + 1];

static void handle(int signal)
{
	(void)signal;
}

static void run(int i)
{
	wait_deep(places[i]->stack);
}

/* Switch to the coroutine, from a frame that holds something. */
static void __attribute__((noinline)) leave(size_t i)
{
	uintptr_t words[FRAME / sizeof(uintptr_t)];
	ucontext_t here;
	ucontext_t there;
	struct held held;

	fill(&held, words, sizeof(words));
	getcontext(&there);
	there.uc_stack = (stack_t){ .ss_sp = places[i]->stack, .ss_size = STACK };
	there.uc_link = &here;
	makecontext(&there, (void (*)(void))run, 1, (int)i);
	swapcontext(&here, &there);
	check(&held);
}

static void *thread(void *arg)
{
	leave((uintptr_t)arg);
	return NULL;
}

static void make_place(size_t i)
{
	places[i] = i == 1 ? malloc(sizeof(*places[i]))
	                   : mmap(NULL, sizeof(*places[i]), PROT_READ | PROT_WRITE,
	                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (i == 1)
		memset(places[i], 0, sizeof(*places[i]));
	fill(&below[i], places[i]->below, DATA);
	fill(&between[i], places[i]->between, DATA);
}

static void *watch(void *arg)
{
	char byte;

	while (atomic_load(&ready) < WAYS + 1)
		usleep(1000);
	puts("READY");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	atomic_store(&ending, 1);
	return arg;
}

int main(void)
{
	const struct sigaction act = { .sa_handler = handle };
	pthread_t ids[WAYS];
	pthread_attr_t attr;
	pthread_t reader;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGUSR2, &act, NULL);
	for (size_t i = 0; i <= WAYS; i++)
		make_place(i);
	for (size_t i = 0; i < WAYS; i++) {
		pthread_attr_init(&attr);
		if (i == 2)
			pthread_attr_setstack(&attr, places[i]->thread, STACK);
		if (pthread_create(&ids[i], &attr, thread, (void *)(uintptr_t)i))
			abort();
		pthread_attr_destroy(&attr);
	}
	if (pthread_create(&reader, NULL, watch, NULL))
		abort();
	leave(WAYS);
	pthread_join(reader, NULL);
	for (size_t i = 0; i < WAYS; i++)
		pthread_join(ids[i], NULL);
	for (size_t i = 0; i <= WAYS; i++) {
		check(&below[i]);
		check(&between[i]);
	}
	return tell();
}
