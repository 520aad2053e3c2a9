/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/blocks.h"

#include <assert.h>
#include <string.h>

#include "base/sort.h"

static_assert(sizeof(struct ms_cell) == 32, "two cells to a cache line");

/* Stands in ms_blocks.sizes for a block whose length is in ms_blocks.bigs. */
static const uint32_t SIZE_IS_BIG = UINT32_MAX;

void ms_blocks_init(struct ms_blocks *blocks, struct ms_source *src, struct ms_arena *arena)
{
	memset(blocks, 0, sizeof(*blocks));
	blocks->src = src;
	blocks->arena = arena;
}

enum ms_status ms_blocks_open(struct ms_blocks *blocks, struct ms_range range, uint8_t shift,
                              uint32_t *ret)
{
	uint64_t granules = ((ms_range_len(range) - 1) >> shift) + 1;
	size_t n_cells = (size_t)(granules / MS_CELL_GRANULES + 1);
	struct ms_extent *extent;

	if (!ms_vec_reserve(blocks->arena, &blocks->cells, blocks->cells.n + n_cells))
		return MS_E_NOMEM;
	extent = ms_vec_push(blocks->arena, &blocks->extents);
	if (!extent)
		return MS_E_NOMEM;
	*extent = (struct ms_extent){ .range = range,
		                      .host = ms_source_view(blocks->src, range.begin,
		                                             ms_range_len(range)),
		                      .cell0 = blocks->cells.n,
		                      .n_cells = n_cells,
		                      .size0 = blocks->sizes.n,
		                      .shift = shift };
	blocks->cells.n += n_cells;
	*ret = (uint32_t)(blocks->extents.n - 1);
	return MS_OK;
}

enum ms_status ms_blocks_open_single(struct ms_blocks *blocks, struct ms_range range,
                                     enum ms_extent_kind kind, uint32_t *ret)
{
	enum ms_status st = ms_blocks_open(blocks, range, MS_SINGLE_SHIFT, ret);

	if (st)
		return st;
	blocks->extents.at[*ret].kind = (uint8_t)kind;
	blocks->extents.at[*ret].n = 1;
	blocks->cells.at[blocks->extents.at[*ret].cell0].starts = 1;
	return MS_OK;
}

enum ms_status ms_blocks_put(struct ms_blocks *blocks, uint32_t extent, ms_addr begin,
                             uint64_t size)
{
	struct ms_extent *e = &blocks->extents.at[extent];
	uint64_t granule = ms_granule_of(e, begin);
	uint32_t *slot = ms_vec_push(blocks->arena, &blocks->sizes);

	assert(extent == blocks->extents.n - 1);
	if (!slot)
		return MS_E_NOMEM;
	*slot = (uint32_t)size;
	if (size >= SIZE_IS_BIG) {
		struct ms_big *big = ms_vec_push(blocks->arena, &blocks->bigs);

		if (!big)
			return MS_E_NOMEM;
		*big = (struct ms_big){ begin, size };
		*slot = SIZE_IS_BIG;
	}
	ms_blocks_cell(blocks, e, granule)->starts |= ms_granule_bit(granule);
	granule = ms_granule_of(e, begin + size - 1);
	ms_blocks_cell(blocks, e, granule)->ends |= ms_granule_bit(granule);
	e->n++;
	return MS_OK;
}

void ms_blocks_shrink(struct ms_blocks *blocks, ms_addr end)
{
	struct ms_extent *e = &blocks->extents.at[blocks->extents.n - 1];

	if (end <= e->range.begin)
		end = e->range.begin + 1;
	if (end >= e->range.end)
		return;
	e->range.end = end;
	e->n_cells = (size_t)(ms_granule_of(e, end - 1) / MS_CELL_GRANULES + 1);
	blocks->cells.n = e->cell0 + e->n_cells;
}

