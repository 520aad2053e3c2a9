/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "alloc/jemalloc/jemalloc.h"

/*
 * The tree is read once, in the order of addresses. Where a word names an extent, what
 * describes this one must say the same: that it begins at this page, its state, and if
 * it is in use its class. Then all words up to its end must be those that jemalloc writes
 * for such an extent. So no extent is taken from one side only, no two of them overlap,
 * and a page that is named by nothing is no block's.
 *
 * Class and slab in a word are those of the last use when the extent is in none, and the
 * last page of what is no slab never gets them.
 */

struct walk {
	struct ms_jemalloc *je;
	struct ms_je_copy *copy;
	bool is_open;
	struct ms_je_extent extent; /* that is open: whose words are being read */
	uint64_t word;              /* its first */
	ms_addr last;               /* page that named it */
	uint64_t n;                 /* pages that did */
};

/* Named by all of its pages: an extent that is in use no more keeps the mark of a slab. */
static bool is_named_by_all(const struct walk *w)
{
	return ms_je_in_use(w->copy->bits, w->extent.bits) && ms_je_is_slab(&w->extent);
}

/* From a leaf's word on, whether an extent is the head of what was mapped at once. */
static const uint64_t HEAD_BIT = 2;

/* The words of the open extent have been read. */
static bool close(struct walk *w)
{
	const struct ms_je_extent *e = &w->extent;
	uint64_t pages = ms_range_len(e->range) / MS_JE_PAGE;
	uint64_t want = is_named_by_all(w) || pages == 1 ? pages : 2;

	if (!w->is_open)
		return true;
	w->is_open = false;
	if (w->n == want && w->last == e->range.end - MS_JE_PAGE)
		return true;
	ms_proof_doubt(&w->copy->proof, MS_DOUBT_DAMAGED,
	               "the tree names %llu of %llu pages at 0x%llx", (unsigned long long)w->n,
	               (unsigned long long)want, (unsigned long long)e->range.begin);
	return false;
}

/* The bits that all words of the open extent share. */
static uint64_t same_bits(const struct walk *w)
{
	uint64_t state = w->copy->bits->leaf_state ? UINT64_C(7) << 2 : 0;

	return is_named_by_all(w) ? ~HEAD_BIT : MS_JE_ENTRY_ADDRESS | state;
}

/* MS_OK also where the tree is found wrong: then copy->broken is set. */
static enum ms_status take_word(struct walk *w, ms_addr page, uint64_t word)
{
	struct ms_je_extent *slot;

	if (w->is_open && page < w->extent.range.end) {
		w->copy->broken = (word ^ w->word) & same_bits(w);
		w->last = page;
		w->n++;
		return MS_OK;
	}
	if (!close(w)) {
		w->copy->broken = true;
		return MS_OK;
	}
	if (!ms_je_extent_of(w->je, w->copy->bits, word, &w->extent) ||
	    w->extent.range.begin != page) {
		w->copy->broken = true;
		return MS_OK;
	}
	w->is_open = true;
	w->word = word;
	w->last = page;
	w->n = 1;
	slot = ms_vec_push(w->je->d->arena, &w->copy->extents);
	if (!slot)
		return MS_E_NOMEM;
	*slot = w->extent;
	return MS_OK;
}

static enum ms_status walk_piece(struct walk *w, const struct ms_je_leaf *leaf,
                                 struct ms_range piece)
{
	const struct ms_je_tree *tree = w->copy->tree;
	uint64_t *words = w->je->words;
	size_t n = ms_source_read(w->je->d->src, piece.begin, words, (size_t)ms_range_len(piece)) /
	           MS_JE_WORD;
	ms_addr page = leaf->about +
	               (piece.begin - leaf->range.begin) / ms_je_entry_bytes(tree) * MS_JE_PAGE;

	for (size_t i = 0; i < n; i += tree->entry_words, page += MS_JE_PAGE) {
		uint64_t word = ms_je_entry_at(tree, w->copy->bits, &words[i]);
		enum ms_status st;

		if (!(word & MS_JE_ENTRY_ADDRESS))
			continue;
		st = take_word(w, page, word);
		if (st)
			return st;
		if (!w->copy->broken)
			continue;
		ms_proof_doubt(&w->copy->proof, MS_DOUBT_DAMAGED,
		               "the tree and the extent at 0x%llx contradict each other",
		               (unsigned long long)page);
		return MS_OK;
	}
	if (n == ms_range_len(piece) / MS_JE_WORD)
		return MS_OK;
	w->copy->broken = true;
	ms_proof_doubt(&w->copy->proof, MS_DOUBT_DAMAGED, "the tree's leaf 0x%llx cannot be read",
	               (unsigned long long)leaf->range.begin);
	return MS_OK;
}

static enum ms_status walk_leaf(struct walk *w, const struct ms_je_leaf *leaf)
{
	uint64_t entry = ms_je_entry_bytes(w->copy->tree);
	struct ms_range rest = leaf->range;
	struct ms_range run;
	enum ms_status st = MS_OK;

	while (!st && !w->copy->broken && ms_source_present(w->je->d->src, rest, &run)) {
		run.begin = leaf->range.begin + ms_align_up(run.begin - leaf->range.begin, entry);
		if (run.end > run.begin && ms_range_len(run) > MS_JE_PIECE_BYTES)
			run.end = run.begin + MS_JE_PIECE_BYTES;
		if (run.end > run.begin)
			st = walk_piece(w, leaf, run);
		rest.begin = run.end;
	}
	return st;
}

enum ms_status ms_je_read_extents(struct ms_jemalloc *je, struct ms_je_copy *copy)
{
	struct walk w = { .je = je, .copy = copy };
	struct ms_je_leaves leaves = { 0 };
	const struct ms_je_leaf *leaf;
	enum ms_status st = ms_je_find_leaves(je, copy, &leaves);

	ms_vec_for_each (leaf, &leaves)
		if (!st && !copy->broken)
			st = walk_leaf(&w, leaf);
	if (!st && !copy->broken)
		copy->broken = !close(&w);
	return st;
}
