/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/retained/weights.h"

#include <string.h>

#include "engine/holding/parts.h"

enum { COUNT, HEAVIEST, CLASS, FREE }; /* of the spare arrays */

enum { AHEAD = 32 }; /* blocks whose place among the dominators is fetched */

/* Until all is weighed: the weight is that of a block of the heap itself. */
#define OWN (UINT64_C(1) << 63)

enum { SLOTS = MS_CLASSES_MOST * 2 };

/*
 * All workers weigh some parts of the heap at once, by the classes that are known by then;
 * blocks of others are put aside, and get theirs one after the other. So classes are numbered
 * in the order of addresses, however many workers there are.
 */
/* A block whose class is not known yet. */
struct aside {
	uint64_t size;
	uint32_t i;
	uint32_t type;
};

struct weighed {
	struct ms_arena arena;
	struct MS_VEC(struct aside) aside;
	bool out_of_memory;
};

struct weighing {
	struct ms_weights w;
	struct ms_types *types;
	struct ms_arena *arena;
	struct weighed weighed[MS_PARTS_AT_ONCE];
	uint32_t *slots; /* classes by hash; 0: none */
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

/* Where the class is, or goes. */
static uint32_t *slot_of(const struct weighing *g, uint32_t type, uint64_t size)
{
	uint64_t key = (type != MS_TYPE_UNKNOWN ? type : size + MS_TYPES_MOST) *
	               UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(key >> 32) % SLOTS;

	while (g->slots[i] && !is_class(g, g->slots[i], type, size))
		i = (i + 1) % SLOTS;
	return &g->slots[i];
}

static uint32_t find_class(struct weighing *g, uint32_t type, uint64_t size)
{
	uint32_t *slot = slot_of(g, type, size);
	uint32_t class = *slot ? *slot : add_class(g, type, size);

	if (class != MS_CLASS_OTHERS)
		*slot = class;
	return class;
}

/* ---- blocks ---- */

static void fetch(const struct weighing *g, uint32_t number)
{
	uint32_t i = number < g->w.flow->rows.n ? g->w.d->order[number] : 0;

	__builtin_prefetch(&g->w.bytes[i], 1);
	__builtin_prefetch(&g->w.class[i], 1);
}

static void put_aside(struct weighed *weighed, struct aside block)
{
	struct aside *slot = ms_vec_push(&weighed->arena, &weighed->aside);

	weighed->out_of_memory |= !slot;
	if (slot)
		*slot = block;
}

static void weigh_block(const struct weighing *g, struct weighed *weighed,
                        const struct ms_extent *extent, uint32_t number, uint64_t granule)
{
	uint32_t i = g->w.d->order[number];
	uint64_t size;
	uint32_t type;
	uint32_t class;

	if (!i)
		return;
	size = ms_block_size(g->w.flow->rows.blocks, extent, granule);
	type = ms_types_of_numbered(g->types, number, ms_block_begin(extent, granule), size);
	class = *slot_of(g, type, size);
	if (class)
		g->w.class[i] = class;
	else
		put_aside(weighed, (struct aside){ size, i, type });
	g->w.bytes[i] = size | OWN;
}

static void weigh_part(void *ctx, unsigned worker, size_t slot, const struct ms_blocks_part *part)
{
	struct weighing *g = ctx;
	const struct ms_blocks *blocks = g->w.flow->rows.blocks;
	struct ms_part_block block = ms_part_begin(blocks, part);
	struct weighed *weighed = &g->weighed[slot];

	(void)worker;
	weighed->aside.n = 0;
	while (ms_part_next(blocks, part, &block)) {
		fetch(g, block.number + AHEAD);
		weigh_block(g, weighed, part->extent, block.number, block.granule);
	}
}

static bool find_classes(void *ctx, size_t slot)
{
	struct weighing *g = ctx;
	const struct weighed *weighed = &g->weighed[slot];
	const struct aside *block;

	g->ok = !weighed->out_of_memory;
	ms_vec_for_each (block, &weighed->aside)
		g->w.class[block->i] = find_class(g, block->type, block->size);
	return g->ok;
}

static bool weigh(struct weighing *g)
{
	/* What is no block of the heap itself weighs nothing. */
	const struct ms_parts_run run = {
		.blocks = g->w.flow->rows.blocks,
		.heap_alone = true,
		.workers = ms_types_are_kept(g->types) ? g->w.flow->rows.like.workers : NULL,
		.ctx = g,
		.look = weigh_part,
		.take = find_classes,
	};
	bool ok = ms_parts_run(&run);

	for (size_t i = 0; i < MS_PARTS_AT_ONCE; i++)
		ms_arena_deinit(&g->weighed[i].arena);
	return ok;
}

/* ---- what is dominated ---- */

/* From the last on: a node's number is higher than that of its dominators. */
static void add_up(struct ms_weights *w)
{
	for (uint32_t i = 1; i <= w->d->n; i++) {
		struct ms_class *class = &w->classes.at[w->class[i]];

		w->count[i] = w->bytes[i] & OWN ? 1 : 0;
		w->bytes[i] &= ~OWN;
		class->count += w->count[i];
		class->bytes += w->bytes[i];
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

	if (!allocate(&g))
		return false;
	g.w.classes.n = MS_CLASS_OTHERS + 1;
	if (!weigh(&g))
		return false;
	add_up(&g.w);
	*ret = g.w;
	return true;
}
