/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LIVE_SITES_H
#define MS_ENGINE_LIVE_SITES_H

/*
 * How many live blocks, reachable or not, the calls of each stack have allocated, as samples
 * say: also of leaks that hang on others, whose own entry they do not have.
 */

#include "engine/blocks.h"
#include "engine/origins/estimate.h"
#include "engine/origins/origins.h"

struct ms_sites_sums;

/* NULL without memory. */
struct ms_sites_sums *ms_sites_new(const struct ms_origins *origins, struct ms_arena *arena);

/* Count the unreachable block of @size bytes at @begin, if it is a sample; in address order. */
void ms_sites_add_leaked(struct ms_sites_sums *sums, ms_addr begin, uint64_t size);

/*
 * Put into teller->report the stacks with the most unreachable bytes, or with @all those with
 * the most live ones, @most of them at most.
 *
 * False without memory.
 */
ms_must_check bool ms_sites_write(struct ms_sites_sums *sums, const struct ms_blocks *blocks,
                                  bool all, uint64_t most, struct ms_origin_teller *teller);

#endif
