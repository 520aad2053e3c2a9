/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/glibc/ptmalloc.h"

/*
 * The chunks that the walk found free must be exactly those in the arena's bins.
 * The walk left a bit for each in `marks`; going through the bins takes them away
 * again, so that none must be missing and none may be left.
 *
 * Chunks in fastbins look used to the walk; their lists are singly linked, by the
 * address of the chunk's header.
 */

enum { LINK_FD = 16, MAX_FAST = 1 << 26 };

/* Where the walk through the bins stands: lists stay in one extent for long. */
struct bins {
	struct ms_ptmalloc *pt;
	const struct ms_extent *extent;
	uint32_t group; /* of the arena whose bins they are */
};

/* The links of a free chunk, where malloc would put the first bytes of a used one. */
struct links {
	uint64_t fd;
	uint64_t bk;
};

static const struct ms_extent *extent_at(struct bins *bins, ms_addr addr)
{
	if (!bins->extent || !ms_range_has(bins->extent->range, addr))
		bins->extent = ms_blocks_extent_of(bins->pt->d->blocks, addr);
	return bins->extent;
}

/* The cell and bit of a block that would begin at @addr; NULL outside of the arena's memory. */
static struct ms_cell *cell_at(struct bins *bins, ms_addr addr, uint64_t *ret_bit)
{
	const struct ms_extent *e = extent_at(bins, addr);
	uint64_t granule;

	if (!e || e->group != bins->group)
		return NULL;
	granule = ms_granule_of(e, addr);
	if (ms_block_begin(e, granule) != addr)
		return NULL;
	*ret_bit = ms_granule_bit(granule);
	return ms_blocks_cell(bins->pt->d->blocks, e, granule);
}

/* The two words at @addr; false when they cannot be read. */
static bool read_pair(struct bins *bins, ms_addr addr, void *ret)
{
	const struct ms_extent *e = extent_at(bins, addr);
	size_t len = 2 * sizeof(uint64_t);

	if (!e || !e->host || e->range.end - addr < len)
		return ms_source_read(bins->pt->d->src, addr, ret, len) == len;
	memcpy(ret, e->host + (addr - e->range.begin), len);
	return true;
}

/* Take the free bit of @chunk away and read its links; false when it is not free. */
static bool take_free(struct bins *bins, ms_addr chunk, struct links *ret)
{
	ms_addr addr = chunk + MS_HEADER;
	uint64_t bit;
	struct ms_cell *cell = cell_at(bins, addr, &bit);

	if (!cell || !(cell->marks & bit))
		return false;
	cell->marks &= ~bit;
	return read_pair(bins, addr, ret);
}

/* Go through one bin; returns how many chunks were in it. */
static uint64_t check_bin(struct bins *bins, struct ms_pt_arena *arena, ms_addr header)
{
	ms_addr chunk = ms_pt_word(bins->pt, header + LINK_FD);
	ms_addr prev = header;
	uint64_t n = 0;

	while (chunk != header && arena->proved) {
		struct links links;

		if (!take_free(bins, chunk, &links) || links.bk != prev) {
			ms_pt_disprove(arena, "0x%llx is in a bin, but not free",
			               (unsigned long long)chunk);
			break;
		}
		prev = chunk;
		chunk = links.fd;
		n++;
	}
	return n;
}

void ms_pt_check_bins(struct ms_ptmalloc *pt, const struct ms_libc *libc, struct ms_pt_arena *arena)
{
	ms_addr first = arena->addr + libc->layout->bins - LINK_FD;
	struct bins bins = { pt, NULL, arena->group };
	uint64_t n = 0;

	if (libc->unused)
		return;
	for (ms_addr i = 0; i < MS_BINS && arena->proved; i++)
		n += check_bin(&bins, arena, first + i * MS_HEADER);
	if (n != arena->tally.n_free)
		ms_pt_disprove(arena, "%llu free chunks, but %llu in bins",
		               (unsigned long long)arena->tally.n_free, (unsigned long long)n);
}

/* The used block that begins at @addr: its cell and bit in it; NULL when there is none. */
static struct ms_cell *used_block(struct bins *bins, ms_addr addr, uint64_t *ret_bit)
{
	struct ms_cell *cell = cell_at(bins, addr, ret_bit);

	return cell && (cell->starts & ~cell->tags & *ret_bit) ? cell : NULL;
}

/*
 * What the link @stored in the chunk at @addr means: the next chunk, or 0. From
 * 2.32 on it is xored with its place; then the last one reveals itself as 0.
 */
static ms_addr next_fast_chunk(struct bins *bins, ms_addr addr, uint64_t stored)
{
	ms_addr revealed = ms_pt_reveal(addr, stored);
	uint64_t bit;

	if (!revealed || used_block(bins, revealed + MS_HEADER, &bit))
		return revealed;
	return stored;
}

/* Take the chunks of one fastbin for free; false when one of them is no used block of @size. */
static bool take_fastbin(struct bins *bins, ms_addr chunk, uint64_t size)
{
	for (int i = 0; chunk && i < MAX_FAST; i++) {
		ms_addr addr = chunk + MS_HEADER;
		uint64_t words[2]; /* the chunk's size field, and its link */
		uint64_t bit;
		struct ms_cell *cell = used_block(bins, addr, &bit);

		if (!cell || !read_pair(bins, addr - MS_WORD, words) ||
		    (words[0] & ~(uint64_t)MS_SIZE_BITS) != size)
			return false;
		cell->tags |= bit;
		bins->pt->fast_entries++;
		bins->pt->fast_bytes += size - MS_WORD;
		chunk = next_fast_chunk(bins, addr, words[1]);
	}
	return !chunk;
}

void ms_pt_take_fastbins(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                         struct ms_pt_arena *arena)
{
	struct bins bins = { pt, NULL, arena->group };

	for (ms_addr i = 0; i < libc->layout->n_fastbins; i++) {
		ms_addr head = arena->addr + libc->layout->fastbins + i * MS_WORD;

		if (!take_fastbin(&bins, ms_pt_word(pt, head), MS_MIN_CHUNK + i * MS_ALIGNMENT))
			ms_pt_disprove(arena, "fastbin %llu holds what is no used chunk",
			               (unsigned long long)i);
	}
}
