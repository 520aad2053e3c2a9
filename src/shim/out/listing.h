/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_OUT_LISTING_H
#define MS_SHIM_OUT_LISTING_H

/* The live blocks in the order in which they are reported, and merged where they are alike. */

#include <stdbool.h>

#include "shim/track/live.h"
#include "shim/track/trace.h"

/* Blocks of one size and one stack. */
struct ms_group {
	size_t size;
	size_t count;
	uint32_t trace;
	uint32_t frames;
};

struct ms_groups MS_VEC(struct ms_group);

/*
 * Larger ones first; those with a stack before those without, longer stacks first, then
 * by address. False without memory.
 */
bool ms_listing_blocks(struct ms_arena *arena, struct ms_live_blocks *ret);

/* The same, merged. Blocks made while capture was off are left out unless @with_off. */
bool ms_listing_groups(struct ms_arena *arena, bool with_off, struct ms_groups *ret);

#endif
