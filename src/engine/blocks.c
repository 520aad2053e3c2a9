/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/blocks.h"

#include <assert.h>
#include <string.h>

#include "base/search.h"
#include "base/sort.h"

static_assert(sizeof(struct ms_cell) == 32, "two cells to a cache line");

enum { LONG_CELLS = 8 }; /* from a block's first cell to its last, for it to be listed */

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
	blocks->extents.at[*ret].bytes = ms_range_len(range);
	blocks->cells.at[blocks->extents.at[*ret].cell0].starts = 1;
	return MS_OK;
}

static enum ms_status put_odd(struct ms_blocks *blocks, struct ms_extent *e, ms_addr begin,
                              uint64_t size)
{
	struct ms_odd *odd = ms_vec_push(blocks->arena, &blocks->odds);

	if (!odd)
		return MS_E_NOMEM;
	*odd = (struct ms_odd){ begin, size };
	if (!e->n_odds)
		e->odd0 = blocks->odds.n - 1;
	e->n_odds++;
	return MS_OK;
}

enum ms_status ms_blocks_put(struct ms_blocks *blocks, uint32_t extent, ms_addr begin,
                             uint64_t size)
{
	struct ms_extent *e = &blocks->extents.at[extent];
	uint64_t last = ms_granule_of(e, begin + size - 1);
	uint64_t slack = ms_block_begin(e, last + 1) - (begin + size);

	assert(extent == blocks->extents.n - 1);
	if (!e->n)
		e->slack = slack;
	e->n++;
	e->bytes += size;
	ms_cells_put(&blocks->cells.at[e->cell0], ms_granule_of(e, begin), last);
	return slack == e->slack ? MS_OK : put_odd(blocks, e, begin, size);
}

void ms_blocks_shrink(struct ms_blocks *blocks, uint32_t extent, ms_addr end)
{
	struct ms_extent *e = &blocks->extents.at[extent];

	if (end <= e->range.begin)
		end = e->range.begin + 1;
	if (end >= e->range.end)
		return;
	e->range.end = end;
	e->n_cells = (size_t)(ms_granule_of(e, end - 1) / MS_CELL_GRANULES + 1);
	if (extent == blocks->extents.n - 1)
		blocks->cells.n = e->cell0 + e->n_cells;
}

