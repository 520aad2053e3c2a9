/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Amounts become a tree.
 *
 * Every amount is a path of keys from a root down. Paths are sorted, so that those
 * with a common beginning stand together, and each becomes nodes from where it leaves
 * the one before it: no node's children are ever searched, whatever the amounts are. The
 * order in which children are printed is one sort more, of all nodes at once.
 */
#include <string.h>

#include "base/sort.h"
#include "report/amounts/amounts.h"

/* An amount's way. */
struct path {
	const uint64_t *keys;
	uint32_t n;
	const struct ms_amount *amount;
};

struct paths MS_VEC(struct path);

struct grower {
	struct ms_amount_tree *tree;
	struct ms_arena *arena;
	struct paths paths;
};

/* What decides on the order of siblings. */
struct rank {
	uint32_t parent;
	uint32_t node;
	uint64_t group; /* of roots alone; the last stands first */
	int64_t bytes;  /* or what they grew by */
	size_t order;
};

static uint32_t common_keys(const struct path *a, const struct path *b)
{
	uint32_t n = 0;

	while (n < a->n && n < b->n && a->keys[n] == b->keys[n])
		n++;
	return n;
}

static bool path_before(const void *a, const void *b)
{
	const struct path *x = a;
	const struct path *y = b;
	uint32_t n = common_keys(x, y);

	if (n == x->n || n == y->n)
		return x->n < y->n;
	return x->keys[n] < y->keys[n];
}

static bool list_paths(struct grower *g)
{
	const struct ms_amounts *amounts = g->tree->amounts;
	const struct ms_amount *amount;

	if (!ms_vec_reserve(g->arena, &g->paths, amounts->list.n))
		return false;
	ms_vec_for_each (amount, &amounts->list)
		g->paths.at[g->paths.n++] = (struct path){
			.keys = amounts->keys.at + amount->first,
			.n = amount->n,
			.amount = amount,
		};
	return ms_sort(g->arena, g->paths.at, g->paths.n, sizeof(*g->paths.at), path_before);
}

static enum ms_level level_at(const struct ms_amounts *amounts, uint32_t depth)
{
	if (depth == 0)
		return MS_LEVEL_GROUP;
	return depth == 1 ? amounts->second : MS_LEVEL_PLACE;
}

/* The node of which @path's first @depth keys lead to @parent. */
static bool add_node(struct grower *g, const struct path *path, uint32_t depth, uint32_t parent)
{
	struct ms_amount_node *node = ms_vec_push(g->arena, &g->tree->nodes);

	if (!node || g->tree->nodes.n >= MS_AMOUNT_NONE)
		return false;
	*node = (struct ms_amount_node){
		.level = level_at(g->tree->amounts, depth),
		.parent = parent,
		.first = MS_AMOUNT_NONE,
		.next = MS_AMOUNT_NONE,
		.depth = depth,
		.key = path->keys[depth],
		.order = SIZE_MAX,
	};
	return true;
}

/* Add the amount of @path to its nodes, of which @last is the lowest. */
static void count(struct grower *g, const struct path *path, uint32_t last)
{
	const struct ms_amount *amount = path->amount;
	size_t order = (size_t)(amount - g->tree->amounts->list.at);

	for (uint32_t i = last; i != MS_AMOUNT_NONE; i = g->tree->nodes.at[i].parent) {
		struct ms_amount_node *node = &g->tree->nodes.at[i];
		struct ms_amount_sum *sum = amount->old ? &node->old : &node->now;

		sum->bytes += amount->bytes;
		sum->count += amount->count;
		if (i == last) {
			sum->own_bytes += amount->bytes;
			sum->own_count += amount->count;
		}
		if (order < node->order)
			node->order = order;
	}
}

