/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/ruby.h"

#include "engine/graph/lookup.h"

enum {
	PAGE = 1 << 14,      /* at multiples of it; */
	MOST_PAGE = 1 << 16, /* from 3.2 on they are larger */
	WORD = 8,
	SLOT_UNIT = 40, /* slots are multiples of it */
	MOST_SLOT = 16 * SLOT_UNIT,
	MOST_START = 2 * MOST_SLOT, /* bytes in front of the first slot */
};

/* Words of the block: the first has three numbers of 16 bits. */
enum { NUMBERS = 0, START = 4, FREE = 5, DESCRIPTION_WORDS = 6 };

struct finder {
	struct ms_blocks *blocks;
	struct ms_lookup lookup;
	struct ms_ranges *hidden;
	uint64_t slots[MOST_PAGE / WORD];
};

/* The slots of a page. */
struct page {
	ms_addr start;
	uint64_t slot_bytes;
	uint64_t n;
};

static uint64_t number(uint64_t words, unsigned i)
{
	return words >> 16 * i & UINT16_MAX;
}

/* Whether a page is at @at. */
static bool describe(struct finder *f, ms_addr at, struct page *ret)
{
	struct ms_source *src = f->blocks->src;
	uint64_t words[DESCRIPTION_WORDS];
	struct ms_block block;
	uint64_t description;

	if (!ms_source_word(src, at, &description) || !description ||
	    !ms_lookup_begin(&f->lookup, description, &block) ||
	    ms_source_words(src, description, words, DESCRIPTION_WORDS) != DESCRIPTION_WORDS)
		return false;
	*ret = (struct page){ words[START], number(words[NUMBERS], 0), number(words[NUMBERS], 1) };
	if (!ret->slot_bytes || ret->slot_bytes % SLOT_UNIT || ret->slot_bytes > MOST_SLOT ||
	    !ret->n || number(words[NUMBERS], 2) > ret->n)
		return false;
	if (ret->start <= at || ret->start - at > MOST_START || ret->start % WORD ||
	    ret->start - at + ret->n * ret->slot_bytes > MOST_PAGE)
		return false;
	return !words[FREE] ||
	       (words[FREE] >= ret->start && words[FREE] < ret->start + ret->n * ret->slot_bytes &&
	        (words[FREE] - ret->start) % ret->slot_bytes == 0);
}

static bool hide_free(struct finder *f, const struct page *page)
{
	const size_t slot_words = (size_t)page->slot_bytes / WORD;
	const size_t n = ms_source_words(f->blocks->src, page->start, f->slots,
	                                 slot_words * (size_t)page->n);

	for (size_t i = 0; i + slot_words <= n; i += slot_words) {
		ms_addr at = page->start + i * WORD;

		if (!f->slots[i] &&
		    !ms_ranges_add(f->blocks->arena, f->hidden, at, at + page->slot_bytes))
			return false;
	}
	return true;
}

enum ms_status ms_ruby_find(struct ms_blocks *blocks, const struct ms_roots *roots,
                            struct ms_ranges *hidden)
{
	const struct ms_abi *abi = &blocks->src->abi;
	const struct ms_region *region;
	struct finder *f;

	if (!blocks->extents.n || !ms_abi_is_native(abi) || abi->word_bytes != WORD ||
	    !ms_mapped_file(blocks->src, "libruby"))
		return MS_OK;
	f = ms_arena_alloc(blocks->arena, sizeof(*f));
	if (!f)
		return MS_E_NOMEM;
	f->blocks = blocks;
	f->hidden = hidden;
	ms_lookup_init(&f->lookup, blocks);
	ms_vec_for_each (region, roots->regions) {
		ms_addr at = ms_align_up(region->range.begin, PAGE);
		struct page page;

		if (region->kind != MS_REGION_MEMORY && region->kind != MS_REGION_BRK)
			continue;
		for (; at < region->range.end; at += PAGE)
			if (describe(f, at, &page) && !hide_free(f, &page))
				return MS_E_NOMEM;
	}
	return MS_OK;
}
