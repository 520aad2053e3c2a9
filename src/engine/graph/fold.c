/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/fold.h"

/*
 * No strongly connected components are computed, because only their order matters.
 * Blocks are gone through three times:
 *
 *	by address       one that is not marked becomes a candidate, and all that is
 *	                 reached from it is marked
 *	backwards        candidates alone, with the marks put back: one that another
 *	                 candidate behind it reaches is absorbed
 *	by address       the others are heads, and what each reaches first is its own
 *
 * A cycle (or a block by itself) to which nothing outside of it points has exactly one
 * candidate, its lowest address: nothing else marks that, and it marks the rest. No other
 * candidate reaches it, so it is never absorbed. Any other candidate is reached from such
 * a cycle, and the candidate of that comes later, or it would have marked the other one
 * the first time; so the other one is marked when backwards its turn comes.
 */

struct folding {
	struct ms_blocks *blocks;
	struct ms_arena *arena;
	struct ms_walk *walk;
	struct ms_heads *heads;
	uint64_t *marks; /* of each cell, as they were */
};

static bool save_marks(struct folding *f)
{
	f->marks = ms_arena_alloc(f->arena, f->blocks->cells.n * sizeof(*f->marks));
	for (size_t i = 0; f->marks && i < f->blocks->cells.n; i++)
		f->marks[i] = f->blocks->cells.at[i].marks;
	return f->marks || !f->blocks->cells.n;
}

static void put_marks_back(const struct folding *f)
{
	for (size_t i = 0; i < f->blocks->cells.n; i++)
		f->blocks->cells.at[i].marks = f->marks[i];
}

/* Mark what @head reaches, and count it. */
static enum ms_status follow(const struct folding *f, struct ms_head *head, struct ms_error *err)
{
	struct ms_walk_count before = ms_walk_count(f->walk);
	struct ms_walk_count after;
	enum ms_status st;

	ms_walk_block(f->walk, (struct ms_block){ head->extent, head->granule });
	st = ms_walk_finish(f->walk, err);
	after = ms_walk_count(f->walk);
	head->count = after.blocks - before.blocks;
	head->bytes = after.bytes - before.bytes;
	return st;
}

static enum ms_status add_candidate(const struct folding *f, uint32_t extent, uint64_t granule,
                                    struct ms_error *err)
{
	struct ms_head *head = ms_vec_push(f->arena, f->heads);

	if (!head)
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of leaks");
	*head = (struct ms_head){ .extent = extent, .granule = granule };
	return follow(f, head, err);
}

static enum ms_status add_candidates(const struct folding *f, uint32_t index, struct ms_error *err)
{
	const struct ms_extent *extent = &f->blocks->extents.at[index];
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < extent->n_cells && !st; i++) {
		const struct ms_cell *cell = &f->blocks->cells.at[extent->cell0 + i];
		uint64_t left;

		/* Marks are looked at again after each candidate: its walk sets them. */
		while (!st && (left = cell->starts & ~cell->marks) != 0) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

			st = add_candidate(f, index, granule, err);
		}
	}
	return st;
}

static struct ms_cell *cell_of(const struct folding *f, const struct ms_head *head)
{
	return ms_blocks_cell(f->blocks, &f->blocks->extents.at[head->extent], head->granule);
}

static enum ms_status absorb(const struct folding *f, struct ms_error *err)
{
	enum ms_status st = MS_OK;

	put_marks_back(f);
	for (size_t i = f->heads->n; i > 0 && !st; i--) {
		struct ms_head *head = &f->heads->at[i - 1];

		head->absorbed = cell_of(f, head)->marks & ms_granule_bit(head->granule);
		if (!head->absorbed)
			st = follow(f, head, err);
	}
	return st;
}

static enum ms_status share_out(const struct folding *f, struct ms_error *err)
{
	enum ms_status st = MS_OK;

	put_marks_back(f);
	for (size_t i = 0; i < f->heads->n && !st; i++)
		if (!f->heads->at[i].absorbed)
			st = follow(f, &f->heads->at[i], err);
	return st;
}

enum ms_status ms_fold(struct ms_blocks *blocks, const struct ms_walk_options *like,
                       struct ms_arena *arena, struct ms_heads *ret, struct ms_error *err)
{
	struct ms_walk_options options = { .unaligned = like->unaligned,
		                           .edges = like->edges,
		                           .count_bytes = true };
	struct folding f = { blocks, arena, ms_walk_new(blocks, &options, arena), ret, NULL };
	enum ms_status st = MS_OK;
	const struct ms_head *head;

	if (!f.walk || !save_marks(&f))
		return ms_fail(err, MS_E_NOMEM, "no memory for folding leaks");
	for (uint32_t i = 0; i < blocks->extents.n && !st; i++)
		if (blocks->extents.at[i].kind == MS_EXTENT_HEAP)
			st = add_candidates(&f, i, err);
	/* One candidate has everything. */
	if (!st && ret->n > 1)
		st = absorb(&f, err);
	if (!st && ret->n > 1)
		st = share_out(&f, err);
	ms_vec_for_each (head, ret)
		if (!head->absorbed)
			cell_of(&f, head)->tags |= ms_granule_bit(head->granule);
	return st;
}
