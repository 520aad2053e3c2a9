/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_POINTERS_H
#define MS_ENGINE_GRAPH_POINTERS_H

/*
 * Which blocks the words of memory point into, one by one.
 *
 * What a pointer is, the quick walk's options and lookup.h say; which words of a block
 * count, blocks.h. The walk asks whether a block is reached, and forgets by what; here each
 * pointer is handed over with where it stands, in the order in which words are given. Marks
 * are neither looked at nor changed.
 *
 * Like in the walk, a pointer waits until the cell that it leads to is in the cache: it is
 * handed over some pointers later, and those that wait last by ms_pointers_finish().
 */

#include "engine/graph/lookup.h"
#include "engine/graph/walk.h"

struct ms_pointer {
	uint64_t from; /* the caller's number for the memory that has it */
	ms_addr at;    /* where it stands; 0: a single word */
	ms_addr value;
	struct ms_block to;
};

typedef void ms_pointer_fn(void *ctx, const struct ms_pointer *pointer);

enum { MS_POINTERS_QUEUE = 16 };

struct ms_waiting_pointer {
	const struct ms_cell *cell; /* of value */
	const struct ms_extent *extent;
	uint64_t value;
	uint64_t from;
	ms_addr at;
};

struct ms_pointers {
	ms_pointer_fn *found; /* these two may change when none waits */
	void *ctx;
	const struct ms_blocks *blocks;
	const struct ms_abi *abi;
	bool plain; /* words can be taken as they are */
	bool unaligned;
	bool starts_only;
	struct ms_mangling mangling;
	uint32_t n_waiting;
	uint32_t first_waiting;
	struct ms_waiting_pointer waiting[MS_POINTERS_QUEUE];
	struct ms_range window; /* memory that buffer has a copy of */
	uint8_t *buffer;
	struct ms_lookup lookup;
};

/*
 * Look for pointers into sealed @blocks.
 *
 * @like: what counts as one: its unaligned, starts_only and mangling
 *
 * NULL without memory. Of a source without a view, blocks that are taken by address are
 * read in pieces of 256 KiB.
 */
struct ms_pointers *ms_pointers_new(const struct ms_blocks *blocks,
                                    const struct ms_walk_options *like, struct ms_arena *arena);

/* Take the word @value. */
void ms_pointers_word(struct ms_pointers *p, uint64_t from, uint64_t value);

/* Take every word of @range; what is not readable is skipped. */
void ms_pointers_range(struct ms_pointers *p, uint64_t from, struct ms_range range);

/* Take every word of @block. */
void ms_pointers_block(struct ms_pointers *p, uint64_t from, struct ms_block block);

/* Hand over what waits. */
void ms_pointers_finish(struct ms_pointers *p);

/* The heap block that has the usable byte at @addr; false when there is none. */
bool ms_pointers_hit(struct ms_pointers *p, ms_addr addr, struct ms_block *ret);

#endif
