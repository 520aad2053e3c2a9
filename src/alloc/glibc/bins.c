/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "alloc/glibc/ptmalloc.h"
#include "alloc/window.h"

/*
 * The chunks that the walk found free must be exactly those in the arena's bins,
 * whose lists are doubly linked rings through a header each.
 *
 * To follow them would cost a read for every chunk, wherever it lies. The walk sees
 * the links of every free chunk anyway, so it adds them up: for each chunk c the
 * pair (c, fd(c)), and, to be taken away, the pair (bk(c), c); each pair becomes a
 * number that depends on a key unknown in the target (ms_pt_edge()). With those
 * of the headers added, nothing is left exactly when both sets of pairs are the
 * same: then fd leads from each free chunk and header to one of them, to each from
 * one, and bk leads back. So every free chunk is in a ring of free chunks and
 * headers, and nothing else is.
 *
 * That does not prove that each ring has one header: free chunks that are linked in
 * a ring of their own, all links whole, would not be noticed. No error that writes
 * over a link or two makes such a ring, and its chunks are free by their neighbours'
 * word as well.
 *
 * When something is left, the lists are followed after all, to find which chunk is
 * wrong. The walk left a bit for each free one in `marks`; going through the bins
 * takes them away again, so that none must be missing and none may be left.
 *
 * Chunks in fastbins look used to the walk; their lists are singly linked, by the
 * address of the chunk's header. There can be millions, far from each other: where
 * the source has no view, the first words of all short blocks around one are read with
 * it and kept while the arena's fastbins last; and when many are, those of all.
 */

enum {
	MAX_FAST = 1 << 26,
	MAX_FASTBINS = 11,
	TRIED_FAST = 64, /* chunks of a list, to see how links are stored */
	CELL_BYTES = MS_CELL_GRANULES * MS_ALIGNMENT,
	READ_CELLS = 16,   /* around a chunk */
	ITEM_CELLS = 1024, /* for one worker at once: a buffer of MS_WINDOW_BYTES */
	ENOUGH_OF = 8,     /* when one of so many pieces has been read, the others follow */
};

static_assert((size_t)ITEM_CELLS * CELL_BYTES <= MS_WINDOW_BYTES, "an item fits a buffer");

/* Where the walk through the bins stands: lists stay in one extent for long. */
struct bins {
	struct ms_ptmalloc *pt;
	struct ms_extent *extent;
	uint32_t group;              /* of the arena whose bins they are */
	struct ms_pt_spared *spared; /* the same one's; NULL: nothing is taken */
	struct ms_arena scratch[MS_WORKERS_MAX];
	uint64_t **first_words; /* of the short blocks of each of ms_blocks.cells; NULL: not read */
	size_t n_read;          /* pieces of READ_CELLS */
	size_t n_enough;        /* of them make it worth to read all */
	bool all_read;
	bool plain; /* the links of fastbins are not xored with their places */
};

/* The links of a free chunk, where malloc would put the first bytes of a used one. */
struct links {
	uint64_t fd;
	uint64_t bk;
};

static struct links links_in(const struct ms_ptmalloc *pt, const uint8_t *bytes)
{
	return (struct links){ ms_pt_load(pt, bytes), ms_pt_load(pt, bytes + pt->shape->word) };
}

static bool read_links(const struct ms_ptmalloc *pt, ms_addr addr, struct links *ret)
{
	uint8_t bytes[MS_HEADER_MAX];
	bool ok = ms_pt_read(pt, addr, bytes, pt->shape->header) == pt->shape->header;

	if (ok)
		*ret = links_in(pt, bytes);
	return ok;
}

static struct ms_extent *extent_at(struct bins *bins, ms_addr addr)
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

/* Take the free bit of @chunk away and read its links; false when it is not free. */
static bool take_free(struct bins *bins, ms_addr chunk, struct links *ret)
{
	ms_addr addr = chunk + bins->pt->shape->header;
	uint64_t bit;
	struct ms_cell *cell = cell_at(bins, addr, &bit);

	if (!cell || !(cell->marks & ~cell->starts & bit))
		return false;
	cell->marks &= ~bit;
	return read_links(bins->pt, addr, ret);
}

