/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_WALK_H
#define MS_ENGINE_GRAPH_WALK_H

/*
 * Step 6: follow pointers.
 *
 * The walk marks every block that words of a root, and words of marked blocks,
 * point into. It knows words and blocks; it does not know what a root is, what a
 * leak is, or which allocator the blocks came from.
 *
 * Nothing recurses: blocks to be read wait on a list of their own, one word each.
 * The machine is kept busy instead of waiting for memory: a candidate's cell is
 * prefetched and looked at some candidates later, a marked block's bytes are
 * prefetched and read some blocks later (follow.c draws it).
 *
 * What is marked is a closure, and so the same however many workers there are.
 */

#include "base/status.h"
#include "base/workers.h"
#include "engine/blocks.h"
#include "engine/graph/edges.h"
#include "engine/libc/mangling.h"

struct ms_walk_options {
	bool unaligned;               /* look for pointers at every byte offset */
	bool starts_only;             /* pointers into the middle of a block do not count */
	struct ms_marks *inner;       /* blocks that these lead to get a bit here; or NULL */
	const struct ms_marks *wide;  /* but not those with a bit here: they count; or NULL */
	bool count_bytes;             /* ms_walk_count() says bytes, too */
	struct ms_mangling mangling;  /* also try words as the C library mangles them */
	const struct ms_edges *edges; /* follow these instead of bytes; NULL: bytes */
	struct ms_workers *workers;   /* to mark with; NULL: alone */
	/*
	 * Called for each heap block that is followed, which is marked by then; may call
	 * ms_walk_block(). Alone and over bytes only. NULL: not.
	 */
	void (*visit)(void *ctx, struct ms_block block);
	void *visit_ctx;
};

struct ms_walk;

/*
 * Make a walk over sealed @blocks in @arena, or NULL without memory.
 * @blocks' marks are the walk's output and its memory of what it has seen.
 */
struct ms_walk *ms_walk_new(struct ms_blocks *blocks, const struct ms_walk_options *options,
                            struct ms_arena *arena);

/* Take the word @value for a root. */
void ms_walk_word(struct ms_walk *walk, uint64_t value);

/* Take every word of @range for a root, at finish; what is not readable is skipped. */
void ms_walk_range(struct ms_walk *walk, struct ms_range range);

/*
 * Mark the block that has @addr in it without following its words: the caller
 * knows which of them count. @addr may be in its middle, unless starts_only and not inner.
 * Returns its range, empty when there is no block or it was marked before.
 */
struct ms_range ms_walk_claim(struct ms_walk *walk, ms_addr addr);

/* Mark @block and put it on the list. */
void ms_walk_block(struct ms_walk *walk, struct ms_block block);

/*
 * Follow pointers until nothing new is found.
 *
 * Returns MS_E_NOMEM when the list could not grow; marks are then incomplete.
 */
ms_must_check enum ms_status ms_walk_finish(struct ms_walk *walk, struct ms_error *err);

/* Heap blocks marked and followed so far. */
struct ms_walk_count {
	uint64_t blocks;
	uint64_t bytes; /* of these, with count_bytes only: sizes are far from the walk's path */
};

struct ms_walk_count ms_walk_count(const struct ms_walk *walk);

#endif
