/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setstack: threads on stacks of their own making, in the middle of a mapping that holds live
 * data on both sides; threads in a handler on a signal stack that lies in a frame of their own
 * stack, with live frames directly below; the stack of a thread that ended, holding data since.
 * All of them wait on the last bytes that their stack has.
 *
 * Prints "READY" when all wait; with the end of its input "changed N", status 0 or 1.
 */
#define _GNU_SOURCE
#include "held.h"

#include <pthread.h>
#include <sys/mman.h>

enum {
	THREADS = 4,
	STACK = 128 << 10,
	DATA = 16 << 10,
	SIGNAL_STACK = 64 << 10,
	FRAME = 8 << 10,
};

/* Nothing else points to the mapping, or into it. */
static struct mapping {
	char below[DATA];
	char stack[STACK];
	char above[DATA];
} * mappings[THREADS + 1];

static struct held below[THREADS + 1];
static struct held above[THREADS + 1];
static struct held inside;

static __thread const char *signal_stack;

static void handle(int signal)
{
	(void)signal;
	wait_deep(signal_stack);
}

static void __attribute__((noinline)) interrupted(void)
{
	uintptr_t words[FRAME / sizeof(uintptr_t)];
	struct held held;

	fill(&held, words, sizeof(words));
	raise(SIGUSR2);
	check(&held);
}

/* Wait in a handler, on a stack above the frame that it interrupts. */
static void __attribute__((noinline)) wait_in_handler(void)
{
	char place[SIGNAL_STACK];
	stack_t stack = { .ss_sp = place, .ss_size = sizeof(place) };

	signal_stack = place;
	sigaltstack(&stack, NULL);
	interrupted();
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
}

static void *thread(void *arg)
{
	size_t i = (uintptr_t)arg;

	if (i == THREADS)
		return NULL;
	if (i % 2)
		wait_in_handler();
	else
		wait_deep(mappings[i]->stack);
	return NULL;
}

static pthread_t start(size_t i)
{
	pthread_attr_t attr;
	pthread_t id;

	mappings[i] = mmap(NULL, sizeof(*mappings[i]), PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fill(&below[i], mappings[i]->below, DATA);
	fill(&above[i], mappings[i]->above, DATA);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, mappings[i]->stack, STACK);
	if (pthread_create(&id, &attr, thread, (void *)(uintptr_t)i))
		abort();
	pthread_attr_destroy(&attr);
	return id;
}

static void *read_input(void *arg)
{
	char byte;

	while (read(0, &byte, 1) > 0)
		;
	atomic_store(&ending, 1);
	return arg;
}

static void *watch(void *arg)
{
	while (atomic_load(&ready) < THREADS + 1)
		usleep(1000);
	puts("READY");
	fflush(stdout);
	return read_input(arg);
}

int main(void)
{
	const struct sigaction act = { .sa_handler = handle, .sa_flags = SA_ONSTACK };
	pthread_t ids[THREADS + 1];
	pthread_t reader;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGUSR2, &act, NULL);
	for (size_t i = 0; i <= THREADS; i++)
		ids[i] = start(i);
	pthread_join(ids[THREADS], NULL);
	fill(&inside, mappings[THREADS]->stack, STACK / 2);
	if (pthread_create(&reader, NULL, watch, NULL))
		abort();
	wait_in_handler();
	pthread_join(reader, NULL);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	for (size_t i = 0; i <= THREADS; i++) {
		check(&below[i]);
		check(&above[i]);
	}
	check(&inside);
	return tell();
}
