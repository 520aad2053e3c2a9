/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/origins/estimate.h"

/* Nothing here calls the C library's mathematics, which is a library of its own. */

/* 1 - exp(-x), of x >= 0. */
static double probability(double x)
{
	const double small = 1.0 / 64;
	const double large = 40; /* more makes no difference */
	unsigned halved = 0;
	double q;

	if (x > large)
		return 1;
	while (x > small) {
		x /= 2;
		halved++;
	}
	q = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5))));
	/* From half of x to x: 1 - (1 - q)^2, in which nothing cancels out. */
	while (halved--)
		q *= 2 - q;
	return q;
}

/* Of x >= 0: Heron's steps fall from above to the root. */
static double root(double x)
{
	double above = x > 1 ? x : 1;
	double next = (above + x / above) / 2;

	while (x > 0 && next < above) {
		above = next;
		next = (above + x / above) / 2;
	}
	return x > 0 ? above : 0;
}

static uint64_t rounded(double x)
{
	const double most = 18446744073709549568.0; /* the largest below 2^64 */

	return x < most ? (uint64_t)(x + 0.5) : UINT64_MAX;
}

void ms_estimate_add(struct ms_estimate_sum *sum, uint64_t interval, uint64_t asked, uint64_t size)
{
	double p = interval ? probability((double)(asked ? asked : 1) / (double)interval) : 1;
	double variance = (1 - p) / p / p;

	sum->samples++;
	sum->count += 1 / p;
	sum->bytes += (double)size / p;
	sum->count_variance += variance;
	sum->bytes_variance += (double)size * (double)size * variance;
}

void ms_estimate_join(struct ms_estimate_sum *sum, const struct ms_estimate_sum *more)
{
	sum->samples += more->samples;
	sum->count += more->count;
	sum->bytes += more->bytes;
	sum->count_variance += more->count_variance;
	sum->bytes_variance += more->bytes_variance;
}

struct ms_estimate ms_estimate(const struct ms_estimate_sum *sum)
{
	return (struct ms_estimate){ .samples = sum->samples,
		                     .count = rounded(sum->count),
		                     .count_error = rounded(root(sum->count_variance)),
		                     .bytes = rounded(sum->bytes),
		                     .bytes_error = rounded(root(sum->bytes_variance)) };
}
