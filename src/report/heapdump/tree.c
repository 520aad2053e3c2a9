/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stacks become trees.
 *
 * Every record is a path of keys from a root down. Paths are sorted, so that those
 * with a common beginning stand together, and each becomes nodes from where it leaves
 * the one before it: no node's children are ever searched, whatever a dump holds. The
 * order in which children are printed is one sort more, of all nodes at once.
 */
#include <string.h>

#include "base/sort.h"
#include "report/heapdump/view.h"

/* A record as a path. */
struct path {
	const uint64_t *keys; /* root, the size if it is by size, places */
	uint32_t n;
	uint32_t dump;
	uint32_t record;
};

struct paths MS_VEC(struct path);
struct keys MS_VEC(uint64_t);

struct grower {
	struct ms_heapdump_view *view;
	struct ms_arena *arena;
	struct paths paths;
	struct keys keys;
};

/* What decides on the order of siblings. */
struct rank {
	uint32_t parent;
	uint32_t node;
	uint64_t root; /* roots alone: APP stands first */
	int64_t bytes; /* or what they grew by */
	size_t order;
};

static size_t count_paths(const struct ms_heapdump_view *view, size_t *ret_keys)
{
	size_t n = 0;

	*ret_keys = 0;
	for (size_t d = 0; d < view->n_dumps; d++) {
		const struct ms_heapdump_record *record;

		n += view->dumps[d]->records.n;
		ms_vec_for_each (record, &view->dumps[d]->records)
			*ret_keys += record->n_frames + 2;
	}
	return n;
}

/* The keys have room. */
static void add_path(struct grower *g, uint32_t dump, uint32_t number)
{
	const struct ms_heapdump_view *view = g->view;
	const struct ms_heapdump_record *record = &view->dumps[dump]->records.at[number];
	const uint32_t *places = view->indices[dump].at + record->first;
	size_t begin = g->keys.n;

	g->keys.at[g->keys.n++] = record->app;
	if (view->by_size)
		g->keys.at[g->keys.n++] = record->size;
	for (size_t i = 0; i < record->n_frames; i++)
		g->keys.at[g->keys.n++] = places[view->reversed ? i : record->n_frames - 1 - i];
	g->paths.at[g->paths.n++] = (struct path){
		.keys = g->keys.at + begin,
		.n = (uint32_t)(g->keys.n - begin),
		.dump = dump,
		.record = number,
	};
}

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
	const struct ms_heapdump_view *view = g->view;
	size_t n_keys;
	size_t n = count_paths(view, &n_keys);

	if (!ms_vec_reserve(g->arena, &g->paths, n) || !ms_vec_reserve(g->arena, &g->keys, n_keys))
		return false;
	for (uint32_t d = 0; d < view->n_dumps; d++)
		for (uint32_t i = 0; i < view->dumps[d]->records.n; i++)
			add_path(g, d, i);
	return ms_sort(g->arena, g->paths.at, n, sizeof(*g->paths.at), path_before);
}

static enum ms_heapdump_kind kind_at(const struct ms_heapdump_view *view, uint32_t depth)
{
	if (depth == 0)
		return MS_HEAPDUMP_ROOT;
	return depth == 1 && view->by_size ? MS_HEAPDUMP_SIZE : MS_HEAPDUMP_PLACE;
}

/* The node of which @path's first @depth keys lead to @parent. */
static bool add_node(struct grower *g, const struct path *path, uint32_t depth, uint32_t parent)
{
	struct ms_heapdump_node *node = ms_vec_push(g->arena, &g->view->nodes);

	if (!node || g->view->nodes.n >= MS_HEAPDUMP_NONE)
		return false;
	*node = (struct ms_heapdump_node){
		.kind = kind_at(g->view, depth),
		.parent = parent,
		.first = MS_HEAPDUMP_NONE,
		.next = MS_HEAPDUMP_NONE,
		.depth = depth,
		.value = path->keys[depth],
		.order = SIZE_MAX,
	};
	return true;
}

