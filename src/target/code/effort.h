/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_EFFORT_H
#define MS_TARGET_EFFORT_H

/*
 * A bound for the work of a look-up through all that a process has mapped.
 *
 * The number of mappings, their files and the contents of these are the target's to choose. So a
 * file in which nothing was found is not looked at again, however often it is mapped, and all
 * reads together are counted: past the limit nothing can be read, and nothing more is found.
 */

#include "base/arena.h"
#include "base/map.h"
#include "engine/source.h"

struct ms_effort {
	uint64_t reads; /* a read counts as one, and one more for each page */
	uint64_t bytes; /* of pieces, which are kept */
	bool ended;     /* a limit was reached */
	struct ms_map seen;
};

/* Whether @reads more, and @bytes more that are kept, are within the limits; counts them. */
bool ms_effort_take(struct ms_effort *effort, uint64_t reads, uint64_t bytes);

/* Whether @map, number @index of all, need not be looked at: its like was, or a limit was reached.
 */
bool ms_effort_may_skip(struct ms_effort *effort, const struct ms_mapping *map, size_t index);

/* Nothing is in this part of the file of @map. */
void ms_effort_remember(struct ms_effort *effort, const struct ms_mapping *map,
                        struct ms_arena *arena);

#endif
