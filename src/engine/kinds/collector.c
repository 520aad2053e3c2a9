/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/collector.h"

#include <string.h>

#include "engine/kinds/cpython.h"

/*
 * Words from a head on; it is the block's begin, or behind two words for the object's attributes
 * (3.11 and later).
 */
enum { NEXT = 0, PREVIOUS = 1, REFERENCES = 2, TYPE = 3, WORDS = 4, BEFORE = 2 };

enum {
	HEAD_BYTES = 2 * MS_KIND_WORD,
	LEAST_BYTES = WORDS * MS_KIND_WORD,
	MOST_BYTES = (BEFORE + WORDS) * MS_KIND_WORD, /* of a block that are looked at */
	WINDOW_BYTES = 1 << 18,
	PIECE_WORDS = 1 << 13,
	MOST_TYPES = 1 << 20,
	MOST_OUTSIDE = 4096, /* neighbours that are no objects, to be looked at */
};

#define FLAGS UINT64_C(3) /* of links */

/* From 3.12 on objects that live for ever have such a count, or a higher one. */
#define IMMORTAL UINT64_C(0x3fffffff)

/* Of a type. */
enum { OTHER = 1, COLLECTED = 2 };

struct finder {
	struct ms_kinds *k;
	struct ms_blocks *blocks;
	struct ms_collector *ret;
	struct ms_range window; /* memory that buffer has a copy of */
	uint8_t *buffer;
	struct ms_map outside; /* heads that are no objects, and that were hidden */
	uint32_t n_outside;
	bool ok; /* false: no memory */
};

/* ---- objects ---- */

static bool is_collected(struct finder *f, ms_addr type)
{
	struct ms_kinds *k = f->k;
	uint64_t known = ms_map_find(&k->python, type);

	if (!known) {
		known = ms_cpython_is_collected(k, type) ? COLLECTED : OTHER;
		if (k->python.used < MOST_TYPES)
			f->ok &= ms_map_add(&k->python, &k->passing, type, known);
	}
	return known == COLLECTED;
}

/* The object of which the links may be at @words, at @at. */
static bool look_at_head(struct finder *f, const uint8_t *words, ms_addr at)
{
	uint64_t type = ms_kind_word(words, TYPE);
	struct ms_collected *object;

	if (!(ms_kind_word(words, NEXT) & ~FLAGS) || !(ms_kind_word(words, PREVIOUS) & ~FLAGS) ||
	    !type || type % MS_KIND_WORD ||
	    !ms_cpython_is_count(f->k, ms_kind_word(words, REFERENCES)) || !is_collected(f, type))
		return false;
	object = ms_vec_push(&f->k->passing, &f->ret->objects);
	f->ok &= object != NULL;
	if (object)
		*object = (struct ms_collected){ at, ms_kind_word(words, NEXT) & ~FLAGS,
			                         ms_kind_word(words, PREVIOUS) & ~FLAGS };
	return true;
}

/* The first @len bytes at @begin, in an extent that ends at @limit. */
static const uint8_t *bytes_at(struct finder *f, ms_addr begin, size_t len, ms_addr limit)
{
	const uint8_t *view = ms_source_view(f->k->src, begin, len);
	uint64_t left = limit - begin;

	if (view)
		return view;
	if (begin < f->window.begin || begin + len > f->window.end) {
		f->window = (struct ms_range){
			begin, begin + (left < WINDOW_BYTES ? left : (uint64_t)WINDOW_BYTES)
		};
		ms_source_fill(f->k->src, begin, f->buffer, (size_t)ms_range_len(f->window));
	}
	return f->buffer + (begin - f->window.begin);
}

