/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/glibc/ptmalloc.h"

/*
 * The chunks that the walk found free must be exactly those in the arena's bins.
 * The walk left a bit for each in `marks`; going through the bins takes them away
 * again, so that none must be missing and none may be left.
 *
 * Chunks in fastbins look used to the walk; their lists are singly linked, by the
 * address of the chunk's header.
 */

enum { LINK_FD = 16, LINK_BK = 24, MAX_FAST = 1 << 26 };

/* Take the free bit of @chunk away; false when it has none. */
static bool take_free_bit(struct ms_ptmalloc *pt, ms_addr chunk)
{
	ms_addr addr = chunk + MS_HEADER;
	struct ms_extent *e = ms_blocks_extent_of(pt->d->blocks, addr);
	struct ms_cell *cell;
	uint64_t granule;

	if (!e || e->shift == MS_SINGLE_SHIFT)
		return false;
	granule = ms_granule_of(e, addr);
	cell = ms_blocks_cell(pt->d->blocks, e, granule);
	if (ms_block_begin(e, granule) != addr || !(cell->marks & ms_granule_bit(granule)))
		return false;
	cell->marks &= ~ms_granule_bit(granule);
	return true;
}

/* Go through one bin; returns how many chunks were in it. */
static uint64_t check_bin(struct ms_ptmalloc *pt, struct ms_pt_arena *arena, ms_addr header)
{
	ms_addr prev = header;
	ms_addr chunk = ms_pt_word(pt, header + LINK_FD);
	uint64_t n = 0;

	while (chunk != header && arena->proved) {
		if (!take_free_bit(pt, chunk) || ms_pt_word(pt, chunk + LINK_BK) != prev)
			ms_pt_disprove(arena, "0x%llx is in a bin, but not free",
			               (unsigned long long)chunk);
		prev = chunk;
		chunk = ms_pt_word(pt, chunk + LINK_FD);
		n++;
	}
	return n;
}

void ms_pt_check_bins(struct ms_ptmalloc *pt, const struct ms_libc *libc, struct ms_pt_arena *arena)
{
	ms_addr first = arena->addr + libc->layout->bins - LINK_FD;
	uint64_t n = 0;

	if (libc->unused)
		return;
	for (ms_addr i = 0; i < MS_BINS && arena->proved; i++)
		n += check_bin(pt, arena, first + i * MS_HEADER);
	if (n != arena->tally.n_free)
		ms_pt_disprove(arena, "%llu free chunks, but %llu in bins",
		               (unsigned long long)arena->tally.n_free, (unsigned long long)n);
}

/* Follow one fastbin; false when an entry is no used block. Nothing is taken unless @take. */
static bool follow_fastbin(struct ms_ptmalloc *pt, ms_addr chunk, bool plain, bool take)
{
	for (int i = 0; chunk && i < MAX_FAST; i++) {
		ms_addr addr = chunk + MS_HEADER;
		uint64_t stored;

		if (!ms_blocks_begins(pt->d->blocks, addr))
			return false;
		if (take) {
			(void)ms_blocks_kill(pt->d->blocks, addr);
			pt->fast_entries++;
			pt->fast_bytes +=
				(ms_pt_word(pt, chunk + MS_WORD) & ~(uint64_t)MS_SIZE_BITS) -
				MS_WORD;
		}
		stored = ms_pt_word(pt, addr);
		chunk = plain ? stored : ms_pt_reveal(addr, stored);
	}
	return !chunk;
}

void ms_pt_take_fastbins(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                         struct ms_pt_arena *arena)
{
	for (ms_addr i = 0; i < libc->layout->n_fastbins; i++) {
		ms_addr chunk = ms_pt_word(pt, arena->addr + libc->layout->fastbins + i * MS_WORD);
		bool plain = follow_fastbin(pt, chunk, true, false);

		if (!chunk)
			continue;
		/* The end of a list tells: it is stored as 0, or as its own page number. */
		if (plain || follow_fastbin(pt, chunk, false, false))
			(void)follow_fastbin(pt, chunk, plain, true);
		else
			ms_pt_disprove(arena, "fastbin %llu holds what is no used chunk",
			               (unsigned long long)i);
	}
}
