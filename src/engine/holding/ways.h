/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_HOLDING_WAYS_H
#define MS_ENGINE_HOLDING_WAYS_H

/*
 * Every word of a root from which a chain leads to one block, the nearest first. A walk
 * against the pointers, from the block on, finds how far each other block is from it.
 *
 * Memory: 20 bytes a block and 4 an entry of the rows.
 */

#include "engine/holding/chains.h"

struct ms_ways {
	struct MS_VEC(struct ms_chain) nearest; /* the nearest first, one from each word */
	uint64_t roots;                         /* how many words there are */
};

/*
 * Find for each of the @most words that are nearest to @block a chain of which none is
 * shorter from there; of equally near ones those that are visited first.
 *
 * Returns MS_E_NOMEM.
 * Cost: as ms_chains_walk(), twice.
 */
ms_must_check enum ms_status ms_ways_find(struct ms_chains *chains, struct ms_block block,
                                          size_t most, struct ms_ways *ret, struct ms_error *err);

#endif
