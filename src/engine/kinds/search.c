/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "engine/graph/words.h"
#include "engine/kinds/kinds.h"

/*
 * All blocks are looked at twice in the order of their addresses. First each by its own words;
 * then each word of a block, a global or a stack that points to a block is shown to the kinds
 * that know blocks by their holders: by then the holder's own type is known.
 */

static const struct ms_kind *const kinds[] = {
	&ms_kind_cpython, &ms_kind_libc,      &ms_kind_libraries, &ms_kind_openssl,
	&ms_kind_sqlite,  &ms_kind_glib,      &ms_kind_nodes,     &ms_kind_strings,
	&ms_kind_libcxx,  &ms_kind_sequences, &ms_kind_functions, &ms_kind_qt,
	&ms_kind_redis,   &ms_kind_rust,      &ms_kind_text,
};

enum {
	N_KINDS = sizeof(kinds) / sizeof(kinds[0]),
	BUFFER = 1 << 18,
	PIECE = BUFFER / 2,
	SPARSE_BYTES = 1 << 18, /* memory from this size on is read by its present pages */
	BATCH = 64,             /* words: bits of one number */
	QUEUE = MS_KINDS_QUEUE,
	HALF = QUEUE / 2,
	STEPS_EACH = 8, /* that may be taken for each block, on average */
	COW_BYTES = 24, /* in front of a std::string's characters, of before C++11 */
};

#define NO_HOLDER UINT32_MAX

static_assert((int)N_KINDS <= (int)MS_KINDS_MOST, "each has a place");

/* What holders are in: memory, and the block that it is. */
struct memory {
	struct ms_range range;
	ms_addr limit; /* up to which it is read ahead */
	uint32_t holder;
};

/* ---- words that wait ---- */

/*
 * A block holds a word or two that point elsewhere, as a rule, and what these lead to is in no
 * cache. So words go through a queue, in order: when one comes in, the cell of its block is
 * fetched, half a queue later what is known of the block, and at the end it is shown. Its
 * holder's type is taken only then, as words before it may have given it.
 */

static void look_at_holder_of(struct ms_kinds *k, uint32_t holder)
{
	uint32_t type = holder == NO_HOLDER ? MS_TYPE_UNKNOWN : k->numbers[holder];
	bool own = type != MS_TYPE_UNKNOWN && ms_type_is_own(ms_types_at(k->types, type));

	k->holder = holder;
	k->owner = own ? type : MS_TYPE_UNKNOWN;
	k->is_text = type != MS_TYPE_UNKNOWN && ms_types_at(k->types, type)->how == MS_HOW_TEXT;
}

static void show(struct ms_kinds *k, const struct ms_kind_waiting *w)
{
	struct ms_kind_spot spot = { .at = w->at,
		                     .bytes = w->bytes,
		                     .before = (size_t)(w->at - w->memory.begin) / MS_KIND_WORD,
		                     .behind = (size_t)(w->memory.end - w->at) / MS_KIND_WORD,
		                     .offset = w->offset,
		                     .to = w->to,
		                     .owner = k->owner,
		                     .owner_offset = w->at - w->memory.begin };

	if (spot.before > MS_KIND_BEFORE)
		spot.before = MS_KIND_BEFORE;
	if (spot.behind > MS_KIND_BEHIND)
		spot.behind = MS_KIND_BEHIND;
	if (ms_kinds_is_claimed(k, &spot.to) && !spot.offset)
		return;
	for (size_t i = 0; i < N_KINDS; i++)
		if (k->here[i] && kinds[i]->pointer)
			kinds[i]->pointer(k, &spot);
}

static void show_oldest(struct ms_kinds *k)
{
	const struct ms_kind_waiting *w = &k->waiting[k->first_waiting++ % QUEUE];

	k->n_waiting--;
	if (k->notes) {
		ms_tails_note(k->tails, &k->lookup, w->at, ms_kind_word(w->bytes, 0));
		return;
	}
	if (!w->found)
		return;
	if (w->holder != k->holder)
		look_at_holder_of(k, w->holder);
	if (!k->is_text)
		show(k, w);
}

static void find(struct ms_kinds *k, struct ms_kind_waiting *w)
{
	const ms_addr value = ms_kind_word(w->bytes, 0);

	w->found = ms_kinds_at(k, value, &w->to);
	if (!w->found && k->cxx) {
		w->offset = COW_BYTES;
		w->found = ms_kinds_at(k, value - COW_BYTES, &w->to);
	}
	if (w->found)
		__builtin_prefetch(&k->numbers[w->to.number]);
}

static void show_all(struct ms_kinds *k)
{
	uint32_t last = k->first_waiting + k->n_waiting;
	uint32_t not_found = k->n_waiting < HALF ? k->n_waiting : (uint32_t)HALF;

	for (uint32_t i = last - not_found; i != last && !k->notes; i++)
		find(k, &k->waiting[i % QUEUE]);
	while (k->n_waiting)
		show_oldest(k);
}

