/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "engine/kinds/pieces.h"

/*
 * All blocks are looked at twice in the order of their addresses. First each by its own words;
 * then each word of a block, a global or a stack that points to a block is shown to the kinds
 * that know blocks by their holders: by then the holder's own type is known.
 */

static const struct ms_kind *const kinds[] = {
	&ms_kind_cpython,    &ms_kind_libc,        &ms_kind_libraries, &ms_kind_openssl,
	&ms_kind_x509,       &ms_kind_sqlite,      &ms_kind_glib,      &ms_kind_nodes,
	&ms_kind_strings,    &ms_kind_libcxx,      &ms_kind_sequences, &ms_kind_functions,
	&ms_kind_fontconfig, &ms_kind_qobject,     &ms_kind_qimage,    &ms_kind_qt,
	&ms_kind_redis,      &ms_kind_redis_lists, &ms_kind_rust,      &ms_kind_text,
};

enum {
	N_KINDS = sizeof(kinds) / sizeof(kinds[0]),
	BUFFER = 1 << 18,
	STEPS_EACH = 8, /* that may be taken for each block, on average */
	AHEAD = 8,      /* words until the one whose block's type is fetched */
};

static_assert((int)N_KINDS <= (int)MS_KINDS_MOST, "each has a place");

/* ---- reading by address ---- */

/* The bytes of @range, which is no longer than the buffer; more of them up to @limit are kept. */
static const uint8_t *bytes_of(struct ms_kinds *k, struct ms_range range, ms_addr limit)
{
	size_t len = (size_t)ms_range_len(range);
	const uint8_t *view = ms_source_view(k->src, range.begin, len);

	if (view)
		return view;
	if (range.begin < k->window.begin || range.end > k->window.end) {
		uint64_t left = limit - range.begin;
		bool in_order = range.begin - k->window.begin < (uint64_t)2 * BUFFER;

		k->window = range;
		if (in_order)
			k->window.end = range.begin + (left < BUFFER ? left : BUFFER);
		ms_source_fill(k->src, range.begin, k->buffer, (size_t)ms_range_len(k->window));
	}
	return k->buffer + (range.begin - k->window.begin);
}

/* ---- by own words ---- */

static void show_block(struct ms_kinds *k, const struct ms_kind_block *block)
{
	const uint32_t *slot = &k->numbers[block->number];
	uint32_t known = *slot;
	bool is_claimed = ms_kinds_is_claimed(k, block);

	for (size_t i = 0; i < N_KINDS && !is_claimed; i++) {
		if (!k->here[i] || !kinds[i]->block)
			continue;
		kinds[i]->block(k, block);
		is_claimed = *slot != known && ms_kinds_is_claimed(k, block);
		known = *slot;
	}
}

static void look_at_block(void *ctx, const struct ms_kind_block *block)
{
	struct ms_kinds *k = ctx;
	uint32_t *slot = &k->numbers[block->number];
	const struct ms_type *type;

	if (*slot == MS_TYPE_UNKNOWN)
		*slot = ms_types_of_word(k->types, ms_abi_word(&k->src->abi, block->bytes));
	type = *slot == MS_TYPE_UNKNOWN ? NULL : ms_types_at(k->types, *slot);
	if (type && type->how == MS_HOW_VTABLE) {
		k->cxx = true;
		k->libcxx |= ms_name_begins(type->name, "std::__1::");
		return;
	}
	show_block(k, block);
}

/* What is given each block. */
struct visit {
	ms_kinds_look *look;
	void *ctx;
};

static void visit_block(struct ms_kinds *k, const struct ms_extent *extent,
                        struct ms_kind_block block, const struct visit *visit)
{
	block.n = block.usable < MS_KIND_OWN ? (size_t)block.usable : MS_KIND_OWN;
	if (block.n < k->word)
		return;
	block.bytes = bytes_of(k, (struct ms_range){ block.begin, block.begin + block.n },
	                       extent->range.end);
	visit->look(visit->ctx, &block);
}

static void visit_cell(struct ms_kinds *k, const struct ms_extent *extent, size_t i,
                       const struct visit *visit)
{
	const struct ms_cell *cell = &k->blocks->cells.at[extent->cell0 + i];
	uint32_t number = extent->first + k->blocks->ranks.at[extent->cell0 + i];

	for (uint64_t left = cell->starts; left; left &= left - 1, number++) {
		uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);
		struct ms_kind_block block = { .begin = ms_block_begin(extent, granule),
			                       .number = number };

		if (!k->whole && (cell->marks & left & (~left + 1)))
			continue;
		block.usable = ms_block_usable(k->blocks, extent, granule);
		visit_block(k, extent, block, visit);
	}
}

void ms_kinds_visit(struct ms_kinds *k, ms_kinds_look *look, void *ctx)
{
	const struct visit visit = { look, ctx };
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &k->blocks->extents) {
		k->window = (struct ms_range){ 0, 0 };
		for (size_t i = 0; extent->kind == MS_EXTENT_HEAP && i < extent->n_cells; i++)
			visit_cell(k, extent, i, &visit);
	}
}

/* ---- by holders ---- */

/* A holder's type is asked for when its first word comes: words before it may have given it. */
static void look_at_holder_of(struct ms_kinds *k, uint32_t holder)
{
	uint32_t type = holder == MS_PIECE_NO_BLOCK ? MS_TYPE_UNKNOWN : k->numbers[holder];
	bool own = type != MS_TYPE_UNKNOWN && ms_type_is_own(ms_types_at(k->types, type));

	k->holder = holder;
	k->owner = own ? type : MS_TYPE_UNKNOWN;
}

