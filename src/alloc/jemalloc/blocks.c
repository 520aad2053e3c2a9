/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/jemalloc/jemalloc.h"

/*
 * A slab is an extent of the table of blocks whose granule is the largest power of two
 * that its regions are a multiple of: of the sizes that there are, at most 7 granules to
 * a region. A large block is an extent by itself.
 */

static uint64_t bits_of(const uint64_t *bitmap, uint32_t n)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < n; i++)
		bits += bitmap[i / 64] >> i % 64 & 1;
	return bits;
}

/* Whether nothing is set behind the last region. Words behind the one that has it are not used. */
static bool ends_at(const uint64_t *bitmap, uint32_t n)
{
	return n % 64 == 0 || !(bitmap[n / 64] >> n % 64);
}

static enum ms_status put_regions(struct ms_jemalloc *je, const struct ms_je_extent *e,
                                  uint32_t group, uint64_t bytes, const uint64_t *bitmap)
{
	struct ms_blocks *blocks = je->d->blocks;
	uint32_t n = (uint32_t)(ms_range_len(e->range) / bytes);
	struct ms_range range = { e->range.begin, e->range.begin + n * bytes };
	uint32_t at;
	enum ms_status st = ms_blocks_open(blocks, range, (uint8_t)__builtin_ctzll(bytes), &at);

	if (st)
		return st;
	blocks->extents.at[at].group = group;
	for (uint32_t i = 0; i < n && !st; i++)
		if (!(bitmap[i / 64] >> i % 64 & 1))
			st = ms_blocks_put(blocks, at, range.begin + i * bytes, bytes);
	return st;
}

static enum ms_status put_slab(struct ms_jemalloc *je, struct ms_je_copy *copy,
                               const struct ms_je_extent *e, struct ms_je_arena *arena)
{
	uint32_t index = ms_je_class_of(copy, e);
	uint64_t bytes = ms_je_class_bytes(index);
	uint64_t n = ms_range_len(e->range) / bytes;
	uint32_t nfree = ms_je_field(e->bits, copy->bits->nfree, MS_JE_NFREE_BITS);
	uint64_t bitmap[MS_JE_BITMAP_WORDS];
	uint64_t used;

	if (index >= MS_JE_BINS || n > MS_JE_REGIONS ||
	    ms_peek_read(je->peek, e->edata + MS_JE_EDATA_BITMAP, bitmap, sizeof(bitmap)) !=
	            sizeof(bitmap) ||
	    bits_of(bitmap, (uint32_t)n) != nfree || !ends_at(bitmap, (uint32_t)n)) {
		ms_proof_doubt(&arena->proof, MS_DOUBT_DAMAGED,
		               "the slab at 0x%llx has not as many free regions as it counts",
		               (unsigned long long)e->range.begin);
		return MS_OK;
	}
	used = n - nfree;
	arena->tally.slabs[index]++;
	arena->tally.regions[index] += used;
	arena->tally.n_used += used;
	arena->tally.used_bytes += used * bytes;
	arena->tally.free_bytes += nfree * bytes;
	return put_regions(je, e, arena->group, bytes, bitmap);
}

/*
 * From 5.3.1 on a large block has whole pages. Its extent has one more, in which its begin
 * is moved about, unless an option says otherwise: that shows by any extent that is
 * longer than its class, or whose block was moved.
 */
static uint32_t find_pad(const struct ms_je_copy *copy)
{
	const struct ms_je_extent *e;

	ms_vec_for_each (e, &copy->extents)
		if (ms_je_in_use(copy->bits, e->bits) && !ms_je_is_slab(e) &&
		    ms_je_class_of(copy, e) >= MS_JE_BINS &&
		    (e->addr != e->range.begin ||
		     ms_range_len(e->range) > ms_je_class_bytes(ms_je_class_of(copy, e))))
			return MS_JE_PAGE;
	return 0;
}

static uint64_t large_bytes(const struct ms_je_copy *copy, const struct ms_je_extent *e)
{
	uint32_t index = ms_je_class_of(copy, e);
	uint64_t len = ms_range_len(e->range);

	if (!copy->layout->any_length || index < MS_JE_BINS)
		return ms_je_class_bytes(index);
	/* What is longer than its class, or not longer than the one before, is neither. */
	if (len <= copy->pad || len - copy->pad > ms_je_class_bytes(index) ||
	    len - copy->pad <= ms_je_class_bytes(index - 1))
		return UINT64_MAX;
	return len - copy->pad;
}

static enum ms_status put_large(struct ms_jemalloc *je, struct ms_je_copy *copy,
                                const struct ms_je_extent *e, struct ms_je_arena *arena)
{
	uint32_t index = ms_je_class_of(copy, e);
	uint64_t bytes = large_bytes(copy, e);
	uint64_t before = e->addr - e->range.begin;
	uint32_t at;
	enum ms_status st;

	if (before > ms_range_len(e->range) || bytes > ms_range_len(e->range) - before) {
		ms_proof_doubt(&arena->proof, MS_DOUBT_DAMAGED,
		               "the extent at 0x%llx has not the length of a block of its class",
		               (unsigned long long)e->range.begin);
		return MS_OK;
	}
	/* A small block that the profiler took for a sample counts as the smallest large one. */
	arena->tally.large[index < MS_JE_BINS ? 0 : index - MS_JE_BINS]++;
	arena->tally.n_used++;
	arena->tally.used_bytes += bytes;
	st = ms_blocks_open_single(je->d->blocks, (struct ms_range){ e->addr, e->addr + bytes },
	                           MS_EXTENT_HEAP, &at);
	if (!st)
		je->d->blocks->extents.at[at].group = arena->group;
	return st;
}

static enum ms_status put_extent(struct ms_jemalloc *je, struct ms_je_copy *copy,
                                 const struct ms_je_extent *e)
{
	struct ms_je_arena *arena = ms_je_arena_of(copy, e);
	uint32_t state = ms_je_field(e->bits, copy->bits->state, copy->bits->state_bits);

	if (!arena) {
		ms_proof_doubt(&copy->proof, MS_DOUBT_DISAGREES,
		               "the extent at 0x%llx is of an arena that is not there",
		               (unsigned long long)e->range.begin);
		return MS_OK;
	}
	if (state >= MS_JE_TRANSITION)
		ms_proof_doubt(&arena->proof, MS_DOUBT_CHANGES,
		               "a thread is at work on the extent at 0x%llx",
		               (unsigned long long)e->range.begin);
	if (state == MS_JE_DIRTY || state == MS_JE_MUZZY)
		arena->tally.free_bytes += ms_range_len(e->range);
	if (!ms_je_in_use(copy->bits, e->bits))
		return MS_OK;
	arena->tally.pages += ms_range_len(e->range) / MS_JE_PAGE;
	return ms_je_is_slab(e) ? put_slab(je, copy, e, arena) : put_large(je, copy, e, arena);
}

enum ms_status ms_je_put_blocks(struct ms_jemalloc *je, struct ms_je_copy *copy)
{
	const struct ms_je_extent *e;
	enum ms_status st = MS_OK;

	if (copy->broken || !copy->layout)
		return MS_OK;
	copy->pad = find_pad(copy);
	ms_vec_for_each (e, &copy->extents) {
		st = put_extent(je, copy, e);
		if (st)
			break;
	}
	return st;
}
