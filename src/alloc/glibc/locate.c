/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/glibc/ptmalloc.h"
#include "alloc/window.h"

/*
 * The anchor is the table of bins. An empty bin's two links both point 16 bytes
 * before themselves, and the last of 127 bins is always empty, for no size belongs
 * there, so a main arena shows itself in any module's data as a word pair that points
 * at itself. Which of the 127 bins the pair is, and in which family, is tried out: all
 * bins must be plausible, and the ring of arenas must lead back to where the arena begins.
 *
 * malloc_par stands below main_arena in the same data, at a distance that varies.
 * It is chosen by what its counters must satisfy, and by its defaults.
 */

enum {
	MAX_ARENAS = 1 << 16,
	PAR_REACH = 0x1000, /* malloc_par begins at most so far below main_arena */
	ATTACHED_MAX = 1 << 16,
	MARGIN = 4096, /* no arena is larger */
	PIECE = MS_WINDOW_BYTES - 2 * MARGIN,
};

/* A module's data, or a piece of it. */
struct image {
	struct ms_ptmalloc *pt;
	const struct ms_region *region;
	struct ms_range range;
	const uint8_t *bytes;
};

static uint64_t word_at(const struct image *image, ms_addr addr)
{
	return ms_pt_load(image->pt, image->bytes + (addr - image->range.begin));
}

static bool is_inside(const struct image *image, ms_addr addr, uint64_t len)
{
	return addr >= image->range.begin && addr < image->range.end &&
	       image->range.end - addr >= len;
}

static bool is_link(const struct ms_ptmalloc *pt, uint64_t word)
{
	return word && (word + pt->shape->header) % MS_ALIGNMENT == 0 &&
	       ms_region_is_writable(pt->d->src, pt->d->regions, word);
}

static bool is_empty_bin(const struct image *image, ms_addr bin)
{
	const struct ms_pt_shape *shape = image->pt->shape;

	return word_at(image, bin) == bin - shape->header &&
	       word_at(image, bin + shape->word) == bin - shape->header;
}

/* A list's first and last chunk, or itself. */
static bool is_bin(const struct image *image, ms_addr bin)
{
	const struct ms_pt_shape *shape = image->pt->shape;
	uint64_t fd = word_at(image, bin);
	uint64_t bk = word_at(image, bin + shape->word);

	return (fd == bin - shape->header || is_link(image->pt, fd)) &&
	       (bk == bin - shape->header || is_link(image->pt, bk));
}

/* Follow the ring from @arena; true when it closes within bounds over sane arenas. */
static bool ring_closes(const struct image *image, ms_addr arena,
                        const struct ms_arena_layout *layout)
{
	ms_addr at = arena;

	for (int i = 0; i < MAX_ARENAS; i++) {
		uint64_t attached = ms_pt_word(image->pt, at + layout->attached);

		if (attached > ATTACHED_MAX)
			return false;
		at = ms_pt_word(image->pt, at + layout->next);
		if (at == arena)
			return true;
		if (!at || at % image->pt->shape->header ||
		    !ms_region_is_writable(image->pt->d->src, image->pt->d->regions, at))
			return false;
	}
	return false;
}

/*
 * An arena that lies inside a heap of its own is not the main one, though its
 * heap may look like a module's data (huge pages have an inode): heap_info
 * begins the page and names the arena.
 */
static bool is_heap_arena(const struct ms_ptmalloc *pt, ms_addr arena)
{
	ms_addr page = ms_align_down(arena, pt->page);
	uint64_t below = arena - page;

	return (below == pt->shape->heap_infos[0] || below == pt->shape->heap_infos[1]) &&
	       ms_pt_word(pt, page) == arena;
}

static enum ms_status add_libc(const struct image *image, ms_addr arena,
                               const struct ms_arena_layout *layout, bool unused)
{
	struct ms_libc *libc = ms_vec_push(image->pt->d->arena, &image->pt->libcs);

	if (!libc)
		return MS_E_NOMEM;
	*libc = (struct ms_libc){
		.layout = layout, .data = image->region, .main_arena = arena, .unused = unused
	};
	return MS_OK;
}

/* A bin is the two links of a list: as long as a chunk's header. */
static uint8_t bin_bytes(const struct image *image)
{
	return image->pt->shape->header;
}

