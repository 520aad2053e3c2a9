/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that allocate and free without rest, whichever malloc it is: "restless THREADS".
 *
 * All that they have is in a table that can be read, or in their hands; blocks go from
 * thread to thread. Before they start, a hundred blocks of many sizes are leaked.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "truth.h"

enum { SLOTS = 4096, LEAKS = 100, MOST_THREADS = 16 };

static _Atomic(void *) slots[SLOTS];

static uint32_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33);
}

/* Most up to 1 KiB, some up to 64 KiB. */
static size_t any_size(uint64_t *state)
{
	return 1 + next_random(state) % (next_random(state) % 16 ? 1024 : 64 << 10);
}

static void *run(void *arg)
{
	uint64_t state = (uintptr_t)arg;

	for (;;) {
		_Atomic(void *) *slot = &slots[next_random(&state) % SLOTS];
		void *fresh = next_random(&state) % 2 ? malloc(any_size(&state)) : NULL;

		free(atomic_exchange(slot, fresh));
	}
	return NULL;
}

static NOINLINE void leak_some(void)
{
	uint64_t state = 1;

	for (int i = 0; i < LEAKS; i++)
		tell("leak", memset(malloc(i % 10 ? any_size(&state) : 100000), 0, 1));
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 4;

	leak_some();
	forget();
	for (uintptr_t i = 0; i < (uintptr_t)n && i < MOST_THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, (void *)(i + 1)))
			_exit(97);
	}
	ready();
}
