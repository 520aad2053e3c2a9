/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LIVE_HISTOGRAM_H
#define MS_ENGINE_LIVE_HISTOGRAM_H

/*
 * How many live blocks there are of each kind, a type and a size, reachable or not.
 *
 * Kinds are bounded, blocks are not. Kinds that come when the table is nearly full are
 * grouped: sizes of one type into classes, four to each power of two; and when even these
 * are too many, by size alone. Nothing is omitted from the sums. Whether a kind stands by
 * itself is decided when it is first seen and then stays so; leaks are counted before all
 * blocks are, so that both counts go to one entry.
 */

#include "engine/blocks.h"
#include "engine/names/types.h"
#include "engine/report.h"

struct ms_histogram;

/* Over blocks that @types has types of; NULL without memory. */
struct ms_histogram *ms_histogram_new(struct ms_types *types, struct ms_arena *arena);

/* Count the block of @size bytes at @begin as leaked, before all are counted; false without memory.
 */
bool ms_histogram_add_leaked(struct ms_histogram *histogram, ms_addr begin, uint64_t size);

/*
 * Count every block of @blocks, and put all kinds into @report, those of most bytes first.
 *
 * False without memory.
 * Cost: a look at the type of each block, and one at a hash table.
 */
bool ms_histogram_write(struct ms_histogram *histogram, const struct ms_blocks *blocks,
                        struct ms_report *report);

#endif