static void look_at_block(struct finder *f, const struct ms_extent *extent, uint64_t granule)
{
	const ms_addr begin = ms_block_begin(extent, granule);
	uint64_t usable = ms_block_usable(f->blocks, extent, granule);
	const size_t n = usable < MOST_BYTES ? (size_t)usable : (size_t)MOST_BYTES;
	const uint8_t *words;

	if (usable < LEAST_BYTES)
		return;
	words = bytes_at(f, begin, n, extent->range.end);
	if (!look_at_head(f, words, begin) && n == MOST_BYTES)
		(void)look_at_head(f, words + BEFORE * MS_KIND_WORD, begin + BEFORE * MS_KIND_WORD);
}

typedef void block_fn(void *ctx, const struct ms_extent *extent, uint64_t granule);

/* All heap blocks, or those alone that are not marked, by address. */
static void visit_blocks(const struct ms_blocks *blocks, bool unmarked, block_fn *visit, void *ctx)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &blocks->extents)
		for (size_t i = 0; extent->kind == MS_EXTENT_HEAP && i < extent->n_cells; i++) {
			const struct ms_cell *cell = &blocks->cells.at[extent->cell0 + i];
			uint64_t left = unmarked ? cell->starts & ~cell->marks : cell->starts;

			for (; left; left &= left - 1)
				visit(ctx, extent,
				      i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left));
		}
}

static void find_in_block(void *ctx, const struct ms_extent *extent, uint64_t granule)
{
	look_at_block(ctx, extent, granule);
}

/* ---- rings ---- */

/* The object with its head at @at, looked for around the one of index @near; or NULL. */
static const struct ms_collected *object_at(const struct ms_collector *c, ms_addr at, size_t near)
{
	const struct ms_collected *objects = c->objects.at;
	size_t low = near;
	size_t high = near + 1;

	for (size_t step = 1; low && objects[low].head > at; step *= 2)
		low = low > step ? low - step : 0;
	for (size_t step = 1; high < c->objects.n && objects[high].head <= at; step *= 2)
		high = c->objects.n - high > step ? high + step : c->objects.n;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (objects[middle].head <= at)
			low = middle;
		else
			high = middle;
	}
	return objects[low].head == at ? &objects[low] : NULL;
}

/* Whether word @i at @at, which is no object's, leads to @back: a ring's own member. */
static bool is_own_member(struct finder *f, ms_addr at, size_t i, ms_addr back)
{
	uint64_t words[2];

	if (f->n_outside >= MOST_OUTSIDE)
		return false;
	if (!ms_map_find(&f->outside, at))
		f->n_outside++;
	if (ms_peek_read(&f->k->peek, at, words, sizeof(words)) != sizeof(words) ||
	    (words[i] & ~FLAGS) != back)
		return false;
	if (!ms_map_find(&f->outside, at))
		f->ok &= ms_map_add(&f->outside, &f->k->passing, at, 1) &&
		         ms_ranges_add(f->blocks->arena, &f->ret->hidden, at, at + HEAD_BYTES);
	return true;
}

static bool is_linked(struct finder *f, size_t i)
{
	const struct ms_collected *object = &f->ret->objects.at[i];
	const struct ms_collected *next = object_at(f->ret, object->next, i);
	const struct ms_collected *previous = object_at(f->ret, object->previous, i);

	return (next ? next->previous == object->head
	             : is_own_member(f, object->next, PREVIOUS, object->head)) &&
	       (previous ? previous->next == object->head
	                 : is_own_member(f, object->previous, NEXT, object->head));
}

/* Keep those that are linked, and hide their links. */
static void keep_linked(struct finder *f)
{
	struct ms_collected_objects linked = { 0 };

	for (size_t i = 0; i < f->ret->objects.n && f->ok; i++) {
		struct ms_collected *object;

		if (!is_linked(f, i))
			continue;
		object = ms_vec_push(f->blocks->arena, &linked);
		f->ok &= object != NULL;
		if (!object)
			break;
		*object = f->ret->objects.at[i];
		f->ok &= ms_ranges_add(f->blocks->arena, &f->ret->hidden, object->head,
		                       object->head + HEAD_BYTES);
	}
	f->ret->objects = linked;
}

