/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/walk.h"

#include <assert.h>
#include <string.h>

/*
 * A heap does not fit into any cache, and what a pointer leads to is nowhere near
 * what was read before, so nearly all time would be spent waiting for memory. A
 * short queue turns the waits into overlapping ones:
 *
 *	words ─▶ range? ─▶ extent ─▶ [candidates: 8] ─▶ starts? marked? ─▶ list
 *	  ▲             prefetch the cell, and the bytes pointed to         │
 *	  └─────────────────────────────────────────────────────────────────┘
 *
 * When a candidate's turn comes, its cell is there; when it turns out to be new,
 * so are its first bytes. Longer queues are slower: the machine has room for only
 * so many misses at once.
 *
 * The list is last in, first out, which keeps it short on trees; on a list of ten
 * million nodes it holds one entry. An entry is a position, never a pointer of the
 * target that is followed unchecked.
 *
 * The extent of an address is found by the slot of 2 MiB it lies in. A slot knows
 * which extents touch it, and is filled when first asked for.
 */

enum {
	QUEUE = 8,
	SLOTS = 4096,
	SLOT_SHIFT = 21,
	GRANULE_BITS = 40, /* of a list entry; the rest is the extent */
	READ_BYTES = 1 << 16,
	SPARSE_BYTES = 1 << 18, /* blocks from this size on are read by their present pages */
};

struct slot {
	uint64_t tag; /* slot number + 1; 0: not filled */
	uint32_t low; /* extents [low, high) touch the slot */
	uint32_t high;
};

struct candidate {
	struct ms_cell *cell;
	const struct ms_extent *extent;
	uint64_t value;
};

struct ms_walk {
	struct ms_blocks *blocks;
	struct ms_arena *arena;
	struct ms_walk_options options;
	ms_addr low; /* every extent lies in [low, low + span) */
	uint64_t span;
	uint32_t n_candidates, first_candidate;
	struct candidate candidates[QUEUE];
	struct slot slots[SLOTS];
	struct MS_VEC(uint64_t) list; /* marked, words not read: extent << GRANULE_BITS | granule */
	struct ms_met met;
	struct ms_walk_count count;
	bool out_of_memory;
	uint8_t buffer[READ_BYTES]; /* for sources that cannot be viewed */
};

struct ms_walk *ms_walk_new(struct ms_blocks *blocks, const struct ms_walk_options *options,
                            struct ms_arena *arena)
{
	struct ms_walk *walk = ms_arena_alloc(arena, sizeof(*walk));
	size_t n = blocks->extents.n;

	if (!walk)
		return NULL;
	assert(n < UINT64_C(1) << (64 - GRANULE_BITS));
	walk->blocks = blocks;
	walk->options = *options;
	walk->arena = arena;
	if (n) {
		walk->low = blocks->extents.at[0].range.begin;
		walk->span = blocks->extents.at[n - 1].range.end - walk->low;
	}
	return walk;
}

/* The first of the extents [@low, @high) that ends behind @addr, or @high. */
static inline uint32_t search_extents(const struct ms_blocks *blocks, ms_addr addr, uint32_t low,
                                      uint32_t high)
{
	return low + (uint32_t)ms_range_search(blocks->extents.at + low, high - low,
	                                       sizeof(*blocks->extents.at), addr);
}

static void fill_slot(const struct ms_walk *walk, struct slot *slot, uint64_t number)
{
	const struct ms_blocks *blocks = walk->blocks;
	uint32_t n = (uint32_t)blocks->extents.n;
	ms_addr end = (number + 1) << SLOT_SHIFT;

	slot->tag = number + 1;
	slot->low = search_extents(blocks, number << SLOT_SHIFT, 0, n);
	slot->high = slot->low;
	while (slot->high < n && blocks->extents.at[slot->high].range.begin < end)
		slot->high++;
}

static inline const struct ms_extent *extent_at(struct ms_walk *walk, ms_addr addr)
{
	uint64_t number = addr >> SLOT_SHIFT;
	struct slot *slot = &walk->slots[number % SLOTS];
	const struct ms_extent *extent;
	uint32_t i;

	if (slot->tag != number + 1)
		fill_slot(walk, slot, number);
	i = slot->low;
	if (slot->high - i > 1)
		i = search_extents(walk->blocks, addr, i, slot->high);
	if (i == slot->high)
		return NULL;
	extent = &walk->blocks->extents.at[i];
	return ms_range_has(extent->range, addr) ? extent : NULL;
}

