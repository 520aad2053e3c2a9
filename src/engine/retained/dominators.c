/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/retained/dominators.h"

#include <assert.h>

/*
 * The arrays of the caller's are in use until the end:
 *
 *	parent  in the walk; from a node that is linked on, some ancestor (path compression)
 *	semi    the semidominator
 *	label   of the ancestors up to parent: the one with the lowest semidominator
 *	head    the first of those whose semidominator is this one and not their parent; the
 *	        next are in idom, which has no other use before they are taken from there
 */
enum { PARENT, SEMI, LABEL, HEAD };

enum { AHEAD = 8 }; /* entries of a row that are fetched when it is come to */

struct finding {
	struct ms_dominators d;
	uint32_t *parent, *semi, *label, *head;
	uint32_t *stack; /* of the walk: how many of its row each node on the way has been
	                  * through; then of nodes whose paths are compressed */
	struct known *known;
	uint32_t strong; /* the last number of what strong holders reach */
};

/* A bit for each of some blocks, side by side as they are asked for together. */
struct known {
	uint64_t pointed_to;
	uint64_t several; /* more than one pointer may lead to it */
	uint64_t ends;    /* it leads nowhere */
};

enum { BITS = 64 };

static bool has_several(const struct finding *f, uint32_t block)
{
	return f->known[block / BITS].several >> block % BITS & 1;
}

static bool ends(const struct finding *f, uint32_t block)
{
	return f->known[block / BITS].ends >> block % BITS & 1;
}

/* ---- before the walk ---- */

static void count(const struct finding *f, uint32_t to)
{
	struct known *known = &f->known[to / BITS];
	uint64_t bit = UINT64_C(1) << to % BITS;

	known->several |= known->pointed_to & bit;
	known->pointed_to |= bit;
}

/* Pointers of what the top does not lead to count as well: it is not known yet. */
static void look_at_blocks(const struct finding *f, const struct ms_flow *flow)
{
	const struct ms_flow_word *word;

	ms_vec_for_each (word, &flow->words)
		count(f, word->to);
	for (uint32_t i = 0; i < flow->rows.n; i++) {
		uint32_t n;
		const uint32_t *row = ms_flow_row(flow, i, &n);

		f->known[i / BITS].ends |= (uint64_t)!n << i % BITS;
		for (uint32_t k = 0; k < n; k++)
			count(f, row[k]);
	}
}

/* ---- rows ---- */

static bool is_block(const struct ms_flow *flow, uint32_t node)
{
	return node < flow->rows.n;
}

static bool was_met(const struct finding *f, const struct ms_flow *flow, uint32_t node)
{
	return is_block(flow, node) && has_several(f, node) && f->d.order[node];
}

static bool leads_nowhere(const struct finding *f, const struct ms_flow *flow, uint32_t node)
{
	return is_block(flow, node) && ends(f, node);
}

struct row {
	const uint32_t *at;
	uint32_t n;
};

/* The row of a node that leads somewhere. */
static struct row row_of(const struct ms_flow *flow, uint32_t node)
{
	struct row row;
	size_t n;

	if (is_block(flow, node)) {
		row.at = ms_rows_of(&flow->rows, node, &n);
		row.n = (uint32_t)n;
	} else {
		row.at = ms_flow_row(flow, node, &row.n);
	}
	assert(row.at);
	return row;
}

/* Number @node, which was come to from @parent. */
static uint32_t number(struct finding *f, uint32_t node, uint32_t parent)
{
	uint32_t i = ++f->d.n;

	f->d.order[node] = i;
	f->d.node[i] = node;
	f->parent[i] = parent;
	return i;
}

/* What will be looked at when the walk comes to these; all at once, whatever is known of them. */
static void fetch(const struct finding *f, const struct ms_flow *flow, struct row row)
{
	for (uint32_t i = 0; i < row.n && i < AHEAD; i++) {
		__builtin_prefetch(&f->d.order[row.at[i]], 1);
		if (!is_block(flow, row.at[i]))
			continue;
		__builtin_prefetch(&f->known[row.at[i] / BITS]);
		__builtin_prefetch(&flow->rows.first.low[row.at[i]]);
	}
}

/* ---- ahead of the walk ---- */

/*
 * The walk waits for memory at each node that it comes to, and where it goes next it knows
 * only then. But beside its way stand nodes whose turn comes when it is back: these, and
 * what is right below them, are looked at meanwhile, as one becomes known by the other:
 *
 *	beside the way ─▶ [rows: 8] ─▶ its entries ─▶ [places: 8] ─▶ leads somewhere?
 *	        prefetch the row │  prefetch what is known of each        │
 *	                         └────────────────────────────────────────┘
 */
