/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/holding/rows.h"

#include "engine/holding/pointers.h"

enum { SHORT = 16 }; /* entries of a row that are looked through; a miss of the cache costs more */

struct gathering {
	struct ms_rows rows;
	struct ms_arena *arena;
	uint32_t *seen; /* for each block the last long row, from 1 on, that has it */
	uint32_t row;   /* that is being added to */
	bool out_of_memory;
};

/* Rows up to @row begin behind what there is. */
static void begin_row(struct gathering *g, uint32_t row)
{
	while (g->row < row)
		g->out_of_memory |= !ms_offset_set(&g->rows.first, ++g->row, g->rows.to.n);
}

/* Whether the row that is being added to has @to; it is about to, if not. */
static bool is_in_row(struct gathering *g, uint32_t to)
{
	size_t first = (size_t)ms_offset_at(&g->rows.first, g->row);
	const uint32_t *begin = g->rows.to.at + first;
	size_t n = g->rows.to.n - first;
	bool found = false;

	if (n < SHORT) {
		for (size_t i = 0; i < n; i++)
			found |= begin[i] == to;
		return found;
	}
	for (size_t i = 0; n == SHORT && i < n; i++)
		g->seen[begin[i]] = g->row + 1;
	found = g->seen[to] == g->row + 1;
	g->seen[to] = g->row + 1;
	return found;
}

static void add(void *ctx, const struct ms_pointer *pointer)
{
	struct gathering *g = ctx;
	uint32_t to = ms_block_number(g->rows.blocks, pointer->to);
	uint32_t row = (uint32_t)pointer->from;
	uint32_t *slot;

	begin_row(g, row);
	if (to == row || is_in_row(g, to))
		return;
	slot = ms_vec_push(g->arena, &g->rows.to);
	g->out_of_memory |= !slot;
	if (slot)
		*slot = to;
}

static void gather_extent(struct gathering *g, struct ms_pointers *pointers, uint32_t index)
{
	const struct ms_blocks *blocks = g->rows.blocks;
	const struct ms_extent *extent = &blocks->extents.at[index];
	uint32_t number = extent->first;

	for (size_t i = 0; i < extent->n_cells; i++) {
		uint64_t left = blocks->cells.at[extent->cell0 + i].starts;

		for (; left; left &= left - 1) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

			ms_pointers_block(pointers, number++, (struct ms_block){ index, granule });
		}
	}
}

enum ms_status ms_rows_gather(const struct ms_blocks *blocks, const struct ms_walk_options *like,
                              struct ms_arena *arena, struct ms_rows *ret, struct ms_error *err)
{
	struct gathering g = { .rows = { .blocks = blocks, .like = *like }, .arena = arena };
	struct ms_arena passing = { 0 };
	struct ms_pointers *pointers = ms_pointers_new(blocks, like, &passing);
	size_t n = ms_blocks_numbers(blocks);

	g.rows.n = (uint32_t)n;
	g.seen = ms_arena_alloc(&passing, n * sizeof(*g.seen));
	/* The begin of a row is taken of no row as well. */
	g.out_of_memory = !pointers || !g.seen || !ms_offsets_init(&g.rows.first, n + 1, arena) ||
	                  !ms_vec_reserve(arena, &g.rows.to, 1);
	if (!g.out_of_memory) {
		pointers->found = add;
		pointers->ctx = &g;
		for (uint32_t i = 0; i < blocks->extents.n && !g.out_of_memory; i++)
			gather_extent(&g, pointers, i);
		ms_pointers_finish(pointers);
		begin_row(&g, g.rows.n);
	}
	ms_arena_deinit(&passing);
	if (g.out_of_memory)
		return ms_fail(err, MS_E_NOMEM, "no memory for the graph of all blocks");
	*ret = g.rows;
	return MS_OK;
}
