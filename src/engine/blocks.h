/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_BLOCKS_H
#define MS_ENGINE_BLOCKS_H

/*
 * The table of blocks: where each live block begins, how long it is, whether it
 * is marked. Built once by the decoders, then asked billions of times by the walk.
 *
 * Heap memory comes in extents. An extent is cut into granules of 1 << shift
 * bytes, 64 granules to a cell, and a cell holds one bit per granule for each
 * question that the walk asks, so that one cache line answers them all:
 *
 *	extent   begin                                               end
 *	         ├──────────────┬──────────────┬─────── … ───┬────────┤
 *	cells    │ starts  ends │ starts  ends │             │        │
 *	         │ marks   tags │ marks   tags │             │        │
 *	         └──────────────┴──────────────┴─────── … ───┴────────┘
 *	ranks    blocks of the extent in the cells before, one uint32_t per cell
 *
 * A block's end is looked for from its begin on. Where that would be far, it is listed beside
 * (longs): millions of pointers may lead into one large block.
 *
 * The number of a block inside its extent is its cell's rank plus the set bits of
 * starts below its own. A block of 64 bytes costs 3 bytes here.
 *
 * Where a block ends in its last granule is the same for all blocks of an extent as
 * a rule (glibc's leave 8 bytes), so this `slack` is told once, and with the ends it
 * gives every size; blocks that leave another slack are listed beside (odds).
 *
 * An extent with one block of any length (an mmapped chunk, or a mapping that is
 * a node of the graph) uses SINGLE_SHIFT: every address falls into granule 0.
 *
 * While the table is built, `tags` holds the blocks that are free after all (in a
 * thread cache, say) and `marks` belongs to the decoder; ms_blocks_seal() takes
 * the free ones out and clears both.
 *
 * All this is about usable bytes: what the program may write to, and point into. Where
 * something kept the size that was asked for, ms_blocks_trim() has how much less it is,
 * for each block by its number, and that size is the one told. Words behind it are residual
 * data, unless the program may use these bytes.
 */

#include <stdint.h>

#include "base/range.h"
#include "base/status.h"
#include "engine/source.h"

enum { MS_SINGLE_SHIFT = 63, MS_CELL_GRANULES = 64 };

struct ms_cell {
	uint64_t starts; /* a block begins in this granule */
	uint64_t ends;   /* a block has its last byte in this granule */
	uint64_t marks;  /* the block that begins here has been reached */
	uint64_t tags;   /* before seal: it is free; after: it is the head of a leak (fold.c) */
};

enum ms_extent_kind { MS_EXTENT_HEAP, MS_EXTENT_MAPPING };

struct ms_extent {
	struct ms_range range;
	const uint8_t *host; /* the bytes of range, or NULL when the source has no view */
	size_t cell0;        /* its first cell in ms_blocks.cells */
	size_t n_cells;
	size_t odd0; /* its first entry in ms_blocks.odds */
	size_t n_odds;
	uint64_t bytes;   /* of its blocks that are not killed */
	uint64_t slack;   /* bytes of a block's last granule that are not the block's */
	uint32_t first;   /* id of its first block; after seal */
	uint32_t n;       /* blocks */
	uint32_t group;   /* of ms_blocks_new_group(); 0: none */
	uint32_t mapping; /* of a MAPPING extent: its index in the source's mappings */
	size_t less0;     /* of a trimmed extent: its first entry in ms_blocks.less */
	bool trimmed;
	bool exact; /* trimmed, and its blocks' usable bytes are those asked for */
	uint8_t shift;
	uint8_t kind; /* enum ms_extent_kind */
	bool dropped; /* could not be proved; gone after seal */
	bool inner;   /* its blocks' users keep pointers behind their begins alone, as a rule */
};

/* A block over many cells: places are cells times MS_CELL_GRANULES and the granule in the cell. */
struct ms_long {
	size_t first;
	size_t last; /* with its last byte */
};

/* A block whose slack is not its extent's. */
struct ms_odd {
	ms_addr begin;
	uint64_t size;
};

struct ms_blocks {
	struct MS_VEC(struct ms_extent) extents; /* by address after sort */
	struct MS_VEC(struct ms_cell) cells;
	struct MS_VEC(uint32_t) ranks;       /* one for each cell; after seal */
	struct MS_VEC(struct ms_odd) odds;   /* by address within an extent */
	struct MS_VEC(uint32_t) less;        /* usable bytes that were not asked for; after trim */
	struct MS_VEC(struct ms_long) longs; /* by place; after seal */
	uint32_t n_groups;
	uint32_t bias; /* bit N: a pointer N words behind a begin counts as one to the begin */
	uint64_t n;    /* heap blocks; after seal */
	uint64_t bytes;
	struct ms_arena *arena;
	struct ms_source *src;
};

