/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/relative.h"

#include <assert.h>
#include <string.h>

#include "engine/graph/fontconfig.h"
#include "engine/graph/lookup.h"
#include "engine/graph/shared.h"
#include "engine/graph/slots.h"
#include "engine/graph/walk.h"
#include "engine/graph/words.h"

/*
 * A sweep looks at every marked small block, in pieces that the workers share; each
 * worker keeps evidence of its own. What is found is followed by an ordinary walk over
 * bytes, which has each block it comes to looked at in the same way.
 *
 *	sweep ─▶ walk from what was found ─▶ new slots convince? ─ no ─▶ end
 *	  ▲                                          │ yes
 *	  └──────────────────────────────────────────┘
 *
 * Evidence is sets, so that it does no harm to look at a block more than once.
 */

enum {
	SHIFT = 4, /* of extents that are looked at */
	CELL_BYTES = MS_CELL_GRANULES << SHIFT,
	PIECE_CELLS = 256,
	TAIL = MS_SLOT_GRANULES << SHIFT, /* of the last block, behind a piece */
	BUFFER = PIECE_CELLS * CELL_BYTES + TAIL,
	MAX_ROUNDS = 16,
	PHASES = 16, /* addresses are told apart by what is left when they are divided by it */
	SET_WORDS = MS_SLOTS / 64,
};

static const uint64_t LIMIT = UINT64_C(4) << 30;

/* Cells [from, to) of an extent, by its first. */
struct piece {
	const struct ms_extent *extent;
	size_t from;
	size_t to;
};

struct seeker {
	struct ms_lookup lookup;
	struct ms_slot slots[MS_SLOTS];
	uint64_t noted[SET_WORDS]; /* those that know something */
	struct MS_VEC(struct ms_block) found;
	bool out_of_memory;
	uint8_t buffer[BUFFER]; /* for sources that cannot be viewed */
};

struct search {
	struct ms_blocks *blocks;
	ms_addr low; /* every block of the heap begins in [low, low + span) */
	uint64_t span;
	double share;    /* of the blocks that are unmarked */
	uint32_t phases; /* of extents of the heap */
	struct MS_VEC(struct piece) pieces;
	uint64_t believed[SET_WORDS];
	struct ms_walk *walk;
	bool walking;
	struct ms_relative_kept *kept;
	struct ms_shared_arena arena;
	unsigned n_seekers;
	struct seeker *seekers[MS_WORKERS_MAX];
};

/* The block that is looked at. */
struct holder {
	ms_addr begin;
	uint64_t granules;
	const uint8_t *bytes;
	size_t n_words;
};

static bool is_in(const uint64_t *set, uint32_t index)
{
	return set[index / 64] >> index % 64 & 1;
}

static void put_in(uint64_t *set, uint32_t index)
{
	set[index / 64] |= UINT64_C(1) << index % 64;
}

static bool is_marked(const struct ms_blocks *blocks, struct ms_block block)
{
	const struct ms_extent *extent = &blocks->extents.at[block.extent];

	return ms_blocks_cell(blocks, extent, block.granule)->marks & ms_granule_bit(block.granule);
}

/* ---- one block ---- */

static void take(struct search *s, struct seeker *k, struct ms_block block)
{
	struct ms_block *found;

	if (s->walking) {
		ms_walk_block(s->walk, block);
		return;
	}
	found = ms_vec_push(ms_shared_take(&s->arena), &k->found);
	ms_shared_give(&s->arena);
	k->out_of_memory |= !found;
	if (found)
		*found = block;
}

/* A word of @h has @value, which leads to @addr in the way of slot @index. */
static void consider(struct search *s, struct seeker *k, const struct holder *h, uint32_t index,
                     ms_addr addr)
{
	const struct ms_extent *extent = ms_lookup_extent(&k->lookup, addr);
	int64_t distance = (int64_t)((addr >> SHIFT) - (h->begin >> SHIFT));
	enum ms_slot_end end = MS_END_NOWHERE;
	struct ms_block block;
	uint64_t granule;

	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return;
	granule = ms_granule_of(extent, addr);
	if (ms_block_begin(extent, granule) != addr)
		return;
	block = (struct ms_block){ (uint32_t)(extent - s->blocks->extents.at), granule };
	if (ms_blocks_cell(s->blocks, extent, granule)->starts & ms_granule_bit(granule))
		end = is_marked(s->blocks, block) ? MS_END_MARKED : MS_END_UNMARKED;
	if (end == MS_END_UNMARKED && is_in(s->believed, index)) {
		take(s, k, block);
		return;
	}
	put_in(k->noted, index);
	ms_slot_note(&k->slots[index], h->granules, distance, end);
}

static inline bool may_lead(const struct search *s, ms_addr addr)
{
	return addr - s->low < s->span && s->phases >> addr % PHASES & 1;
}

