/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/holding/ways.h"

enum { FAR = UINT32_MAX };

/* A word of a root, and the block that it points to. */
struct way {
	struct ms_root_name root;
	uint32_t block;
};

struct search {
	struct ms_chains *chains;
	uint64_t *first; /* the rows the other way round: which blocks point to each */
	uint32_t *from;
	uint32_t *next;     /* of each block: the one that its chain goes on with */
	uint32_t *distance; /* of each block, in steps; FAR: no chain leads from there */
	struct way *nearest;
	size_t n;
	size_t most;
	uint64_t roots;
};

/* What a stack lies in leads nowhere (chains.c). */
static bool leads_on(const struct search *w, uint32_t block)
{
	return !(w->chains->claimed[block / 64] >> block % 64 & 1);
}

static bool reverse(struct search *w)
{
	const struct ms_rows *rows = w->chains->rows;
	struct ms_arena *arena = w->chains->arena;

	w->first = ms_arena_alloc(arena, ((size_t)rows->n + 2) * sizeof(*w->first));
	w->from = ms_arena_alloc(arena, (rows->to.n + 1) * sizeof(*w->from));
	w->next = ms_arena_alloc(arena, ((size_t)rows->n + 1) * sizeof(*w->next));
	w->distance = ms_arena_alloc(arena, ((size_t)rows->n + 1) * sizeof(*w->distance));
	w->nearest = ms_arena_alloc(arena, w->most * sizeof(*w->nearest));
	if (!w->first || !w->from || !w->next || !w->distance || !w->nearest)
		return false;
	/* One ahead, so that filling moves each to its own begin. */
	for (size_t i = 0; i < rows->to.n; i++)
		w->first[rows->to.at[i] + 2]++;
	for (uint32_t i = 1; i <= rows->n; i++)
		w->first[i + 1] += w->first[i];
	for (uint32_t i = 0; i < rows->n; i++) {
		size_t n;
		const uint32_t *row = ms_rows_of(rows, i, &n);

		for (size_t k = 0; k < n; k++)
			w->from[w->first[row[k] + 1]++] = i;
	}
	return true;
}

/* Note of every block how far it is from @target. The chains' queue is free by now. */
static void measure(struct search *w, uint32_t target)
{
	uint32_t *queue = w->chains->queue;
	size_t n = 0;

	for (uint32_t i = 0; i < w->chains->rows->n; i++)
		w->distance[i] = FAR;
	w->distance[target] = 0;
	queue[n++] = target;
	for (size_t i = 0; i < n; i++) {
		uint32_t to = queue[i];

		for (uint64_t k = w->first[to]; k < w->first[to + 1]; k++) {
			uint32_t from = w->from[k];

			if (w->distance[from] != FAR || !leads_on(w, from))
				continue;
			w->distance[from] = w->distance[to] + 1;
			w->next[from] = to;
			queue[n++] = from;
		}
	}
}

/* Keep the nearest in order. */
static void add(struct search *w, const struct ms_root *root, ms_addr at, uint32_t block)
{
	size_t i;

	w->roots++;
	if (w->n == w->most && w->distance[block] >= w->distance[w->nearest[w->n - 1].block])
		return;
	if (w->n < w->most)
		w->n++;
	for (i = w->n - 1; i > 0; i--) {
		if (w->distance[w->nearest[i - 1].block] <= w->distance[block])
			break;
		w->nearest[i] = w->nearest[i - 1];
	}
	w->nearest[i] = (struct way){ ms_root_name(w->chains->roots, root, at), block };
}

static void add_pointer(void *ctx, const struct ms_root *root, const struct ms_pointer *pointer)
{
	struct search *w = ctx;
	uint32_t block = ms_block_number(w->chains->rows->blocks, pointer->to);

	if (w->distance[block] != FAR)
		add(w, root, pointer->at, block);
}

/* A stack in a heap block holds that block. */
static void add_stacks(struct search *w)
{
	const struct ms_range *r;
	struct ms_block block;

	ms_vec_for_each (r, &w->chains->roots->stacks.live) {
		struct ms_root root = { .range = *r, .kind = MS_ROOT_STACK };
		uint32_t number;

		if (!ms_pointers_hit(w->chains->pointers, r->begin, &block))
			continue;
		number = ms_block_number(w->chains->rows->blocks, block);
		if (w->distance[number] != FAR)
			add(w, &root, r->begin, number);
	}
}

static bool write_chain(struct search *w, const struct way *way, struct ms_chain *ret)
{
	const struct ms_blocks *blocks = w->chains->rows->blocks;
	size_t n = (size_t)w->distance[way->block] + 1;
	uint32_t at = way->block;

	*ret = (struct ms_chain){ .root = way->root };
	if (!ms_vec_reserve(w->chains->arena, &ret->steps, n))
		return false;
	for (; ret->steps.n < n; at = w->next[at]) {
		struct ms_chain_step *step = &ret->steps.at[ret->steps.n++];

		*step = (struct ms_chain_step){ ms_block_numbered(blocks, at), 0 };
		if (ret->steps.n < n)
			(void)ms_chains_between(w->chains, step->block,
			                        ms_block_numbered(blocks, w->next[at]),
			                        &step->offset);
	}
	return true;
}

enum ms_status ms_ways_find(struct ms_chains *chains, struct ms_block block, size_t most,
                            struct ms_ways *ret, struct ms_error *err)
{
	struct search w = { .chains = chains, .most = most };
	struct ms_ways ways = { .roots = 0 };

	if (!reverse(&w) || !ms_vec_reserve(chains->arena, &ways.nearest, most))
		return ms_fail(err, MS_E_NOMEM, "no memory for what holds a block");
	measure(&w, ms_block_number(chains->rows->blocks, block));
	add_stacks(&w);
	ms_chains_roots(chains, add_pointer, &w);
	for (size_t i = 0; i < w.n; i++)
		if (!write_chain(&w, &w.nearest[i], &ways.nearest.at[ways.nearest.n++]))
			return ms_fail(err, MS_E_NOMEM, "no memory for what holds a block");
	ways.roots = w.roots;
	*ret = ways;
	return MS_OK;
}
