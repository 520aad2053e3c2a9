/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/kinds/kinds.h"

/*
 * Nodes of std::list, std::map and std::set, and of the unordered containers. Each of these
 * counts its nodes, and every node is a block: a container is one when as many are met by
 * walking along its links as it counts.
 *
 *	list        │ first │ last │ count │            node │ next │ previous │ …
 *	            (libc++ has last and first, previous and next)
 *	map, set    │ 0 │ root │ first │ last │ count │  node │ color │ parent │ left │ right │ …
 *	  libc++    │ first │ root │ count │             node │ left │ right │ parent │ color │ …
 *	unordered   │ buckets │ their number │ first │ count │ 1.0f │        node │ next │ …
 *
 * The ring of a list, and the root of a tree, lead back to the container, which is why it need
 * not be a block. Nothing recurses: trees are walked by their links to parents.
 *
 * Source: libstdc++ 12 bits/stl_list.h, stl_tree.h, hashtable.h; libc++ 14 include/list, __tree,
 * __hash_table.
 */

static const struct ms_kind_type list = { "node of std::list", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type tree = { "node of std::map or std::set", MS_HOW_CONTAINER,
	                                  MS_SURE_CERTAIN };
static const struct ms_kind_type hash = { "node of an unordered container", MS_HOW_CONTAINER,
	                                  MS_SURE_CERTAIN };
static const struct ms_kind_type buckets = { "buckets of an unordered container", MS_HOW_CONTAINER,
	                                     MS_SURE_CERTAIN };

/* Counts of more nodes than there can be are none. */
static bool is_count(const struct ms_kinds *k, uint64_t n)
{
	return n && n <= k->blocks->n;
}

/* ---- what a walk meets ---- */

static bool meet(struct ms_kinds *k, const struct ms_kind_block *node)
{
	uint32_t *slot = ms_vec_push(&k->passing, &k->met);

	if (slot)
		*slot = node->number;
	return slot;
}

static void claim_met(struct ms_kinds *k, const struct ms_kind_type *type,
                      const struct ms_kind_spot *spot)
{
	const uint32_t *number;

	ms_vec_for_each (number, &k->met)
		ms_kinds_claim(k, &(struct ms_kind_block){ .number = *number }, type, spot);
}

/* ---- list ---- */

/* From @spot to the container. */
static bool walk_list(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t count = ms_kind_near(spot, 2);
	ms_addr at = spot->to.begin;
	ms_addr before = spot->at;
	struct ms_kind_block node;

	k->met.n = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t links[2];

		if (!ms_kinds_step(k) || !ms_kinds_at(k, at, &node) || node.usable < 2 * k->word ||
		    !ms_kinds_words(k, at, links, 2) || links[1] != before || !meet(k, &node))
			return false;
		before = at;
		at = links[0];
	}
	return at == spot->at && before == ms_kind_near(spot, 1);
}

static bool is_list(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t links[2];

	return spot->behind >= 3 && is_count(k, ms_kind_near(spot, 2)) &&
	       ms_kinds_words(k, spot->to.begin, links, 2) && links[1] == spot->at &&
	       walk_list(k, spot);
}

/* ---- trees ---- */

/* Where the links stand in a node, and its color: 0 or 1, by libc++ in one byte. */
struct tree_layout {
	uint8_t parent;
	uint8_t left;
	uint8_t right;
	uint8_t color;
	uint64_t color_mask;
};

static const struct tree_layout libstdcxx = { 1, 2, 3, 0, UINT32_MAX };
static const struct tree_layout libcxx = { 2, 0, 1, 3, UINT8_MAX };

/* Words of the container in front of its root; of libstdc++'s the first is for what compares. */
enum { ROOT = 2, LIBCXX_ROOT = 1 };

enum { MOST_HEIGHT = 128 };

struct tree {
	const struct tree_layout *layout;
	ms_addr head; /* what the root's parent is */
	ms_addr root;
	uint64_t count;
	struct ms_kind_spot spot; /* of the container */
};

static bool is_node(const struct tree *t, ms_addr parent, const uint64_t links[4])
{
	return links[t->layout->parent] == parent &&
	       (links[t->layout->color] & t->layout->color_mask) <= 1;
}

/* What was read on the way down; balanced trees are no higher. */
struct way {
	struct {
		ms_addr at;
		uint64_t links[4];
	} nodes[MOST_HEIGHT];
};

/* The links of the node at @at, @depth below the root; NULL: they cannot be read. */
static const uint64_t *links_of(struct ms_kinds *k, struct way *way, size_t depth, ms_addr at)
{
	size_t i = depth % MOST_HEIGHT;

	if (at && way->nodes[i].at == at)
		return way->nodes[i].links;
	way->nodes[i].at = 0;
	if (!ms_kinds_words(k, at, way->nodes[i].links, 4))
		return NULL;
	way->nodes[i].at = at;
	return way->nodes[i].links;
}