static bool make_nodes(struct grower *g)
{
	const struct ms_amount_nodes *nodes = &g->tree->nodes;
	const struct path *before = NULL;
	const struct path *path;
	uint32_t at = MS_AMOUNT_NONE;

	ms_vec_for_each (path, &g->paths) {
		uint32_t depth = before ? common_keys(before, path) : 0;

		for (uint32_t up = before ? before->n : 0; up > depth; up--)
			at = nodes->at[at].parent;
		for (; depth < path->n; depth++) {
			if (!add_node(g, path, depth, at))
				return false;
			at = (uint32_t)nodes->n - 1;
		}
		count(g, path, at);
		before = path;
	}
	return true;
}

static bool rank_before(const void *a, const void *b)
{
	const struct rank *x = a;
	const struct rank *y = b;

	if (x->parent != y->parent)
		return x->parent < y->parent;
	if (x->group != y->group)
		return x->group > y->group;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes;
	return x->order < y->order;
}

/* Put siblings into their order: the largest first, equal ones as they were listed. */
static bool order_nodes(struct grower *g)
{
	struct ms_amount_tree *tree = g->tree;
	struct ms_amount_nodes *nodes = &tree->nodes;
	struct rank *ranks = ms_arena_alloc(g->arena, (nodes->n + 1) * sizeof(*ranks));

	if (!ranks)
		return false;
	for (uint32_t i = 0; i < nodes->n; i++) {
		const struct ms_amount_node *node = &nodes->at[i];

		ranks[i] = (struct rank){
			.parent = node->parent,
			.node = i,
			.group = node->level == MS_LEVEL_GROUP ? node->key : 0,
			.bytes = (int64_t)(node->now.bytes - node->old.bytes),
			.order = node->order,
		};
	}
	if (!ms_sort(g->arena, ranks, nodes->n, sizeof(*ranks), rank_before))
		return false;
	/* From the last on, each stands in front of those that were put there before. */
	tree->first_root = MS_AMOUNT_NONE;
	for (size_t i = nodes->n; i-- > 0;) {
		uint32_t parent = ranks[i].parent;
		uint32_t *first =
			parent == MS_AMOUNT_NONE ? &tree->first_root : &nodes->at[parent].first;

		nodes->at[ranks[i].node].next = *first;
		*first = ranks[i].node;
	}
	return true;
}

/* A node stands behind its parent, so that one pass from the end adds it to all above. */
static void mark_changes(struct ms_amount_nodes *nodes)
{
	for (size_t i = nodes->n; i-- > 0;) {
		struct ms_amount_node *node = &nodes->at[i];

		node->changed |=
			node->now.bytes != node->old.bytes || node->now.count != node->old.count;
		if (node->changed && node->parent != MS_AMOUNT_NONE)
			nodes->at[node->parent].changed = true;
	}
}

enum ms_status ms_amounts_grow(struct ms_amount_tree *tree, struct ms_arena *arena,
                               struct ms_error *err)
{
	struct grower g = { .tree = tree, .arena = arena };

	tree->nodes.n = 0;
	if (!list_paths(&g) || !make_nodes(&g) || !order_nodes(&g)) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory for the tree");
		ms_advise(err, "it needs several times the size of what it is made from");
		return MS_E_NOMEM;
	}
	mark_changes(&tree->nodes);
	return MS_OK;
}

static const struct ms_amount_node *node_at(const struct ms_amount_tree *tree, uint32_t index)
{
	return index == MS_AMOUNT_NONE ? NULL : &tree->nodes.at[index];
}

const struct ms_amount_node *ms_amounts_begin(const struct ms_amount_tree *tree)
{
	return node_at(tree, tree->first_root);
}

const struct ms_amount_node *ms_amounts_next(const struct ms_amount_tree *tree,
                                             const struct ms_amount_node *node, bool skip)
{
	if (!skip && node->first != MS_AMOUNT_NONE)
		return node_at(tree, node->first);
	while (node && node->next == MS_AMOUNT_NONE)
		node = node_at(tree, node->parent);
	return node ? node_at(tree, node->next) : NULL;
}

double ms_amounts_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100 * (double)part / (double)whole : 0;
}
