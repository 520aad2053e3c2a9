/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that compute without rest, and allocate nothing once they do: "computing THREADS".
 *
 * Each has blocks of its own, which hang on its stack; before they start, a hundred blocks of
 * many sizes are leaked.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "truth.h"

enum { BLOCKS = 500, LEAKS = 100, MOST_THREADS = 16, NUMBERS = 64 };

struct link {
	struct link *next;
	double value;
};

static NOINLINE struct link *make_chain(void)
{
	struct link *chain = NULL;

	for (int i = 0; i < BLOCKS; i++) {
		struct link *fresh = malloc(sizeof(*fresh) + (size_t)i % 7 * 100);

		*fresh = (struct link){ chain, i };
		chain = fresh;
		free(malloc((size_t)i * 10));
	}
	return chain;
}

static NOINLINE double sum_of(const struct link *chain, double *numbers)
{
	double sum = 0;

	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = numbers[i] * 0.5 + i;
	for (; chain; chain = chain->next)
		sum += chain->value * numbers[(unsigned)chain->value % NUMBERS];
	return sum;
}

static void *run(void *arg)
{
	struct link *chain = make_chain();
	volatile double sum = 0;
	double numbers[NUMBERS] = { 0 };

	(void)arg;
	for (;;) {
		double copy[NUMBERS];

		sum = sum_of(chain, numbers);
		memcpy(copy, numbers, sizeof(copy));
		memset(numbers, (int)sum & 1, sizeof(numbers) / 2);
		chain->value = copy[NUMBERS - 1];
	}
	return NULL;
}

static NOINLINE void leak_some(void)
{
	for (size_t i = 0; i < LEAKS; i++)
		tell("leak", memset(malloc(16 + i % 10 * 50), 0, 1));
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 3;

	leak_some();
	forget();
	for (int i = 0; i < n && i < MOST_THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, NULL))
			_exit(97);
	}
	ready();
}
