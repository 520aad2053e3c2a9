/* SPDX-License-Identifier: Apache-2.0 */
#include "target/code/effort.h"

/*
 * A process with 2,000 libraries takes 0.2 million reads. Of pieces, which are text and data of
 * images that may be a static C library, there is one image in a process as a rule.
 */
static const uint64_t most_reads = UINT64_C(1) << 21;
static const uint64_t most_bytes = UINT64_C(512) << 20;

bool ms_effort_take(struct ms_effort *effort, uint64_t reads, uint64_t bytes)
{
	effort->reads += reads;
	effort->bytes += bytes;
	effort->ended |= effort->reads > most_reads || effort->bytes > most_bytes;
	return !effort->ended;
}

/* Two files with one key can only be the target's doing: the second is not looked at. */
static uint64_t key_of(const struct ms_mapping *map)
{
	uint64_t key = map->inode;

	key = (key ^ map->dev_major) * UINT64_C(0x9e3779b97f4a7c15);
	key = (key ^ map->dev_minor) * UINT64_C(0x9e3779b97f4a7c15);
	return key ^ map->offset;
}

bool ms_effort_may_skip(struct ms_effort *effort, const struct ms_mapping *map, size_t index)
{
	enum { STEPS = 64 }; /* to the first mapping of a file, for the price of a read */

	return ms_map_find(&effort->seen, key_of(map)) ||
	       !ms_effort_take(effort, 1 + index / STEPS, 0);
}

void ms_effort_remember(struct ms_effort *effort, const struct ms_mapping *map,
                        struct ms_arena *arena)
{
	const uint64_t key = key_of(map);

	if (!ms_map_find(&effort->seen, key))
		(void)ms_map_add(&effort->seen, arena, key, 1);
}