static uint64_t bins_bytes(const struct image *image)
{
	return (uint64_t)MS_BINS * bin_bytes(image);
}

/* How far bins go on from @bin, of which there are no more than an arena has. */
static ms_addr end_of_bins(const struct image *image, ms_addr bin)
{
	const uint8_t len = bin_bytes(image);
	ms_addr end = bin;

	while (end < bin + bins_bytes(image) && is_inside(image, end, len) && is_bin(image, end))
		end += len;
	return end;
}

/*
 * The bins of which the empty one at @pair is part, or 0: the highest that are 127, the last
 * of them empty. Memory may be full of pairs, so each bin is looked at once.
 */
static ms_addr bins_around(const struct image *image, ms_addr pair)
{
	const uint8_t len = bin_bytes(image);
	const uint64_t all = bins_bytes(image);
	ms_addr end = end_of_bins(image, pair);

	for (ms_addr bins = pair;;) {
		if (end - bins == all && is_empty_bin(image, end - len))
			return bins;
		bins -= len;
		if (pair - bins == all || !is_inside(image, bins, len) || !is_bin(image, bins))
			return 0;
		if (end - bins > all)
			end -= len;
	}
}

/* From 2.42 on an arena is set up before it is used: its top is then no chunk, but a bin. */
static bool is_untouched(const struct image *image, ms_addr arena,
                         const struct ms_arena_layout *layout)
{
	return word_at(image, arena + layout->top) ==
	               arena + layout->bins - image->pt->shape->header &&
	       word_at(image, arena + layout->next) == arena;
}

/* The empty bin at @pair may belong to a main arena; adds it and returns where it ends, or 0. */
static enum ms_status try_pair(const struct image *image, ms_addr pair, ms_addr *ret_end)
{
	ms_addr bins = bins_around(image, pair);

	for (size_t i = 0; bins && i < image->pt->shape->n_arenas; i++) {
		const struct ms_arena_layout *layout = &image->pt->shape->arenas[i];
		ms_addr arena = bins - layout->bins;

		if (!is_inside(image, arena, layout->size) || is_heap_arena(image->pt, arena) ||
		    !ring_closes(image, arena, layout))
			continue;
		*ret_end = arena + layout->size;
		return add_libc(image, arena, layout, is_untouched(image, arena, layout));
	}
	return MS_OK;
}

/*
 * Up to 2.41 an arena that was never used is as the linker left it: empty but for
 * `next`, which is the arena's own address, and one attached thread.
 */
static bool is_unused_arena(const struct image *image, ms_addr next,
                            const struct ms_arena_layout *layout)
{
	ms_addr arena = next - layout->next;

	if (!is_inside(image, arena, layout->size) || word_at(image, next) != arena ||
	    word_at(image, arena + layout->attached) != 1)
		return false;
	for (ms_addr at = arena + layout->top; at < arena + layout->next;
	     at += image->pt->shape->word)
		if (word_at(image, at))
			return false;
	return !word_at(image, arena + layout->system_mem);
}

static enum ms_status try_unused(const struct image *image, ms_addr next, ms_addr *ret_end)
{
	for (size_t i = 0; i < image->pt->shape->n_arenas; i++) {
		const struct ms_arena_layout *layout = &image->pt->shape->arenas[i];

		if (word_at(image, next) != next - layout->next ||
		    !is_unused_arena(image, next, layout))
			continue;
		*ret_end = next - layout->next + layout->size;
		return add_libc(image, next - layout->next, layout, true);
	}
	return MS_OK;
}

static enum ms_status search_image(const struct image *image, struct ms_range piece, ms_addr *ret)
{
	const struct ms_pt_shape *shape = image->pt->shape;
	ms_addr at = piece.begin;

	while (at < piece.end && at + shape->header <= image->range.end) {
		uint64_t word = word_at(image, at);
		ms_addr end = 0;
		enum ms_status st = MS_OK;

		if (word == at - shape->header && word_at(image, at + shape->word) == word)
			st = try_pair(image, at, &end);
		else if (at - word < 0x1000 && word)
			st = try_unused(image, at, &end);
		if (st)
			return st;
		at = end ? end : at + shape->word;
	}
	*ret = at < piece.end ? piece.end : at;
	return MS_OK;
}