/* A block, found: the extent's index and the granule in which it begins. */
struct ms_block {
	uint32_t extent;
	uint64_t granule;
};

void ms_blocks_init(struct ms_blocks *blocks, struct ms_source *src, struct ms_arena *arena);

/*
 * Add an extent; blocks are put into it right after, in address order. Its slack is
 * that of the block put first, unless the caller sets it.
 *
 * @shift: log2 of the granule; no two blocks begin in one granule
 * @ret:   its index, good until ms_blocks_sort()
 */
ms_must_check enum ms_status ms_blocks_open(struct ms_blocks *blocks, struct ms_range range,
                                            uint8_t shift, uint32_t *ret);

/* Add an extent that is one block. */
ms_must_check enum ms_status ms_blocks_open_single(struct ms_blocks *blocks, struct ms_range range,
                                                   enum ms_extent_kind kind, uint32_t *ret);

/* Put a block of @size usable bytes into the extent that was opened last. */
ms_must_check enum ms_status ms_blocks_put(struct ms_blocks *blocks, uint32_t extent, ms_addr begin,
                                           uint64_t size);

/*
 * The extent ends at @end after all: there is no block behind. Only the one opened
 * last gives its cells back, which others may leave as they were: zeros.
 */
void ms_blocks_shrink(struct ms_blocks *blocks, uint32_t extent, ms_addr end);

/* Take back the extent that was opened last, and its blocks. */
void ms_blocks_cancel(struct ms_blocks *blocks, uint32_t extent);

/* Order extents by address; find and kill need it, and it makes indexes stale. */
ms_must_check enum ms_status ms_blocks_sort(struct ms_blocks *blocks);

/* The extent that has @addr, or NULL. After sort. */
struct ms_extent *ms_blocks_extent_of(const struct ms_blocks *blocks, ms_addr addr);

/* True when a block that is not killed begins at @addr. After sort. */
bool ms_blocks_begins(const struct ms_blocks *blocks, ms_addr addr);

/* Usable bytes of the block at @addr, 0 when none that is not killed begins there. After sort. */
uint64_t ms_blocks_usable(const struct ms_blocks *blocks, ms_addr addr);

/* Take the block at @addr for free. False when none begins there, or it is free already. */
bool ms_blocks_kill(struct ms_blocks *blocks, ms_addr addr);

/* A number for extents that stand or fall together, from 1 on; other decoders get others. */
uint32_t ms_blocks_new_group(struct ms_blocks *blocks);

/* Forget the extents of a group that could not be proved. */
void ms_blocks_drop_group(struct ms_blocks *blocks, uint32_t group);

/*
 * Take out what is free, and number the other blocks by address, from 0 on; for
 * ms_blocks_at() and ms_blocks_trim(). After sort; nothing is put or killed between.
 *
 * @ret: how many there are
 */
ms_must_check enum ms_status ms_blocks_number(struct ms_blocks *blocks, uint64_t *ret);

/* A block that was numbered. */
struct ms_numbered {
	uint64_t number;
	ms_addr begin;
	uint64_t usable;
};

/* The block that has the usable byte at @addr; false when there is none. After number. */
bool ms_blocks_at(const struct ms_blocks *blocks, ms_addr addr, struct ms_numbered *ret);

/* Fetch into the cache what ms_blocks_at() will want for @addr. */
void ms_blocks_fetch(const struct ms_blocks *blocks, ms_addr addr);

enum { MS_TRIM_UNIT = 16 };

/* A block that is free after all, in place of how much less it is. */
#define MS_TRIM_FREE UINT32_MAX

/* With how much less it is: the program may use the bytes behind, and words there count. */
#define MS_TRIM_IN_USE (UINT32_C(1) << 31)

/* How far each numbered block is from what the allocator gave. */
struct ms_trims {
	const uint32_t *front; /* units in front that are not the block's; NULL: none of any */
	uint32_t *less; /* usable bytes behind these that were not asked for, or MS_TRIM_FREE */
	bool exact;     /* nor may the program use these */
};

/*
 * Apply @trims, which must leave a byte of each block. Once, and it ends ms_blocks_at();
 * the array of what is less is kept, and changed.
 */
void ms_blocks_trim(struct ms_blocks *blocks, const struct ms_trims *trims);

