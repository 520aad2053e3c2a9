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

enum { EDATA_READ = 24 };

static const uint64_t ADDRESS = 0x0000ffffffffffc0;

/* A word of a leaf, taken apart. */
struct entry {
	ms_addr edata;
	uint32_t index; /* of its size class */
	uint32_t state;
	bool slab;
};

/* False when jemalloc writes no such word. */
static bool parse(const struct ms_je_bits *bits, uint64_t word, struct entry *ret)
{
	*ret = (struct entry){ .edata = word & ADDRESS & ~(uint64_t)bits->leaf_below,
		               .index = ms_je_field(word, 48, MS_JE_CLASS_BITS),
		               .state = bits->leaf_state ? ms_je_field(word, 2, 3) : 0,
		               .slab = word & 1 };
	return !(word >> 56) && !(word & bits->leaf_below & ~(uint64_t)bits->leaf_low) &&
	       ret->index <= MS_JE_CLASSES;
}

static bool says_the_same(const struct ms_je_bits *bits, const struct entry *entry, uint64_t first)
{
	uint32_t state = ms_je_field(first, bits->state, bits->state_bits);
	uint32_t index = ms_je_field(first, bits->class_, MS_JE_CLASS_BITS);

	return (!bits->leaf_state || state == entry->state) && index <= MS_JE_CLASSES &&
	       (!ms_je_in_use(bits, first) ||
	        (index == entry->index && entry->slab == ms_je_field(first, MS_JE_SLAB_BIT, 1)));
}

/* What the description at @entry's address says; false when it is none, or differs. */
static bool read_extent(const struct ms_jemalloc *je, const struct ms_je_bits *bits,
                        const struct entry *entry, struct ms_je_extent *ret)
{
	uint64_t words[EDATA_READ / MS_JE_WORD];
	uint64_t size;

	if (ms_peek_read(je->peek, entry->edata, words, EDATA_READ) != EDATA_READ)
		return false;
	size = ms_align_down(words[MS_JE_EDATA_SIZE / MS_JE_WORD], MS_JE_PAGE);
	ret->edata = entry->edata;
	ret->bits = words[0];
	ret->addr = words[MS_JE_EDATA_ADDR / MS_JE_WORD];
	ret->range.begin = ms_align_down(ret->addr, MS_JE_PAGE);
	ret->range.end = ret->range.begin + size;
	return size && ret->range.end > ret->range.begin && !(ret->range.end >> 48) &&
	       says_the_same(bits, entry, ret->bits);
}

/* ---- is this a leaf? ---- */

enum { LEAF_TRIES = 16 };

/* What a leaf was found to show. */
struct shown {
	const struct ms_je_bits *bits; /* NULL: nothing */
	ms_addr page;
	bool clear; /* no other bits fit */
};

/* Try a leaf's word, which is about the page of this index. @only: these bits; NULL: any. */
static struct shown try_word(struct ms_jemalloc *je, const struct ms_je_bits *only, uint64_t word,
                             uint32_t page)
{
	struct shown shown = { 0 };

	for (size_t i = 0; i < ms_je_n_layouts; i++) {
		const struct ms_je_bits *bits = ms_je_layouts[i].bits;
		struct ms_je_extent extent;
		struct entry entry;
		uint64_t before;

		if (bits == shown.bits || (only && bits != only) || !parse(bits, word, &entry) ||
		    !read_extent(je, bits, &entry, &extent))
			continue;
		before = (page - extent.range.begin / MS_JE_PAGE) % MS_JE_LEAF_WORDS * MS_JE_PAGE;
		if (before >= ms_range_len(extent.range))
			continue;
		shown = (struct shown){ bits, extent.range.begin + before, !shown.bits };
	}
	return shown;
}

struct words {
	const uint64_t *at;
	size_t n;
	uint32_t page; /* index of the first */
};

/* The first of @words that fits clearly; false: one fits nothing. */
static bool try_words(struct ms_jemalloc *je, const struct ms_je_bits *only,
                      const struct words *words, struct shown *ret)
{
	for (size_t i = 0; i < words->n && !ret->clear; i++) {
		struct shown shown;

		if (!(words->at[i] & ADDRESS))
			continue;
		shown = try_word(je, only, words->at[i], words->page + (uint32_t)i);
		if (!shown.bits)
			return false;
		*ret = shown;
	}
	return true;
}

bool ms_je_leaf_shows(struct ms_jemalloc *je, ms_addr leaf, const struct ms_je_bits **bits,
                      ms_addr *ret)
{
	struct ms_range rest = { leaf, leaf + MS_JE_LEAF_BYTES };
	struct ms_range run;
	struct shown shown = { 0 };

	/* Words of extents that are gone fill whole pages. */
	for (int i = 0; i < LEAF_TRIES && !shown.clear && ms_source_present(je->d->src, rest, &run);
	     i++) {
		uint64_t bytes[MS_JE_PAGE / MS_JE_WORD];
		uint64_t left = ms_range_len(run);
		size_t len = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
		struct words words = {
			.at = bytes,
			.n = ms_peek_read(je->peek, run.begin, bytes, len) / MS_JE_WORD,
			.page = (uint32_t)((run.begin - leaf) / MS_JE_WORD),
		};

		if (!try_words(je, *bits, &words, &shown))
			return false;
		rest.begin = run.begin + len;
	}
	if (!shown.bits)
		return false;
	*bits = shown.bits;
	*ret = shown.page;
	return true;
}

/* ---- the walk ---- */

struct leaf {
	struct ms_range range; /* first: sorted by it */
	uint32_t slot;
};

