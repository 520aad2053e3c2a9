/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/python/collector.h"

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

struct ring {
	struct ms_collector *c;
	ms_addr member; /* the interpreter's own */
	ms_addr first;
	ms_addr last;
};

/*
 * Follow @ring, and keep its objects if @keep; @near is the index of one. False where an object
 * does not lead back: the ring is being changed, or a collection runs.
 */
static bool follow_ring(const struct ring *ring, size_t near, bool keep)
{
	struct ms_collector *c = ring->c;
	ms_addr previous = ring->member;
	ms_addr at = ring->first;

	for (size_t i = 0; at != ring->member; i++) {
		struct ms_collected *object = object_at(c, at, near);

		if (!object || object->previous != previous || i > c->objects.n)
			return false;
		near = (size_t)(object - c->objects.at);
		previous = at;
		at = object->next & ~LINKED;
		if (keep)
			object->next |= LINKED;
	}
	return previous == ring->last;
}

/* Whether the object of index @i is the last of a ring, which is @ret then. */
static bool is_last(struct ms_collector *c, struct ms_kinds *k, size_t i, struct ring *ret)
{
	const ms_addr member = c->objects.at[i].next;
	uint64_t words[2];

	if (member & LINKED || object_at(c, member, i) || !may_be_member(k, member) ||
	    !ms_kinds_words(k, member, words, 2))
		return false;
	*ret = (struct ring){ c, member, words[NEXT] & ~FLAGS, words[PREVIOUS] & ~FLAGS };
	return true;
}

static bool hide(struct ms_kinds *k, struct ms_ranges *hidden, ms_addr head)
{
	return ms_ranges_add(k->arena, hidden, head, head + HEAD_BYTES);
}

bool ms_collector_link(struct ms_collector *collector, struct ms_kinds *k, struct ms_ranges *hidden)
{
	struct ms_collected *objects = collector->objects.at;
	unsigned n_rings = 0;
	size_t kept = 0;
	struct ring ring;
	bool ok = true;

	for (size_t i = 0; i < collector->objects.n && n_rings < MOST_RINGS; i++) {
		if (!is_last(collector, k, i, &ring))
			continue;
		n_rings++;
		if (follow_ring(&ring, i, false) && follow_ring(&ring, i, true))
			ok &= hide(k, hidden, ring.member);
	}
	for (size_t i = 0; i < collector->objects.n; i++)
		if (objects[i].next & LINKED) {
			ok &= hide(k, hidden, objects[i].head);
			objects[kept++] = objects[i];
		}
	collector->objects.n = kept;
	return ok;
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
static void count_in_block(void *ctx, struct ms_block block)
{
	struct counter *n = ctx;
	const struct ms_extent *extent = &n->blocks->extents.at[block.extent];
	ms_addr at = ms_block_begin(extent, block.granule);
	const ms_addr end = at + ms_block_usable(n->blocks, extent, block.granule);

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
	struct ms_cell *cells = m->blocks->cells.at;
	struct ms_marks marks = { 0 };
	enum ms_status st;

	if (!ms_marks_save(m->blocks, &marks))
		return ms_fail(m->err, MS_E_NOMEM, "no memory for the graph of blocks");
	st = follow(m, true);
	if (st)
		return st;
	for (size_t i = 0; i < marks.n; i++)
		marks.at[i] ^= cells[i].marks;
	st = follow(m, false);
	for (size_t i = 0; i < marks.n; i++)
		cells[i].marks &= ~marks.at[i];
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
	ms_blocks_visit_unmarked(blocks, count_in_block, &counter);
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
