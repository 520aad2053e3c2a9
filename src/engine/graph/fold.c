/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/fold.h"

/*
 * No strongly connected components are computed, because only their order
 * matters. Blocks are taken by address; one that is not marked yet becomes a
 * head, and everything reached from it that is not marked yet is its own. If the
 * walk from a later head meets an earlier one, the earlier is absorbed with all
 * it has.
 *
 * What is left are heads that no block outside their cycle points to. For suppose
 * x, outside of it, points to a head r. If x was read after r became a head, r
 * was met and absorbed. If x was read before, r was marked then, and could not
 * become a head any more.
 */

struct folding {
	struct ms_blocks *blocks;
	struct ms_arena *arena;
	struct ms_walk *walk;
	struct ms_heads *heads;
};

static bool head_is_before(const struct ms_head *head, const struct ms_block *block)
{
	if (head->extent != block->extent)
		return head->extent < block->extent;
	return head->granule < block->granule;
}

/* The head at @block; heads are in address order. */
static struct ms_head *find_head(const struct ms_heads *heads, const struct ms_block *block)
{
	size_t low = 0;
	size_t high = heads->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (head_is_before(&heads->at[middle], block))
			low = middle + 1;
		else
			high = middle;
	}
	return &heads->at[low];
}

static void absorb_met(const struct folding *f, struct ms_head *into)
{
	struct ms_met *met = ms_walk_met(f->walk);
	const struct ms_block *block;

	ms_vec_for_each (block, met) {
		struct ms_head *head = find_head(f->heads, block);
		const struct ms_extent *extent = &f->blocks->extents.at[block->extent];

		if (head->absorbed)
			continue;
		head->absorbed = true;
		into->count += head->count;
		into->bytes += head->bytes;
		ms_blocks_cell(f->blocks, extent, block->granule)->tags &=
			~ms_granule_bit(block->granule);
	}
	met->n = 0;
}

static enum ms_status fold_from(const struct folding *f, struct ms_block block,
                                struct ms_error *err)
{
	const struct ms_extent *extent = &f->blocks->extents.at[block.extent];
	struct ms_walk_count before = ms_walk_count(f->walk);
	struct ms_walk_count after;
	struct ms_head *head;
	enum ms_status st;

	ms_walk_block(f->walk, block);
	st = ms_walk_finish(f->walk, err);
	if (st)
		return st;
	after = ms_walk_count(f->walk);
	head = ms_vec_push(f->arena, f->heads);
	if (!head)
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of leaks");
	*head = (struct ms_head){ .extent = block.extent,
		                  .granule = block.granule,
		                  .count = after.blocks - before.blocks,
		                  .bytes = after.bytes - before.bytes };
	absorb_met(f, head);
	ms_blocks_cell(f->blocks, extent, block.granule)->tags |= ms_granule_bit(block.granule);
	return MS_OK;
}

static enum ms_status fold_extent(const struct folding *f, uint32_t index, struct ms_error *err)
{
	const struct ms_extent *extent = &f->blocks->extents.at[index];
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < extent->n_cells && !st; i++) {
		const struct ms_cell *cell = &f->blocks->cells.at[extent->cell0 + i];
		uint64_t left;

		/* Marks are looked at again after each head: its walk sets them. */
		while (!st && (left = cell->starts & ~cell->marks) != 0) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

			st = fold_from(f, (struct ms_block){ index, granule }, err);
		}
	}
	return st;
}

enum ms_status ms_fold(struct ms_blocks *blocks, const struct ms_walk_options *like,
                       struct ms_arena *arena, struct ms_heads *ret, struct ms_error *err)
{
	struct ms_walk_options options = { .unaligned = like->unaligned,
		                           .edges = like->edges,
		                           .fold_heads = true };
	struct folding f = { blocks, arena, ms_walk_new(blocks, &options, arena), ret };
	enum ms_status st = MS_OK;

	if (!f.walk)
		return ms_fail(err, MS_E_NOMEM, "no memory for folding leaks");
	for (uint32_t i = 0; i < blocks->extents.n && !st; i++)
		if (blocks->extents.at[i].kind == MS_EXTENT_HEAP)
			st = fold_extent(&f, i, err);
	return st;
}
