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
#include "engine/mapping.h"

/*
 * A sweep looks at every small block, in pieces that the workers share; each worker keeps
 * evidence of its own. What marked blocks lead to is followed by an ordinary walk over
 * bytes, which has each block it comes to looked at in the same way.
 *
 *	sweep ─▶ walk from what was found ─▶ new slots convince? ─ no ─▶ end
 *	  ▲                                          │ yes
 *	  └──────────────────────────────────────────┘
 *
 * The first sweep alone looks at unmarked blocks. Evidence of marked ones is sets, so that
 * it does no harm to look at a block more than once.
 *
 * Slots are of blocks by granules of 16 bytes, as malloc of the C library gives them. Where
 * another allocator has one extent for each size, patterns of fontconfig alone are looked for,
 * and only where its library is.
 */

enum {
	SHIFT = 4,       /* of extents that are looked at for slots, */
	LEAST_SHIFT = 3, /* and of those for patterns alone */
	MOST_SHIFT = 5,
	CELL_BYTES = MS_CELL_GRANULES << SHIFT,
	PIECE_CELLS = 256,
	TAIL = MS_SLOT_GRANULES << SHIFT, /* of the last block, behind a piece */
	BUFFER = PIECE_CELLS * CELL_BYTES + TAIL,
	MAX_ROUNDS = 16,
	PHASES = 16, /* addresses differ by what is left when they are divided by it */
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
	const struct ms_abi *abi;
	bool plain;  /* its words can be taken as they are */
	ms_addr low; /* every block of the heap begins in [low, low + span) */
	uint64_t span;
	double share;    /* of the blocks that are unmarked */
	uint32_t phases; /* of extents of the heap */
	struct MS_VEC(struct piece) pieces;
	uint64_t believed[SET_WORDS];
	struct ms_walk *walk;
	bool walking;
	bool first;      /* sweep */
	bool fontconfig; /* its library is there */
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
	bool marked;
};

static bool is_in(const uint64_t *set, uint32_t index)
{
	return set[index / 64] >> index % 64 & 1;
}