void ms_blocks_cancel(struct ms_blocks *blocks, uint32_t extent)
{
	struct ms_extent *e = &blocks->extents.at[extent];

	assert(extent == blocks->extents.n - 1);
	memset(&blocks->cells.at[e->cell0], 0, e->n_cells * sizeof(struct ms_cell));
	blocks->cells.n = e->cell0;
	memset(e, 0, sizeof(*e));
	blocks->extents.n--;
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

/* The cell of the living block that begins at @addr in @e, or NULL. */
static struct ms_cell *cell_of_live(const struct ms_blocks *blocks, const struct ms_extent *e,
                                    ms_addr addr, uint64_t *bit)
{
	uint64_t granule = ms_granule_of(e, addr);
	struct ms_cell *cell;

	if (e->dropped)
		return NULL;
	cell = ms_blocks_cell(blocks, e, granule);
	*bit = ms_granule_bit(granule);
	if (ms_block_begin(e, granule) != addr || !(cell->starts & ~cell->tags & *bit))
		return NULL;
	return cell;
}

bool ms_blocks_begins(const struct ms_blocks *blocks, ms_addr addr)
{
	const struct ms_extent *e = ms_blocks_extent_of(blocks, addr);
	uint64_t bit;

	return e && cell_of_live(blocks, e, addr, &bit);
}

uint64_t ms_blocks_usable(const struct ms_blocks *blocks, ms_addr addr)
{
	const struct ms_extent *e = ms_blocks_extent_of(blocks, addr);
	uint64_t bit;

	if (!e || !cell_of_live(blocks, e, addr, &bit))
		return 0;
	return ms_block_usable(blocks, e, ms_granule_of(e, addr));
}

bool ms_blocks_kill(struct ms_blocks *blocks, ms_addr addr)
{
	struct ms_extent *e = ms_blocks_extent_of(blocks, addr);
	uint64_t bit;
	struct ms_cell *cell = e ? cell_of_live(blocks, e, addr, &bit) : NULL;

	if (!cell)
		return false;
	cell->tags |= bit;
	e->bytes -= ms_block_usable(blocks, e, ms_granule_of(e, addr));
	return true;
}

uint32_t ms_blocks_new_group(struct ms_blocks *blocks)
{
	return ++blocks->n_groups;
}

void ms_blocks_drop_group(struct ms_blocks *blocks, uint32_t group)
{
	struct ms_extent *e;

	ms_vec_for_each (e, &blocks->extents)
		if (e->group == group)
			e->dropped = true;
}

/* Its blocks are numbered from @number on; false when numbers have no more bits. */
static bool seal_extent(struct ms_blocks *blocks, struct ms_extent *e, uint64_t *number)
{
	e->n = 0;
	for (size_t i = e->cell0; i < e->cell0 + e->n_cells; i++) {
		struct ms_cell *cell = &blocks->cells.at[i];

		cell->starts &= ~cell->tags;
		cell->tags = 0;
		cell->marks = 0;
		blocks->ranks.at[i] = e->n;
		e->n += (uint32_t)__builtin_popcountll(cell->starts);
	}
	e->first = (uint32_t)*number;
	*number += e->n;
	return *number <= UINT32_MAX;
}

/* List the block from place @first to @last if it goes over many cells. False without memory. */
static bool list_long(struct ms_blocks *blocks, uint64_t first, uint64_t last)
{
	struct ms_long *slot;

	if (last / MS_CELL_GRANULES - first / MS_CELL_GRANULES < LONG_CELLS)
		return true;
	slot = ms_vec_push(blocks->arena, &blocks->longs);
	if (slot)
		*slot = (struct ms_long){ first, last };
	return slot;
}

/* List those of the extent's blocks that go over many cells. False without memory. */
static bool list_longs(struct ms_blocks *blocks, const struct ms_extent *e)
{
	const size_t end = e->cell0 + e->n_cells;
	uint64_t first = UINT64_MAX; /* of a block that has not ended yet */

	if (e->shift == MS_SINGLE_SHIFT)
		return true;
	for (size_t i = e->cell0; i < end; i++) {
		const struct ms_cell *cell = &blocks->cells.at[i];
		uint64_t place = i * MS_CELL_GRANULES;

		if (first != UINT64_MAX && cell->ends) {
			uint64_t last = place + (uint64_t)__builtin_ctzll(cell->ends);

			if (!list_long(blocks, first, last))
				return false;
			first = UINT64_MAX;
		}
		if (cell->starts) {
			unsigned bit = 63 - (unsigned)__builtin_clzll(cell->starts);

			first = cell->ends >> bit ? UINT64_MAX : place + bit;
		}
	}
	return true;
}

enum ms_status ms_blocks_seal(struct ms_blocks *blocks)
{
	size_t kept = 0;
	uint64_t number = 0;
	struct ms_extent *e;

	if (!ms_vec_reserve(blocks->arena, &blocks->ranks, blocks->cells.n))
		return MS_E_NOMEM;
	ms_vec_for_each (e, &blocks->extents) {
		if (e->dropped)
			continue;
		if (!seal_extent(blocks, e, &number) || !list_longs(blocks, e))
			return MS_E_NOMEM;
		if (!e->n)
			continue;
		if (e->kind == MS_EXTENT_HEAP) {
			blocks->n += e->n;
			blocks->bytes += e->bytes;
		}
		blocks->extents.at[kept++] = *e;
	}
	blocks->extents.n = kept;
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

void ms_blocks_visit_unmarked(const struct ms_blocks *blocks, ms_blocks_visit *visit, void *ctx)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &blocks->extents)
		for (size_t i = 0; extent->kind == MS_EXTENT_HEAP && i < extent->n_cells; i++) {
			const struct ms_cell *cell = &blocks->cells.at[extent->cell0 + i];
			struct ms_block block = { .extent =
				                          (uint32_t)(extent - blocks->extents.at) };

			for (uint64_t left = cell->starts & ~cell->marks; left; left &= left - 1) {
				block.granule =
					i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);
				visit(ctx, block);
			}
		}
}

bool ms_marks_none(struct ms_blocks *blocks, struct ms_marks *ret)
{
	if (!ms_vec_reserve(blocks->arena, ret, blocks->cells.n))
		return false;
	ret->n = blocks->cells.n;
	if (ret->n)
		memset(ret->at, 0, ret->n * sizeof(*ret->at));
	return true;
}

