/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distances from many seeds, drawn as attach draws them or worse: whatever the first number is,
 * the first distances of a process, and of each thread of it, are exponential, do not depend on
 * each other or on those of the next seed, and what is estimated from them is right.
 */
#include <criterion/criterion.h>

#include "engine/origins/estimate.h"
#include "target/inject/agent/distance.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { SEEDS = 100000, FIRST = 4, INTERVAL = 16384 };

/* The clock at attach, in nanoseconds; and numbers that would betray bits that are not stirred. */
static const struct {
	const char *name;
	uint64_t first, step;
} seeds[] = {
	{ "one nanosecond apart", UINT64_C(86400000000000), 1 },
	{ "a microsecond apart", UINT64_C(5000000000), 1000 },
	{ "a second apart", 0, 1000000000 },
	{ "pages", UINT64_C(0x7f0000000000), 4096 },
	{ "high bits alone", 0, UINT64_C(1) << 47 },
	{ "small and odd", 1, 2 },
};

static struct ms_agent_data data;
static double drawn[SEEDS][FIRST]; /* in intervals */

static double draw(void)
{
	uint64_t distance = ms_agent_distance(ms_agent_random(&data), INTERVAL);

	return (double)distance / INTERVAL;
}

static void draw_all(size_t row)
{
	for (uint64_t i = 0; i < SEEDS; i++) {
		data.random = seeds[row].first + i * seeds[row].step;
		for (size_t k = 0; k < FIRST; k++)
			drawn[i][k] = draw();
	}
}

/* Between them lie deciles: a tenth of all distances each, -ln(1 - k / 10). */
static const double deciles[] = { 0.10536052, 0.22314355, 0.35667494, 0.51082562, 0.69314718,
	                          0.91629073, 1.2039728,  1.60943791, 2.30258509 };

/* Chi-squared of 9 degrees: above 45 once in a million. */
static void expect_exponential(size_t row, size_t k)
{
	const double wanted = SEEDS / 10.0;
	size_t n[N_OF(deciles) + 1] = { 0 };
	double chi_squared = 0;

	for (size_t i = 0; i < SEEDS; i++) {
		size_t at = 0;

		while (at < N_OF(deciles) && drawn[i][k] >= deciles[at])
			at++;
		n[at]++;
	}
	for (size_t at = 0; at < N_OF(n); at++)
		chi_squared += ((double)n[at] - wanted) * ((double)n[at] - wanted) / wanted;
	cr_expect_lt(chi_squared, 45, "%s, distance %zu: %.1f", seeds[row].name, k, chi_squared);
}

/* Mean and variance are 1: of what does not depend on each other, n times the mean of products
 * has a variance of n. */
static void expect_independent(size_t row, size_t later, size_t k)
{
	const size_t n = SEEDS - later;
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (drawn[i][0] - 1) * (drawn[i + later][k] - 1);
	cr_expect_lt(sum * sum, 25.0 * (double)n, "%s, %zu seeds and %zu distances later: %.4f",
	             seeds[row].name, later, k, sum / (double)n);
}

Test(agent_seeds, first_distances_are_exponential_and_independent)
{
	for (size_t row = 0; row < N_OF(seeds); row++) {
		draw_all(row);
		for (size_t k = 0; k < FIRST; k++) {
			expect_exponential(row, k);
			if (k)
				expect_independent(row, 0, k);
			expect_independent(row, 1, k);
		}
	}
}

/* ---- what is estimated ---- */

enum { PROGRAMS = 4000, THREADS = 3 };

/* Blocks by turns: how many of each size every thread makes. */
static const struct {
	uint64_t size;
	unsigned n;
} sizes[] = { { 100, 800 }, { 5000, 100 }, { 30000, 100 } };

static void sample(double *left, uint64_t size, struct ms_estimate_sum *sum)
{
	if ((double)size <= *left) {
		*left -= (double)size;
		return;
	}
	*left = (double)ms_agent_distance(ms_agent_random(&data), INTERVAL);
	ms_estimate_add(sum, INTERVAL, size, size);
}

/* All threads in turns, so that successive distances are those of different ones. */
static void run_program(struct ms_estimate_sum *sums)
{
	double left[THREADS];

	for (size_t t = 0; t < THREADS; t++)
		left[t] = draw() * INTERVAL;
	for (unsigned i = 0; i < sizes[0].n; i++)
		for (size_t t = 0; t < THREADS; t++)
			for (size_t k = 0; k < N_OF(sizes); k++)
				if (i < sizes[k].n)
					sample(&left[t], sizes[k].size, &sums[k]);
}

/*
 * Of many programs, the mean of the errors is nothing, and that of their squares what the
 * estimates say of themselves.
 */
Test(agent_seeds, estimates_are_right_and_so_are_their_errors)
{
	double off[N_OF(sizes)] = { 0 }, squared[N_OF(sizes)] = { 0 };
	double variance[N_OF(sizes)] = { 0 };

	for (uint64_t i = 0; i < PROGRAMS; i++) {
		struct ms_estimate_sum sums[N_OF(sizes)] = { 0 };

		data.random = UINT64_C(86400000000000) + 12345 * i;
		run_program(sums);
		for (size_t k = 0; k < N_OF(sizes); k++) {
			double d = sums[k].count - (double)sizes[k].n * THREADS;

			off[k] += d;
			squared[k] += d * d;
			variance[k] += sums[k].count_variance;
		}
	}
	for (size_t k = 0; k < N_OF(sizes); k++) {
		double ratio = squared[k] / variance[k];

		cr_expect_lt(off[k] * off[k], 25 * variance[k], "%lu bytes: off by %.2f of %.2f",
		             (unsigned long)sizes[k].size, off[k] / PROGRAMS,
		             variance[k] / PROGRAMS);
		/* A mean of n squares varies by 2 / n. */
		cr_expect(ratio > 0.88 && ratio < 1.12,
		          "%lu bytes: errors are %.3f of what is said",
		          (unsigned long)sizes[k].size, ratio);
	}
}
