/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/python/collector.h"

#include "engine/kinds/python/plain.h"

/* Words of a head. */
enum { NEXT, PREVIOUS };

enum {
	HEAD_BYTES = 2 * MS_KIND_WORD,
	PIECE_WORDS = 1 << 13,
	MOST_RINGS = 4096, /* that are looked for */
};

#define FLAGS  UINT64_C(3) /* of links */
#define LINKED UINT64_C(1) /* instead of them, in ms_collected.next */

/* From 3.12 on objects that live for ever have such a count, or a higher one. */
#define IMMORTAL UINT64_C(0x3fffffff)

/* ---- objects ---- */

bool ms_collector_add(struct ms_collector *collector, struct ms_arena *arena, ms_addr head,
                      const uint8_t *words)
{
	const uint64_t next = ms_kind_word(words, NEXT) & ~FLAGS;
	const uint64_t previous = ms_kind_word(words, PREVIOUS) & ~FLAGS;
	struct ms_collected *object;

	if (!next || !previous)
		return true;
	object = ms_vec_push(arena, &collector->objects);
	if (object)
		*object = (struct ms_collected){ head, next, previous };
	return object;
}

/* ---- rings ---- */

/* The object with its head at @at, looked for around the one of index @near; or NULL. */
static struct ms_collected *object_at(const struct ms_collector *c, ms_addr at, size_t near)
{
	struct ms_collected *objects = c->objects.at;
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

/*
 * Whether a ring's own member may be at @at: in the interpreter, which is in a module's data or in
 * a block. The rings that a collection has while it runs begin on a stack.
 */
static bool may_be_member(struct ms_kinds *k, ms_addr at)
{
	struct ms_kind_block ignored;

	return ms_kinds_is_data(k, at) || ms_kinds_within(k, at, &ignored);
}

/*
 * Follow the ring whose own member is at @member, from the object of index @near on, and keep its
 * objects if @keep. False where one does not lead back: it is being changed, or a collection runs.
 */
static bool follow_ring(const struct ms_collector *c, ms_addr member, size_t near, bool keep)
{
	ms_addr previous = member;
	ms_addr at = c->first;

	for (size_t i = 0; at != member; i++) {
		struct ms_collected *object = object_at(c, at, near);

		if (!object || object->previous != previous || i > c->objects.n)
			return false;
		near = (size_t)(object - c->objects.at);
		previous = at;
		at = object->next & ~LINKED;
		if (keep)
			object->next |= LINKED;
	}
	return previous == c->last;
}

/* The ring with the own member to which the object of index @i leads, if it does. */
static void look_at_ring(struct ms_collector *c, struct ms_plain *p, size_t i)
{
	const ms_addr member = c->objects.at[i].next;
	uint64_t words[2];

	if (c->objects.at[i].next & LINKED || object_at(c, member, i) || c->n_rings == MOST_RINGS ||
	    !may_be_member(p->k, member) || !ms_kinds_words(p->k, member, words, 2))
		return;
	c->n_rings++;
	c->first = words[NEXT] & ~FLAGS;
	c->last = words[PREVIOUS] & ~FLAGS;
	if (follow_ring(c, member, i, false) && follow_ring(c, member, i, true))
		p->failed |= !ms_ranges_add(p->k->arena, p->hidden, member, member + HEAD_BYTES);
}

void ms_collector_link(struct ms_collector *collector, struct ms_plain *p)
{
	struct ms_collected *objects = collector->objects.at;
	size_t kept = 0;

	for (size_t i = 0; i < collector->objects.n; i++)
		look_at_ring(collector, p, i);
	for (size_t i = 0; i < collector->objects.n; i++) {
		const ms_addr head = objects[i].head;

		if (!(objects[i].next & LINKED))
			continue;
		p->failed |= !ms_ranges_add(p->k->arena, p->hidden, head, head + HEAD_BYTES);
		objects[kept++] = objects[i];
	}
	collector->objects.n = kept;
}

/* ---- counts of references ---- */

typedef void block_fn(void *ctx, const struct ms_extent *extent, uint64_t granule);

/* The heap blocks that are not marked. */
static void visit_unmarked(const struct ms_blocks *blocks, block_fn *visit, void *ctx)
{
	const struct ms_extent *extent;

	ms_vec_for_each (extent, &blocks->extents)
		for (size_t i = 0; extent->kind == MS_EXTENT_HEAP && i < extent->n_cells; i++) {
			const struct ms_cell *cell = &blocks->cells.at[extent->cell0 + i];

			for (uint64_t left = cell->starts & ~cell->marks; left; left &= left - 1)
				visit(ctx, extent,
				      i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left));
		}
}

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
		struct ms_uncollected *slot;

		if (!ms_lookup_block(lookup, object->head, false, &lost.block) ||
		    ms_block_is_marked(n->blocks, lost.block) ||
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

struct marking {
	const struct ms_collector *c;
	struct ms_blocks *blocks;
	struct ms_walk_options like;
	struct ms_walk_count count; /* of the last walk */
	struct ms_error *err;
};

/* Follow the objects that are leaks, or those that are not, where nothing has led to them. */
static enum ms_status follow(struct marking *m, bool leaks)
{
	struct ms_walk *walk = ms_walk_new(m->blocks, &m->like, m->blocks->arena);
	const struct ms_uncollected *lost;
	enum ms_status st;

	if (!walk)
		return ms_fail(m->err, MS_E_NOMEM, "no memory for the graph of blocks");
	ms_vec_for_each (lost, &m->c->lost)
		if (is_leak(lost) == leaks)
			ms_walk_block(walk, lost->block);
	st = ms_walk_finish(walk, m->err);
	m->count = ms_walk_count(walk);
	return st;
}

/* What a leak leads to is marked while the rest is, so that it stays with the leak. */
static enum ms_status mark_others(struct marking *m)
{
	const struct ms_blocks *blocks = m->blocks;
	const size_t n = blocks->cells.n;
	uint64_t *marks = ms_arena_alloc(blocks->arena, n * sizeof(*marks));
	enum ms_status st;

	if (!marks)
		return ms_fail(m->err, MS_E_NOMEM, "no memory for the graph of blocks");
	for (size_t i = 0; i < n; i++)
		marks[i] = blocks->cells.at[i].marks;
	st = follow(m, true);
	if (st)
		return st;
	for (size_t i = 0; i < n; i++)
		marks[i] ^= blocks->cells.at[i].marks;
	st = follow(m, false);
	for (size_t i = 0; i < n; i++)
		blocks->cells.at[i].marks &= ~marks[i];
	return st;
}

enum ms_status ms_collector_mark(struct ms_collector *collector, struct ms_blocks *blocks,
                                 const struct ms_walk_options *like, struct ms_walk_count *kept,
                                 struct ms_error *err)
{
	struct counter counter = { .c = collector, .blocks = blocks };
	struct marking marking = { collector, blocks, *like, { 0 }, err };
	enum ms_status st;

	*kept = (struct ms_walk_count){ 0 };
	if (!collector->objects.n)
		return MS_OK;
	counter.words = ms_arena_alloc(blocks->arena, PIECE_WORDS * sizeof(*counter.words));
	if (!counter.words || !find_lost(&counter))
		return ms_fail(err, MS_E_NOMEM, "no memory for the objects of a collector");
	if (!collector->lost.n)
		return MS_OK;
	visit_unmarked(blocks, count_in_block, &counter);
	marking.like.count_bytes = true;
	st = mark_others(&marking);
	*kept = marking.count;
	return st;
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