/* Go through one bin; returns how many chunks were in it. */
static uint64_t check_bin(struct bins *bins, struct ms_pt_arena *arena, ms_addr header)
{
	ms_addr chunk = ms_pt_word(bins->pt, header + bins->pt->shape->header);
	ms_addr prev = header;
	uint64_t n = 0;

	while (chunk != header && !arena->proof.doubt) {
		struct links links;

		if (!take_free(bins, chunk, &links) || links.bk != prev) {
			ms_proof_doubt(&arena->proof, MS_DOUBT_DAMAGED,
			               "0x%llx is in a bin, but not free",
			               (unsigned long long)chunk);
			break;
		}
		prev = chunk;
		chunk = links.fd;
		n++;
	}
	return n;
}

/* Follow the lists; whatever is wrong is found. */
static void follow_bins(struct ms_ptmalloc *pt, struct ms_pt_arena *arena, ms_addr first)
{
	struct bins bins = { .pt = pt, .group = arena->group };
	uint64_t n = 0;

	for (ms_addr i = 0; i < MS_BINS && !arena->proof.doubt; i++)
		n += check_bin(&bins, arena, first + i * pt->shape->header);
	if (n != arena->tally.n_free)
		ms_proof_doubt(&arena->proof, MS_DOUBT_DAMAGED,
		               "%llu free chunks, but %llu in bins",
		               (unsigned long long)arena->tally.n_free, (unsigned long long)n);
}

void ms_pt_check_bins(struct ms_ptmalloc *pt, const struct ms_libc *libc, struct ms_pt_arena *arena)
{
	ms_addr bins = arena->addr + libc->layout->bins;
	const uint64_t header = pt->shape->header;
	uint8_t bytes[MS_BINS * MS_HEADER_MAX];
	uint64_t left = arena->tally.links;

	if (libc->unused)
		return;
	if (ms_pt_read(pt, bins, bytes, MS_BINS * header) != MS_BINS * header) {
		ms_proof_doubt(&arena->proof, MS_DOUBT_DISAGREES, "its bins cannot be read");
		return;
	}
	/* The links of a bin, two words, are where those of a chunk before them would be. */
	for (uint64_t i = 0; i < MS_BINS * header; i += header) {
		const struct links links = links_in(pt, bytes + i);
		ms_addr at = bins - header + i;

		left += ms_pt_edge(pt, at, links.fd) - ms_pt_edge(pt, links.bk, at);
	}
	if (left)
		follow_bins(pt, arena, bins - header);
	if (left)
		ms_proof_doubt(&arena->proof, MS_DOUBT_DAMAGED,
		               "a bin does not lead back to its last chunk");
}

/* The used block that begins at @addr: its cell and bit in it; NULL when there is none. */
static struct ms_cell *used_block(struct bins *bins, ms_addr addr, uint64_t *ret_bit)
{
	struct ms_cell *cell = cell_at(bins, addr, ret_bit);

	return cell && (cell->starts & ~cell->tags & *ret_bit) ? cell : NULL;
}

/* The blocks of @cell that are no longer than fastbins hold: those that end soon. */
static uint64_t short_starts(const struct ms_cell *cell, bool is_last)
{
	unsigned __int128 ends = cell->ends;

	if (!is_last)
		ends |= (unsigned __int128)cell[1].ends << MS_CELL_GRANULES;
	/* An end in the same granule, or in one of the next 11. */
	ends |= ends >> 1;
	ends |= ends >> 2;
	ends |= ends >> 4;
	ends |= ends >> 4;
	return cell->starts & (uint64_t)ends;
}

static uint64_t short_starts_of(const struct bins *bins, const struct ms_extent *e, size_t cell)
{
	return short_starts(&bins->pt->d->blocks->cells.at[e->cell0 + cell],
	                    cell + 1 == e->n_cells);
}

/*
 * Read @n cells of @e from @first on, by @worker, and keep the first words of their
 * short blocks. What cannot be read, or kept, is left as it is.
 */
