/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/retained/weights.h"

#include <string.h>

enum { COUNT, HEAVIEST, CLASS, FREE }; /* of the spare arrays */

enum { AHEAD = 32 }; /* blocks whose place among the dominators is fetched */

/* Until all is weighed: the weight is that of a block of the heap itself. */
#define OWN (UINT64_C(1) << 63)

enum { SLOTS = MS_CLASSES_MOST * 2 };

struct weighing {
	struct ms_weights w;
	struct ms_types *types;
	struct ms_arena *arena;
	uint32_t *slots; /* classes by hash; 0: none */
	uint32_t last;   /* class that was met */
	bool ok;         /* false: no memory */
};

/* ---- classes ---- */

static bool is_class(const struct weighing *g, uint32_t class, uint32_t type, uint64_t size)
{
	const struct ms_class *c = &g->w.classes.at[class];

	return c->type == type && (type != MS_TYPE_UNKNOWN || c->size == size);
}

static uint32_t add_class(struct weighing *g, uint32_t type, uint64_t size)
{
	struct ms_class *class;

	if (g->w.classes.n == MS_CLASSES_MOST)
		return MS_CLASS_OTHERS;
	class = ms_vec_push(g->arena, &g->w.classes);
	g->ok &= class != NULL;
	if (!class)
		return MS_CLASS_OTHERS;
	class->type = type;
	class->size = type == MS_TYPE_UNKNOWN ? size : 0;
	return (uint32_t)g->w.classes.n - 1;
}

static uint32_t find_class(struct weighing *g, uint32_t type, uint64_t size)
{
	uint64_t key = (type != MS_TYPE_UNKNOWN ? type : size + MS_TYPES_MOST) *
	               UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(key >> 32) % SLOTS;

	while (g->slots[i] && !is_class(g, g->slots[i], type, size))
		i = (i + 1) % SLOTS;
	if (!g->slots[i]) {
		uint32_t class = add_class(g, type, size);

		if (class == MS_CLASS_OTHERS)
			return class;
		g->slots[i] = class;
	}
	return g->slots[i];
}

/* ---- blocks ---- */

static void fetch(const struct weighing *g, uint32_t number)
{
	uint32_t i = number < g->w.flow->rows.n ? g->w.d->order[number] : 0;

	__builtin_prefetch(&g->w.bytes[i], 1);
	__builtin_prefetch(&g->w.class[i], 1);
}

static void weigh_block(struct weighing *g, uint32_t number, const struct ms_extent *extent,
                        uint64_t granule)
{
	uint32_t i = g->w.d->order[number];
	struct ms_class *class;
	uint64_t size;
	uint32_t type;

	if (!i || extent->kind != MS_EXTENT_HEAP)
		return;
	size = ms_block_size(g->w.flow->rows.blocks, extent, granule);
	type = ms_types_of_numbered(g->types, number, ms_block_begin(extent, granule), size);
	if (g->last == MS_CLASS_NONE || !is_class(g, g->last, type, size))
		g->last = find_class(g, type, size);
	class = &g->w.classes.at[g->last];
	class->count++;
	class->bytes += size;
	g->w.class[i] = g->last;
	g->w.bytes[i] = size | OWN;
	if (g->last == MS_CLASS_OTHERS)
		g->last = MS_CLASS_NONE;
}

static void weigh_extent(struct weighing *g, const struct ms_extent *extent)
{
	const struct ms_blocks *blocks = g->w.flow->rows.blocks;
	uint32_t number = extent->first;

	for (size_t i = 0; i < extent->n_cells; i++) {
		uint64_t left = blocks->cells.at[extent->cell0 + i].starts;

		for (; left; left &= left - 1) {
			fetch(g, number + AHEAD);
			weigh_block(g, number++, extent,
			            i * MS_CELL_GRANULES + (uint64_t)__builtin_ctzll(left));
		}
	}
}

/* ---- what is dominated ---- */

/* From the last on: a node's number is higher than that of its dominators. */
static void add_up(struct ms_weights *w)
{
	for (uint32_t i = 1; i <= w->d->n; i++) {
		w->count[i] = w->bytes[i] & OWN ? 1 : 0;
		w->bytes[i] &= ~OWN;
	}
	for (uint32_t i = w->d->n; i > 1; i--) {
		uint32_t above = w->d->idom[i];

		w->bytes[above] += w->bytes[i];
		w->count[above] += w->count[i];
		if (!w->heaviest[above] || w->bytes[i] > w->bytes[w->heaviest[above]])
			w->heaviest[above] = i;
	}
}

/* Its arrays, zeros; false without memory. */
static bool allocate(struct weighing *g)
{
	const struct ms_dominators *d = g->w.d;
	size_t bytes = ((size_t)ms_flow_top(g->w.flow) + 2) * sizeof(uint32_t);

	g->w.count = d->spare[COUNT];
	g->w.heaviest = d->spare[HEAVIEST];
	g->w.spare[0] = d->spare[FREE];
	g->w.spare[1] = d->order;
	g->w.class = d->spare[CLASS];
	memset(g->w.heaviest, 0, bytes);
	memset(g->w.class, 0, bytes);
	g->w.bytes = ms_arena_alloc(g->arena, ((size_t)d->n + 1) * sizeof(*g->w.bytes));
	g->slots = ms_arena_alloc(g->arena, SLOTS * sizeof(*g->slots));
	return g->w.bytes && g->slots &&
	       ms_vec_reserve(g->arena, &g->w.classes, MS_CLASS_OTHERS + 1);
}

bool ms_weights_find(const struct ms_flow *flow, struct ms_dominators *d, struct ms_types *types,
                     struct ms_arena *arena, struct ms_weights *ret)
{
	struct weighing g = { .w = { .flow = flow, .d = d }, .types = types, .arena = arena };
	const struct ms_extent *extent;

	g.ok = allocate(&g);
	if (!g.ok)
		return false;
	g.w.classes.n = MS_CLASS_OTHERS + 1;
	ms_vec_for_each (extent, &flow->rows.blocks->extents)
		weigh_extent(&g, extent);
	if (!g.ok)
		return false;
	add_up(&g.w);
	*ret = g.w;
	return true;
}
