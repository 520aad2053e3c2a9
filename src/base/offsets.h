/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_OFFSETS_H
#define MS_BASE_OFFSETS_H

/*
 * Where each of many rows begins in what they have together, in four bytes a row: of a chunk
 * of rows, what all of them have in common is kept once.
 *
 *	base   5000000000 ─────────────────────── 5000140000 ────── …   one a chunk
 *	low    0 ── 2 ── 2 ── 7 ── … ── 139998 │ 0 ── 3 ── …            one a row
 */

#include "base/arena.h"

#include <stdint.h>

enum { MS_OFFSETS_CHUNK_BITS = 16 };

/* { 0 } has none. */
struct ms_offsets {
	uint32_t *low;
	uint64_t *base;
};

/* For @n of them, zeros; false without memory. */
static inline bool ms_offsets_init(struct ms_offsets *offsets, size_t n, struct ms_arena *arena)
{
	size_t n_chunks = (n >> MS_OFFSETS_CHUNK_BITS) + 1;

	offsets->low = ms_arena_alloc(arena, (n + 1) * sizeof(*offsets->low));
	offsets->base = ms_arena_alloc(arena, n_chunks * sizeof(*offsets->base));
	return offsets->low && offsets->base;
}

static inline uint64_t ms_offset_at(const struct ms_offsets *offsets, size_t i)
{
	return offsets->base[i >> MS_OFFSETS_CHUNK_BITS] + offsets->low[i];
}

/*
 * Set one to @value, one after the other from the first on and each no lower than the one
 * before. False when a chunk has more than an offset can say.
 */
static inline bool ms_offset_set(const struct ms_offsets *offsets, size_t i, uint64_t value)
{
	uint64_t *base = &offsets->base[i >> MS_OFFSETS_CHUNK_BITS];

	if (!(i & (((size_t)1 << MS_OFFSETS_CHUNK_BITS) - 1)))
		*base = value;
	offsets->low[i] = (uint32_t)(value - *base);
	return value - *base <= UINT32_MAX;
}

#endif