static void put_in(uint64_t *set, uint32_t index)
{
	set[index / 64] |= UINT64_C(1) << index % 64;
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

/* The block of the heap that begins at @addr, a granule's first byte; and where it leads. */
static bool find_end(const struct search *s, struct seeker *k, ms_addr addr, struct ms_block *ret,
                     enum ms_slot_end *ret_end)
{
	const struct ms_extent *extent = ms_lookup_extent(&k->lookup, addr);
	uint64_t granule;

	if (!extent || extent->kind != MS_EXTENT_HEAP)
		return false;
	granule = ms_granule_of(extent, addr);
	*ret = (struct ms_block){ (uint32_t)(extent - s->blocks->extents.at), granule };
	*ret_end = MS_END_NOWHERE;
	if (ms_block_begin(extent, granule) == addr &&
	    (ms_blocks_cell(s->blocks, extent, granule)->starts & ms_granule_bit(granule)))
		*ret_end = ms_block_is_marked(s->blocks, *ret) ? MS_END_MARKED : MS_END_UNMARKED;
	return true;
}

/* A word of @h leads to @addr, in the heap, in the way of slot @index. */
static void consider(struct search *s, struct seeker *k, const struct holder *h, uint32_t index,
                     ms_addr addr)
{
	struct ms_slot_lead lead = { .granules = h->granules,
		                     .distance = (int64_t)((addr >> SHIFT) - (h->begin >> SHIFT)) };
	struct ms_slot *slot = &k->slots[index];
	struct ms_block block;

	put_in(k->noted, index);
	if (!(s->phases >> addr % PHASES & 1)) {
		slot->misses += s->first;
		return;
	}
	if (!find_end(s, k, addr, &block, &lead.end))
		return;
	if (h->marked && lead.end == MS_END_UNMARKED && is_in(s->believed, index))
		take(s, k, block);
	if (h->marked)
		ms_slot_note(slot, &lead);
	if (s->first)
		ms_slot_note_any(slot, &lead);
}

/* The word at @bytes as a number with a sign, which one shorter than ours is widened for. */
static inline uint64_t distance_at(const struct ms_abi *abi, bool plain, const uint8_t *bytes)
{
	unsigned spare = 64 - 8U * abi->word_bytes;

	if (plain)
		return ms_word_at(bytes);
	return (uint64_t)((int64_t)(ms_abi_word(abi, bytes) << spare) >> spare);
}

/* A block at @begin of a pattern's size: whether it is one. What it keeps is taken. */
static bool look_at_pattern(struct search *s, struct seeker *k, ms_addr begin, const uint8_t *bytes)
{
	struct ms_block array;

	if (!ms_fontconfig_array(&k->lookup, begin, bytes, &array))
		return false;
	if (!ms_block_is_marked(s->blocks, array))
		take(s, k, array);
	return true;
}

static void look_at(struct search *s, struct seeker *k, const struct holder *h)
{
	const bool plain = s->plain;
	const size_t word = s->abi->word_bytes;

	if (h->marked && h->granules - MS_PATTERN_GRANULES <= MS_PATTERN_SPARE &&
	    look_at_pattern(s, k, h->begin, h->bytes))
		return;
	for (size_t i = 0; i < h->n_words; i++) {
		uint64_t value = distance_at(s->abi, plain, h->bytes + i * word);
		ms_addr of_block = h->begin + value;
		ms_addr of_word = of_block + i * word;

		/* Both lie within TAIL of each other. */
		if (!value || of_word - s->low + TAIL >= s->span + 2 * (uint64_t)TAIL)
			continue;
		/* Boost's points to the next byte when it is null. */
		if (value == 1 && !i)
			continue;
		if (of_block - s->low < s->span)
			consider(s, k, h, ms_slot_index(h->granules, i, MS_BASE_BLOCK), of_block);
		if (i && value != 1 && of_word - s->low < s->span)
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

static bool is_looked_at(const struct search *s, const struct ms_extent *extent)
{
	return extent->shift == SHIFT ||
	       (s->fontconfig && extent->shift >= LEAST_SHIFT && extent->shift <= MOST_SHIFT);
}

/* The same for a block that may be a pattern, and nothing else that is looked for. */
static void look_at_other(struct search *s, struct seeker *k, struct ms_block block,
                          const uint8_t *bytes)
{
	const struct ms_extent *extent = &s->blocks->extents.at[block.extent];
	uint64_t usable;

	if (!ms_block_is_marked(s->blocks, block))
		return;
	usable = ms_block_usable(s->blocks, extent, block.granule);
	if (usable >= MS_PATTERN_BYTES && usable <= MS_PATTERN_MOST_BYTES)
		(void)look_at_pattern(s, k, ms_block_begin(extent, block.granule), bytes);
}

/* Look at @block, whose bytes begin at @bytes. */
static void look_at_block(struct search *s, struct seeker *k, struct ms_block block,
                          const uint8_t *bytes)
{
	const struct ms_extent *extent = &s->blocks->extents.at[block.extent];
	struct holder h = { .begin = ms_block_begin(extent, block.granule),
		            .granules = length_of(s->blocks, extent, block.granule),
		            .bytes = bytes,
		            .marked = ms_block_is_marked(s->blocks, block) };

	if (extent->shift != SHIFT) {
		look_at_other(s, k, block, bytes);
		return;
	}
	if (h.granules > MS_SLOT_GRANULES)
		return;
	h.n_words =
		(size_t)((h.granules << SHIFT) - extent->slack % (1 << SHIFT)) / s->abi->word_bytes;
	if (extent->trimmed)
		h.n_words =
			(size_t)(ms_block_words_end(s->blocks, extent, block.granule) - h.begin) /
			s->abi->word_bytes;
	h.n_words = h.n_words < MS_SLOT_WORDS ? h.n_words : MS_SLOT_WORDS;
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
	if (!is_looked_at(s, extent))
		return;
	if (extent->host)
		bytes = extent->host + (begin - extent->range.begin);
	else
		ms_source_fill(s->blocks->src, begin, k->buffer, TAIL);
	look_at_block(s, k, block, bytes);
}

/* The blocks of @cell to look at now. */
static uint64_t wanted(const struct search *s, const struct ms_cell *cell)
{
	return s->first ? cell->starts : cell->starts & cell->marks;
}

static bool is_wanted(const struct search *s, const struct piece *p)
{
	for (size_t i = p->extent->cell0 + p->from; i < p->extent->cell0 + p->to; i++)
		if (wanted(s, &s->blocks->cells.at[i]))
			return true;
	return false;
}

static uint64_t cell_bytes_of(const struct ms_extent *extent)
{
	return (uint64_t)MS_CELL_GRANULES << extent->shift;
}

static void sweep_piece(void *ctx, unsigned worker, size_t item)
{
	struct search *s = ctx;
	struct seeker *k = s->seekers[worker];
	const struct piece *p = &s->pieces.at[item];
	struct ms_block block = { (uint32_t)(p->extent - s->blocks->extents.at), 0 };
	const uint64_t cell_bytes = cell_bytes_of(p->extent);
	ms_addr begin = p->extent->range.begin + p->from * cell_bytes;
	uint64_t len = p->extent->range.end - begin;
	uint64_t most = (p->to - p->from) * cell_bytes + TAIL;
	const uint8_t *bytes = k->buffer;

	if (!is_wanted(s, p))
		return;
	if (p->extent->host)
		bytes = p->extent->host + (begin - p->extent->range.begin);
	else
		ms_source_fill(s->blocks->src, begin, k->buffer, (size_t)(len < most ? len : most));
	for (size_t i = p->from; i < p->to; i++) {
		uint64_t left = wanted(s, &s->blocks->cells.at[p->extent->cell0 + i]);

		for (; left; left &= left - 1) {
			block.granule = i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left);
			look_at_block(s, k, block,
			              bytes + (block.granule << p->extent->shift) -
			                      p->from * cell_bytes);
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
	const uint64_t cell_bytes = cell_bytes_of(extent);
	const size_t step = (size_t)((uint64_t)PIECE_CELLS * CELL_BYTES / cell_bytes);

	for (size_t i = 0; i < extent->n_cells; i += step) {
		size_t to = i + step < extent->n_cells ? i + step : extent->n_cells;
		struct piece *p;

		if ((to - i) * cell_bytes > *left) {
			s->kept->limited = true;
			*left = 0;
			return true;
		}
		*left -= (to - i) * cell_bytes;
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
		if (extent->kind == MS_EXTENT_HEAP && is_looked_at(s, extent) &&
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

/* Put all evidence together, with the first seeker. */
static void join_evidence(struct search *s)
{
	struct seeker *first = s->seekers[0];

	for (unsigned i = 1; i < s->n_seekers; i++) {
		struct seeker *k = s->seekers[i];

		for (uint32_t n = 0; n < MS_SLOTS; n++) {
			if (!is_in(k->noted, n))
				continue;
			ms_slot_join(&first->slots[n], &k->slots[n]);
			k->slots[n] = (struct ms_slot){ 0 };
			put_in(first->noted, n);
		}
		memset(k->noted, 0, sizeof(k->noted));
	}
}

/* The slots beside @index: of blocks of as many granules, and of its base. */
static void believe_beside(struct search *s, uint32_t index)
{
	const struct seeker *k = s->seekers[0];
	uint32_t first = index - index % (MS_SLOT_WORDS * MS_SLOT_BASES);

	/* The first word has the same place as its block: it is of both bases. */
	for (uint32_t n = first; n < first + MS_SLOT_WORDS * MS_SLOT_BASES; n++)
		if (is_in(k->noted, n) &&
		    (n == first || index == first || n % MS_SLOT_BASES == index % MS_SLOT_BASES) &&
		    ms_slot_may_point(&k->slots[n]))
			put_in(s->believed, n);
}

/* True when a slot has come to be believed. */
static bool judge(struct search *s)
{
	const struct seeker *k = s->seekers[0];
	bool any = false;

	join_evidence(s);
	for (uint32_t n = 0; n < MS_SLOTS; n++) {
		if (!is_in(k->noted, n) || is_in(s->believed, n))
			continue;
		if (ms_slot_points(&k->slots[n]))
			believe_beside(s, n);
		else if (ms_slot_keeps(&k->slots[n], s->share))
			put_in(s->believed, n);
		any |= is_in(s->believed, n);
	}
	return any;
}

enum ms_status ms_relative_mark(struct ms_blocks *blocks, const struct ms_relative_options *options,
                                struct ms_relative_kept *ret, struct ms_error *err)
{
	struct search s = { .blocks = blocks,
		            .abi = &blocks->src->abi,
		            .plain = ms_abi_is_plain(&blocks->src->abi),
		            .kept = ret };
	unsigned rounds = 0;
	enum ms_status st;

	ms_shared_init(&s.arena, blocks->arena);
	survey(&s);
	if (s.share == 0)
		return MS_OK;
	s.fontconfig = ms_mapped_file(blocks->src, "libfontconfig.so");
	if (!make_seekers(&s, options) || !plan(&s, options->limit ? options->limit : LIMIT))
		return ms_fail(err, MS_E_NOMEM, "no memory for self-relative pointers");
	do {
		s.first = !rounds;
		ms_workers_run(options->workers, s.pieces.n, sweep_piece, &s);
		s.first = false;
		st = follow(&s, err);
	} while (!st && judge(&s) && ++rounds < MAX_ROUNDS);
	ret->limited |= rounds == MAX_ROUNDS;
	return st;
}
