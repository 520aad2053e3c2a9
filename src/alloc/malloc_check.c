/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/decoders.h"
#include "engine/loaded/peek.h"

/*
 * The annotator of glibc's MALLOC_CHECK_. The checks write a byte behind the requested size, which
 * depends on the block's address, and a chain of distances from the block's end down to that byte.
 * This file reads the chain. It does not look for the setting: a chain is believed where nearly all
 * neighbouring blocks have one.
 *
 * Source: mem2mem_check() and malloc_check_get_size() of malloc/malloc-check.c, glibc 2.36;
 * malloc/hooks.c before 2.34.
 */

enum {
	SAMPLE_BLOCKS = 64, /* of an extent */
	FEWEST_BLOCKS = 8,  /* with a chain */
	TIMES = 7,          /* as many of them as of the others */
	MOST_EXTENTS = 16,  /* in which the first chains are looked for */
	LONG_STEP = 254,    /* 255, or 1 less where 255 is the last byte */
	SHORT_STEPS = 2,    /* at the chain's end; 1 where no step equals the last byte */
};

struct check {
	struct ms_decoding *d;
	struct ms_peek peek;
	uint32_t *less; /* by a block's number */
	uint64_t n;     /* blocks with a chain */
	uint64_t n_all;
	uint64_t bytes; /* behind the requested ones */
};

/* The byte behind the block that begins at @begin. */
static uint8_t magic_of(const struct check *c, ms_addr begin)
{
	ms_addr chunk = begin - UINT64_C(2) * c->d->src->abi.word_bytes;
	uint8_t magic = (uint8_t)(chunk >> 3 ^ chunk >> 11);

	return magic == 1 ? 2 : magic;
}

/* The requested bytes of the block of @usable ones at @begin; false when it has no chain. */
static bool read_size(struct check *c, ms_addr begin, uint64_t usable, uint64_t *ret)
{
	const uint8_t magic = magic_of(c, begin);
	uint64_t at = usable - 1;
	unsigned int n_short = 0;
	uint8_t byte;

	while (ms_peek_read(&c->peek, begin + at, &byte, 1) == 1) {
		if (byte == magic) {
			*ret = at;
			return true;
		}
		n_short += byte < LONG_STEP;
		if (!byte || byte > at || n_short > SHORT_STEPS)
			return false;
		at -= byte;
	}
	return false;
}

/* Whether nearly all of the first blocks have a chain. A few are older than the checks. */
static bool is_checked(struct check *c, const struct ms_extent *e)
{
	unsigned int with = 0;
	unsigned int without = 0;

	for (size_t i = 0; i < e->n_cells && with + without < SAMPLE_BLOCKS; i++) {
		const struct ms_cell *cell = &c->d->blocks->cells.at[e->cell0 + i];
		uint64_t starts = cell->starts & ~cell->tags;

		for (; starts && with + without < SAMPLE_BLOCKS; starts &= starts - 1) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(starts);
			uint64_t size;

			if (read_size(c, ms_block_begin(e, granule),
			              ms_block_usable(c->d->blocks, e, granule), &size))
				with++;
			else if (++without > SAMPLE_BLOCKS / TIMES)
				return false;
		}
	}
	return with >= FEWEST_BLOCKS && with >= TIMES * without;
}

static bool is_heap(const struct ms_extent *e)
{
	return !e->dropped && e->kind == MS_EXTENT_HEAP;
}

/* Whether some extent has chains. A block in a mapping of its own has no neighbours to compare. */
static bool has_chains(struct check *c)
{
	const struct ms_extent *e;
	unsigned int left = MOST_EXTENTS;

	ms_vec_for_each (e, &c->d->blocks->extents) {
		if (!is_heap(e) || e->shift == MS_SINGLE_SHIFT)
			continue;
		if (is_checked(c, e))
			return true;
		if (!--left)
			break;
	}
	return false;
}

static void read_extent(struct check *c, const struct ms_extent *e)
{
	uint32_t number = e->first;

	for (size_t i = 0; i < e->n_cells; i++) {
		uint64_t starts = c->d->blocks->cells.at[e->cell0 + i].starts;

		for (; starts; starts &= starts - 1, number++) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(starts);
			uint64_t usable = ms_block_usable(c->d->blocks, e, granule);
			uint64_t size;

			c->n_all++;
			if (!read_size(c, ms_block_begin(e, granule), usable, &size))
				continue;
			/* malloc(0) gives a block, too. */
			size += !size;
			c->less[number] = (uint32_t)(usable - size);
			c->bytes += usable - size;
			c->n++;
		}
	}
}

static void tell(struct check *c)
{
	ms_heap_shrink(ms_heaps_main(c->d->heaps), 0, c->bytes);
	ms_evidence_add(
		c->d->arena, c->d->evidence, c->d->heaps,
		"MALLOC_CHECK_: %llu of %llu blocks end in its bytes, which say what was asked for",
		(unsigned long long)c->n, (unsigned long long)c->n_all);
}

static enum ms_status trim(struct check *c)
{
	struct ms_trims trims = { .exact = true };
	const struct ms_extent *e;
	uint64_t n;
	enum ms_status st = ms_blocks_number(c->d->blocks, &n);

	if (st)
		return st;
	c->less = ms_arena_resize(c->d->arena, NULL, n * sizeof(*c->less));
	if (!c->less)
		return MS_E_NOMEM;
	ms_vec_for_each (e, &c->d->blocks->extents)
		if (is_heap(e) && (e->shift == MS_SINGLE_SHIFT || is_checked(c, e)))
			read_extent(c, e);
	trims.less = c->less;
	ms_blocks_trim(c->d->blocks, &trims);
	tell(c);
	return MS_OK;
}

static enum ms_status malloc_check_annotate(struct ms_decoding *d)
{
	const struct ms_heap *heap = ms_heaps_main(d->heaps);
	struct check c = { .d = d };

	/* A preloaded malloc_debug knows the sizes better. */
	if (!heap || strcmp(heap->allocator, "glibc") != 0 || d->blocks->less.n)
		return MS_OK;
	if (!ms_peek_init(&c.peek, d->src, d->arena))
		return MS_E_NOMEM;
	return has_chains(&c) ? trim(&c) : MS_OK;
}

const struct ms_annotator ms_malloc_check_annotator = { .name = "malloc_check",
	                                                .annotate = malloc_check_annotate };