struct leaves MS_VEC(struct leaf);

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
	ms_je_disprove(w->copy, NULL, MS_DOUBT_DAMAGED,
	               "the tree names %llu of %llu pages at 0x%llx", (unsigned long long)w->n,
	               (unsigned long long)want, (unsigned long long)e->range.begin);
	return false;
}

/* The bits that all words of the open extent share. */
static uint64_t same_bits(const struct walk *w)
{
	uint64_t state = w->copy->bits->leaf_state ? UINT64_C(7) << 2 : 0;

	return is_named_by_all(w) ? ~HEAD_BIT : ADDRESS | state;
}

/* MS_OK also where the tree is found wrong: then copy->broken is set. */
static enum ms_status take_word(struct walk *w, ms_addr page, uint64_t word)
{
	struct ms_je_extent *slot;
	struct entry entry;

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
	if (!parse(w->copy->bits, word, &entry) ||
	    !read_extent(w->je, w->copy->bits, &entry, &w->extent) ||
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

static enum ms_status walk_piece(struct walk *w, const struct leaf *leaf, struct ms_range piece)
{
	uint64_t *words = w->je->words;
	size_t n = ms_source_read(w->je->d->src, piece.begin, words, (size_t)ms_range_len(piece)) /
	           MS_JE_WORD;
	ms_addr first = ((uint64_t)leaf->slot << MS_JE_LEAF_SHIFT) +
	                (piece.begin - leaf->range.begin) / MS_JE_WORD * MS_JE_PAGE;

	for (size_t i = 0; i < n; i++) {
		ms_addr page = first + i * MS_JE_PAGE;
		enum ms_status st;

		if (!(words[i] & ADDRESS))
			continue;
		st = take_word(w, page, words[i]);
		if (st)
			return st;
		if (!w->copy->broken)
			continue;
		ms_je_disprove(w->copy, NULL, MS_DOUBT_DAMAGED,
		               "the tree and the extent at 0x%llx contradict each other",
		               (unsigned long long)page);
		return MS_OK;
	}
	if (n == ms_range_len(piece) / MS_JE_WORD)
		return MS_OK;
	w->copy->broken = true;
	ms_je_disprove(w->copy, NULL, MS_DOUBT_DAMAGED, "the tree's leaf 0x%llx cannot be read",
	               (unsigned long long)leaf->range.begin);
	return MS_OK;
}

static enum ms_status walk_leaf(struct walk *w, const struct leaf *leaf)
{
	struct ms_range rest = leaf->range;
	struct ms_range run;
	enum ms_status st = MS_OK;

	while (!st && !w->copy->broken && ms_source_present(w->je->d->src, rest, &run)) {
		run.begin = ms_align_up(run.begin, MS_JE_WORD);
		if (ms_range_len(run) > MS_JE_PIECE_BYTES)
			run.end = run.begin + MS_JE_PIECE_BYTES;
		if (run.end > run.begin)
			st = walk_piece(w, leaf, run);
		rest.begin = run.end;
	}
	return st;
}

static bool find_leaves(struct ms_jemalloc *je, const struct ms_je_copy *copy, struct leaves *ret)
{
	struct ms_range rest = { copy->root, ms_je_nth(copy->root, MS_JE_ROOT_WORDS) };
	struct ms_range run;

	for (; ms_source_present(je->d->src, rest, &run); rest.begin = run.end) {
		run.begin = ms_align_up(run.begin, MS_JE_WORD);
		for (ms_addr at = run.begin; at + MS_JE_WORD <= run.end; at += MS_JE_WORD) {
			uint64_t word = ms_je_word_or_0(je, at);
			struct leaf *leaf;

			if (!word)
				continue;
			leaf = ms_vec_push(je->d->arena, ret);
			if (!leaf)
				return false;
			leaf->range = (struct ms_range){ word, word + MS_JE_LEAF_BYTES };
			leaf->slot = (uint32_t)((at - copy->root) / MS_JE_WORD);
		}
	}
	return true;
}

/* Hostile bytes could have many slots share one leaf, and so much to read. */
static enum ms_status check_leaves(struct ms_jemalloc *je, struct ms_je_copy *copy,
                                   const struct leaves *leaves)
{
	struct ms_ranges all = { 0 };
	const struct ms_range *r;
	const struct leaf *leaf;
	uint64_t bytes = 0;

	ms_vec_for_each (leaf, leaves)
		if (!ms_ranges_add(je->d->arena, &all, leaf->range.begin, leaf->range.end))
			return MS_E_NOMEM;
	if (!ms_ranges_tidy(je->d->arena, &all))
		return MS_E_NOMEM;
	ms_vec_for_each (r, &all)
		bytes += ms_range_len(*r);
	copy->broken = bytes != leaves->n * MS_JE_LEAF_BYTES;
	if (copy->broken)
		ms_je_disprove(copy, NULL, MS_DOUBT_DAMAGED, "leaves of the tree overlap");
	return MS_OK;
}

enum ms_status ms_je_read_extents(struct ms_jemalloc *je, struct ms_je_copy *copy)
{
	struct walk w = { .je = je, .copy = copy };
	struct leaves leaves = { 0 };
	const struct leaf *leaf;
	enum ms_status st = find_leaves(je, copy, &leaves) ? MS_OK : MS_E_NOMEM;

	if (!st)
		st = check_leaves(je, copy, &leaves);
	copy->n_leaves = (uint32_t)leaves.n;
	ms_vec_for_each (leaf, &leaves)
		if (!st && !copy->broken)
			st = walk_leaf(&w, leaf);
	if (!st && !copy->broken)
		copy->broken = !close(&w);
	return st;
}
