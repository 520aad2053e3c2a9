/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/out/listing.h"

#include "base/sort.h"

static uint32_t frames_of(uint32_t trace)
{
	const struct ms_trace *found = ms_trace_find(trace);

	return found ? found->n : 0;
}

/* The larger first, then the one with more frames; 0 when they are alike in both. */
static int compare(const struct ms_live_block *one, const struct ms_live_block *other)
{
	uint32_t frames = frames_of(one->trace);
	uint32_t other_frames = frames_of(other->trace);

	if (one->size != other->size)
		return one->size > other->size ? -1 : 1;
	return (frames < other_frames) - (frames > other_frames);
}

static bool block_before(const void *a, const void *b)
{
	const struct ms_live_block *one = a;
	const struct ms_live_block *other = b;
	int order = compare(one, other);

	return order ? order < 0 : one->p < other->p;
}

bool ms_listing_blocks(struct ms_arena *arena, struct ms_live_blocks *ret)
{
	return ms_live_list(arena, NULL, ret) &&
	       ms_sort(arena, ret->at, ret->n, sizeof(*ret->at), block_before);
}

/* With the stack's number in the place of the address, so that all alike are neighbours. */
static bool group_before(const void *a, const void *b)
{
	const struct ms_live_block *one = a;
	const struct ms_live_block *other = b;
	int order = compare(one, other);

	return order ? order < 0 : one->trace < other->trace;
}

static bool merge(struct ms_arena *arena, const struct ms_live_block *block, struct ms_groups *ret)
{
	uint32_t frames = frames_of(block->trace);
	/* without a stack, it does not matter why */
	uint32_t trace = frames ? block->trace : MS_TRACE_NONE;
	struct ms_group *group = ret->n ? &ret->at[ret->n - 1] : NULL;

	if (group && group->size == block->size && group->trace == trace) {
		group->count++;
		return true;
	}
	group = ms_vec_push(arena, ret);
	if (!group)
		return false;
	*group = (struct ms_group){ block->size, 1, trace, frames };
	return true;
}

bool ms_listing_groups(struct ms_arena *arena, bool with_off, struct ms_groups *ret)
{
	struct ms_live_blocks blocks = { 0 };
	bool done = ms_live_list(arena, NULL, &blocks) &&
	            ms_sort(arena, blocks.at, blocks.n, sizeof(*blocks.at), group_before);

	for (size_t i = 0; i < blocks.n && done; i++) {
		if (with_off || blocks.at[i].trace != MS_TRACE_OFF)
			done = merge(arena, &blocks.at[i], ret);
	}
	return done;
}