static bool has_python(const struct ms_source *src)
{
	const struct ms_mapping *mapping;

	ms_vec_for_each (mapping, &src->mappings)
		if (mapping->file && strstr(mapping->name, "python"))
			return true;
	return false;
}

static bool find_all(struct ms_kinds *k, struct ms_blocks *blocks, struct ms_collector *ret)
{
	struct finder f = { .k = k,
		            .blocks = blocks,
		            .ret = ret,
		            .buffer = ms_arena_alloc(&k->passing, WINDOW_BYTES),
		            .ok = true };

	if (!f.buffer || !ms_peek_init(&k->peek, k->src, &k->passing))
		return false;
	if (!ms_cpython_begin(k))
		return true;
	visit_blocks(blocks, false, find_in_block, &f);
	if (f.ok)
		keep_linked(&f);
	return f.ok;
}

enum ms_status ms_collector_find(struct ms_blocks *blocks, const struct ms_roots *roots,
                                 struct ms_collector *ret)
{
	struct ms_source *src = blocks->src;
	struct ms_kinds *k;
	bool ok;

	if (!blocks->extents.n || !ms_abi_is_native(&src->abi) ||
	    src->abi.word_bytes != MS_KIND_WORD || !has_python(src))
		return MS_OK;
	k = ms_arena_alloc(blocks->arena, sizeof(*k));
	if (!k)
		return MS_E_NOMEM;
	k->blocks = blocks;
	k->regions = roots->regions;
	k->src = src;
	k->word = MS_KIND_WORD;
	ok = find_all(k, blocks, ret);
	ms_arena_deinit(&k->passing);
	return ok ? MS_OK : MS_E_NOMEM;
}

/* ---- counts of references ---- */

struct counter {
	struct ms_collector *c;
	struct ms_blocks *blocks;
	struct ms_map of; /* of an object's address: its index in lost + 1 */
	uint64_t *words;  /* PIECE_WORDS */
};

static bool find_lost(struct counter *n)
{
	struct ms_source *src = n->blocks->src;
	const struct ms_collected *object;
	struct ms_lookup *lookup = ms_arena_alloc(n->blocks->arena, sizeof(*lookup));

	if (!lookup)
		return false;
	ms_lookup_init(lookup, n->blocks);
	n->c->lost.n = 0;
	ms_vec_for_each (object, &n->c->objects) {
		struct ms_uncollected lost = { .object = object->head + HEAD_BYTES };
		const struct ms_extent *extent = ms_lookup_extent(lookup, object->head);
		struct ms_uncollected *slot;

		if (!extent)
			continue;
		lost.block =
			(struct ms_block){ (uint32_t)(extent - n->blocks->extents.at),
			                   ms_block_start(n->blocks, extent,
			                                  ms_granule_of(extent, object->head)) };
		if (ms_block_is_marked(n->blocks, lost.block) ||
		    !ms_source_word(src, lost.object, &lost.references))
			continue;
		lost.references &= UINT32_MAX;
		slot = ms_vec_push(n->blocks->arena, &n->c->lost);
		if (!slot)
			return false;
		*slot = lost;
		if (!ms_map_add(&n->of, n->blocks->arena, lost.object, n->c->lost.n))
			return false;
	}
	return true;
}

/* Pointers may have flags in their lower bits: it is better to find one too many. */
static void count_in_block(void *ctx, const struct ms_extent *extent, uint64_t granule)
{
	struct counter *n = ctx;
	ms_addr at = ms_block_begin(extent, granule);
	const ms_addr end = at + ms_block_usable(n->blocks, extent, granule);

	while (at + MS_KIND_WORD <= end) {
		uint64_t left = (end - at) / MS_KIND_WORD;
		size_t got =
			ms_source_words(n->blocks->src, at, n->words,
		                        left < PIECE_WORDS ? (size_t)left : (size_t)PIECE_WORDS);

		for (size_t i = 0; i < got; i++) {
			size_t index = (size_t)ms_map_find(&n->of, n->words[i] & ~UINT64_C(7));

			if (index)
				n->c->lost.at[index - 1].found++;
		}
		if (!got)
			break;
		at += got * MS_KIND_WORD;
	}
}