static void read_cells(struct bins *bins, const struct ms_extent *e, size_t first, size_t n,
                       unsigned worker)
{
	ms_addr begin = e->range.begin + first * CELL_BYTES;
	uint64_t left = e->range.end - begin;
	size_t len = left < n * CELL_BYTES ? (size_t)left : n * CELL_BYTES;
	uint8_t *buffer = bins->pt->buffers[worker];
	uint64_t *words;
	size_t n_words = 0;

	for (size_t i = first; i < first + n; i++)
		n_words += (size_t)__builtin_popcountll(short_starts_of(bins, e, i));
	words = ms_arena_alloc(&bins->scratch[worker], n_words * sizeof(*words));
	if (!words || ms_source_read(bins->pt->d->src, begin, buffer, len) != len)
		return;
	for (size_t i = 0; i < n; i++) {
		bins->first_words[e->cell0 + first + i] = words;
		for (uint64_t s = short_starts_of(bins, e, first + i); s; s &= s - 1)
			*words++ = ms_pt_load(bins->pt,
			                      buffer + i * CELL_BYTES +
			                              (size_t)__builtin_ctzll(s) * MS_ALIGNMENT);
	}
}

/* Read @cell of @e and some beside it. */
static void read_around(struct bins *bins, const struct ms_extent *e, size_t cell)
{
	size_t first = cell / READ_CELLS * READ_CELLS;
	size_t n = e->n_cells - first < READ_CELLS ? e->n_cells - first : (size_t)READ_CELLS;

	bins->n_read++;
	read_cells(bins, e, first, n, 0);
}

/* One item of reading all: what of @item's MiB of memory has not been read. */
static void read_item(void *ctx, unsigned worker, size_t item)
{
	struct bins *bins = ctx;
	const struct ms_extent *e;

	ms_vec_for_each (e, &bins->pt->d->blocks->extents) {
		size_t n_items = (e->n_cells - 1) / ITEM_CELLS + 1;
		size_t first = item * ITEM_CELLS;

		if (e->group != bins->group)
			continue;
		if (item < n_items) {
			size_t n = e->n_cells - first;

			read_cells(bins, e, first, n < ITEM_CELLS ? n : (size_t)ITEM_CELLS, worker);
			return;
		}
		item -= n_items;
	}
}

/*
 * When much of the arena's memory has been read here and there, the rest is read at
 * once, by all workers.
 */
static void read_all(struct bins *bins)
{
	const struct ms_extent *e;
	size_t n_items = 0;

	ms_vec_for_each (e, &bins->pt->d->blocks->extents)
		if (e->group == bins->group)
			n_items += (e->n_cells - 1) / ITEM_CELLS + 1;
	bins->all_read = true;
	ms_workers_run(bins->pt->d->workers, n_items, read_item, bins);
}

/* False without memory. */
static bool keep_words(struct bins *bins)
{
	const struct ms_blocks *blocks = bins->pt->d->blocks;
	const struct ms_extent *e;

	if (bins->first_words)
		return true;
	ms_vec_for_each (e, &blocks->extents)
		if (e->group == bins->group)
			bins->n_enough += e->n_cells / READ_CELLS / ENOUGH_OF;
	bins->first_words =
		ms_arena_alloc(&bins->scratch[0], blocks->cells.n * sizeof(*bins->first_words));
	return bins->first_words;
}

/* The first word of the block that begins at @addr in bins->extent, which is a short one. */
static bool first_word(struct bins *bins, ms_addr addr, uint64_t *ret)
{
	const struct ms_extent *e = bins->extent;
	uint64_t granule = ms_granule_of(e, addr);
	size_t cell = granule / MS_CELL_GRANULES;
	uint64_t below = short_starts_of(bins, e, cell) & (ms_granule_bit(granule) - 1);
	uint64_t **words;

	if (e->host) {
		*ret = ms_pt_load(bins->pt, e->host + (addr - e->range.begin));
		return true;
	}
	if (!keep_words(bins))
		return ms_pt_read_word(bins->pt, addr, ret);
	words = &bins->first_words[e->cell0 + cell];
	if (!*words && !bins->all_read && bins->n_read >= ENOUGH_OF &&
	    bins->n_read >= bins->n_enough)
		read_all(bins);
	if (!*words)
		read_around(bins, e, cell);
	if (!*words)
		return ms_pt_read_word(bins->pt, addr, ret);
	*ret = (*words)[__builtin_popcountll(below)];
	return true;
}

/* A fastbin, and where in its list we are. */
struct fastbin {
	ms_addr chunk;
	uint64_t usable; /* of its blocks */
	uint32_t n;
	bool bad;
};