enum { RING = 8, LEVELS = 3 };

struct ring {
	struct beside {
		uint32_t node;
		uint32_t level; /* below the one that stands beside the way */
	} at[RING];
	uint32_t n, first;
};

struct ahead {
	struct ring rows, places;
};

static void put(struct ring *ring, uint32_t node, uint32_t level)
{
	if (ring->n < RING)
		ring->at[(ring->first + ring->n++) % RING] = (struct beside){ node, level };
}

static struct beside take(struct ring *ring)
{
	ring->n--;
	return ring->at[ring->first++ % RING];
}

static void fetch_row(const struct finding *f, const struct ms_flow *flow, struct ahead *ahead,
                      struct beside to)
{
	if (!is_block(flow, to.node) || ends(f, to.node))
		return;
	__builtin_prefetch(flow->rows.to.at + ms_offset_at(&flow->rows.first, to.node));
	put(&ahead->rows, to.node, to.level);
}

static void look_beside(const struct finding *f, const struct ms_flow *flow, struct ahead *ahead)
{
	while (ahead->rows.n > RING / 2) {
		struct beside from = take(&ahead->rows);
		struct row row = row_of(flow, from.node);

		fetch(f, flow, row);
		for (uint32_t i = 0; i < row.n && i < AHEAD && from.level < LEVELS; i++)
			put(&ahead->places, row.at[i], from.level + 1);
	}
	while (ahead->places.n > RING / 2)
		fetch_row(f, flow, ahead, take(&ahead->places));
}

/* ---- the walk ---- */

/* From entry @i of the row of @at on number what it has, up to the first to go down to. */
static uint32_t pass(struct finding *f, const struct ms_flow *flow, uint32_t at, struct row row,
                     uint32_t i)
{
	for (; i < row.n; i++) {
		if (was_met(f, flow, row.at[i]))
			continue;
		if (!leads_nowhere(f, flow, row.at[i]))
			break;
		(void)number(f, row.at[i], at);
	}
	return i;
}

static void walk(struct finding *f, const struct ms_flow *flow)
{
	uint32_t at = number(f, ms_flow_top(flow), 0);
	struct ahead ahead = { .rows.n = 0 };
	uint32_t depth = 0;

	while (at) {
		struct row row = row_of(flow, f->d.node[at]);
		uint32_t i = pass(f, flow, at, row, f->stack[depth]);

		if (at == 1 && i == flow->n_strong && i < row.n)
			f->strong = f->d.n;
		if (i == row.n) {
			at = f->parent[at];
			depth--;
			continue;
		}
		f->stack[depth++] = i + 1;
		f->stack[depth] = 0;
		at = number(f, row.at[i], at);
		fetch(f, flow, row_of(flow, row.at[i]));
		if (i + 1 < row.n)
			fetch_row(f, flow, &ahead, (struct beside){ row.at[i + 1], 0 });
		look_beside(f, flow, &ahead);
	}
}

/* ---- what leads to each ---- */

static bool counts(const struct finding *f, uint32_t from, uint32_t to)
{
	return from <= f->strong || to > f->strong;
}

/* Count the pointers of node @from to what has several, or, where there is room, keep them. */
static void take_row(const struct finding *f, const struct ms_flow *flow, uint32_t from)
{
	const struct ms_offsets *first = &f->d.first;
	uint32_t i = f->d.order[from];
	uint32_t n;
	const uint32_t *row = ms_flow_row(flow, from, &n);

	for (uint32_t k = 0; i && k < n; k++) {
		uint32_t to;

		if (!has_several(f, row[k]))
			continue;
		to = f->d.order[row[k]];
		if (!counts(f, i, to))
			continue;
		if (f->d.from)
			f->d.from[ms_offset_at(first, (size_t)to + 1)] = i;
		first->low[to + 1]++;
	}
}

static void take_rows(const struct finding *f, const struct ms_flow *flow)
{
	for (uint32_t i = 0; i < flow->rows.n + flow->words.n; i++)
		take_row(f, flow, i);
}

/* The rows of what was come to, the other way round; f->d.first is one ahead meanwhile. */
static bool reverse(struct finding *f, const struct ms_flow *flow, struct ms_arena *arena)
{
	const struct ms_offsets *first = &f->d.first;
	uint64_t entries = 0;
	bool ok = ms_offsets_init(&f->d.first, (size_t)f->d.n + 1, arena);

	if (!ok)
		return false;
	take_rows(f, flow);
	for (size_t i = 2; i <= (size_t)f->d.n + 1; i++) {
		uint32_t n = first->low[i];

		ok &= ms_offset_set(first, i, entries) && first->low[i] <= UINT32_MAX - n;
		entries += n;
	}
	f->d.from = ms_arena_alloc(arena, (entries + 1) * sizeof(*f->d.from));
	if (!ok || !f->d.from)
		return false;
	take_rows(f, flow);
	return true;
}

