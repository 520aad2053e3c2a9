/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_HOLDING_CHAINS_H
#define MS_ENGINE_HOLDING_CHAINS_H

/*
 * By which chain a block is held: a root, and the blocks from there to it.
 *
 * The walk over the whole graph goes by distance from the roots and notes for each block
 * which one led to it first. That is all that is kept: where in a block the pointer to the
 * next one stands, and which root it is, is looked for again for the chain that is asked for.
 *
 * Memory: 8 bytes a block, and three bits.
 */

#include "engine/graph/pointers.h"
#include "engine/holding/rows.h"
#include "engine/roots.h"

struct ms_chain_step {
	struct ms_block block;
	uint64_t offset; /* where the pointer to the next step's stands in it, bytes; 0: the last */
};

struct ms_chain {
	struct ms_root_name root;
	struct MS_VEC(struct ms_chain_step) steps; /* from what the root points to on */
};

struct ms_chains {
	const struct ms_rows *rows;
	const struct ms_roots *roots;
	struct ms_arena *arena;
	struct ms_pointers *pointers;
	uint32_t *holders; /* of each block: 0 nothing, 1 a root, else the number of a block + 2 */
	uint32_t *queue;
	struct ms_range aside; /* pointers in there to this block count for nothing */
	struct ms_block aside_block;
	uint64_t *claimed; /* a bit for each block: a stack lies in it */
	uint64_t *met;     /* for ms_chains_more() */
	uint64_t *members;
};

/*
 * Walk from @roots over @rows, which both must stay.
 *
 * Returns MS_E_NOMEM.
 * Cost: one read of the roots, a random access for each entry of a row.
 */
ms_must_check enum ms_status ms_chains_walk(const struct ms_rows *rows,
                                            const struct ms_roots *roots, struct ms_arena *arena,
                                            struct ms_chains *ret, struct ms_error *err);

/*
 * Walk again without the pointers to @block that stand in @range, a part of a root: they are
 * passed over from now on.
 *
 * Cost: as ms_chains_walk().
 */
void ms_chains_set_aside(struct ms_chains *chains, struct ms_range range, struct ms_block block);

/* Find the chain of one step that was set aside; false when there is none. */
ms_must_check bool ms_chains_find_aside(struct ms_chains *chains, struct ms_chain *ret);

/* Whether a root, or a chain from one, leads to @block. */
bool ms_chains_held(const struct ms_chains *chains, struct ms_block block);

/*
 * Find a chain to @block, the last of its steps: none is shorter.
 *
 * @ret: without steps when nothing holds it
 *
 * Returns MS_E_NOMEM.
 * Cost: one read of the blocks of the chain, and of the roots until the right one comes.
 */
ms_must_check enum ms_status ms_chains_find(struct ms_chains *chains, struct ms_block block,
                                            struct ms_chain *ret, struct ms_error *err);

/*
 * Whether another chain holds the last block of @chain, too: one that differs in a word at
 * least, be it the root's. If none does, each word of this one is alone what keeps the block.
 *
 * Cost: one read of the roots and of the blocks of the chain, and at most one walk.
 */
bool ms_chains_more(struct ms_chains *chains, const struct ms_chain *chain);

/* Find where in @from the first pointer to @to stands; false when there is none. */
bool ms_chains_between(struct ms_chains *chains, struct ms_block from, struct ms_block to,
                       uint64_t *ret_offset);

/* Call @visit for every pointer of a root, one root at a time. */
typedef void ms_held_fn(void *ctx, const struct ms_root *root, const struct ms_pointer *pointer);
void ms_chains_roots(struct ms_chains *chains, ms_held_fn *visit, void *ctx);

#endif