static void mark(struct ms_walk *walk, const struct ms_extent *extent, struct ms_cell *cell,
                 uint64_t granule)
{
	uint64_t bit = ms_granule_bit(granule);
	uint64_t index = (uint64_t)(extent - walk->blocks->extents.at);
	uint64_t *entry;

	if (cell->marks & bit) {
		if (walk->options.fold_heads && (cell->tags & bit)) {
			struct ms_block *met = ms_vec_push(walk->arena, &walk->met);

			walk->out_of_memory |= !met;
			if (met)
				*met = (struct ms_block){ (uint32_t)index, granule };
		}
		return;
	}
	cell->marks |= bit;
	entry = ms_vec_push(walk->arena, &walk->list);
	walk->out_of_memory |= !entry;
	if (entry)
		*entry = index << GRANULE_BITS | granule;
}

/*
 * The granule of the block that @value points into, or UINT64_MAX.
 *
 * A value in the first word of a block needs no look at the block's size: no
 * allocator's block is shorter than a word.
 */
static inline uint64_t block_hit(const struct ms_walk *walk, const struct ms_extent *extent,
                                 const struct ms_cell *cell, uint64_t value)
{
	uint64_t granule = ms_granule_of(extent, value);
	uint64_t offset;

	if (!(cell->starts & ms_granule_bit(granule))) {
		if (walk->options.starts_only)
			return UINT64_MAX;
		granule = ms_block_start(walk->blocks, extent, granule);
		if (granule == UINT64_MAX)
			return UINT64_MAX;
	}
	offset = value - ms_block_begin(extent, granule);
	if (!offset || extent->kind == MS_EXTENT_MAPPING)
		return granule;
	if (walk->options.starts_only)
		return UINT64_MAX;
	if (offset >= sizeof(uint64_t) && offset >= ms_block_size(walk->blocks, extent, granule))
		return UINT64_MAX;
	return granule;
}

static void resolve_oldest(struct ms_walk *walk)
{
	struct candidate c = walk->candidates[walk->first_candidate % QUEUE];
	uint64_t granule;

	walk->first_candidate++;
	walk->n_candidates--;
	granule = block_hit(walk, c.extent, c.cell, c.value);
	if (granule != UINT64_MAX)
		mark(walk, c.extent, ms_blocks_cell(walk->blocks, c.extent, granule), granule);
}

static inline void consider(struct ms_walk *walk, uint64_t value)
{
	const struct ms_extent *extent;
	struct candidate *slot;

	if (value - walk->low >= walk->span)
		return;
	extent = extent_at(walk, value);
	if (!extent)
		return;
	if (walk->n_candidates == QUEUE)
		resolve_oldest(walk);
	slot = &walk->candidates[(walk->first_candidate + walk->n_candidates++) % QUEUE];
	slot->extent = extent;
	slot->value = value;
	slot->cell = ms_blocks_cell(walk->blocks, extent, ms_granule_of(extent, value));
	__builtin_prefetch(slot->cell, 1);
	if (extent->host)
		__builtin_prefetch(extent->host + (value - extent->range.begin));
}

/*
 * glibc xors a saved frame pointer with a secret and rotates it left by 17
 * (PTR_MANGLE, sysdeps/unix/sysv/linux/x86_64/pointer_guard.h). Such a word is no
 * user-space address, save once in 2^17 times.
 */
static inline uint64_t demangle(uint64_t value, uint64_t guard)
{
	return (value >> 17 | value << 47) ^ guard;
}

static inline void consider_word(struct ms_walk *walk, uint64_t value)
{
	consider(walk, value);
	if (value >> 47 && walk->options.guard)
		consider(walk, demangle(value, walk->options.guard));
}

void ms_walk_word(struct ms_walk *walk, uint64_t value)
{
	consider_word(walk, value);
}

