/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Folded stacks, a line each: the frames, outermost first, with a semicolon between
 * them, then the bytes. Of two dumps the bytes of the older and of the newer one, which
 * is what difffolded.pl makes and flamegraph.pl paints in red and blue.
 */
#include <inttypes.h>

#include "report/heapdump/formats.h"
#include "report/utf8.h"

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

/* What has no name is told by where it is in its library. */
static void put_unnamed(struct ms_text *t, const struct ms_heapdump_place *place)
{
	const char *own = ms_heapdump_own_name(place);

	if (own) {
		put(t, own);
		return;
	}
	if (!place->mapping) {
		ms_text_print(t, "0x%" PRIx64, place->pc);
		return;
	}
	put(t, ms_heapdump_base_name(ms_heapdump_library(place)));
	ms_text_print(t, "+0x%" PRIx64, place->offset);
}

/* The functions of one address, inlined ones innermost. */
static void put_place(struct ms_text *t, const struct ms_heapdump_view *view,
                      const struct ms_heapdump_place *place)
{
	size_t n = place->functions.n;

	if (!n)
		put_unnamed(t, place);
	for (size_t i = 0; i < n; i++) {
		const struct ms_function *function =
			&place->functions.at[view->reversed ? i : n - 1 - i];

		if (i)
			ms_text_print(t, ";");
		if (function->name)
			put(t, function->name);
		else
			put_unnamed(t, place);
	}
}

static void put_node(struct ms_text *t, const struct ms_heapdump_view *view,
                     const struct ms_heapdump_node *node)
{
	switch (node->kind) {
	case MS_HEAPDUMP_ROOT:
		ms_text_print(t, "%s", ms_heapdump_root_name(node));
		break;
	case MS_HEAPDUMP_SIZE:
		ms_text_print(t, "size %" PRIu64, node->value);
		break;
	case MS_HEAPDUMP_PLACE:
		put_place(t, view, ms_heapdump_place_of(view, node));
		break;
	}
}

/* The path to @node from the root, which is only told where there is another. */
static void put_path(struct ms_text *t, const struct ms_heapdump_view *view,
                     const struct ms_heapdump_node *node)
{
	bool one_root = view->nodes.at[view->first_root].next == MS_HEAPDUMP_NONE;
	const struct ms_heapdump_node *path[MS_HEAPDUMP_MOST_FRAMES + 2];
	size_t n = 0;

	for (; node->parent != MS_HEAPDUMP_NONE; node = &view->nodes.at[node->parent])
		path[n++] = node;
	if (!one_root)
		path[n++] = node;
	while (n-- > 0) {
		put_node(t, view, path[n]);
		if (n)
			ms_text_print(t, ";");
	}
}

static bool write_folded(const struct ms_heapdump_view *view, struct ms_sink *sink)
{
	const struct ms_heapdump_node *node = ms_heapdump_begin(view);
	struct ms_text t = { sink, true };

	for (; node && t.ok; node = ms_heapdump_next(view, node, false)) {
		if (!node->now.own_bytes && !node->old.own_bytes)
			continue;
		put_path(&t, view, node);
		if (view->n_dumps > 1)
			ms_text_print(&t, " %" PRIu64, node->old.own_bytes);
		ms_text_print(&t, " %" PRIu64 "\n", node->now.own_bytes);
	}
	return t.ok;
}

const struct ms_heapdump_writer ms_heapdump_folded = { "folded", write_folded };
