/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/retained/dominators.h"

#include <string.h>

/*
 * The arrays of the caller's are in use until the end:
 *
 *	order   while walking: the number of each node of the flow; then head
 *	head    the first of those whose semidominator is this one; the next are in idom,
 *	        which has no other use before they are taken from there
 *	parent  in the walk; from a node that is linked on, some ancestor (path compression)
 *	semi    the semidominator
 *	label   of the ancestors up to parent: the one with the lowest semidominator
 *	stack   while walking: how many of its row each node has been through
 */
enum { ORDER, HEAD = ORDER, PARENT, SEMI, LABEL, STACK };

struct finding {
	struct ms_dominators d;
	uint32_t *order, *head, *parent, *semi, *label, *stack;
	uint32_t strong; /* the last number of what strong holders reach */
};

/* ---- the walk ---- */

/* Number @node, which was come to from @parent. */
static uint32_t enter(struct finding *f, const struct ms_flow *flow, uint32_t node, uint32_t parent)
{
	uint32_t number = ++f->d.n;
	uint32_t n;
	const uint32_t *row = ms_flow_row(flow, node, &n);

	f->order[node] = number;
	f->d.node[number] = node;
	f->parent[number] = parent;
	f->stack[number] = 0;
	for (uint32_t i = 0; i < n && i < 8; i++) {
		__builtin_prefetch(&f->order[row[i]]);
		if (row[i] < flow->rows.n)
			__builtin_prefetch(&flow->rows.first[row[i]]);
	}
	return number;
}

static void walk(struct finding *f, const struct ms_flow *flow)
{
	uint32_t at = enter(f, flow, ms_flow_top(flow), 0);

	while (at) {
		uint32_t n;
		const uint32_t *row = ms_flow_row(flow, f->d.node[at], &n);
		uint32_t i = f->stack[at];

		while (i < n && f->order[row[i]])
			i++;
		f->stack[at] = i + 1;
		if (at == 1 && i == flow->n_strong && i < n)
			f->strong = f->d.n;
		at = i < n ? enter(f, flow, row[i], at) : f->parent[at];
	}
}

static bool counts(const struct finding *f, uint32_t from, uint32_t to)
{
	return from <= f->strong || to > f->strong;
}

/* The rows of what was come to, the other way round; f->d.first counts one ahead meanwhile. */
static bool reverse(struct finding *f, const struct ms_flow *flow, struct ms_arena *arena)
{
	uint64_t entries = 0;
	const uint32_t *row;
	uint32_t n;

	f->d.first = ms_arena_alloc(arena, ((size_t)f->d.n + 3) * sizeof(*f->d.first));
	if (!f->d.first)
		return false;
	for (uint32_t i = 1; i <= f->d.n; i++) {
		row = ms_flow_row(flow, f->d.node[i], &n);
		for (uint32_t k = 0; k < n; k++) {
			bool adds = counts(f, i, f->order[row[k]]);

			entries += adds;
			f->d.first[f->order[row[k]] + 2] += adds;
		}
	}
	f->d.from = ms_arena_alloc(arena, (entries + 1) * sizeof(*f->d.from));
	if (!f->d.from)
		return false;
	for (uint32_t i = 1; i <= f->d.n + 1; i++)
		f->d.first[i + 1] += f->d.first[i];
	for (uint32_t i = 1; i <= f->d.n; i++) {
		row = ms_flow_row(flow, f->d.node[i], &n);
		for (uint32_t k = 0; k < n; k++)
			if (counts(f, i, f->order[row[k]]))
				f->d.from[f->d.first[f->order[row[k]] + 1]++] = i;
	}
	return true;
}

/* ---- dominators ---- */

/*
 * Of the ancestors of @at that are linked, these are numbers from @linked on, the one with the
 * lowest semidominator; @at itself when it is not.
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

static void find_semidominator(const struct finding *f, uint32_t i)
{
	uint32_t *next = f->d.idom;

	for (uint64_t k = f->d.first[i]; k < f->d.first[i + 1]; k++) {
		uint32_t semi = f->semi[lowest(f, f->d.from[k], i + 1)];

		if (semi < f->semi[i])
			f->semi[i] = semi;
	}
	next[i] = f->head[f->semi[i]];
	f->head[f->semi[i]] = i;
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

	for (uint32_t i = 1; i <= f->d.n; i++)
		f->semi[i] = f->label[i] = i;
	for (uint32_t i = f->d.n; i > 1; i--) {
		uint32_t parent = f->parent[i];

		find_semidominator(f, i);
		find_dominators_below(f, parent, i);
	}
	idom[1] = 0;
	for (uint32_t i = 2; i <= f->d.n; i++)
		if (idom[i] != f->semi[i])
			idom[i] = idom[idom[i]];
}

/* ---- all of it ---- */

static bool allocate(struct ms_arena *arena, size_t n, struct finding *f)
{
	size_t bytes = (n + 1) * sizeof(uint32_t);
	bool ok = true;

	for (size_t i = 0; i < MS_DOMINATORS_SPARE; i++) {
		f->d.spare[i] = ms_arena_alloc(arena, bytes);
		ok &= f->d.spare[i] != NULL;
	}
	f->d.node = ms_arena_alloc(arena, bytes);
	f->d.idom = ms_arena_alloc(arena, bytes);
	f->order = f->head = f->d.spare[ORDER];
	f->parent = f->d.spare[PARENT];
	f->semi = f->d.spare[SEMI];
	f->label = f->d.spare[LABEL];
	f->stack = f->d.spare[STACK];
	return ok && f->d.node && f->d.idom;
}

enum ms_status ms_dominators_find(struct ms_flow *flow, struct ms_arena *rows,
                                  struct ms_arena *arena, struct ms_dominators *ret,
                                  struct ms_error *err)
{
	struct finding f = { .d = { .n = 0 }, .strong = UINT32_MAX };
	size_t n = (size_t)ms_flow_top(flow) + 1;
	bool ok = allocate(arena, n, &f);

	if (ok)
		walk(&f, flow);
	if (!ok || !reverse(&f, flow, arena))
		return ms_fail(err, MS_E_NOMEM, "no memory for the tree of dominators");
	if (rows) {
		ms_arena_deinit(rows);
		flow->rows.first = NULL;
		flow->rows.to.at = NULL;
	}
	memset(f.head, 0, (n + 1) * sizeof(*f.head));
	find_dominators(&f);
	*ret = f.d;
	return MS_OK;
}