/* The cell and bit of @bin's chunk; NULL when that is no used block of its size. */
static struct ms_cell *fast_chunk(struct bins *bins, const struct fastbin *bin, uint64_t *ret_bit)
{
	ms_addr addr = bin->chunk + bins->pt->shape->header;
	struct ms_cell *cell = used_block(bins, addr, ret_bit);

	if (!cell || bin->n >= MAX_FAST ||
	    ms_block_usable(bins->pt->d->blocks, bins->extent, ms_granule_of(bins->extent, addr)) !=
	            bin->usable)
		return NULL;
	return cell;
}

/* Go on to the next chunk of @bin, or 0. False when the link cannot be read. */
static bool next_fast_chunk(struct bins *bins, struct fastbin *bin)
{
	ms_addr addr = bin->chunk + bins->pt->shape->header;
	uint64_t link;

	if (!first_word(bins, addr, &link))
		return false;
	bin->chunk = bins->plain ? link : ms_pt_reveal(addr, link);
	bin->n++;
	return true;
}

/* How many of @lists lead astray among their first chunks. */
static size_t count_astray(struct bins *bins, const struct fastbin *lists, size_t n)
{
	size_t n_astray = 0;
	uint64_t bit;

	for (size_t i = 0; i < n; i++) {
		struct fastbin bin = lists[i];

		while (bin.chunk && bin.n < TRIED_FAST && fast_chunk(bins, &bin, &bit) &&
		       next_fast_chunk(bins, &bin))
			;
		n_astray += bin.chunk && bin.n < TRIED_FAST;
	}
	return n_astray;
}

/*
 * Whether links are not xored with their places, as they are from 2.32 on, where the last one
 * reveals itself as 0. In a heap at low addresses one that is plain may so reveal another chunk:
 * which of the two it is, many links say together.
 */
static bool are_plain(struct bins *bins, const struct fastbin *lists, size_t n)
{
	size_t n_astray = count_astray(bins, lists, n);

	if (!n_astray)
		return false;
	bins->plain = true;
	return count_astray(bins, lists, n) < n_astray;
}

/* Take the next chunk of @bin for free; false when it is no used block of its size. */
static bool take_fast_chunk(struct bins *bins, struct fastbin *bin)
{
	uint64_t bit;
	struct ms_cell *cell = fast_chunk(bins, bin, &bit);

	if (!cell || !next_fast_chunk(bins, bin))
		return false;
	cell->tags |= bit;
	bins->extent->bytes -= bin->usable;
	bins->pt->fast_entries++;
	bins->spared->n++;
	bins->spared->bytes += bin->usable;
	return true;
}

/*
 * One chunk of each list in turn: the lists do not depend on each other, so that the
 * machine fetches what it lacks for several at once.
 */
static void take_fast_chunks(struct bins *bins, struct fastbin *lists, size_t n)
{
	bool going = true;

	while (going) {
		going = false;
		for (size_t i = 0; i < n; i++) {
			if (!lists[i].chunk)
				continue;
			going = true;
			if (take_fast_chunk(bins, &lists[i]))
				continue;
			lists[i].bad = true;
			lists[i].chunk = 0;
		}
	}
}

void ms_pt_take_fastbins(struct ms_ptmalloc *pt, const struct ms_libc *libc,
                         struct ms_pt_arena *arena)
{
	struct bins bins = { .pt = pt, .group = arena->group, .spared = &arena->spared };
	struct fastbin lists[MAX_FASTBINS] = { 0 };
	size_t n = libc->layout->n_fastbins;
	const uint64_t word = pt->shape->word;

	for (size_t i = 0; i < n; i++) {
		lists[i].chunk = ms_pt_word(pt, arena->addr + libc->layout->fastbins + i * word);
		/* fastbin_index(): a bin for every two words, though sizes are further apart */
		lists[i].usable = (i + 2) * pt->shape->header - word;
	}
	bins.plain = are_plain(&bins, lists, n);
	take_fast_chunks(&bins, lists, n);
	for (size_t i = 0; i < n; i++)
		if (lists[i].bad)
			ms_proof_doubt(&arena->proof, MS_DOUBT_DAMAGED,
			               "fastbin %zu holds what is no used chunk", i);
	for (unsigned i = 0; i < ms_workers_count(pt->d->workers); i++)
		ms_arena_deinit(&bins.scratch[i]);
}
