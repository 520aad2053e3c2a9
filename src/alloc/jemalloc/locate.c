/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/jemalloc/jemalloc.h"

/*
 * The anchor is the tree: a pointer in a module's data to a leaf, or a table of leaves, that
 * has the description of an extent at the place which belongs to this extent's address. The
 * address also says which of the root's pointers it must be, so where the root begins;
 * and every other pointer there must lead to such a leaf or table, too.
 *
 * Only data that has room for a root, which takes 256 KiB or 2 MiB, is looked at, and of
 * that what is not zero: of a root that is a page or two.
 */

/* Words of one module's data that were tried and led nowhere: no more than so many. */
enum { MOST_TRIES = 1 << 16 };

struct search {
	struct ms_jemalloc *je;
	const struct ms_region *region; /* of the data's begin */
	struct ms_range data;
	uint32_t tries;
};

static uint64_t root_bytes(const struct ms_je_tree *tree)
{
	return (uint64_t)tree->root_words * MS_JE_WORD;
}

static bool has_room_for(const struct search *s, const struct ms_je_tree *tree)
{
	return ms_range_len(s->data) > root_bytes(tree);
}

/* Whether the data can have any root: most modules' is too small to be read for one. */
static bool has_room(const struct search *s)
{
	for (size_t i = 0; i < MS_JE_TREES; i++)
		if (has_room_for(s, &ms_je_trees[i]))
			return true;
	return false;
}

/* Whether a pointer of a root can be this one. */
static bool may_lead_on(const struct search *s, const struct ms_je_tree *tree, uint64_t word)
{
	return ms_je_may_be_table(s->je, word,
	                          tree->table_words ? tree->table_words * UINT64_C(8)
	                                            : ms_je_leaf_bytes(tree));
}

/* Whether every pointer of the root at @root leads to what is of its own slot, or empty. */
static bool is_root(const struct search *s, const struct ms_je_tree *tree, ms_addr root,
                    const struct ms_je_bits *bits)
{
	struct ms_range rest = { root, root + root_bytes(tree) };
	uint64_t word;
	ms_addr at;

	while (ms_je_next_pointer(s->je, &rest, &at, &word)) {
		const struct ms_je_bits *fit = bits;
		ms_addr page;

		if (!may_lead_on(s, tree, word))
			return false;
		if (ms_je_tree_shows(s->je, tree, word, &fit, &page) &&
		    page >> tree->root_shift != (at - root) / MS_JE_WORD)
			return false;
	}
	return true;
}

/* The root that has the word at @at, which points to @child; 0 when there is none. */
static ms_addr root_with(struct search *s, const struct ms_je_tree *tree, ms_addr at, ms_addr child,
                         const struct ms_je_bits **bits)
{
	ms_addr page;
	uint64_t below;

	if (!ms_je_tree_shows(s->je, tree, child, bits, &page))
		return 0;
	below = (page >> tree->root_shift) * MS_JE_WORD;
	if (at - s->data.begin < below || s->data.end - (at - below) < root_bytes(tree))
		return 0;
	return is_root(s, tree, at - below, *bits) ? at - below : 0;
}

/* Sets @ret behind a root that was found at @at. */
static enum ms_status try_word(struct search *s, const struct ms_je_tree *tree, ms_addr at,
                               uint64_t word, ms_addr *ret)
{
	const struct ms_je_bits *bits = NULL;
	struct ms_je_copy *copy;
	ms_addr root;

	if (s->tries == MOST_TRIES || !has_room_for(s, tree) || !may_lead_on(s, tree, word))
		return MS_OK;
	s->tries++;
	root = root_with(s, tree, at, word, &bits);
	if (!root)
		return MS_OK;
	copy = ms_vec_push(s->je->d->arena, &s->je->copies);
	if (!copy)
		return MS_E_NOMEM;
	*copy = (struct ms_je_copy){
		.tree = tree, .bits = bits, .region = s->region, .data = s->data, .root = root
	};
	*ret = root + root_bytes(tree);
	return MS_OK;
}

static enum ms_status search_piece(struct search *s, struct ms_range piece, ms_addr *ret)
{
	uint64_t *words = s->je->words;
	size_t n = ms_source_words(s->je->d->src, piece.begin, words,
	                           (size_t)ms_range_len(piece) / MS_JE_WORD);
	enum ms_status st = MS_OK;

	*ret = piece.end;
	for (size_t i = 0; i < n && !st; i++) {
		ms_addr found = 0;

		/* Most words are. */
		if (!words[i])
			continue;
		for (size_t tree = 0; tree < MS_JE_TREES && !st && !found; tree++)
			st = try_word(s, &ms_je_trees[tree], piece.begin + i * MS_JE_WORD, words[i],
			              &found);
		if (!found)
			continue;
		*ret = found;
		break;
	}
	return st;
}

static enum ms_status search_data(struct search *s)
{
	struct ms_range rest = s->data;
	struct ms_range run;
	enum ms_status st = MS_OK;

	while (!st && s->tries < MOST_TRIES && ms_source_present(s->je->d->src, rest, &run)) {
		run.begin = ms_align_up(run.begin, MS_JE_WORD);
		if (run.end <= run.begin) {
			rest.begin = run.end;
			continue;
		}
		if (ms_range_len(run) > MS_JE_PIECE_BYTES)
			run.end = run.begin + MS_JE_PIECE_BYTES;
		st = search_piece(s, run, &rest.begin);
	}
	return st;
}

static bool is_data(const struct ms_jemalloc *je, const struct ms_region *region)
{
	return region->kind == MS_REGION_GLOBALS &&
	       (ms_region_mapping(je->d->src, region)->prot & MS_PROT_WRITE);
}

enum ms_status ms_je_locate(struct ms_jemalloc *je)
{
	const struct ms_regions *regions = je->d->regions;
	enum ms_status st = MS_OK;

	for (size_t i = 0; i < regions->n && !st; i++) {
		struct search s = { .je = je, .region = &regions->at[i] };

		if (!is_data(je, s.region))
			continue;
		s.data = s.region->range;
		while (i + 1 < regions->n && is_data(je, &regions->at[i + 1]) &&
		       regions->at[i + 1].module == s.region->module &&
		       regions->at[i + 1].range.begin == s.data.end)
			s.data.end = regions->at[++i].range.end;
		if (has_room(&s))
			st = search_data(&s);
	}
	return st;
}
