/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "alloc/pymalloc/pymalloc.h"

/*
 * A pool is proved by itself: blocks are carved of it one after the other, each block so
 * carved is in use or in the pool's list, and the pool counts those in use. A pool that is
 * being changed, and one that was overwritten, has no known blocks: all that is in it is
 * taken for pointers.
 *
 * An arena has pools in use, empty ones in a list, and some not carved so far; it counts
 * the latter two together. Nothing about a block depends on that.
 */

enum { HEADER = sizeof(struct ms_py_pool), MAX_BLOCKS = MS_PY_MAX_POOL / MS_PY_ALIGNMENT };

/* A pool whose bytes have been read. */
struct pool {
	ms_addr at;
	const uint8_t *bytes;
	uint32_t bytes_n;
	struct ms_py_pool header;
	uint32_t block;    /* bytes */
	uint32_t n_carved; /* blocks */
	uint32_t n_listed;
	uint64_t listed[MAX_BLOCKS / 64];
};

static bool is_listed(const struct pool *pool, uint32_t block)
{
	return pool->listed[block / 64] >> block % 64 & 1;
}

/* Whether sizes and ends are such as the allocator makes them. */
static bool read_header(struct pool *pool, const struct ms_py_arena *arena)
{
	struct ms_py_pool *h = &pool->header;

	memcpy(h, pool->bytes, sizeof(*h));
	if (h->arenaindex != arena->index || h->szidx >= MS_PY_CLASSES)
		return false;
	pool->block = ms_py_block_bytes(h->szidx);
	if (h->maxnextoffset != pool->bytes_n - pool->block || h->nextoffset < HEADER ||
	    h->nextoffset > h->maxnextoffset + pool->block ||
	    (h->nextoffset - HEADER) % pool->block)
		return false;
	pool->n_carved = (h->nextoffset - HEADER) / pool->block;
	return true;
}

/* Go through the pool's free blocks; each must be one that was carved, and none twice. */
static bool read_list(struct pool *pool)
{
	uint64_t at = pool->header.freeblock;

	pool->n_listed = 0;
	memset(pool->listed, 0, sizeof(pool->listed));
	while (at) {
		uint64_t offset = at - pool->at;
		uint32_t block;

		if (offset < HEADER || offset >= pool->header.nextoffset ||
		    (offset - HEADER) % pool->block)
			return false;
		block = (uint32_t)(offset - HEADER) / pool->block;
		if (is_listed(pool, block))
			return false;
		pool->listed[block / 64] |= UINT64_C(1) << block % 64;
		pool->n_listed++;
		memcpy(&at, pool->bytes + offset, sizeof(at));
	}
	return true;
}

/* What is wrong with @pool, or NULL. */
static const char *check(struct pool *pool, const struct ms_py_arena *arena)
{
	if (!pool->bytes)
		return "cannot be read";
	if (!read_header(pool, arena))
		return "has no sensible header";
	if (!read_list(pool))
		return "has a list of free blocks that leads astray";
	if (pool->header.count != pool->n_carved - pool->n_listed)
		return "does not count the blocks that are not in its list";
	return NULL;
}

static enum ms_status put_blocks(struct ms_pymalloc *py, uint32_t extent, const struct pool *pool)
{
	ms_addr at = pool->at + HEADER;
	enum ms_status st = MS_OK;

	for (uint32_t i = 0; i < pool->n_carved && !st; i++, at += pool->block)
		if (!is_listed(pool, i))
			st = ms_blocks_put(py->d->blocks, extent, at, pool->block);
	return st;
}

static const uint8_t *bytes_at(struct ms_pymalloc *py, ms_addr at, size_t len)
{
	const uint8_t *view = ms_source_view(py->d->src, at, len);

	if (view)
		return view;
	return ms_source_read(py->d->src, at, py->buffer, len) == len ? py->buffer : NULL;
}

/* What an arena's pools are, together. */
struct tally {
	uint32_t n_empty;
	uint32_t n_carved;
};

static enum ms_status read_pool(struct ms_pymalloc *py, const struct ms_py_arena *arena,
                                uint32_t extent, struct pool *pool, struct tally *tally)
{
	struct ms_py_heap *heap = &py->heaps.at[arena->heap];
	const char *wrong = check(pool, arena);

	tally->n_carved++;
	if (wrong) {
		heap->n_unproved++;
		ms_proof_doubt(&heap->proof, MS_DOUBT_DISAGREES, "pool 0x%llx %s",
		               (unsigned long long)pool->at, wrong);
		return ms_ranges_add(py->d->arena, &py->d->unproved, pool->at,
		                     pool->at + pool->bytes_n)
		               ? MS_OK
		               : MS_E_NOMEM;
	}
	tally->n_empty += !pool->header.count;
	heap->n_pools++;
	heap->n_used += pool->header.count;
	heap->used_bytes += (uint64_t)pool->header.count * pool->block;
	heap->n_free += pool->n_listed;
	heap->free_bytes += (uint64_t)pool->n_listed * pool->block;
	return put_blocks(py, extent, pool);
}

/* Compare the arena's list of empty pools, and its counter, with what was found. */
static void check_counts(struct ms_pymalloc *py, const struct ms_py_arena *arena,
                         const struct tally *tally)
{
	struct ms_py_heap *heap = &py->heaps.at[arena->heap];
	const struct ms_py_object *object = &arena->object;
	ms_addr at = object->freepools;
	uint32_t n = 0;

	for (; at && n <= tally->n_carved; n++) {
		struct ms_py_pool pool;

		if (at < arena->range.begin || at >= object->pool_address ||
		    at % heap->layout->pool_bytes ||
		    ms_peek_read(py->peek, at, &pool, sizeof(pool)) != sizeof(pool) || pool.count)
			break;
		at = pool.nextpool;
	}
	if (at)
		ms_proof_doubt(&heap->proof, MS_DOUBT_DISAGREES,
		               "arena %u has a list of empty pools that leads astray",
		               arena->index);
	else if (n != tally->n_empty ||
	         object->nfreepools != n + object->ntotalpools - tally->n_carved)
		ms_proof_doubt(&heap->proof, MS_DOUBT_DISAGREES,
		               "arena %u does not count the pools that are free", arena->index);
}

enum ms_status ms_py_read_arena(struct ms_pymalloc *py, const struct ms_py_arena *arena)
{
	struct ms_py_heap *heap = &py->heaps.at[arena->heap];
	const uint32_t bytes = heap->layout->pool_bytes;
	struct tally tally = { 0 };
	struct pool pool = { .bytes_n = bytes };
	enum ms_status st = MS_OK;
	uint32_t extent;

	heap->n_arenas++;
	pool.at = ms_py_first_pool(arena->range.begin, heap->layout);
	if (pool.at < arena->object.pool_address)
		st = ms_blocks_open(py->d->blocks,
		                    (struct ms_range){ pool.at, arena->object.pool_address },
		                    MS_PY_SHIFT, &extent);
	else
		return MS_OK;
	if (!st)
		py->d->blocks->extents.at[extent].inner = true;
	for (; pool.at < arena->object.pool_address && !st; pool.at += bytes) {
		pool.bytes = bytes_at(py, pool.at, bytes);
		st = read_pool(py, arena, extent, &pool, &tally);
	}
	if (!st)
		check_counts(py, arena, &tally);
	return st;
}