static bool is_leak(const struct ms_uncollected *lost)
{
	return lost->references < IMMORTAL && lost->references > lost->found;
}

/* Follow the objects that are leaks, or those that are not, where nothing has led to them. */
static enum ms_status follow(const struct ms_collector *c, struct ms_blocks *blocks,
                             const struct ms_walk_options *like, bool leaks,
                             struct ms_walk_count *count, struct ms_error *err)
{
	struct ms_walk *walk = ms_walk_new(blocks, like, blocks->arena);
	const struct ms_uncollected *lost;
	enum ms_status st;

	if (!walk)
		return ms_fail(err, MS_E_NOMEM, "no memory for the graph of blocks");
	ms_vec_for_each (lost, &c->lost)
		if (is_leak(lost) == leaks)
			ms_walk_block(walk, lost->block);
	st = ms_walk_finish(walk, err);
	*count = ms_walk_count(walk);
	return st;
}

/* What a leak leads to is marked while the rest is, so that it stays with the leak. */
static enum ms_status mark_others(const struct ms_collector *c, struct ms_blocks *blocks,
                                  const struct ms_walk_options *like, struct ms_walk_count *kept,
                                  struct ms_error *err)
{
	const size_t n = blocks->cells.n;
	uint64_t *marks = ms_arena_alloc(blocks->arena, n * sizeof(*marks));
	struct ms_walk_count leaked;
	enum ms_status st;

	if (!marks)
		return ms_fail(err, MS_E_NOMEM, "no memory for the graph of blocks");
	for (size_t i = 0; i < n; i++)
		marks[i] = blocks->cells.at[i].marks;
	st = follow(c, blocks, like, true, &leaked, err);
	if (st)
		return st;
	for (size_t i = 0; i < n; i++)
		marks[i] ^= blocks->cells.at[i].marks;
	st = follow(c, blocks, like, false, kept, err);
	for (size_t i = 0; i < n; i++)
		blocks->cells.at[i].marks &= ~marks[i];
	return st;
}

enum ms_status ms_collector_mark(struct ms_collector *collector, struct ms_blocks *blocks,
                                 const struct ms_walk_options *like, struct ms_walk_count *kept,
                                 struct ms_error *err)
{
	struct ms_walk_options counting = *like;
	struct counter counter = { .c = collector, .blocks = blocks };

	*kept = (struct ms_walk_count){ 0 };
	if (!collector->objects.n)
		return MS_OK;
	counter.words = ms_arena_alloc(blocks->arena, PIECE_WORDS * sizeof(*counter.words));
	if (!counter.words || !find_lost(&counter))
		return ms_fail(err, MS_E_NOMEM, "no memory for the objects of a collector");
	if (!collector->lost.n)
		return MS_OK;
	visit_blocks(blocks, true, count_in_block, &counter);
	counting.count_bytes = true;
	return mark_others(collector, blocks, &counting, kept, err);
}

const struct ms_uncollected *ms_collector_of(const struct ms_collector *collector,
                                             const struct ms_blocks *blocks, ms_addr begin)
{
	const struct ms_uncollected *lost = collector->lost.at;
	size_t i = ms_lower_bound(0, collector->lost.n, k, lost[k].object <= begin);
	const struct ms_extent *extent;

	if (i == collector->lost.n)
		return NULL;
	extent = &blocks->extents.at[lost[i].block.extent];
	return ms_block_begin(extent, lost[i].block.granule) == begin ? &lost[i] : NULL;
}