static void fetch(struct ms_kinds *k, ms_addr value)
{
	const struct ms_extent *extent = ms_lookup_extent(&k->lookup, value);
	const struct ms_cell *cell;

	if (!extent)
		return;
	cell = ms_blocks_cell(k->blocks, extent, ms_granule_of(extent, value));
	__builtin_prefetch(cell);
	__builtin_prefetch(&k->blocks->ranks.at[cell - k->blocks->cells.at]);
}

/* Put the word at @at, whose bytes are at @bytes, behind those that wait. */
static void wait(struct ms_kinds *k, const struct memory *memory, ms_addr at, const uint8_t *bytes)
{
	uint32_t i = k->first_waiting + k->n_waiting;

	if (k->n_waiting == QUEUE)
		show_oldest(k);
	k->n_waiting++;
	k->waiting[i % QUEUE] = (struct ms_kind_waiting){
		.at = at, .bytes = bytes, .memory = memory->range, .holder = memory->holder
	};
	fetch(k, ms_kind_word(bytes, 0));
	if (k->n_waiting > HALF && !k->notes)
		find(k, &k->waiting[(i - HALF) % QUEUE]);
}

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

		show_all(k);
		k->window = range;
		if (in_order)
			k->window.end = range.begin + (left < BUFFER ? left : BUFFER);
		ms_source_fill(k->src, range.begin, k->buffer, (size_t)ms_range_len(k->window));
	}
	return k->buffer + (range.begin - k->window.begin);
}

/* ---- by own words ---- */

typedef void visit_fn(struct ms_kinds *k, const struct ms_extent *extent,
                      const struct ms_kind_block *block);

static void look_at_block(struct ms_kinds *k, const struct ms_extent *extent,
                          const struct ms_kind_block *found)
{
	struct ms_kind_block block = *found;
	uint32_t *slot = &k->numbers[block.number];
	const struct ms_type *type;

	block.n = block.usable < MS_KIND_OWN ? (size_t)block.usable : MS_KIND_OWN;
	if (block.n < MS_KIND_WORD)
		return;
	block.bytes = bytes_of(k, (struct ms_range){ block.begin, block.begin + block.n },
	                       extent->range.end);
	if (*slot == MS_TYPE_UNKNOWN)
		*slot = ms_types_of_word(k->types, ms_kind_word(block.bytes, 0));
	type = *slot == MS_TYPE_UNKNOWN ? NULL : ms_types_at(k->types, *slot);
	if (type && type->how == MS_HOW_VTABLE) {
		k->cxx = true;
		k->libcxx |= ms_name_begins(type->name, "std::__1::");
		return;
	}
	for (size_t i = 0; i < N_KINDS && !ms_kinds_is_claimed(k, &block); i++)
		if (k->here[i] && kinds[i]->block)
			kinds[i]->block(k, &block);
}

static void visit_cell(struct ms_kinds *k, const struct ms_extent *extent, size_t i,
                       visit_fn *visit)
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
		visit(k, extent, &block);
	}
}

static void visit_blocks(struct ms_kinds *k, visit_fn *visit)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &k->blocks->extents) {
		k->window = (struct ms_range){ 0, 0 };
		for (size_t i = 0; extent->kind == MS_EXTENT_HEAP && i < extent->n_cells; i++)
			visit_cell(k, extent, i, visit);
	}
}

/* ---- by holders ---- */

/* The words of @piece, a part of @memory whose bytes are at @bytes. */
static void look_at_words(struct ms_kinds *k, const struct memory *memory, struct ms_range piece,
                          const uint8_t *bytes)
{
	size_t n = (size_t)ms_range_len(piece) / MS_KIND_WORD;

	for (size_t i = 0; i < n; i += BATCH) {
		const uint8_t *at = bytes + i * MS_KIND_WORD;
		uint64_t all = 0;
		uint64_t left = ms_words_between(at, n - i < BATCH ? n - i : (size_t)BATCH,
		                                 k->lookup.low, k->lookup.span, &all);

		for (; left; left &= left - 1) {
			size_t word = (size_t)__builtin_ctzll(left);

			wait(k, memory, piece.begin + (i + word) * MS_KIND_WORD,
			     at + word * MS_KIND_WORD);
		}
	}
}

/* Each piece is read with some words around it, for holders that it cuts. */
static void look_at_stretch(struct ms_kinds *k, const struct memory *memory, struct ms_range range)
{
	for (ms_addr at = range.begin; at < range.end; at += PIECE) {
		struct ms_range piece = { at, at + PIECE };
		struct ms_range around = { at - (uint64_t)MS_KIND_BEFORE * MS_KIND_WORD,
			                   at + PIECE + (uint64_t)MS_KIND_BEHIND * MS_KIND_WORD };

		piece = ms_range_common(piece, range);
		around = ms_range_common(around, memory->range);
		look_at_words(k, memory, piece,
		              bytes_of(k, around, memory->limit) + (piece.begin - around.begin));
	}
}

