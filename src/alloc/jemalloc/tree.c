/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/jemalloc/jemalloc.h"

#include "base/page.h"

/*
 * The tree as pointers to tables and leaves, and what an entry of a leaf says. Not which
 * entries belong together: that is extents.c's.
 *
 * Whether something is a leaf is proved by its entries: what describes the extent must say
 * the same as the entry, and be about that page.
 */

enum { EDATA_READ = 24, ADDRESS_BITS = 48, INDEX_AT = 48 };

/* jemalloc writes no such word. */
static const uint64_t NO_ENTRY = UINT64_MAX;

uint64_t ms_je_entry_pack(const struct ms_je_bits *bits, const uint64_t pair[2])
{
	uint32_t low = (uint32_t)pair[1];
	uint32_t high = (uint32_t)(pair[1] >> 32);
	uint32_t flags = bits->leaf_state ? low & bits->leaf_low : high & 0xff;
	uint32_t index = bits->leaf_state ? low >> MS_JE_LEAF_FLAGS : low;

	if (!pair[0])
		return 0;
	if (pair[0] >> ADDRESS_BITS || pair[0] & bits->leaf_below || index > MS_JE_CLASSES ||
	    flags & ~(uint32_t)bits->leaf_low)
		return NO_ENTRY;
	return pair[0] | flags | (uint64_t)index << INDEX_AT;
}

/* An entry of a leaf, taken apart. */
struct entry {
	ms_addr edata;
	uint32_t index; /* of its size class */
	uint32_t state;
	bool slab;
};

