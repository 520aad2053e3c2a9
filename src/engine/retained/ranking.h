/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_RETAINED_RANKING_H
#define MS_ENGINE_RETAINED_RANKING_H

/* The heaviest of many things, as many as asked for, in memory for these alone. */

#include <stdint.h>

#include "base/arena.h"

struct ms_ranked {
	uint64_t weight;
	uint32_t what; /* the caller's number: the lower one is first among equals */
};

struct ms_ranking {
	struct ms_ranked *at; /* a heap, the lightest on top, until it is in order */
	uint64_t seen;
	uint32_t n;
	uint32_t most;
};

/* False without memory. */
bool ms_ranking_init(struct ms_ranking *r, uint32_t most, struct ms_arena *arena);

/* Cost: O(log most), O(1) for what is too light. */
void ms_ranking_add(struct ms_ranking *r, uint32_t what, uint64_t weight);

/* Put them in order, the heaviest first. Nothing is added any more. */
void ms_ranking_finish(struct ms_ranking *r);

#endif