/* A node is met from its parent, from its left child, or from its right one. */
static bool walk_tree(struct ms_kinds *k, const struct tree *t)
{
	const struct tree_layout *l = t->layout;
	struct way way = { 0 };
	ms_addr from = t->head;
	ms_addr at = t->root;
	size_t depth = 0;

	k->met.n = 0;
	while (at != t->head) {
		const uint64_t *links = ms_kinds_step(k) ? links_of(k, &way, depth, at) : NULL;
		struct ms_kind_block node;
		ms_addr to;

		if (!links)
			return false;
		to = links[l->parent];
		if (from == to && (k->met.n == t->count || !ms_kinds_at(k, at, &node) ||
		                   !is_node(t, from, links) || !meet(k, &node)))
			return false;
		if (from == to && links[l->left])
			to = links[l->left];
		else if (from != links[l->right] && links[l->right])
			to = links[l->right];
		depth += to == links[l->parent] ? SIZE_MAX : 1;
		from = at;
		at = to;
	}
	return k->met.n == t->count;
}

static bool is_tree(struct ms_kinds *k, const struct tree *t)
{
	uint64_t links[4];

	return is_count(k, t->count) && t->spot.to.usable >= 4 * k->word &&
	       ms_kinds_words(k, t->root, links, 4) && is_node(t, t->head, links) &&
	       walk_tree(k, t);
}

/* The pointer is the root of libstdc++'s; of libc++'s it is that behind the first. */
static bool find_tree(struct ms_kinds *k, const struct ms_kind_spot *spot, struct tree *ret)
{
	*ret = (struct tree){ .layout = &libstdcxx, .root = spot->to.begin };
	ret->spot = ms_kind_holder(spot, ROOT);
	if (spot->before >= 1 && spot->behind >= 4 && !(uint32_t)ms_kind_near(spot, -1)) {
		ret->head = spot->at - spot->word;
		ret->count = ms_kind_near(spot, 3);
		if (is_tree(k, ret))
			return true;
	}
	if (!k->libcxx || spot->behind < 2)
		return false;
	ret->layout = &libcxx;
	ret->spot = ms_kind_holder(spot, LIBCXX_ROOT);
	ret->head = spot->at;
	ret->count = ms_kind_near(spot, 1);
	return is_tree(k, ret);
}

/* ---- unordered ---- */

#define LOAD_ONE UINT32_C(0x3f800000) /* 1.0f */

/* Words from the pointer to the first node on. */
enum { BUCKETS = -2, N_BUCKETS = -1, COUNT = 1, LOAD = 2, SINGLE = 4 };

static bool walk_hash(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t count = ms_kind_near(spot, COUNT);
	ms_addr at = spot->to.begin;
	struct ms_kind_block node;

	k->met.n = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t next;

		if (!ms_kinds_step(k) || !ms_kinds_at(k, at, &node) ||
		    !ms_kinds_words(k, at, &next, 1) || !meet(k, &node))
			return false;
		at = next;
	}
	return !at;
}

/* Its buckets are a block, or one in the container itself. */
static bool has_buckets(struct ms_kinds *k, const struct ms_kind_spot *spot,
                        struct ms_kind_block *ret)
{
	uint64_t n = ms_kind_near(spot, N_BUCKETS);
	ms_addr at = ms_kind_near(spot, BUCKETS);

	ret->usable = 0;
	if (n == 1 && at == spot->at + SINGLE * k->word)
		return true;
	return n && n <= UINT64_MAX / 64 && ms_kinds_at(k, at, ret) &&
	       ms_kind_fits(ret->usable, n * k->word);
}

static bool is_hash(struct ms_kinds *k, const struct ms_kind_spot *spot, struct ms_kind_block *ret)
{
	return spot->before >= 2 && spot->behind >= 3 &&
	       (uint32_t)ms_kind_near(spot, LOAD) == LOAD_ONE &&
	       is_count(k, ms_kind_near(spot, COUNT)) && has_buckets(k, spot, ret) &&
	       walk_hash(k, spot);
}

/* ---- the kind ---- */

static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	struct ms_kind_block of_hash;
	struct ms_kind_spot holder;
	struct tree found;

	if (!k->cxx || spot->offset)
		return;
	if (is_hash(k, spot, &of_hash)) {
		holder = ms_kind_holder(spot, (unsigned)-BUCKETS);
		claim_met(k, &hash, &holder);
		if (of_hash.usable)
			ms_kinds_claim(k, &of_hash, &buckets, &holder);
	} else if (is_list(k, spot)) {
		claim_met(k, &list, spot);
	} else if (find_tree(k, spot, &found)) {
		claim_met(k, &tree, &found.spot);
	}
}

const struct ms_kind ms_kind_nodes = { .name = "containers with nodes",
	                               .narrow = true,
	                               .pointer = pointer,
	                               .may = ms_kind_may_be_cxx };