static void scan_bytes(struct ms_walk *walk, const uint8_t *bytes, size_t len)
{
	size_t step = walk->options.unaligned ? 1 : sizeof(uint64_t);

	for (size_t i = 0; i + sizeof(uint64_t) <= len; i += step) {
		uint64_t value;

		memcpy(&value, bytes + i, sizeof(value));
		consider_word(walk, value);
	}
}

/* Scan [@range) by copying it piece by piece, for a source without a view. */
static void scan_copied(struct ms_walk *walk, struct ms_range range)
{
	while (range.begin < range.end) {
		uint64_t want = ms_range_len(range);
		size_t got = ms_source_read(walk->blocks->src, range.begin, walk->buffer,
		                            want < READ_BYTES ? (size_t)want : READ_BYTES);

		scan_bytes(walk, walk->buffer, got);
		range.begin += got ? got : 1;
		range.begin = ms_align_up(range.begin, got ? 1 : 4096);
	}
}

void ms_walk_range(struct ms_walk *walk, struct ms_range range)
{
	struct ms_source *src = walk->blocks->src;
	struct ms_range run;

	range.begin = ms_align_up(range.begin, sizeof(uint64_t));
	while (range.begin < range.end && ms_source_present(src, range, &run)) {
		const void *bytes = ms_source_view(src, run.begin, ms_range_len(run));

		if (bytes)
			scan_bytes(walk, bytes, ms_range_len(run));
		else
			scan_copied(walk, run);
		range.begin = run.end;
	}
}

struct ms_range ms_walk_claim(struct ms_walk *walk, ms_addr addr)
{
	struct ms_range none = { addr, addr };
	const struct ms_extent *extent;
	struct ms_cell *cell;
	uint64_t granule;
	uint64_t size;

	if (addr - walk->low >= walk->span)
		return none;
	extent = extent_at(walk, addr);
	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return none;
	granule =
		block_hit(walk, extent,
	                  ms_blocks_cell(walk->blocks, extent, ms_granule_of(extent, addr)), addr);
	if (granule == UINT64_MAX)
		return none;
	cell = ms_blocks_cell(walk->blocks, extent, granule);
	if (cell->marks & ms_granule_bit(granule))
		return none;
	cell->marks |= ms_granule_bit(granule);
	size = ms_block_size(walk->blocks, extent, granule);
	walk->count.blocks++;
	return (struct ms_range){ ms_block_begin(extent, granule),
		                  ms_block_begin(extent, granule) + size };
}

void ms_walk_block(struct ms_walk *walk, struct ms_block block)
{
	const struct ms_extent *extent = &walk->blocks->extents.at[block.extent];

	mark(walk, extent, ms_blocks_cell(walk->blocks, extent, block.granule), block.granule);
}

static void count(struct ms_walk *walk, const struct ms_extent *extent, uint64_t granule)
{
	if (extent->kind != MS_EXTENT_HEAP)
		return;
	walk->count.blocks++;
	if (walk->options.fold_heads)
		walk->count.bytes += ms_block_size(walk->blocks, extent, granule);
}

/* Read the words of the block put on the list last. */
static inline void follow_last(struct ms_walk *walk)
{
	uint64_t entry = walk->list.at[--walk->list.n];
	const struct ms_extent *extent = &walk->blocks->extents.at[entry >> GRANULE_BITS];
	uint64_t granule = entry & ((UINT64_C(1) << GRANULE_BITS) - 1);
	ms_addr begin = ms_block_begin(extent, granule);
	ms_addr end = ms_block_words_end(walk->blocks, extent, granule);

	count(walk, extent, granule);
	if (extent->host && end - begin < SPARSE_BYTES)
		scan_bytes(walk, extent->host + (begin - extent->range.begin),
		           (size_t)(end - begin));
	else
		ms_walk_range(walk, (struct ms_range){ begin, end });
}

enum ms_status ms_walk_finish(struct ms_walk *walk, struct ms_error *err)
{
	for (;;) {
		if (walk->list.n)
			follow_last(walk);
		else if (walk->n_candidates)
			resolve_oldest(walk);
		else
			break;
	}
	if (walk->out_of_memory)
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of blocks to follow");
	return MS_OK;
}

struct ms_walk_count ms_walk_count(const struct ms_walk *walk)
{
	return walk->count;
}

struct ms_met *ms_walk_met(struct ms_walk *walk)
{
	return &walk->met;
}