static void look_at(struct search *s, struct seeker *k, const struct holder *h)
{
	struct ms_block array;

	if (h->granules - MS_PATTERN_GRANULES <= MS_PATTERN_SPARE &&
	    ms_fontconfig_array(&k->lookup, h->begin, h->bytes, &array)) {
		if (!is_marked(s->blocks, array))
			take(s, k, array);
		return;
	}
	for (size_t i = 0; i < h->n_words; i++) {
		uint64_t value = ms_word_at(h->bytes + i * sizeof(value));
		ms_addr of_block = h->begin + value;
		ms_addr of_word = of_block + i * sizeof(value);

		/* Both lie within TAIL of each other. */
		if (!value || of_word - s->low + TAIL >= s->span + 2 * (uint64_t)TAIL)
			continue;
		if (may_lead(s, of_block))
			consider(s, k, h, ms_slot_index(h->granules, i, MS_BASE_BLOCK), of_block);
		if (i && may_lead(s, of_word))
			consider(s, k, h, ms_slot_index(h->granules, i, MS_BASE_WORD), of_word);
	}
}

/* ---- blocks ---- */

/* Granules of the block that begins in @granule, or more than MS_SLOT_GRANULES. */
static uint64_t length_of(const struct ms_blocks *blocks, const struct ms_extent *extent,
                          uint64_t granule)
{
	size_t cell = granule / MS_CELL_GRANULES;
	uint64_t first = granule % MS_CELL_GRANULES;
	const struct ms_cell *at = &blocks->cells.at[extent->cell0 + cell];
	uint64_t ends = at->ends & ~(ms_granule_bit(granule) - 1);

	if (ends)
		return (uint64_t)__builtin_ctzll(ends) + 1 - first;
	if (cell + 1 == extent->n_cells || !at[1].ends)
		return UINT64_MAX;
	return MS_CELL_GRANULES - first + (uint64_t)__builtin_ctzll(at[1].ends) + 1;
}

/* Look at the block that begins in @granule; its bytes begin at @bytes. */
static void look_at_block(struct search *s, struct seeker *k, const struct ms_extent *extent,
                          uint64_t granule, const uint8_t *bytes)
{
	struct holder h = { .begin = ms_block_begin(extent, granule),
		            .granules = length_of(s->blocks, extent, granule),
		            .bytes = bytes };

	if (h.granules > MS_SLOT_GRANULES)
		return;
	h.n_words =
		(size_t)((h.granules << SHIFT) - extent->slack % (1 << SHIFT)) / sizeof(uint64_t);
	look_at(s, k, &h);
}

/* A block that the walk has come to. */
static void visit(void *ctx, struct ms_block block)
{
	struct search *s = ctx;
	struct seeker *k = s->seekers[0];
	const struct ms_extent *extent = &s->blocks->extents.at[block.extent];
	const uint8_t *bytes = k->buffer;
	ms_addr begin = ms_block_begin(extent, block.granule);

	s->kept->allocations++;
	s->kept->bytes += ms_block_size(s->blocks, extent, block.granule);
	if (extent->shift != SHIFT)
		return;
	if (extent->host)
		bytes = extent->host + (begin - extent->range.begin);
	else
		ms_source_fill(s->blocks->src, begin, k->buffer, TAIL);
	look_at_block(s, k, extent, block.granule, bytes);
}

static bool has_marked(const struct ms_blocks *blocks, const struct piece *p)
{
	for (size_t i = p->extent->cell0 + p->from; i < p->extent->cell0 + p->to; i++)
		if (blocks->cells.at[i].starts & blocks->cells.at[i].marks)
			return true;
	return false;
}

static void sweep_piece(void *ctx, unsigned worker, size_t item)
{
	struct search *s = ctx;
	struct seeker *k = s->seekers[worker];
	const struct piece *p = &s->pieces.at[item];
	ms_addr begin = p->extent->range.begin + p->from * CELL_BYTES;
	uint64_t len = p->extent->range.end - begin;
	const uint8_t *bytes = k->buffer;

	if (!has_marked(s->blocks, p))
		return;
	len = len < (p->to - p->from) * CELL_BYTES + TAIL ? len
	                                                  : (p->to - p->from) * CELL_BYTES + TAIL;
	if (p->extent->host)
		bytes = p->extent->host + (begin - p->extent->range.begin);
	else
		ms_source_fill(s->blocks->src, begin, k->buffer, (size_t)len);
	for (size_t i = p->from; i < p->to; i++) {
		const struct ms_cell *cell = &s->blocks->cells.at[p->extent->cell0 + i];
		uint64_t left = cell->starts & cell->marks;

		for (; left; left &= left - 1) {
			uint64_t granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);

			look_at_block(s, k, p->extent, granule,
			              bytes + ((granule << SHIFT) - p->from * CELL_BYTES));
		}
	}
}

/* ---- the search ---- */