static uint32_t int_at(const struct ms_ptmalloc *pt, ms_addr addr)
{
	uint32_t value = UINT32_MAX;

	(void)ms_pt_read(pt, addr, &value, sizeof(value));
	return value;
}

/* 0 or a power of two. */
static bool is_page_size(uint64_t n)
{
	return (n & (n - 1)) == 0;
}

/* What main_arena says of its memory, which begins at sbrk_base. */
struct main_memory {
	uint64_t bytes;
	ms_addr end; /* of top */
};

static struct main_memory main_memory_of(const struct ms_ptmalloc *pt, const struct ms_libc *libc)
{
	ms_addr top = ms_pt_word(pt, libc->main_arena + libc->layout->top);
	uint64_t top_size = ms_pt_word(pt, top + pt->shape->word) & ~(uint64_t)MS_SIZE_BITS;

	return (struct main_memory){
		.bytes = ms_pt_word(pt, libc->main_arena + libc->layout->system_mem),
		.end = top + top_size,
	};
}

static uint32_t int_in(const uint8_t *bytes, size_t offset)
{
	uint32_t value;

	memcpy(&value, bytes + offset, sizeof(value));
	return value;
}

/* Whether malloc_par can be what @par shows: no bound is exceeded. */
static bool is_par(const struct ms_ptmalloc *pt, const uint8_t *par,
                   const struct ms_par_layout *layout)
{
	uint32_t n_mmaps = int_in(par, layout->n_mmaps);
	uint32_t max_n_mmaps = int_in(par, layout->n_mmaps + 8u);
	uint32_t no_dyn = int_in(par, layout->n_mmaps + 12u);
	uint64_t mem = ms_pt_load(pt, par + layout->mmapped_mem);
	uint64_t max_mem = ms_pt_load(pt, par + layout->mmapped_mem + pt->shape->word);
	ms_addr sbrk_base = ms_pt_load(pt, par + layout->sbrk_base);

	return no_dyn <= 1 && n_mmaps <= max_n_mmaps && mem <= max_mem &&
	       mem % pt->shape->header == 0 && !max_n_mmaps == !max_mem &&
	       ms_pt_load(pt, par + layout->tcache_bins) <= MS_TCACHE_MAX_BINS &&
	       (!layout->thp_pagesize ||
	        is_page_size(ms_pt_load(pt, par + layout->thp_pagesize))) &&
	       (!layout->hp_pagesize || is_page_size(ms_pt_load(pt, par + layout->hp_pagesize))) &&
	       (!sbrk_base || ms_region_is_writable(pt->d->src, pt->d->regions, sbrk_base));
}

/* How well malloc_par fits @par: 0 not at all, else 1 and one for each default. */
static unsigned int par_score(const struct ms_ptmalloc *pt, const struct main_memory *main,
                              const uint8_t *par, const struct ms_par_layout *layout)
{
	const uint64_t word = pt->shape->word;
	uint64_t trim = ms_pt_load(pt, par);
	uint64_t top_pad = ms_pt_load(pt, par + word);
	uint64_t threshold = ms_pt_load(pt, par + 2 * word);
	uint64_t arena_test = ms_pt_load(pt, par + 3 * word);
	uint64_t bins = ms_pt_load(pt, par + layout->tcache_bins);
	uint64_t count = ms_pt_load(pt, par + layout->tcache_bins + 2 * word);
	ms_addr sbrk_base = ms_pt_load(pt, par + layout->sbrk_base);

	if (!is_par(pt, par, layout))
		return 0;
	return 1u + (int_in(par, layout->n_mmaps + 4u) == 65536) +
	       (arena_test == pt->shape->arena_test) + (top_pad == 0x20000) +
	       (threshold == 0x20000 || (threshold && trim == 2 * threshold)) +
	       (count == 7 || count == 16) + (bins >= MS_TCACHE_SMALL_BINS) +
	       4u * (main->bytes && sbrk_base && sbrk_base + main->bytes == main->end);
}

