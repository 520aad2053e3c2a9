/* SPDX-License-Identifier: Apache-2.0 */
/* Distances between samples, against the exponential distribution. */
#include <criterion/criterion.h>

#include "target/inject/agent/distance.h"

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { N = 1 << 20, INTERVAL = 524288 };

static struct ms_agent_data data;

/* u as random bits, and -ln(u) */
static const struct {
	uint64_t random;
	double expected;
} points[] = {
	{ UINT64_MAX, 0 },
	{ UINT64_C(3) << 62, 0.28768207 },
	{ UINT64_C(1) << 63, 0.69314718 },
	{ UINT64_C(0xb504f333f9de6484), 0.34657359 },
	{ UINT64_C(1) << 62, 1.38629436 },
	{ UINT64_C(1) << 32, 22.1807098 },
	{ 1, 44.3614196 },
	{ 0, 44.3614196 },
};

Test(agent_distance, is_the_logarithm)
{
	for (size_t i = 0; i < N_OF(points); i++) {
		uint64_t distance = ms_agent_distance(points[i].random, UINT64_C(1000000000));
		double off = (double)distance / 1e9 - points[i].expected;

		cr_expect(off > -1e-4 && off < 1e-4, "%zu: %lu", i, (unsigned long)distance);
	}
}

Test(agent_distance, does_not_overflow)
{
	cr_expect_eq(ms_agent_distance(0, UINT64_MAX), INT64_MAX);
	cr_expect_eq(ms_agent_distance(0, INT64_MAX), INT64_MAX);
	cr_expect_eq(ms_agent_distance(UINT64_MAX - 1, UINT64_MAX) >> 50, 0);
	cr_expect_eq(ms_agent_distance(0, 0), 0);
}

/* How often a distance is below some multiples of the interval: 1 - exp(-multiple). */
static const struct {
	uint64_t below;
	double share;
} shares[] = {
	{ INTERVAL / 1024, 0.00097609 }, { INTERVAL / 64, 0.01550356 },
	{ INTERVAL / 8, 0.1175031 },     { INTERVAL / 2, 0.39346934 },
	{ INTERVAL, 0.63212056 },        { 2 * INTERVAL, 0.86466472 },
	{ 4 * INTERVAL, 0.98168436 },    { 8 * INTERVAL, 0.99966454 },
};

/* Five standard errors; from one seed, so it is the same always. */
Test(agent_distance, is_distributed_exponentially)
{
	size_t n[N_OF(shares)] = { 0 };
	double sum = 0;

	for (size_t i = 0; i < N; i++) {
		uint64_t distance = ms_agent_distance(ms_agent_random(&data), INTERVAL);

		sum += (double)distance / INTERVAL;
		for (size_t k = 0; k < N_OF(shares); k++)
			n[k] += distance < shares[k].below;
	}
	cr_expect_leq(sum / N, 1 + 5.0 / 1024);
	cr_expect_geq(sum / N, 1 - 5.0 / 1024);
	for (size_t k = 0; k < N_OF(shares); k++) {
		double p = shares[k].share, off = (double)n[k] - N * p;

		cr_expect_leq(off * off, 25 * N * p * (1 - p), "%zu: %zu, not %.0f", k, n[k],
		              N * p);
	}
}
