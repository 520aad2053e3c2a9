/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_LOOKUP_H
#define MS_ENGINE_GRAPH_LOOKUP_H

/*
 * From a word to the block that it points into.
 *
 * The extent of an address is found by the slot of 2 MiB it lies in. A slot knows
 * which extents touch it, and is filled when first asked for; so a lookup is
 * written to, and each thread has its own.
 */

#include "engine/blocks.h"

enum { MS_LOOKUP_SLOTS = 4096, MS_LOOKUP_SHIFT = 21 };

struct ms_lookup_slot {
	uint64_t tag; /* slot number + 1; 0: not filled */
	uint32_t low; /* extents [low, high) touch the slot */
	uint32_t high;
};

struct ms_lookup {
	const struct ms_blocks *blocks;
	ms_addr low; /* every extent lies in [low, low + span) */
	uint64_t span;
	struct ms_lookup_slot slots[MS_LOOKUP_SLOTS];
};

/* Make zeroed @lookup one of sealed @blocks. */
static inline void ms_lookup_init(struct ms_lookup *lookup, const struct ms_blocks *blocks)
{
	size_t n = blocks->extents.n;

	lookup->blocks = blocks;
	if (!n)
		return;
	lookup->low = blocks->extents.at[0].range.begin;
	lookup->span = blocks->extents.at[n - 1].range.end - lookup->low;
}

/* The first of the extents [@low, @high) that ends behind @addr, or @high. */
static inline uint32_t ms_lookup_search(const struct ms_blocks *blocks, ms_addr addr, uint32_t low,
                                        uint32_t high)
{
	return low + (uint32_t)ms_range_search(blocks->extents.at + low, high - low,
	                                       sizeof(*blocks->extents.at), addr);
}

static inline void ms_lookup_fill(const struct ms_blocks *blocks, struct ms_lookup_slot *slot,
                                  uint64_t number)
{
	uint32_t n = (uint32_t)blocks->extents.n;
	ms_addr end = (number + 1) << MS_LOOKUP_SHIFT;

	slot->tag = number + 1;
	slot->low = ms_lookup_search(blocks, number << MS_LOOKUP_SHIFT, 0, n);
	slot->high = slot->low;
	while (slot->high < n && blocks->extents.at[slot->high].range.begin < end)
		slot->high++;
}

/* The extent that has @addr, or NULL. */
static inline const struct ms_extent *ms_lookup_extent(struct ms_lookup *lookup, ms_addr addr)
{
	uint64_t number = addr >> MS_LOOKUP_SHIFT;
	struct ms_lookup_slot *slot = &lookup->slots[number % MS_LOOKUP_SLOTS];
	const struct ms_extent *extent;
	uint32_t i;

	if (slot->tag != number + 1)
		ms_lookup_fill(lookup->blocks, slot, number);
	i = slot->low;
	if (slot->high - i > 1)
		i = ms_lookup_search(lookup->blocks, addr, i, slot->high);
	if (i == slot->high)
		return NULL;
	extent = &lookup->blocks->extents.at[i];
	return ms_range_has(extent->range, addr) ? extent : NULL;
}

/*
 * The granule of the block that @value, an address of @extent, points into, or
 * UINT64_MAX; with @starts_only, of the block that begins at @value.
 *
 * A value in the first bytes of a block needs no look at the block's size: no
 * allocator's block is shorter than the shortest word.
 *
 * @cell: of @value
 */
static inline uint64_t ms_lookup_hit(const struct ms_blocks *blocks, const struct ms_extent *extent,
                                     const struct ms_cell *cell, uint64_t value, bool starts_only)
{
	uint64_t granule = ms_granule_of(extent, value);
	uint64_t offset;

	starts_only &= !extent->inner;
	if (!(cell->starts & ms_granule_bit(granule))) {
		if (starts_only)
			return UINT64_MAX;
		granule = ms_block_start(blocks, extent, granule);
		if (granule == UINT64_MAX)
			return UINT64_MAX;
	}
	offset = value - ms_block_begin(extent, granule);
	if (!offset || extent->kind == MS_EXTENT_MAPPING)
		return granule;
	if (starts_only)
		return UINT64_MAX;
	if (offset >= sizeof(uint32_t) && offset >= ms_block_usable(blocks, extent, granule))
		return UINT64_MAX;
	return granule;
}

/* The heap block that @addr is in; false when none is, or, with @starts_only, begins there. */
static inline bool ms_lookup_block(struct ms_lookup *lookup, ms_addr addr, bool starts_only,
                                   struct ms_block *ret)
{
	const struct ms_blocks *blocks = lookup->blocks;
	const struct ms_extent *extent;
	const struct ms_cell *cell;

	if (addr - lookup->low >= lookup->span)
		return false;
	extent = ms_lookup_extent(lookup, addr);
	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return false;
	cell = ms_blocks_cell(blocks, extent, ms_granule_of(extent, addr));
	ret->extent = (uint32_t)(extent - blocks->extents.at);
	ret->granule = ms_lookup_hit(blocks, extent, cell, addr, starts_only);
	return ret->granule != UINT64_MAX;
}

/* The heap block that begins at @addr; false when none does. */
static inline bool ms_lookup_begin(struct ms_lookup *lookup, ms_addr addr, struct ms_block *ret)
{
	const struct ms_extent *extent;
	uint64_t granule;

	if (addr - lookup->low >= lookup->span)
		return false;
	extent = ms_lookup_extent(lookup, addr);
	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return false;
	granule = ms_granule_of(extent, addr);
	if (ms_block_begin(extent, granule) != addr ||
	    !(ms_blocks_cell(lookup->blocks, extent, granule)->starts & ms_granule_bit(granule)))
		return false;
	*ret = (struct ms_block){ (uint32_t)(extent - lookup->blocks->extents.at), granule };
	return true;
}

#endif