static bool extent_before(const void *a, const void *b)
{
	const struct ms_extent *x = a;
	const struct ms_extent *y = b;

	return x->range.begin < y->range.begin;
}

enum ms_status ms_blocks_sort(struct ms_blocks *blocks)
{
	bool ok = ms_sort(blocks->arena, blocks->extents.at, blocks->extents.n,
	                  sizeof(struct ms_extent), extent_before);

	return ok ? MS_OK : MS_E_NOMEM;
}

struct ms_extent *ms_blocks_extent_of(const struct ms_blocks *blocks, ms_addr addr)
{
	return ms_range_find(&blocks->extents, addr);
}

/* The cell of the living block that begins at @addr, or NULL. */
static struct ms_cell *cell_of_live(const struct ms_blocks *blocks, ms_addr addr, uint64_t *bit)
{
	const struct ms_extent *e = ms_blocks_extent_of(blocks, addr);
	uint64_t granule;
	struct ms_cell *cell;

	if (!e || e->dropped)
		return NULL;
	granule = ms_granule_of(e, addr);
	cell = ms_blocks_cell(blocks, e, granule);
	*bit = ms_granule_bit(granule);
	if (ms_block_begin(e, granule) != addr || !(cell->starts & ~cell->tags & *bit))
		return NULL;
	return cell;
}

bool ms_blocks_begins(const struct ms_blocks *blocks, ms_addr addr)
{
	uint64_t bit;

	return cell_of_live(blocks, addr, &bit) != NULL;
}

bool ms_blocks_kill(struct ms_blocks *blocks, ms_addr addr)
{
	uint64_t bit;
	struct ms_cell *cell = cell_of_live(blocks, addr, &bit);

	if (!cell)
		return false;
	cell->tags |= bit;
	return true;
}

void ms_blocks_drop_group(struct ms_blocks *blocks, uint32_t group)
{
	struct ms_extent *e;

	ms_vec_for_each (e, &blocks->extents)
		if (e->group == group)
			e->dropped = true;
}

/* Move the sizes of the blocks that stay to the front of the extent's share of sizes. */
static void drop_sizes(struct ms_blocks *blocks, const struct ms_extent *e, struct ms_cell *cell,
                       size_t *from, size_t *to)
{
	if (e->shift == MS_SINGLE_SHIFT)
		return;
	for (uint64_t left = cell->starts; left; left &= left - 1) {
		uint64_t bit = left & (~left + 1);

		if (!(cell->tags & bit))
			blocks->sizes.at[(*to)++] = blocks->sizes.at[*from];
		(*from)++;
	}
}

static void seal_extent(struct ms_blocks *blocks, struct ms_extent *e)
{
	size_t from = e->size0;
	size_t to = e->size0;

	e->n = 0;
	for (size_t i = e->cell0; i < e->cell0 + e->n_cells; i++) {
		struct ms_cell *cell = &blocks->cells.at[i];

		if (cell->tags || from != to)
			drop_sizes(blocks, e, cell, &from, &to);
		else if (e->shift != MS_SINGLE_SHIFT)
			from = to += (size_t)__builtin_popcountll(cell->starts);
		cell->starts &= ~cell->tags;
		cell->tags = 0;
		cell->marks = 0;
		blocks->ranks.at[i] = e->n;
		e->n += (uint32_t)__builtin_popcountll(cell->starts);
	}
}

/* Bytes of all blocks of a sealed extent. */
static uint64_t extent_bytes(const struct ms_blocks *blocks, const struct ms_extent *e)
{
	uint64_t bytes = 0;

	if (e->shift == MS_SINGLE_SHIFT)
		return ms_range_len(e->range);
	for (size_t i = e->size0; i < e->size0 + e->n; i++)
		if (blocks->sizes.at[i] != SIZE_IS_BIG)
			bytes += blocks->sizes.at[i];
	return bytes;
}

enum ms_status ms_blocks_seal(struct ms_blocks *blocks)
{
	size_t kept = 0;
	uint64_t id = 0;
	struct ms_extent *e;
	struct ms_big *big;

