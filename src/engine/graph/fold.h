/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_FOLD_H
#define MS_ENGINE_GRAPH_FOLD_H

/*
 * Step 7: group the blocks that were not marked.
 *
 * Every unmarked block is put under exactly one head: a block that no other
 * unmarked block outside its own cycle points to. In a cycle the lowest address
 * is the head.
 */

#include "base/status.h"
#include "engine/blocks.h"
#include "engine/graph/walk.h"

/* A head and what hangs on it. */
struct ms_head {
	uint32_t extent;
	bool absorbed; /* not a head after all: another one leads to it */
	uint64_t granule;
	uint64_t count; /* blocks, the head included */
	uint64_t bytes;
};

struct ms_heads MS_VEC(struct ms_head);

/*
 * Fold the unmarked heap blocks of sealed @blocks.
 *
 * Marks them all; leaves the heads tagged.
 *
 * @like: where pointers are looked for: its `unaligned` and `edges`
 * @ret:  in address order, those that were absorbed still among them
 *
 * Cost: one walk over the unmarked blocks.
 */
ms_must_check enum ms_status ms_fold(struct ms_blocks *blocks, const struct ms_walk_options *like,
                                     struct ms_arena *arena, struct ms_heads *ret,
                                     struct ms_error *err);

#endif