bool ms_marks_save(struct ms_blocks *blocks, struct ms_marks *ret)
{
	const struct ms_cell *cell;

	if (!ms_vec_reserve(blocks->arena, ret, blocks->cells.n))
		return false;
	ret->n = 0;
	ms_vec_for_each (cell, &blocks->cells)
		ret->at[ret->n++] = cell->marks;
	return true;
}

void ms_marks_restore(struct ms_blocks *blocks, const struct ms_marks *marks)
{
	ms_blocks_unmark(blocks);
	for (size_t i = 0; i < marks->n; i++)
		blocks->cells.at[i].marks = marks->at[i];
}

/* The last granule of the long block that begins in @granule; UINT64_MAX when it is not listed. */
static uint64_t end_of_long(const struct ms_blocks *blocks, const struct ms_extent *extent,
                            uint64_t granule)
{
	const struct ms_long *longs = blocks->longs.at;
	const size_t zero = extent->cell0 * MS_CELL_GRANULES;
	size_t i = ms_lower_bound(0, blocks->longs.n, k, longs[k].first < zero + granule);

	if (i == blocks->longs.n || longs[i].first != zero + granule)
		return UINT64_MAX;
	return longs[i].last - zero;
}

/* Where the last granule ends that the block beginning in @granule has. */
static ms_addr granules_end(const struct ms_blocks *blocks, const struct ms_extent *extent,
                            uint64_t granule)
{
	const struct ms_cell *first = ms_blocks_cell(blocks, extent, granule);
	const struct ms_cell *cell = first;
	uint64_t ends = cell->ends & ~(ms_granule_bit(granule) - 1);
	uint64_t last = UINT64_MAX;

	if (extent->shift == MS_SINGLE_SHIFT)
		return extent->range.end;
	while (!ends) {
		cell++;
		if (cell - first == LONG_CELLS)
			last = end_of_long(blocks, extent, granule);
		if (last != UINT64_MAX)
			return ms_block_begin(extent, last + 1);
		ends = cell->ends;
	}
	last = (granule / MS_CELL_GRANULES + (uint64_t)(cell - first)) * MS_CELL_GRANULES +
	       (uint64_t)__builtin_ctzll(ends);
	return ms_block_begin(extent, last + 1);
}

/* The entry of the block at @begin when it is one of the extent's odd ones, or NULL. */
static struct ms_odd *find_odd(const struct ms_blocks *blocks, const struct ms_extent *extent,
                               ms_addr begin)
{
	size_t end = extent->odd0 + extent->n_odds;
	size_t at = ms_lower_bound(extent->odd0, end, i, blocks->odds.at[i].begin < begin);

	return at < end && blocks->odds.at[at].begin == begin ? &blocks->odds.at[at] : NULL;
}

/* How many of the extent's blocks begin before @granule. */
static size_t rank_of(const struct ms_blocks *blocks, const struct ms_extent *extent,
                      uint64_t granule)
{
	size_t cell = extent->cell0 + granule / MS_CELL_GRANULES;
	uint64_t before = blocks->cells.at[cell].starts & (ms_granule_bit(granule) - 1);

	return blocks->ranks.at[cell] + (size_t)__builtin_popcountll(before);
}

static uint32_t trim_of(const struct ms_blocks *blocks, const struct ms_extent *extent,
                        uint64_t granule)
{
	return blocks->less.at[extent->less0 + rank_of(blocks, extent, granule)];
}

static uint64_t less_of(const struct ms_blocks *blocks, const struct ms_extent *extent,
                        uint64_t granule)
{
	return trim_of(blocks, extent, granule) & ~MS_TRIM_IN_USE;
}

uint64_t ms_block_usable(const struct ms_blocks *blocks, const struct ms_extent *extent,
                         uint64_t granule)
{
	ms_addr begin = ms_block_begin(extent, granule);
	const struct ms_odd *odd = extent->n_odds ? find_odd(blocks, extent, begin) : NULL;

	if (extent->shift == MS_SINGLE_SHIFT)
		return ms_range_len(extent->range);
	if (odd)
		return odd->size;
	if (extent->exact)
		return granules_end(blocks, extent, granule) - begin -
		       less_of(blocks, extent, granule);
	return granules_end(blocks, extent, granule) - begin - extent->slack;
}