	if (!ms_vec_reserve(blocks->arena, &blocks->ranks, blocks->cells.n))
		return MS_E_NOMEM;
	ms_vec_for_each (e, &blocks->extents) {
		if (e->dropped)
			continue;
		seal_extent(blocks, e);
		if (!e->n)
			continue;
		e->first = (uint32_t)id;
		id += e->n;
		if (id > UINT32_MAX)
			return MS_E_NOMEM;
		if (e->kind == MS_EXTENT_HEAP) {
			blocks->n += e->n;
			blocks->bytes += extent_bytes(blocks, e);
		}
		blocks->extents.at[kept++] = *e;
	}
	blocks->extents.n = kept;
	ms_vec_for_each (big, &blocks->bigs)
		if (ms_blocks_begins(blocks, big->begin))
			blocks->bytes += big->size;
	return MS_OK;
}

void ms_blocks_unmark(struct ms_blocks *blocks)
{
	struct ms_cell *cell;

	ms_vec_for_each (cell, &blocks->cells) {
		cell->marks = 0;
		cell->tags = 0;
	}
}

static uint64_t big_size(const struct ms_blocks *blocks, ms_addr begin)
{
	const struct ms_big *big;

	ms_vec_for_each (big, &blocks->bigs)
		if (big->begin == begin)
			return big->size;
	assert(false && "every big block is listed");
	return 0;
}

ms_addr ms_block_words_end(const struct ms_blocks *blocks, const struct ms_extent *extent,
                           uint64_t granule)
{
	const struct ms_cell *cell = ms_blocks_cell(blocks, extent, granule);
	uint64_t ends = cell->ends & ~(ms_granule_bit(granule) - 1);

	if (extent->shift == MS_SINGLE_SHIFT)
		return extent->range.end;
	granule -= granule % MS_CELL_GRANULES;
	for (; !ends; ends = cell->ends) {
		cell++;
		granule += MS_CELL_GRANULES;
	}
	return ms_block_begin(extent, granule + (uint64_t)__builtin_ctzll(ends) + 1);
}

uint64_t ms_block_size(const struct ms_blocks *blocks, const struct ms_extent *extent,
                       uint64_t granule)
{
	size_t cell = extent->cell0 + granule / MS_CELL_GRANULES;
	uint64_t below = blocks->cells.at[cell].starts & (ms_granule_bit(granule) - 1);
	uint32_t size;

	if (extent->shift == MS_SINGLE_SHIFT)
		return ms_range_len(extent->range);
	size = blocks->sizes.at[extent->size0 + blocks->ranks.at[cell] +
	                        (size_t)__builtin_popcountll(below)];
	return size == SIZE_IS_BIG ? big_size(blocks, ms_block_begin(extent, granule)) : size;
}

/* The last of the extent's cells before @cell with a block in it; ranks say that there is one. */
static size_t last_full_cell(const struct ms_blocks *blocks, const struct ms_extent *extent,
                             size_t cell)
{
	uint32_t rank = blocks->ranks.at[cell];
	size_t low = extent->cell0;
	size_t high = cell;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (blocks->ranks.at[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

uint64_t ms_block_start(const struct ms_blocks *blocks, const struct ms_extent *extent,
                        uint64_t granule)
{
	size_t cell = extent->cell0 + granule / MS_CELL_GRANULES;
	uint64_t bit = ms_granule_bit(granule);
	uint64_t found = blocks->cells.at[cell].starts & (bit | (bit - 1));

	if (!found) {
		if (!blocks->ranks.at[cell])
			return UINT64_MAX;
		cell = last_full_cell(blocks, extent, cell);
		found = blocks->cells.at[cell].starts;
	}
	return (cell - extent->cell0) * MS_CELL_GRANULES + (uint64_t)(63 - __builtin_clzll(found));
}
