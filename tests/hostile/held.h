/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that keep live data next to their stacks: words that are the only pointers
 * to blocks, and that must stay as they are.
 */
#ifndef HELD_H
#define HELD_H

#include <alloca.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCK = 48,
	LEFT = 1200, /* bytes that a thread leaves free of the stack that it waits on */
	WAIT_MS = 10,
};

static atomic_int ending;
static atomic_int ready;
static atomic_int changed; /* words */

struct held {
	uintptr_t *words;
	size_t n;
	uintptr_t sum;
};

static inline uintptr_t sum_of(const struct held *held)
{
	volatile uintptr_t sum = 0;

	for (size_t i = 0; i < held->n; i++)
		sum = sum * 31 + ((volatile uintptr_t *)held->words)[i];
	return sum;
}

static inline void fill(struct held *held, void *at, size_t bytes)
{
	held->words = at;
	held->n = bytes / sizeof(uintptr_t);
	for (size_t i = 0; i < held->n; i++) {
		char *block = malloc(BLOCK);

		memset(block, 'h', BLOCK);
		held->words[i] = (uintptr_t)block;
	}
	held->sum = sum_of(held);
}

static inline void check(const struct held *held)
{
	if (sum_of(held) != held->sum)
		atomic_fetch_add(&changed, 1);
}

/* Wait a moment, by a call whose time-out is in memory. */
static inline void wait_once(void)
{
	const struct timespec moment = { 0, WAIT_MS * 1000000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	if (sigtimedwait(&set, NULL, &moment) >= 0)
		abort();
}

/*
 * Go down to the last bytes of the stack that begins at @begin, and wait there. What
 * is called there is called before: to find a function takes more stack than it does.
 */
static void __attribute__((noinline, unused)) wait_deep(const char *begin)
{
	char *here = __builtin_frame_address(0);
	char *hole;

	wait_once();
	hole = alloca((size_t)(here - begin) - LEFT);
	__asm__ volatile("" ::"r"(hole) : "memory");
	atomic_fetch_add(&ready, 1);
	while (!atomic_load(&ending))
		wait_once();
}

/* Print what became of it; returns the exit status. */
static inline int tell(void)
{
	printf("changed %d\n", atomic_load(&changed));
	return atomic_load(&changed) > 0;
}

#endif
