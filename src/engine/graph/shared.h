/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_SHARED_H
#define MS_ENGINE_GRAPH_SHARED_H

/*
 * The scan arena for several workers at once. They come rarely and for large pieces,
 * so that waiting in a loop is good enough, and needs nothing of the OS.
 */

#include <stdatomic.h>

#include "base/vec.h"

struct ms_shared_arena {
	struct ms_arena *arena;
	atomic_flag taken;
};

static inline void ms_shared_init(struct ms_shared_arena *shared, struct ms_arena *arena)
{
	shared->arena = arena;
	atomic_flag_clear(&shared->taken);
}

static inline struct ms_arena *ms_shared_take(struct ms_shared_arena *shared)
{
	while (atomic_flag_test_and_set_explicit(&shared->taken, memory_order_acquire))
		;
	return shared->arena;
}

static inline void ms_shared_give(struct ms_shared_arena *shared)
{
	atomic_flag_clear_explicit(&shared->taken, memory_order_release);
}

#endif
