/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_ORIGINS_ESTIMATE_H
#define MS_ENGINE_ORIGINS_ESTIMATE_H

/*
 * How many blocks, of how many bytes, samples stand for. From sample to sample there are
 * @interval bytes in the mean, drawn without memory, so that a block of s bytes is one with
 * the probability
 *
 *	p = 1 - exp(-s / interval)
 *
 * and stands for 1 / p like it (Horvitz and Thompson's estimator); its part in the variance
 * is (1 - p) / p^2. Profiles of Go and gperftools are scaled by the same p.
 */

#include "engine/report.h"

struct ms_estimate_sum {
	uint64_t samples;
	double count;
	double bytes;
	double count_variance;
	double bytes_variance;
};

/*
 * Add a sample.
 *
 * @interval: 0: each block is a sample
 * @asked:    bytes that were asked for; none counts as one
 * @size:     bytes that the block has
 */
void ms_estimate_add(struct ms_estimate_sum *sum, uint64_t interval, uint64_t asked, uint64_t size);

/* Add the samples of @more. */
void ms_estimate_join(struct ms_estimate_sum *sum, const struct ms_estimate_sum *more);

/* The sums and their standard errors, rounded. */
struct ms_estimate ms_estimate(const struct ms_estimate_sum *sum);

#endif
