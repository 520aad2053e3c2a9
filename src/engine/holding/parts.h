/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_HOLDING_PARTS_H
#define MS_ENGINE_HOLDING_PARTS_H

/*
 * All blocks, cut into parts by address for several workers, with what the workers found put
 * together in order: so it is the same however many workers there are. What is looked for in a
 * block is not known here.
 */

#include "base/workers.h"
#include "engine/blocks.h"

enum { MS_PARTS_AT_ONCE = 16 };

/* Some cells of an extent. */
struct ms_blocks_part {
	const struct ms_extent *extent;
	size_t cell; /* of the extent: the first */
	size_t n_cells;
};

/* A block of a part. */
struct ms_part_block {
	uint32_t number;
	uint64_t granule;
	uint64_t left; /* of the cell: bits of the blocks behind */
	size_t cell;
};

struct ms_parts_run {
	const struct ms_blocks *blocks; /* sealed */
	bool heap_alone;                /* no part has a mapping that is a node of the graph */
	struct ms_workers *workers;
	void *ctx;

	/* Look at @part; @slot, below MS_PARTS_AT_ONCE, is for nobody else until it was taken. */
	void (*look)(void *ctx, unsigned int worker, size_t slot,
	             const struct ms_blocks_part *part);

	/* Take what was found in @slot; called in the order of addresses. False ends the run. */
	bool (*take)(void *ctx, size_t slot);
};

/* False when take() said so. */
ms_must_check bool ms_parts_run(const struct ms_parts_run *run);

/* Where ms_part_next() begins. */
static inline struct ms_part_block ms_part_begin(const struct ms_blocks *blocks,
                                                 const struct ms_blocks_part *part)
{
	size_t cell = part->extent->cell0 + part->cell;

	return (struct ms_part_block){ .number = part->extent->first + blocks->ranks.at[cell] - 1,
		                       .left = blocks->cells.at[cell].starts,
		                       .cell = part->cell };
}

/* Go on to the next block of @part; false when there are no more. */
static inline bool ms_part_next(const struct ms_blocks *blocks, const struct ms_blocks_part *part,
                                struct ms_part_block *block)
{
	while (!block->left) {
		if (++block->cell >= part->cell + part->n_cells)
			return false;
		block->left = blocks->cells.at[part->extent->cell0 + block->cell].starts;
	}
	block->number++;
	block->granule = block->cell * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(block->left);
	block->left &= block->left - 1;
	return true;
}

#endif