static void look_at_memory(struct ms_kinds *k, struct memory memory)
{
	struct ms_range rest;
	struct ms_range present;

	memory.range.begin = ms_align_up(memory.range.begin, MS_KIND_WORD);
	memory.range.end = ms_align_down(memory.range.end, MS_KIND_WORD);
	if (memory.range.begin >= memory.range.end)
		return;
	if (ms_range_len(memory.range) < SPARSE_BYTES) {
		look_at_stretch(k, &memory, memory.range);
		return;
	}
	rest = memory.range;
	while (rest.begin < rest.end && ms_source_present(k->src, rest, &present)) {
		present.end = ms_align_down(present.end, MS_KIND_WORD);
		look_at_stretch(k, &memory, present);
		rest.begin = present.end > rest.begin ? present.end : rest.end;
	}
}

static void look_at_holder(struct ms_kinds *k, const struct ms_extent *extent,
                           const struct ms_kind_block *block)
{
	look_at_memory(k, (struct memory){ .range = { block->begin, block->begin + block->usable },
	                                   .limit = extent->range.end,
	                                   .holder = block->number });
}

static void look_at_root(void *ctx, const struct ms_root *root)
{
	struct ms_kinds *k = ctx;

	k->window = (struct ms_range){ 0, 0 };
	if (k->notes)
		ms_tails_note(k->tails, &k->lookup, 0, root->value);
	look_at_memory(k, (struct memory){ .range = root->range,
	                                   .limit = root->range.end,
	                                   .holder = NO_HOLDER });
}

static void look_at_holders(struct ms_kinds *k)
{
	const struct ms_extent *extent;

	look_at_holder_of(k, NO_HOLDER);
	visit_blocks(k, look_at_holder);
	if (k->whole)
		ms_roots_visit(k->roots, look_at_root, k);
	ms_vec_for_each (extent, &k->blocks->extents)
		if (k->whole && extent->kind == MS_EXTENT_MAPPING)
			look_at_root(k, &(struct ms_root){ .range = extent->range });
	show_all(k);
}

/* ---- the search ---- */

static bool prepare(struct ms_kinds *k, struct ms_kinds_search *search)
{
	uint32_t n = ms_blocks_numbers(search->blocks);

	k->buffer = ms_arena_alloc(&k->passing, BUFFER);
	if (!search->numbers)
		search->numbers = ms_arena_alloc(k->arena, ((size_t)n + 1) * sizeof(*k->numbers));
	k->numbers = search->numbers;
	k->steps = (uint64_t)n * STEPS_EACH;
	ms_lookup_init(&k->lookup, k->blocks);
	return k->buffer && k->numbers && ms_peek_init(&k->peek, k->src, &k->passing);
}

static void search_all(struct ms_kinds *k)
{
	k->libcxx = ms_kinds_file(k, "libc++.so");
	k->cxx = k->libcxx || ms_kinds_file(k, "libstdc++.so");
	for (size_t i = 0; i < N_KINDS; i++)
		k->here[i] = !kinds[i]->begin || kinds[i]->begin(k);
	visit_blocks(k, look_at_block);
	look_at_holders(k);
}

static bool is_code(const void *ctx, ms_addr addr)
{
	return ms_kinds_is_code(ctx, addr);
}

/* What containers have said of their blocks is held against every word that there is. */
static enum ms_status judge_tails(struct ms_kinds *k)
{
	const struct ms_tails_judge judge = { &k->lookup, is_code, k };

	if (!k->tails)
		return MS_OK;
	k->notes = true;
	if (k->tails->all.n)
		look_at_holders(k);
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
	struct ms_arena *arena = search->blocks->arena;
	struct ms_kinds *k;
	enum ms_status st;

	if (!search->blocks->extents.n || !ms_abi_is_plain(&search->blocks->src->abi) ||
	    (!whole && !has_unmarked(search->blocks)))
		return MS_OK;
	k = ms_arena_alloc(arena, sizeof(*k));
	if (!k)
		return MS_E_NOMEM;
	k->types = search->types;
	k->blocks = search->blocks;
	k->roots = search->roots;
	k->regions = search->roots->regions;
	k->src = search->blocks->src;
	k->arena = arena;
	k->whole = whole;
	k->tails = whole ? search->tails : NULL;
	st = prepare(k, search) ? MS_OK : MS_E_NOMEM;
	if (!st) {
		search_all(k);
		ms_types_keep(search->types, search->blocks, search->numbers, whole);
		st = judge_tails(k);
	}
	ms_arena_deinit(&k->passing);
	return st;
}