static void show(struct ms_kinds *k, const struct ms_piece_word *word)
{
	struct ms_kind_spot spot = ms_piece_spot(k, word);

	spot.owner = k->owner;
	if (ms_kinds_is_claimed(k, &spot.to) && !spot.offset)
		return;
	for (size_t i = 0; i < N_KINDS; i++)
		if (k->here[i] && kinds[i]->pointer)
			kinds[i]->pointer(k, &spot);
}

static void show_words(struct ms_kinds *k, const struct ms_piece_found *found)
{
	const struct ms_piece_word *words = found->words.at;

	for (size_t i = 0; i < found->words.n; i++) {
		if (i + AHEAD < found->words.n)
			__builtin_prefetch(&k->numbers[words[i + AHEAD].number]);
		if (words[i].holder != k->holder)
			look_at_holder_of(k, words[i].holder);
		show(k, &words[i]);
	}
}

static bool may_claim(const struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (k->here[i] && kinds[i]->pointer && (!kinds[i]->may || kinds[i]->may(k, spot)))
			return true;
	return false;
}

/* The same when nothing is claimed any more, and it is noted what holds tails. */
static void note_words(struct ms_kinds *k, const struct ms_piece_found *found)
{
	const struct ms_piece *piece = found->piece;
	const struct ms_piece_word *word;

	if (piece->extent == MS_PIECE_NO_BLOCK && piece->range.begin == piece->memory.begin)
		ms_tails_note(k->tails, &k->lookup, 0, piece->value);
	ms_vec_for_each (word, &found->words)
		ms_tails_note(k->tails, &k->lookup, word->at, ms_kind_word(word->bytes, 0));
}

/* ---- the search ---- */

struct ms_kinds *ms_kinds_open(const struct ms_blocks *blocks, const struct ms_roots *roots)
{
	struct ms_kinds *k = ms_arena_alloc(blocks->arena, sizeof(*k));

	if (!k)
		return NULL;
	k->blocks = blocks;
	k->roots = roots;
	k->regions = roots->regions;
	k->src = blocks->src;
	k->arena = blocks->arena;
	k->word = k->src->abi.word_bytes;
	k->steps = (uint64_t)ms_blocks_numbers(blocks) * STEPS_EACH;
	ms_lookup_init(&k->lookup, blocks);
	k->buffer = ms_arena_alloc(&k->passing, BUFFER);
	if (k->buffer && ms_peek_init(&k->peek, k->src, &k->passing))
		return k;
	ms_kinds_close(k);
	return NULL;
}

void ms_kinds_close(struct ms_kinds *k)
{
	ms_arena_deinit(&k->passing);
}

static bool prepare(struct ms_kinds *k, struct ms_kinds_search *search)
{
	uint32_t n = ms_blocks_numbers(search->blocks);

	if (!search->numbers)
		search->numbers = ms_arena_alloc(k->arena, ((size_t)n + 1) * sizeof(*k->numbers));
	k->numbers = search->numbers;
	k->texts = search->texts;
	k->types = search->types;
	return k->numbers;
}

static bool search_all(struct ms_kinds *k, struct ms_workers *workers)
{
	struct ms_pieces words = { .k = k, .workers = workers, .may = may_claim };

	k->libcxx = ms_mapped_file(k->src, "libc++.so");
	k->cxx = k->libcxx || ms_mapped_file(k->src, "libstdc++.so");
	for (size_t i = 0; i < N_KINDS; i++)
		k->here[i] = (k->word == MS_KIND_WORD || kinds[i]->narrow) &&
		             (!kinds[i]->begin || kinds[i]->begin(k));
	ms_kinds_visit(k, look_at_block, k);
	look_at_holder_of(k, MS_PIECE_NO_BLOCK);
	return ms_pieces_list(&words, k->whole) && ms_pieces_show(&words, show_words);
}

static bool is_code(const void *ctx, ms_addr addr)
{
	return ms_kinds_is_code(ctx, addr);
}

/* What containers have said of their blocks is held against every word that there is. */
static enum ms_status judge_tails(struct ms_kinds *k, struct ms_workers *workers)
{
	const struct ms_tails_judge judge = { &k->lookup, is_code, k };
	struct ms_pieces words = { .k = k, .workers = workers };

	if (!k->tails)
		return MS_OK;
	if (k->tails->all.n &&
	    (!ms_pieces_list(&words, true) || !ms_pieces_show(&words, note_words)))
		return MS_E_NOMEM;
	return ms_tails_judge(k->tails, &judge);
}

static bool has_unmarked(const struct ms_blocks *blocks)
{
	const struct ms_cell *cell;

	ms_vec_for_each (cell, &blocks->cells)
		if (cell->starts & ~cell->marks)
			return true;
	return false;
}

enum ms_status ms_kinds_find(struct ms_kinds_search *search, bool whole)
{
	struct ms_kinds *k;
	enum ms_status st;

	/* What has a tag is no part of a kind: that a block has none is all that comes of it. */
	if (!search->blocks->extents.n || !ms_abi_is_native(&search->blocks->src->abi) ||
	    (!whole && !has_unmarked(search->blocks)))
		return MS_OK;
	k = ms_kinds_open(search->blocks, search->roots);
	if (!k)
		return MS_E_NOMEM;
	k->whole = whole;
	k->tails = whole && k->word == MS_KIND_WORD ? search->tails : NULL;
	st = prepare(k, search) && search_all(k, search->workers) ? MS_OK : MS_E_NOMEM;
	if (!st) {
		ms_types_keep(search->types, search->blocks, search->numbers, whole);
		search->texts = k->texts;
		ms_types_keep_texts(search->types, k->texts);
		st = judge_tails(k, search->workers);
	}
	ms_kinds_close(k);
	return st;
}