/* Where the heap is, and how much of it is not marked. */
static void survey(struct search *s)
{
	const struct ms_blocks *blocks = s->blocks;
	const struct ms_extent *extent;
	uint64_t n = 0;

	ms_vec_for_each (extent, &blocks->extents) {
		if (extent->kind != MS_EXTENT_HEAP)
			continue;
		s->low = s->span ? s->low : extent->range.begin;
		s->span = extent->range.end - s->low;
		s->phases |= UINT32_C(1) << extent->range.begin % PHASES;
		for (size_t i = extent->cell0; i < extent->cell0 + extent->n_cells; i++)
			n += (uint64_t)__builtin_popcountll(blocks->cells.at[i].starts &
			                                    ~blocks->cells.at[i].marks);
	}
	s->share = blocks->n ? (double)n / (double)blocks->n : 0;
}

/* Cut @extent into pieces, while they are less than @left bytes. False without memory. */
static bool plan_extent(struct search *s, const struct ms_extent *extent, uint64_t *left)
{
	for (size_t i = 0; i < extent->n_cells; i += PIECE_CELLS) {
		size_t to = i + PIECE_CELLS < extent->n_cells ? i + PIECE_CELLS : extent->n_cells;
		struct piece *p;

		if ((to - i) * CELL_BYTES > *left) {
			s->kept->limited = true;
			*left = 0;
			return true;
		}
		*left -= (to - i) * CELL_BYTES;
		p = ms_vec_push(s->arena.arena, &s->pieces);
		if (!p)
			return false;
		*p = (struct piece){ extent, i, to };
	}
	return true;
}

static bool plan(struct search *s, uint64_t limit)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &s->blocks->extents)
		if (extent->kind == MS_EXTENT_HEAP && extent->shift == SHIFT &&
		    !plan_extent(s, extent, &limit))
			return false;
	return true;
}

static bool make_seekers(struct search *s, const struct ms_relative_options *options)
{
	struct ms_walk_options walk = { .unaligned = options->unaligned,
		                        .visit = visit,
		                        .visit_ctx = s };

	s->n_seekers = ms_workers_count(options->workers);
	for (unsigned i = 0; i < s->n_seekers; i++) {
		s->seekers[i] = ms_arena_alloc(s->arena.arena, sizeof(*s->seekers[i]));
		if (!s->seekers[i])
			return false;
		ms_lookup_init(&s->seekers[i]->lookup, s->blocks);
	}
	s->walk = ms_walk_new(s->blocks, &walk, s->arena.arena);
	return s->walk;
}

/* Follow what each seeker has found. */
static enum ms_status follow(struct search *s, struct ms_error *err)
{
	bool out_of_memory = false;
	enum ms_status st;

	s->walking = true;
	for (unsigned i = 0; i < s->n_seekers; i++) {
		struct seeker *k = s->seekers[i];
		const struct ms_block *block;

		ms_vec_for_each (block, &k->found)
			ms_walk_block(s->walk, *block);
		k->found.n = 0;
		out_of_memory |= k->out_of_memory;
	}
	st = ms_walk_finish(s->walk, err);
	s->walking = false;
	if (!st && out_of_memory)
		st = ms_fail(err, MS_E_NOMEM, "no memory for self-relative pointers");
	return st;
}

/* Put all evidence together, and judge. True when a slot has come to be believed. */
static bool judge(struct search *s)
{
	struct seeker *first = s->seekers[0];
	bool any = false;

	for (unsigned i = 1; i < s->n_seekers; i++)
		for (uint32_t n = 0; n < MS_SLOTS; n++)
			if (is_in(s->seekers[i]->noted, n)) {
				ms_slot_join(&first->slots[n], &s->seekers[i]->slots[n]);
				put_in(first->noted, n);
			}
	for (uint32_t n = 0; n < MS_SLOTS; n++) {
		if (!is_in(first->noted, n) || is_in(s->believed, n) ||
		    !ms_slot_convinces(&first->slots[n], s->share))
			continue;
		put_in(s->believed, n);
		any = true;
	}
	return any;
}

enum ms_status ms_relative_mark(struct ms_blocks *blocks, const struct ms_relative_options *options,
                                struct ms_relative_kept *ret, struct ms_error *err)
{
	struct search s = { .blocks = blocks, .kept = ret };
	unsigned rounds = 0;
	enum ms_status st;

	ms_shared_init(&s.arena, blocks->arena);
	survey(&s);
	if (s.share == 0)
		return MS_OK;
	if (!make_seekers(&s, options) || !plan(&s, options->limit ? options->limit : LIMIT))
		return ms_fail(err, MS_E_NOMEM, "no memory for self-relative pointers");
	do {
		ms_workers_run(options->workers, s.pieces.n, sweep_piece, &s);
		st = follow(&s, err);
	} while (!st && judge(&s) && ++rounds < MAX_ROUNDS);
	ret->limited |= rounds == MAX_ROUNDS;
	return st;
}
