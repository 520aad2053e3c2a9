/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Folded stacks, a line each: the frames, outermost first, with a semicolon between
 * them, then the bytes. Where there are old ones the bytes of these and of the new ones, which
 * is what difffolded.pl makes and flamegraph.pl paints in red and blue.
 */
#include <inttypes.h>

#include <string.h>

#include "base/file.h"
#include "report/amounts/amounts.h"
#include "report/print.h"

/* A name in which no semicolon ends the frame. */
static void put(struct ms_text *t, const char *name)
{
	while (*name) {
		size_t len = strcspn(name, ";");

		ms_text_name(t, name, len);
		name += len;
		if (*name == ';')
			ms_text_print(t, ":");
		name += *name == ';';
	}
}

/* What has no name is shown by its place in its library. */
static void put_unnamed(struct ms_text *t, const struct ms_place *place)
{
	if (place->own) {
		put(t, place->own);
		return;
	}
	if (!place->mapped) {
		ms_text_print(t, "0x%" PRIx64, place->pc);
		return;
	}
	put(t, ms_file_name(place->library));
	ms_text_print(t, "+0x%" PRIx64, place->offset);
}

/* The functions of one address, inlined ones innermost. */
static void put_place(struct ms_text *t, const struct ms_amount_tree *tree,
                      const struct ms_place *place)
{
	size_t n = place->functions.n;

	if (!n)
		put_unnamed(t, place);
	for (size_t i = 0; i < n; i++) {
		const struct ms_function *function =
			&place->functions.at[tree->amounts->reversed ? i : n - 1 - i];

		if (i)
			ms_text_print(t, ";");
		if (function->name)
			put(t, function->name);
		else
			put_unnamed(t, place);
	}
}

static void put_node(struct ms_text *t, const struct ms_amount_tree *tree,
                     const struct ms_amount_node *node)
{
	switch (node->level) {
	case MS_LEVEL_GROUP:
		put(t, ms_amounts_group(tree, node));
		break;
	case MS_LEVEL_SIZE:
		ms_text_print(t, "size %" PRIu64, node->key);
		break;
	case MS_LEVEL_NAME:
		put(t, tree->amounts->names.at[node->key]);
		break;
	case MS_LEVEL_PLACE:
		put_place(t, tree, ms_amounts_place(tree, node));
		break;
	}
}

/* The path to @node from the root, which is only written where there is another. */
static void put_path(struct ms_text *t, const struct ms_amount_tree *tree,
                     const struct ms_amount_node *node)
{
	bool one_root = tree->nodes.at[tree->first_root].next == MS_AMOUNT_NONE;
	const struct ms_amount_node *path[MS_AMOUNT_MOST_KEYS];
	size_t n = 0;

	for (; node->parent != MS_AMOUNT_NONE; node = &tree->nodes.at[node->parent])
		path[n++] = node;
	if (!one_root)
		path[n++] = node;
	while (n-- > 0) {
		put_node(t, tree, path[n]);
		if (n)
			ms_text_print(t, ";");
	}
}

bool ms_amounts_folded(const struct ms_amount_tree *tree, struct ms_sink *sink)
{
	const struct ms_amount_node *node = ms_amounts_begin(tree);
	struct ms_text t = { sink, true };

	for (; node && t.ok; node = ms_amounts_next(tree, node, false)) {
		if (!node->now.own_bytes && !node->old.own_bytes)
			continue;
		put_path(&t, tree, node);
		if (tree->amounts->differs)
			ms_text_print(&t, " %" PRIu64, node->old.own_bytes);
		ms_text_print(&t, " %" PRIu64 "\n", node->now.own_bytes);
	}
	return t.ok;
}