/* ---- dominators ---- */

/*
 * Of the ancestors of @at that are linked, these are numbers from @linked on, the one with the
 * lowest semidominator; @at itself when no other is.
 */
static uint32_t lowest(const struct finding *f, uint32_t at, uint32_t linked)
{
	size_t n = 0;

	for (uint32_t i = at; f->parent[i] >= linked; i = f->parent[i])
		f->stack[n++] = i;
	while (n) {
		uint32_t i = f->stack[--n];
		uint32_t above = f->parent[i];

		if (f->semi[f->label[above]] < f->semi[f->label[i]])
			f->label[i] = f->label[above];
		f->parent[i] = f->parent[above];
	}
	return f->label[at];
}

/* What has its parent for semidominator has it for dominator. */
static void find_semidominator(const struct finding *f, uint32_t i, uint32_t parent)
{
	uint32_t *next = f->d.idom;
	uint32_t semi = parent;
	uint64_t n;
	const uint32_t *from = ms_dominators_leading_to(&f->d, i, &n);

	for (; n; from++, n--) {
		uint32_t found = *from <= i ? *from : f->semi[lowest(f, *from, i + 1)];

		semi = found < semi ? found : semi;
	}
	f->label[i] = i;
	f->semi[i] = semi;
	if (semi == parent) {
		f->d.idom[i] = parent;
		return;
	}
	next[i] = f->head[semi];
	f->head[semi] = i;
}

/* Of those whose semidominator is @parent, of which @i has been linked now. */
static void find_dominators_below(const struct finding *f, uint32_t parent, uint32_t i)
{
	uint32_t next;

	for (uint32_t at = f->head[parent]; at; at = next) {
		uint32_t low = lowest(f, at, i);

		next = f->d.idom[at];
		f->d.idom[at] = f->semi[low] < f->semi[at] ? low : parent;
	}
	f->head[parent] = 0;
}

static void find_dominators(const struct finding *f)
{
	uint32_t *idom = f->d.idom;

	for (uint32_t i = f->d.n; i > 1; i--) {
		uint32_t parent = f->parent[i];

		find_semidominator(f, i, parent);
		find_dominators_below(f, parent, i);
	}
	idom[1] = 0;
	for (uint32_t i = 2; i <= f->d.n; i++)
		if (idom[i] != f->semi[i])
			idom[i] = idom[idom[i]];
}

/* ---- all of it ---- */

static bool allocate(const struct ms_flow *flow, struct ms_arena *arena, struct ms_arena *passing,
                     struct finding *f)
{
	size_t bytes = ((size_t)ms_flow_top(flow) + 2) * sizeof(uint32_t);
	bool ok = true;

	for (size_t i = 0; i < MS_DOMINATORS_SPARE; i++) {
		f->d.spare[i] = ms_arena_alloc(arena, bytes);
		ok &= f->d.spare[i] != NULL;
	}
	f->d.node = ms_arena_alloc(arena, bytes);
	f->d.order = ms_arena_alloc(arena, bytes);
	f->d.idom = ms_arena_alloc(arena, bytes);
	f->parent = f->d.spare[PARENT];
	f->semi = f->d.spare[SEMI];
	f->label = f->d.spare[LABEL];
	f->head = f->d.spare[HEAD];
	f->stack = ms_arena_alloc(passing, bytes);
	f->known = ms_arena_alloc(passing, ((size_t)flow->rows.n / BITS + 1) * sizeof(*f->known));
	return ok && f->d.node && f->d.order && f->d.idom && f->stack && f->known;
}

enum ms_status ms_dominators_find(struct ms_flow *flow, struct ms_arena *rows,
                                  struct ms_arena *arena, struct ms_dominators *ret,
                                  struct ms_error *err)
{
	struct finding f = { .d = { .n = 0 }, .strong = UINT32_MAX };
	struct ms_arena passing = { 0 };
	bool ok = allocate(flow, arena, &passing, &f);

	if (ok) {
		look_at_blocks(&f, flow);
		walk(&f, flow);
	}
	ok = ok && reverse(&f, flow, arena);
	if (ok && rows) {
		ms_arena_deinit(rows);
		flow->rows.first = (struct ms_offsets){ 0 };
		flow->rows.to.at = NULL;
	}
	if (ok)
		find_dominators(&f);
	ms_arena_deinit(&passing);
	if (!ok)
		return ms_fail(err, MS_E_NOMEM, "no memory for the tree of dominators");
	*ret = f.d;
	return MS_OK;
}