/* Add the record of @path to its nodes, of which @last is the lowest. */
static void count(struct grower *g, const struct path *path, uint32_t last)
{
	const struct ms_heapdump_record *record =
		&g->view->dumps[path->dump]->records.at[path->record];
	/* Records of the older dump come behind all of the newer one. */
	size_t order = path->record + (path->dump ? g->view->dumps[0]->records.n : 0);

	for (uint32_t i = last; i != MS_HEAPDUMP_NONE; i = g->view->nodes.at[i].parent) {
		struct ms_heapdump_node *node = &g->view->nodes.at[i];
		struct ms_heapdump_amount *amount = path->dump ? &node->old : &node->now;

		amount->bytes += record->size * record->count;
		amount->count += record->count;
		if (i == last) {
			amount->own_bytes += record->size * record->count;
			amount->own_count += record->count;
		}
		if (order < node->order)
			node->order = order;
	}
}

static bool make_nodes(struct grower *g)
{
	const struct ms_heapdump_nodes *nodes = &g->view->nodes;
	const struct path *before = NULL;
	const struct path *path;
	uint32_t at = MS_HEAPDUMP_NONE;

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
	if (x->root != y->root)
		return x->root > y->root;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes;
	return x->order < y->order;
}

/* Put siblings into their order: the largest first, equal ones as the dump has them. */
static bool order_nodes(struct grower *g)
{
	struct ms_heapdump_view *view = g->view;
	struct ms_heapdump_nodes *nodes = &view->nodes;
	struct rank *ranks = ms_arena_alloc(g->arena, (nodes->n + 1) * sizeof(*ranks));

	if (!ranks)
		return false;
	for (uint32_t i = 0; i < nodes->n; i++) {
		const struct ms_heapdump_node *node = &nodes->at[i];

		ranks[i] = (struct rank){
			.parent = node->parent,
			.node = i,
			.root = node->kind == MS_HEAPDUMP_ROOT ? node->value : 0,
			.bytes = (int64_t)(node->now.bytes - node->old.bytes),
			.order = node->order,
		};
	}
	if (!ms_sort(g->arena, ranks, nodes->n, sizeof(*ranks), rank_before))
		return false;
	/* From the last on, each stands in front of those that were put there before. */
	view->first_root = MS_HEAPDUMP_NONE;
	for (size_t i = nodes->n; i-- > 0;) {
		uint32_t parent = ranks[i].parent;
		uint32_t *first =
			parent == MS_HEAPDUMP_NONE ? &view->first_root : &nodes->at[parent].first;

		nodes->at[ranks[i].node].next = *first;
		*first = ranks[i].node;
	}
	return true;
}

/* A node stands behind its parent, so that one pass from the end tells it to all above. */
static void mark_changes(struct ms_heapdump_nodes *nodes)
{
	for (size_t i = nodes->n; i-- > 0;) {
		struct ms_heapdump_node *node = &nodes->at[i];

		node->changed |=
			node->now.bytes != node->old.bytes || node->now.count != node->old.count;
		if (node->changed && node->parent != MS_HEAPDUMP_NONE)
			nodes->at[node->parent].changed = true;
	}
}

enum ms_status ms_heapdump_grow(struct ms_heapdump_view *view, struct ms_arena *arena,
                                struct ms_error *err)
{
	struct grower g = { .view = view, .arena = arena };

	view->nodes.n = 0;
	if (!list_paths(&g) || !make_nodes(&g) || !order_nodes(&g)) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory for the tree of the dump");
		ms_advise(err, "it needs several times the dump's own size");
		return MS_E_NOMEM;
	}
	mark_changes(&view->nodes);
	return MS_OK;
}

static const struct ms_heapdump_node *node_at(const struct ms_heapdump_view *view, uint32_t index)
{
	return index == MS_HEAPDUMP_NONE ? NULL : &view->nodes.at[index];
}

const struct ms_heapdump_node *ms_heapdump_begin(const struct ms_heapdump_view *view)
{
	return node_at(view, view->first_root);
}

const struct ms_heapdump_node *ms_heapdump_next(const struct ms_heapdump_view *view,
                                                const struct ms_heapdump_node *node, bool skip)
{
	if (!skip && node->first != MS_HEAPDUMP_NONE)
		return node_at(view, node->first);
	while (node && node->next == MS_HEAPDUMP_NONE)
		node = node_at(view, node->parent);
	return node ? node_at(view, node->next) : NULL;
}
