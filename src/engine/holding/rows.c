/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/holding/rows.h"

#include <string.h>

#include "engine/holding/pointers.h"

/*
 * The blocks are cut into parts by address. All workers gather the rows of some parts, each in
 * its own memory; then these are put behind those that there are, in order. So the rows are
 * the same however many workers there are.
 */

enum {
	SHORT = 16, /* entries of a row that are looked through; a miss of the cache costs more */
	LEAST_SLOTS = 64,
	PART_CELLS = 256,
	PARTS = 16, /* that are gathered at once */
};

struct part {
	uint32_t extent;
	size_t cell; /* of the extent: the first */
	size_t n_cells;
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
	struct MS_VEC(struct part) parts;
	struct part_rows gathered[PARTS];
	struct worker *workers;
	size_t first; /* of the parts that are gathered at once */
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

static void gather_part(void *ctx, unsigned worker, size_t item)
{
	struct gathering *g = ctx;
	const struct ms_blocks *blocks = g->rows.blocks;
	const struct part *part = &g->parts.at[g->first + item];
	const struct ms_extent *extent = &blocks->extents.at[part->extent];
	struct worker *w = &g->workers[worker];
	uint32_t number = extent->first + blocks->ranks.at[extent->cell0 + part->cell];

	w->rows = &g->gathered[item];
	w->rows->to.n = w->rows->ends.n = w->begin = 0;
	w->rows->first = number;
	/* The begin of a row is taken of no row as well. */
	w->rows->out_of_memory |= !ms_vec_reserve(&w->rows->arena, &w->rows->to, 1);
	if (w->rows->out_of_memory)
		return;
	for (size_t i = part->cell; i < part->cell + part->n_cells; i++) {
		uint64_t left = blocks->cells.at[extent->cell0 + i].starts;

		for (; left; left &= left - 1) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

			ms_pointers_block(w->pointers, number++,
			                  (struct ms_block){ part->extent, granule });
		}
	}
	ms_pointers_finish(w->pointers);
	begin_row(w, number);
}

/* Put the rows of a part behind those that there are. */
static bool append(struct gathering *g, const struct part_rows *part)
{
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

static bool list_parts(struct gathering *g)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &g->rows.blocks->extents)
		for (size_t i = 0; i < extent->n_cells; i += PART_CELLS) {
			struct part *part = ms_vec_push(&g->passing, &g->parts);
			size_t left = extent->n_cells - i;

			if (!part)
				return false;
			part->extent = (uint32_t)(extent - g->rows.blocks->extents.at);
			part->cell = i;
			part->n_cells = left < PART_CELLS ? left : (size_t)PART_CELLS;
		}
	return true;
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
	return g->workers && list_parts(g) &&
	       ms_offsets_init(&g->rows.first, (size_t)g->rows.n + 1, g->arena) &&
	       ms_vec_reserve(g->arena, &g->rows.to, 1);
}

static bool gather(struct gathering *g)
{
	bool ok = prepare(g);

	for (; ok && g->first < g->parts.n; g->first += PARTS) {
		size_t left = g->parts.n - g->first;
		size_t n = left < PARTS ? left : (size_t)PARTS;

		ms_workers_run(g->rows.like.workers, n, gather_part, g);
		for (size_t i = 0; ok && i < n; i++)
			ok = append(g, &g->gathered[i]);
	}
	return ok;
}

enum ms_status ms_rows_gather(const struct ms_blocks *blocks, const struct ms_walk_options *like,
                              struct ms_arena *arena, struct ms_rows *ret, struct ms_error *err)
{
	struct gathering g = { .rows = { .blocks = blocks, .like = *like }, .arena = arena };
	bool ok;

	g.rows.n = ms_blocks_numbers(blocks);
	ok = gather(&g);
	for (unsigned i = 0; g.workers && i < ms_workers_count(like->workers); i++)
		ms_arena_deinit(&g.workers[i].arena);
	for (size_t i = 0; i < PARTS; i++)
		ms_arena_deinit(&g.gathered[i].arena);
	ms_arena_deinit(&g.passing);
	if (!ok)
		return ms_fail(err, MS_E_NOMEM, "no memory for the graph of all blocks");
	*ret = g.rows;
	return MS_OK;
}
