/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/decoders.h"

/*
 * The annotator of mcheck(), by which the C library watches malloc: a header in front of what
 * the program has of each block, and a list through all of them. The list begins in the
 * library's data, so every block is held, whether the program lost it or not. This says so,
 * and no more: the headers are left what they are to everybody else, the program's bytes.
 */

/*
 * Words of a header: the size as it was asked for, links, and where the block begins.
 * Source: glibc 2.31 and 2.36 under mcheck(NULL); struct hdr of malloc/mcheck-impl.c.
 */
enum { SIZE, MAGIC, PREVIOUS, NEXT, BLOCK, MAGIC2, HEADER_WORDS };

static const uint64_t MAGIC_WORD = 0xfedabeeb;

/* Of an extent's blocks the first so many are looked at: some may be older than mcheck(). */
enum { MOST_BLOCKS = 1024 };

static bool is_watched(struct ms_decoding *d, ms_addr block)
{
	const uint64_t all = UINT64_MAX >> (64 - 8 * d->src->abi.word_bytes);
	uint64_t words[HEADER_WORDS];

	return ms_source_words(d->src, block, words, HEADER_WORDS) == HEADER_WORDS &&
	       words[MAGIC2] == (block ^ MAGIC_WORD) &&
	       words[MAGIC] == (MAGIC_WORD ^ ((words[PREVIOUS] + words[NEXT]) & all));
}

static bool has_watched(struct ms_decoding *d, const struct ms_extent *e)
{
	unsigned int n = 0;

	for (size_t i = 0; i < e->n_cells; i++) {
		uint64_t starts = d->blocks->cells.at[e->cell0 + i].starts;

		for (; starts; starts &= starts - 1) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(starts);

			if (is_watched(d, ms_block_begin(e, granule)))
				return true;
			if (++n == MOST_BLOCKS)
				return false;
		}
	}
	return false;
}

static enum ms_status mcheck_annotate(struct ms_decoding *d)
{
	const struct ms_extent *e;

	ms_vec_for_each (e, &d->blocks->extents) {
		if (e->dropped || e->kind != MS_EXTENT_HEAP || !has_watched(d, e))
			continue;
		ms_note_add(
			d->arena, d->warnings,
			"the program called mcheck(), or was linked with -lmcheck: its list "
			"holds every block, so none of these looks like a leak; run it without");
		break;
	}
	return MS_OK;
}

const struct ms_annotator ms_mcheck_annotator = { .name = "mcheck", .annotate = mcheck_annotate };
