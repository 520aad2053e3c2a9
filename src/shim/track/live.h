/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_TRACK_LIVE_H
#define MS_SHIM_TRACK_LIVE_H

/*
 * The table of live blocks.
 *
 * Shards by address, each an open-addressed table in a mapping of its own under a lock of
 * its own, so that threads seldom meet. Pointers are kept inverted: what looks for leaks
 * must not find every block here. A block is removed before it is freed, so what is in the
 * table under a shard's lock may be read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "malloc_debug/registry.h"

/* What the table knows of a block. */
struct ms_live {
	size_t size;    /* as asked for */
	uint32_t trace; /* of its allocation: trace.h */
	uint32_t flags; /* enum malloc_debug_slot_flags */
};

struct ms_live_block {
	uintptr_t p;
	size_t size;
	size_t usable;
	uint32_t trace;
};

struct ms_live_blocks MS_VEC(struct ms_live_block);

/* False without memory: the block is not in the table then. */
bool ms_live_add(const void *p, struct ms_live live);
/* False when it is not in the table; @ret is untouched then. */
bool ms_live_remove(const void *p, struct ms_live *ret);
bool ms_live_find(const void *p, struct ms_live *ret);
/* Add @flags to the entry of @p, if it is in the table. */
void ms_live_flag(const void *p, uint32_t flags);

/* Have the place of @p in the table fetched into the cache: it will be looked at. */
void ms_live_prefetch(const void *p);

/*
 * From now on, ms_live_maybe() can be asked. Before any block is entered.
 * @few: blocks are entered so seldom that threads do not meet
 */
void ms_live_filter(bool few);

/* By hash: how many entries have it. So small that it stays in the nearest cache. */
enum { MS_LIVE_FILTER_BITS = 13, MS_LIVE_FILTER = 1 << MS_LIVE_FILTER_BITS };
extern __attribute__((visibility("hidden")))
uint8_t ms_live_filter_of[]; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static inline size_t ms_live_filter_hash(uintptr_t p)
{
	return (size_t)(((uint64_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >>
	                (64 - MS_LIVE_FILTER_BITS));
}

/* False when @p is surely not in the table. Without a lock. */
static inline bool ms_live_maybe(const void *p)
{
	return __atomic_load_n(&ms_live_filter_of[ms_live_filter_hash((uintptr_t)p)],
	                       __ATOMIC_RELAXED) != 0;
}

/*
 * Copy the table to @ret in @arena, in no order; @usable, called under a lock, returns each
 * block's usable size, and may be NULL. False without memory.
 */
bool ms_live_list(struct ms_arena *arena, size_t (*usable)(uintptr_t p),
                  struct ms_live_blocks *ret);

/* The table itself, for the registry. */
struct malloc_debug_list ms_live_shards(void);

#endif