/* False when jemalloc writes no such word. */
static bool parse(const struct ms_je_bits *bits, uint64_t word, struct entry *ret)
{
	*ret = (struct entry){
		.edata = word & MS_JE_ENTRY_ADDRESS & ~(uint64_t)bits->leaf_below,
		.index = ms_je_field(word, INDEX_AT, MS_JE_CLASS_BITS),
		.state = bits->leaf_state ? ms_je_field(word, 2, 3) : 0,
		.slab = word & 1,
	};
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

bool ms_je_extent_of(const struct ms_jemalloc *je, const struct ms_je_bits *bits, uint64_t word,
                     struct ms_je_extent *ret)
{
	uint64_t words[EDATA_READ / MS_JE_WORD];
	struct entry entry;
	uint64_t size;

	if (!parse(bits, word, &entry) ||
	    ms_peek_read(je->peek, entry.edata, words, EDATA_READ) != EDATA_READ)
		return false;
	size = ms_align_down(words[MS_JE_EDATA_SIZE / MS_JE_WORD], MS_JE_PAGE);
	ret->edata = entry.edata;
	ret->bits = words[0];
	ret->addr = words[MS_JE_EDATA_ADDR / MS_JE_WORD];
	ret->range.begin = ms_align_down(ret->addr, MS_JE_PAGE);
	ret->range.end = ret->range.begin + size;
	return size && ret->range.end > ret->range.begin && !(ret->range.end >> ADDRESS_BITS) &&
	       says_the_same(bits, &entry, ret->bits);
}

/* ---- is this a leaf? ---- */

enum { LEAF_TRIES = 16, MOST_ZEROS = 1 << 17 };

/* What a leaf was found to show. */
struct shown {
	const struct ms_je_bits *bits; /* NULL: nothing */
	ms_addr page;
	bool clear; /* no other bits fit */
};

struct look {
	struct ms_jemalloc *je;
	const struct ms_je_tree *tree;
	const struct ms_je_bits *only; /* NULL: any */
};

/* Try a leaf's entry, which is about the page of this index. */
static struct shown try_entry(const struct look *look, const uint64_t *at, uint64_t page)
{
	struct shown shown = { 0 };

	for (size_t i = 0; i < ms_je_n_layouts; i++) {
		const struct ms_je_bits *bits = ms_je_layouts[i].bits;
		struct ms_je_extent extent;
		uint64_t before;

		if (bits == shown.bits || (look->only && bits != look->only) ||
		    !ms_je_extent_of(look->je, bits, ms_je_entry_at(look->tree, bits, at), &extent))
			continue;
		before = (page - extent.range.begin / MS_JE_PAGE) % look->tree->leaf_entries *
		         MS_JE_PAGE;
		if (before >= ms_range_len(extent.range))
			continue;
		shown = (struct shown){ bits, extent.range.begin + before, !shown.bits };
	}
	return shown;
}

struct words {
	const uint64_t *at;
	size_t n;
	uint64_t page; /* index of the first */
};

/* The first entry of @words that fits clearly; false: one fits nothing. */
static bool try_words(const struct look *look, const struct words *words, struct shown *ret)
{
	size_t step = look->tree->entry_words;

	for (size_t i = 0; i + step <= words->n && !ret->clear; i += step) {
		struct shown shown;

		if (!(words->at[i] & MS_JE_ENTRY_ADDRESS))
			continue;
		shown = try_entry(look, &words->at[i], words->page + i / step);
		if (!shown.bits)
			return false;
		*ret = shown;
	}
	return true;
}

static bool leaf_shows(const struct look *look, ms_addr leaf, struct shown *ret)
{
	struct ms_range rest = { leaf, leaf + ms_je_leaf_bytes(look->tree) };
	uint64_t entry = ms_je_entry_bytes(look->tree);
	struct ms_range run;

	*ret = (struct shown){ 0 };
	/* Words of extents that are gone fill whole pages. Pages of zeros some cores have, too. */
	for (int tries = 0; tries < LEAF_TRIES && look->je->zeros < MOST_ZEROS && !ret->clear &&
	                    ms_source_present(look->je->d->src, rest, &run);) {
		uint64_t bytes[MS_JE_PAGE / MS_JE_WORD];
		ms_addr begin = leaf + ms_align_up(run.begin - leaf, entry);
		uint64_t left = run.end > begin ? run.end - begin : 0;
		size_t len = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
		struct words words = {
			.at = bytes,
			.n = ms_peek_read(look->je->peek, begin, bytes, len) / MS_JE_WORD,
			.page = (begin - leaf) / entry,
		};

		if (ms_is_zero(bytes, words.n * MS_JE_WORD))
			look->je->zeros++;
		else if (!try_words(look, &words, ret))
			return false;
		else
			tries++;
		rest.begin = len ? begin + len : run.end;
	}
	return ret->bits;
}

bool ms_je_next_pointer(const struct ms_jemalloc *je, struct ms_range *rest, ms_addr *ret_at,
                        uint64_t *ret)
{
	enum { PIECE = 32 };
	uint64_t words[PIECE];
	struct ms_range run;

	for (; ms_source_present(je->d->src, *rest, &run); rest->begin = run.end) {
		ms_addr at = ms_align_up(run.begin, MS_JE_WORD);

		while (at + MS_JE_WORD <= run.end) {
			uint64_t left = (run.end - at) / MS_JE_WORD;
			size_t n = ms_peek_read(je->peek, at, words,
			                        (left < PIECE ? left : PIECE) * MS_JE_WORD) /
			           MS_JE_WORD;
			size_t i = 0;

			while (i < n && !words[i])
				i++;
			at = ms_je_nth(at, n ? i : 1);
			if (i == n)
				continue;
			*ret_at = at;
			*ret = words[i];
			rest->begin = at + MS_JE_WORD;
			return true;
		}
	}
	return false;
}

bool ms_je_may_be_table(const struct ms_jemalloc *je, uint64_t word, uint64_t bytes)
{
	enum { ALIGNMENT = 64 };

	return word && word % ALIGNMENT == 0 && !(word >> 47) && ms_je_is_writable(je, word) &&
	       ms_je_is_writable(je, word + bytes - 1);
}

/* The same of a table, by the first of its leaves that has entries. */
static bool table_shows(const struct look *look, ms_addr table, struct shown *ret)
{
	const struct ms_je_tree *tree = look->tree;
	struct ms_range rest = { table, ms_je_nth(table, tree->table_words) };
	uint64_t word;
	int tries = 0;
	ms_addr at;

	while (ms_je_next_pointer(look->je, &rest, &at, &word)) {
		if (!ms_je_may_be_table(look->je, word, ms_je_leaf_bytes(tree)) ||
		    ++tries > LEAF_TRIES)
			return false;
		if (leaf_shows(look, word, ret))
			return (ret->page >> tree->leaf_shift) % tree->table_words ==
			       (at - table) / MS_JE_WORD;
	}
	return false;
}

bool ms_je_tree_shows(struct ms_jemalloc *je, const struct ms_je_tree *tree, ms_addr child,
                      const struct ms_je_bits **bits, ms_addr *ret)
{
	const struct look look = { je, tree, *bits };
	struct shown shown = { 0 };

	if (!(tree->table_words ? table_shows : leaf_shows)(&look, child, &shown))
		return false;
	*bits = shown.bits;
	*ret = shown.page;
	return true;
}

/* ---- all leaves ---- */

/* Of hostile bytes: as many as 48 bits of address have of GiB. */
enum { MOST_LEAVES = 1 << 18 };

struct gathering {
	const struct ms_jemalloc *je;
	const struct ms_je_tree *tree;
	struct ms_je_leaves *leaves;
};

/* What the pointers of @table lead to: leaves, or tables of them, each about 1 << @shift bytes. */
static enum ms_status gather(const struct gathering *g, struct ms_range table, ms_addr about,
                             unsigned shift)
{
	struct ms_range rest = table;
	enum ms_status st = MS_OK;
	uint64_t word;
	ms_addr at;

	while (!st && g->leaves->n < MOST_LEAVES && ms_je_next_pointer(g->je, &rest, &at, &word)) {
		ms_addr from = about + ((at - table.begin) / MS_JE_WORD << shift);
		struct ms_je_leaf *leaf;

		if (shift != g->tree->leaf_shift) {
			struct ms_range next = { word, ms_je_nth(word, g->tree->table_words) };

			st = gather(g, next, from, g->tree->leaf_shift);
			continue;
		}
		leaf = ms_vec_push(g->je->d->arena, g->leaves);
		if (!leaf)
			return MS_E_NOMEM;
		leaf->range.begin = word;
		leaf->range.end = word + ms_je_leaf_bytes(g->tree);
		leaf->about = from;
	}
	return st;
}

/* Hostile bytes could have many places share one leaf, and so much to read. */
static enum ms_status check_leaves(struct ms_jemalloc *je, struct ms_je_copy *copy,
                                   const struct ms_je_leaves *leaves)
{
	struct ms_ranges all = { 0 };
	const struct ms_range *r;
	const struct ms_je_leaf *leaf;
	uint64_t bytes = 0;

	ms_vec_for_each (leaf, leaves)
		if (!ms_ranges_add(je->d->arena, &all, leaf->range.begin, leaf->range.end))
			return MS_E_NOMEM;
	if (!ms_ranges_tidy(je->d->arena, &all))
		return MS_E_NOMEM;
	ms_vec_for_each (r, &all)
		bytes += ms_range_len(*r);
	copy->broken = bytes != leaves->n * ms_je_leaf_bytes(copy->tree);
	if (copy->broken)
		ms_proof_doubt(&copy->proof, MS_DOUBT_DAMAGED, "leaves of the tree overlap");
	return MS_OK;
}

enum ms_status ms_je_find_leaves(struct ms_jemalloc *je, struct ms_je_copy *copy,
                                 struct ms_je_leaves *ret)
{
	const struct gathering g = { je, copy->tree, ret };
	struct ms_range root = { copy->root, ms_je_nth(copy->root, copy->tree->root_words) };
	enum ms_status st = gather(&g, root, 0, copy->tree->root_shift);

	if (!st)
		st = check_leaves(je, copy, ret);
	copy->n_leaves = (uint32_t)ret->n;
	return st;
}
