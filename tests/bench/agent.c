/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a pair of malloc and free costs under the agent, in turns with none, in one process.
 *
 *	tight   one block of 64 bytes after the other
 *	window  4096 live blocks of 16 to 1024 bytes, one of them replaced at random, each
 *	        written and read
 *
 * The first column is without; the others say how many times that. Of the rounds, a quarter
 * is faster: beside other programs the middle says more of them.
 */

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "diverted.h"

enum {
	ROUNDS = 101,
	PAIRS = 200000,
	WINDOW = 4096,
	TIGHT = 64,
	LEAST = 16,
	MOST = 1024,
	LINE = 128
};

/* 0: not diverted */
static const uint64_t intervals[] = { 0, UINT64_C(1) << 40, 512 << 10, 64 << 10, 8 << 10 };
enum { N_INTERVALS = sizeof(intervals) / sizeof(*intervals) };

static uint64_t random_state = 1;
static char *blocks[WINDOW];
static volatile char sink;

static uint32_t roll(void)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return (uint32_t)(random_state >> 33);
}

static void tight(void)
{
	for (unsigned i = 0; i < PAIRS; i++) {
		char *volatile block = malloc(TIGHT);

		*block = 1;
		free(block);
	}
}

static void window(void)
{
	for (unsigned i = 0; i < PAIRS; i++) {
		char **block = &blocks[roll() % WINDOW];
		size_t size = LEAST + roll() % (MOST - LEAST + 1);

		free(*block);
		*block = malloc(size);
		for (size_t at = 0; at < size; at += LINE)
			(*block)[at] = 1;
		sink = (*block)[size - 1];
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quartile(double *times)
{
	qsort(times, ROUNDS, sizeof(*times), compare);
	return times[ROUNDS / 4];
}

static void measure(struct diverted *agent, const char *name, void (*shape)(void))
{
	static double times[N_INTERVALS][ROUNDS];

	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < N_INTERVALS; i++) {
			agent->data->interval = intervals[i];
			if (intervals[i])
				diverted_put_back(agent);
			uint64_t since = ms_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
			shape();
			times[i][round] =
				(double)(ms_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - since) / PAIRS;
			if (intervals[i])
				diverted_take_out(agent);
		}
	double without = quartile(times[0]);
	printf("%-7s %5.1f ns", name, without);
	for (unsigned i = 1; i < N_INTERVALS; i++)
		printf("   x%.3f", quartile(times[i]) / without);
	printf("\n");
}

int main(void)
{
	struct diverted agent;

	diverted_put(&agent, intervals[1]);
	diverted_take_out(&agent);
	printf("a pair    without    never   512 K    64 K     8 K\n");
	measure(&agent, "tight", tight);
	measure(&agent, "window", window);
	printf("%lu samples, %lu dropped\n", (unsigned long)agent.data->n_samples,
	       (unsigned long)agent.data->n_dropped);
	return 0;
}