uint64_t ms_block_size(const struct ms_blocks *blocks, const struct ms_extent *extent,
                       uint64_t granule)
{
	uint64_t usable = ms_block_usable(blocks, extent, granule);

	if (!extent->trimmed || extent->exact)
		return usable;
	return usable - less_of(blocks, extent, granule);
}

ms_addr ms_block_words_end(const struct ms_blocks *blocks, const struct ms_extent *extent,
                           uint64_t granule)
{
	if (!extent->trimmed || (trim_of(blocks, extent, granule) & MS_TRIM_IN_USE))
		return granules_end(blocks, extent, granule);
	return ms_block_begin(extent, granule) + ms_block_size(blocks, extent, granule);
}

/* The last of the extent's cells before @cell with a block in it; ranks say that there is one. */
static size_t last_full_cell(const struct ms_blocks *blocks, const struct ms_extent *extent,
                             size_t cell)
{
	uint32_t rank = blocks->ranks.at[cell];

	return ms_lower_bound(extent->cell0, cell, i, blocks->ranks.at[i] < rank) - 1;
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

/* ---- numbers ---- */

uint32_t ms_blocks_numbers(const struct ms_blocks *blocks)
{
	size_t n = blocks->extents.n;

	return n ? blocks->extents.at[n - 1].first + blocks->extents.at[n - 1].n : 0;
}

uint32_t ms_block_number(const struct ms_blocks *blocks, struct ms_block block)
{
	const struct ms_extent *extent = &blocks->extents.at[block.extent];

	return extent->first + (uint32_t)rank_of(blocks, extent, block.granule);
}

/* The last extent whose first block has no higher number. */
static uint32_t extent_of_number(const struct ms_blocks *blocks, uint32_t number)
{
	uint32_t low = 0;
	uint32_t high = (uint32_t)blocks->extents.n;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (blocks->extents.at[middle].first <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

struct ms_block ms_block_numbered(const struct ms_blocks *blocks, uint32_t number)
{
	uint32_t index = extent_of_number(blocks, number);
	const struct ms_extent *extent = &blocks->extents.at[index];
	uint32_t left = number - extent->first;
	size_t low = extent->cell0;
	size_t high = extent->cell0 + extent->n_cells;
	uint64_t starts;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (blocks->ranks.at[middle] <= left)
			low = middle;
		else
			high = middle;
	}
	starts = blocks->cells.at[low].starts;
	for (left -= blocks->ranks.at[low]; left; left--)
		starts &= starts - 1;
	return (struct ms_block){ index, (low - extent->cell0) * MS_CELL_GRANULES +
		                                 (uint64_t)__builtin_ctzll(starts) };
}

/* ---- trimming ---- */

enum ms_status ms_blocks_number(struct ms_blocks *blocks, uint64_t *ret)
{
	uint64_t number = 0;
	struct ms_extent *e;

	if (!ms_vec_reserve(blocks->arena, &blocks->ranks, blocks->cells.n))
		return MS_E_NOMEM;
	ms_vec_for_each (e, &blocks->extents) {
		if (!e->dropped && !seal_extent(blocks, e, &number))
			return MS_E_NOMEM;
	}
	*ret = number;
	return MS_OK;
}

bool ms_blocks_at(const struct ms_blocks *blocks, ms_addr addr, struct ms_numbered *ret)
{
	const struct ms_extent *e = ms_blocks_extent_of(blocks, addr);
	struct ms_numbered found;
	uint64_t granule;

	if (!e || e->dropped || !e->n)
		return false;
	granule = ms_block_start(blocks, e, ms_granule_of(e, addr));
	if (granule == UINT64_MAX)
		return false;
	found.begin = ms_block_begin(e, granule);
	found.usable = ms_block_usable(blocks, e, granule);
	found.number = e->first + rank_of(blocks, e, granule);
	if (addr - found.begin >= found.usable)
		return false;
	*ret = found;
	return true;
}

void ms_blocks_fetch(const struct ms_blocks *blocks, ms_addr addr)
{
	const struct ms_extent *e = ms_blocks_extent_of(blocks, addr);
	size_t cell;

	if (!e)
		return;
	cell = e->cell0 + ms_granule_of(e, addr) / MS_CELL_GRANULES;
	__builtin_prefetch(&blocks->cells.at[cell]);
	__builtin_prefetch(&blocks->ranks.at[cell]);
}

/* Let the block in @granule begin @front bytes later. */
static void move_begin(struct ms_blocks *blocks, struct ms_extent *e, uint64_t granule,
                       uint64_t front)
{
	struct ms_odd *odd = e->n_odds ? find_odd(blocks, e, ms_block_begin(e, granule)) : NULL;
	uint64_t later = granule + (front >> e->shift);

	if (e->shift == MS_SINGLE_SHIFT) {
		e->range.begin += front;
		if (e->host)
			e->host += front;
		return;
	}
	if (odd) {
		odd->begin += front;
		odd->size -= front;
	}
	ms_blocks_cell(blocks, e, granule)->starts &= ~ms_granule_bit(granule);
	ms_blocks_cell(blocks, e, later)->starts |= ms_granule_bit(later);
}

/* Let the block of @usable bytes in @granule end @less bytes sooner; what is less then. */
static uint32_t move_end(struct ms_blocks *blocks, struct ms_extent *e, uint64_t granule,
                         uint64_t usable, uint32_t less)
{
	ms_addr begin = ms_block_begin(e, granule);
	uint64_t was = ms_granule_of(e, begin + usable - 1);
	uint64_t last = ms_granule_of(e, begin + usable - less - 1);

	if (e->shift == MS_SINGLE_SHIFT) {
		e->range.end -= less;
		return 0;
	}
	ms_blocks_cell(blocks, e, was)->ends &= ~ms_granule_bit(was);
	ms_blocks_cell(blocks, e, last)->ends |= ms_granule_bit(last);
	return (uint32_t)(ms_block_begin(e, last + 1) - (begin + usable - less));
}

/* What is less of the block afterwards. */
static uint32_t trim_block(struct ms_blocks *blocks, struct ms_extent *e, uint64_t granule,
                           const struct ms_trims *trims, uint64_t number)
{
	uint64_t usable = ms_block_usable(blocks, e, granule);
	uint64_t front = trims->front ? (uint64_t)trims->front[number] * MS_TRIM_UNIT : 0;
	uint32_t in_use = trims->less[number] & MS_TRIM_IN_USE;
	uint32_t less = trims->less[number] & ~MS_TRIM_IN_USE;

	if (trims->less[number] == MS_TRIM_FREE) {
		e->bytes -= usable;
		ms_blocks_cell(blocks, e, granule)->starts &= ~ms_granule_bit(granule);
		return MS_TRIM_FREE;
	}
	e->bytes -= front + less;
	if (trims->exact)
		less = move_end(blocks, e, granule, usable, less);
	if (front)
		move_begin(blocks, e, granule, front);
	return less | in_use;
}

/* From the last block on, so that one that begins later is not met again. */
static void trim_extent(struct ms_blocks *blocks, struct ms_extent *e, const struct ms_trims *trims)
{
	uint64_t number = (uint64_t)e->first + e->n;

	for (size_t i = e->n_cells; i-- > 0;) {
		uint64_t starts = blocks->cells.at[e->cell0 + i].starts;

		while (starts) {
			unsigned bit = 63 - (unsigned)__builtin_clzll(starts);

			starts ^= UINT64_C(1) << bit;
			number--;
			trims->less[number] =
				trim_block(blocks, e, i * MS_CELL_GRANULES + bit, trims, number);
		}
	}
	e->trimmed = true;
	e->exact = trims->exact && e->shift != MS_SINGLE_SHIFT;
	if (e->exact)
		e->n_odds = 0;
}

void ms_blocks_trim(struct ms_blocks *blocks, const struct ms_trims *trims)
{
	uint32_t *less = trims->less;
	size_t kept = 0;
	struct ms_extent *e;

	ms_vec_for_each (e, &blocks->extents) {
		if (e->dropped || !e->n)
			continue;
		trim_extent(blocks, e, trims);
		e->less0 = kept;
		for (uint64_t i = e->first; i < (uint64_t)e->first + e->n; i++)
			if (less[i] != MS_TRIM_FREE)
				less[kept++] = less[i];
	}
	blocks->less.at = less;
	blocks->less.n = kept;
	blocks->less.cap = kept;
}