/* Take out what is free or dropped and number the rest. The table is then fixed but for marks. */
ms_must_check enum ms_status ms_blocks_seal(struct ms_blocks *blocks);

/* Clear marks and tags. */
void ms_blocks_unmark(struct ms_blocks *blocks);

/* Give @visit each heap block that is not marked yet when its cell's turn comes, by address. */
typedef void ms_blocks_visit(void *ctx, struct ms_block block);
void ms_blocks_visit_unmarked(const struct ms_blocks *blocks, ms_blocks_visit *visit, void *ctx);

/* A copy of every cell's marks. */
struct ms_marks MS_VEC(uint64_t);

/* Take one of sealed @blocks, into their arena, or one without marks; false without memory. */
bool ms_marks_none(struct ms_blocks *blocks, struct ms_marks *ret);
bool ms_marks_save(struct ms_blocks *blocks, struct ms_marks *ret);
void ms_marks_restore(struct ms_blocks *blocks, const struct ms_marks *marks);

static inline struct ms_cell *ms_blocks_cell(const struct ms_blocks *blocks,
                                             const struct ms_extent *extent, uint64_t granule)
{
	return &blocks->cells.at[extent->cell0 + granule / MS_CELL_GRANULES];
}

static inline uint64_t ms_granule_bit(uint64_t granule)
{
	return UINT64_C(1) << (granule % MS_CELL_GRANULES);
}

/*
 * The bits of a block of the extent's own slack, without its bytes, for decoders
 * that fill one extent with several threads.
 *
 * @cells: of the extent, from its first on; the caller's alone, those of both granules
 */
static inline void ms_cells_put(struct ms_cell *cells, uint64_t first, uint64_t last)
{
	cells[first / MS_CELL_GRANULES].starts |= ms_granule_bit(first);
	cells[last / MS_CELL_GRANULES].ends |= ms_granule_bit(last);
}

static inline uint64_t ms_granule_of(const struct ms_extent *extent, ms_addr addr)
{
	return (addr - extent->range.begin) >> extent->shift;
}

static inline ms_addr ms_block_begin(const struct ms_extent *extent, uint64_t granule)
{
	return extent->range.begin + (granule << extent->shift);
}

/* Whether @value, which is in the block that begins in @granule, counts as a pointer to its begin.
 */
static inline bool ms_block_is_pointed_to(const struct ms_blocks *blocks,
                                          const struct ms_extent *extent, uint64_t granule,
                                          uint64_t value)
{
	const uint8_t word = blocks->src->abi.word_bytes;
	uint64_t offset = value - ms_block_begin(extent, granule);

	return !offset || (blocks->bias && offset % word == 0 && offset / word < 32 &&
	                   blocks->bias >> offset / word & 1);
}

static inline bool ms_block_is_marked(const struct ms_blocks *blocks, struct ms_block block)
{
	const struct ms_extent *extent = &blocks->extents.at[block.extent];

	return ms_blocks_cell(blocks, extent, block.granule)->marks & ms_granule_bit(block.granule);
}

/*
 * Where the words end that the block beginning in @granule may hold: by the size asked for,
 * where it is known, else up to a granule late. After seal.
 */
ms_addr ms_block_words_end(const struct ms_blocks *blocks, const struct ms_extent *extent,
                           uint64_t granule);

/* Usable bytes of the block that begins in @granule. */
uint64_t ms_block_usable(const struct ms_blocks *blocks, const struct ms_extent *extent,
                         uint64_t granule);

/* The same as asked for, where that is known; after seal. */
uint64_t ms_block_size(const struct ms_blocks *blocks, const struct ms_extent *extent,
                       uint64_t granule);

/* How many sealed blocks there are, nodes of the graph among them: they are numbered by address. */
uint32_t ms_blocks_numbers(const struct ms_blocks *blocks);

/* The number of @block, from 0 on; after seal. */
uint32_t ms_block_number(const struct ms_blocks *blocks, struct ms_block block);

/*
 * The block of @number, which is below ms_blocks_numbers().
 * Cost: O(log cells).
 */
struct ms_block ms_block_numbered(const struct ms_blocks *blocks, uint32_t number);

/*
 * The granule where the block begins that has the address in @granule or ends
 * before it; UINT64_MAX when the extent has none so low. After seal.
 * Cost: O(log cells), O(1) when it begins in the same cell.
 */
uint64_t ms_block_start(const struct ms_blocks *blocks, const struct ms_extent *extent,
                        uint64_t granule);

#endif