static void locate_par(struct ms_ptmalloc *pt, struct ms_libc *libc, struct ms_range data)
{
	struct main_memory main = main_memory_of(pt, libc);
	ms_addr low = libc->main_arena - PAR_REACH;
	uint8_t bytes[PAR_REACH];
	unsigned int best = 0;

	if (low < data.begin || low > libc->main_arena)
		low = data.begin;
	low = ms_align_up(low, pt->shape->word);
	/* What cannot be read is not malloc_par: zeros have no default. */
	ms_source_fill(pt->d->src, low, bytes, libc->main_arena - low);
	for (uint16_t i = libc->layout->first_par; i < libc->layout->end_par; i++)
		for (ms_addr par = low; par + pt->shape->pars[i].size <= libc->main_arena;
		     par += pt->shape->word) {
			unsigned int score =
				par_score(pt, &main, bytes + (par - low), &pt->shape->pars[i]);

			if (score <= best)
				continue;
			best = score;
			libc->par = par;
			libc->par_layout = &pt->shape->pars[i];
		}
	/* A run of zeros satisfies every bound; defaults it has none of. */
	if (best < 3)
		libc->par_layout = NULL;
}

static void read_par(const struct ms_ptmalloc *pt, struct ms_libc *libc)
{
	const struct ms_par_layout *layout = libc->par_layout;

	if (!layout)
		return;
	libc->sbrk_base = ms_pt_word(pt, libc->par + layout->sbrk_base);
	libc->n_mmaps = int_at(pt, libc->par + layout->n_mmaps);
	libc->mmapped_mem = ms_pt_word(pt, libc->par + layout->mmapped_mem);
	libc->tcache_count = ms_pt_word(pt, libc->par + layout->tcache_bins + pt->shape->header);
	if (layout->hp_pagesize)
		libc->hp_pagesize = ms_pt_word(pt, libc->par + layout->hp_pagesize);
}

/*
 * Search [@at, @end) of @data, a piece small enough to be held with what an arena
 * there can reach out of it. Sets @ret to where the search is to go on.
 */
static enum ms_status locate_in_piece(struct ms_ptmalloc *pt, const struct ms_region *region,
                                      struct ms_range data, struct ms_range piece, ms_addr *ret)
{
	struct image image = { .pt = pt, .region = region, .range = data };
	size_t len;

	if (piece.begin - data.begin > MARGIN)
		image.range.begin = piece.begin - MARGIN;
	if (data.end - piece.end > MARGIN)
		image.range.end = piece.end + MARGIN;
	len = (size_t)ms_range_len(image.range);
	image.bytes = ms_source_view(pt->d->src, image.range.begin, len);
	if (!image.bytes) {
		size_t got = ms_source_read(pt->d->src, image.range.begin, pt->search_buffer, len);

		memset(pt->search_buffer + got, 0, len - got);
		image.bytes = pt->search_buffer;
	}
	return search_image(&image, piece, ret);
}

/* Search one stretch of data and complete the libraries found in it. */
static enum ms_status locate_in(struct ms_ptmalloc *pt, const struct ms_region *region,
                                struct ms_range data)
{
	struct ms_range piece = data;
	size_t before = pt->libcs.n;
	struct ms_range present;
	enum ms_status st = MS_OK;

	for (; piece.begin < data.end && !st; piece.begin = piece.end) {
		piece.end = data.end;
		if (ms_range_len(piece) > PIECE)
			piece.end = piece.begin + PIECE;
		if (ms_source_present(pt->d->src, piece, &present))
			st = locate_in_piece(pt, region, data, piece, &piece.end);
	}
	for (size_t i = before; i < pt->libcs.n; i++) {
		locate_par(pt, &pt->libcs.at[i], data);
		read_par(pt, &pt->libcs.at[i]);
		/* From 2.42 on a program may have mapped chunks only. */
		pt->libcs.at[i].unused &= !pt->libcs.at[i].n_mmaps;
	}
	return st;
}

enum ms_status ms_pt_locate(struct ms_ptmalloc *pt)
{
	enum ms_status st = MS_OK;
	struct ms_data data;

	/* Huge-page heaps of an arena may look like data. */
	for (size_t i = 0; !st && ms_next_data(pt->d->src, pt->d->regions, &i, &data);)
		st = locate_in(pt, data.region, data.range);
	return st;
}
