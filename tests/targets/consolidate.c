/* SPDX-License-Identifier: Apache-2.0 */
/*
 * consolidate THREADS BLOCKS: each thread allocates BLOCKS blocks of 40 bytes, frees
 * them in random order and allocates 70,000 bytes, upon which malloc walks through all
 * that its fastbins held: the longest time that a thread spends inside of malloc. No
 * block is ever lost.
 *
 * Prints "READY" after the first round of each thread, and ends on end of input:
 * "rounds N", status 0.
 *
 * variants: static static-pie
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 16, SMALL = 40, LARGE = 70000 };

static void **tables[MAX_THREADS];
static size_t n_blocks;
static atomic_ulong rounds[MAX_THREADS];
static atomic_bool stop;

static void shuffle(void **table, uint64_t *random)
{
	for (size_t i = n_blocks - 1; i; i--) {
		size_t other;
		void *block = table[i];

		*random = *random * 6364136223846793005 + 1442695040888963407;
		other = (*random >> 33) % (i + 1);
		table[i] = table[other];
		table[other] = block;
	}
}

static void do_round(void **table, uint64_t *random)
{
	for (size_t i = 0; i < n_blocks; i++) {
		table[i] = malloc(SMALL);
		if (!table[i])
			abort();
	}
	shuffle(table, random);
	for (size_t i = 0; i < n_blocks; i++) {
		free(table[i]);
		table[i] = NULL;
	}
	/* a pair of malloc and free without a use would be left out by the compiler */
	table[0] = malloc(LARGE);
	if (!table[0])
		abort();
	free(table[0]);
	table[0] = NULL;
}

static void *work(void *arg)
{
	size_t number = (size_t)((void ***)arg - tables);
	uint64_t random = 88172645463325252 + number;

	while (!atomic_load(&stop)) {
		do_round(tables[number], &random);
		atomic_fetch_add(&rounds[number], 1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	unsigned long sum = 0;
	char byte;
	int n;

	if (argc < 3)
		return 2;
	n = atoi(argv[1]);
	n_blocks = strtoul(argv[2], NULL, 10);
	if (n < 1 || n > MAX_THREADS || !n_blocks)
		return 2;
	for (int i = 0; i < n; i++) {
		tables[i] = calloc(n_blocks, sizeof(void *));
		if (!tables[i] || pthread_create(&threads[i], NULL, work, &tables[i]))
			return 2;
	}
	for (int i = 0; i < n; i++)
		while (!atomic_load(&rounds[i]))
			usleep(1000);
	printf("READY\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	atomic_store(&stop, 1);
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		sum += atomic_load(&rounds[i]);
	}
	printf("rounds %lu\n", sum);
	return 0;
}
