/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/holding/rows.h"

#include <string.h>

#include "engine/graph/pointers.h"
#include "engine/holding/parts.h"

/*
 * All workers gather the rows of some parts of the blocks, each in its own memory; then these
 * are put behind those that there are, in order.
 */

enum {
	SHORT = 16, /* entries of a row that are looked through; a miss of the cache costs more */
	LEAST_SLOTS = 64,
};

/* The rows of one part. */
struct part_rows {
	struct ms_arena arena;
	struct MS_VEC(uint32_t) to;
	struct MS_VEC(uint32_t) ends; /* of each row in to */
	uint32_t first;               /* block of the part */
	bool out_of_memory;
};

/* Entries of a long row, by hash: each + 1, and 0 where none is. */
struct set {
	struct MS_VEC(uint32_t) slots; /* as many as are in use now: a power of two */
};

/* What gathers a part. */
struct worker {
	struct ms_arena arena;
	struct ms_pointers *pointers;
	struct part_rows *rows; /* of the part */
	struct set set;
	size_t begin; /* of the row that is being added to */
};

struct gathering {
	struct ms_rows rows;
	struct ms_arena *arena;
	struct ms_arena passing;
	struct part_rows gathered[MS_PARTS_AT_ONCE];
	struct worker *workers;
};

/* ---- a row ---- */

static uint32_t *slot_of(const struct set *set, uint32_t to)
{
	size_t i = (size_t)(to * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (set->slots.n - 1);

	while (set->slots.at[i] && set->slots.at[i] != to + 1)
		i = (i + 1) & (set->slots.n - 1);
	return &set->slots.at[i];
}

/* Make the set one of the row, with room for as many again. */
static bool fill_set(struct worker *w)
{
	const uint32_t *row = w->rows->to.at + w->begin;
	size_t n = w->rows->to.n - w->begin;
	size_t slots = LEAST_SLOTS;

	while (slots < n * 4)
		slots *= 2;
	if (!ms_vec_reserve(&w->arena, &w->set.slots, slots))
		return false;
	w->set.slots.n = slots;
	memset(w->set.slots.at, 0, slots * sizeof(*w->set.slots.at));
	for (size_t i = 0; i < n; i++)
		*slot_of(&w->set, row[i]) = row[i] + 1;
	return true;
}

/* Whether the row that is being added to has @to; it is about to, if not. */
static bool is_in_row(struct worker *w, uint32_t to)
{
	const uint32_t *row = w->rows->to.at + w->begin;
	size_t n = w->rows->to.n - w->begin;
	uint32_t *slot;
	bool found = false;

	if (n < SHORT) {
		for (size_t i = 0; i < n; i++)
			found |= row[i] == to;
		return found;
	}
	if ((n == SHORT || w->set.slots.n < n * 2) && !fill_set(w)) {
		w->rows->out_of_memory = true;
		return true;
	}
	slot = slot_of(&w->set, to);
	found = *slot;
	*slot = to + 1;
	return found;
}

/* Rows up to @row begin behind what there is. */
static void begin_row(struct worker *w, uint32_t row)
{
	struct part_rows *rows = w->rows;

	while (rows->first + rows->ends.n < row) {
		uint32_t *end = ms_vec_push(&rows->arena, &rows->ends);

		rows->out_of_memory |= !end;
		if (!end)
			return;
		*end = (uint32_t)rows->to.n;
		w->begin = rows->to.n;
	}
}

static void add(void *ctx, const struct ms_pointer *pointer)
{
	struct worker *w = ctx;
	uint32_t to = ms_block_number(w->pointers->blocks, pointer->to);
	uint32_t row = (uint32_t)pointer->from;
	uint32_t *slot;

	begin_row(w, row);
	if (to == row || is_in_row(w, to))
		return;
	slot = ms_vec_push(&w->rows->arena, &w->rows->to);
	w->rows->out_of_memory |= !slot;
	if (slot)
		*slot = to;
}

/* ---- parts ---- */

static void gather_part(void *ctx, unsigned worker, size_t slot, const struct ms_blocks_part *part)
{
	struct gathering *g = ctx;
	const struct ms_blocks *blocks = g->rows.blocks;
	uint32_t extent = (uint32_t)(part->extent - blocks->extents.at);
	struct ms_part_block block = ms_part_begin(blocks, part);
	struct worker *w = &g->workers[worker];

	w->rows = &g->gathered[slot];
	w->rows->to.n = w->rows->ends.n = w->begin = 0;
	w->rows->first = block.number + 1;
	/* The begin of a row is taken of no row as well. */
	w->rows->out_of_memory |= !ms_vec_reserve(&w->rows->arena, &w->rows->to, 1);
	if (w->rows->out_of_memory)
		return;
	while (ms_part_next(blocks, part, &block))
		ms_pointers_block(w->pointers, block.number,
		                  (struct ms_block){ extent, block.granule });
	ms_pointers_finish(w->pointers);
	begin_row(w, block.number + 1);
}

/* Put the rows of a part behind those that there are. */
static bool append(void *ctx, size_t slot)
{
	struct gathering *g = ctx;
	const struct part_rows *part = &g->gathered[slot];
	size_t had = g->rows.to.n;
	bool ok =
		!part->out_of_memory && ms_vec_reserve(g->arena, &g->rows.to, had + part->to.n + 1);

	for (size_t i = 0; ok && i < part->ends.n; i++)
		ok = ms_offset_set(&g->rows.first, (size_t)part->first + i + 1,
		                   had + part->ends.at[i]);
	if (ok && part->to.n)
		memcpy(g->rows.to.at + had, part->to.at, part->to.n * sizeof(*part->to.at));
	g->rows.to.n += ok ? part->to.n : 0;
	return ok;
}

static bool prepare(struct gathering *g)
{
	unsigned n = ms_workers_count(g->rows.like.workers);

	g->workers = ms_arena_alloc(&g->passing, n * sizeof(*g->workers));
	for (unsigned i = 0; g->workers && i < n; i++) {
		struct worker *w = &g->workers[i];

		w->pointers = ms_pointers_new(g->rows.blocks, &g->rows.like, &g->passing);
		if (!w->pointers)
			return false;
		w->pointers->found = add;
		w->pointers->ctx = w;
	}
	return g->workers && ms_offsets_init(&g->rows.first, (size_t)g->rows.n + 1, g->arena) &&
	       ms_vec_reserve(g->arena, &g->rows.to, 1);
}

enum ms_status ms_rows_gather(const struct ms_blocks *blocks, const struct ms_walk_options *like,
                              struct ms_arena *arena, struct ms_rows *ret, struct ms_error *err)
{
	struct gathering g = { .rows = { .blocks = blocks, .like = *like }, .arena = arena };
	bool ok;

	g.rows.n = ms_blocks_numbers(blocks);
	ok = prepare(&g) && ms_parts_run(&(struct ms_parts_run){ .blocks = blocks,
	                                                         .workers = like->workers,
	                                                         .ctx = &g,
	                                                         .look = gather_part,
	                                                         .take = append });
	for (unsigned i = 0; g.workers && i < ms_workers_count(like->workers); i++)
		ms_arena_deinit(&g.workers[i].arena);
	for (size_t i = 0; i < MS_PARTS_AT_ONCE; i++)
		ms_arena_deinit(&g.gathered[i].arena);
	ms_arena_deinit(&g.passing);
	if (!ok)
		return ms_fail(err, MS_E_NOMEM, "no memory for the graph of all blocks");
	*ret = g.rows;
	return MS_OK;
}
