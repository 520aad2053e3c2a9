/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The text tree, in the columns of Android's viewer; scripts that read those read these.
 * Two dumps have columns of their own, and leave out what is the same in both.
 */
#include <inttypes.h>

#include "report/heapdump/formats.h"

static const char unknown[] = "???"; /* the viewer's word */

static void put(struct ms_text *t, const char *name)
{
	ms_text_name(t, name, strlen(name));
}

static void put_location(struct ms_text *t, const struct ms_function *function)
{
	if (!function->file) {
		ms_text_print(t, " %s", unknown);
		return;
	}
	ms_text_print(t, " ");
	put(t, function->file);
	ms_text_print(t, ":%" PRIu32, function->line);
}

static void put_function(struct ms_text *t, const struct ms_function *function)
{
	put(t, function->name ? function->name : unknown);
	put_location(t, function);
}

/* "LIBRARY FUNCTION LOCATION"; where calls were inlined, the innermost, then its callers. */
static void put_place(struct ms_text *t, const struct ms_heapdump_place *place)
{
	const struct ms_function *first = place->functions.at;
	const struct ms_function *function;
	const char *own = ms_heapdump_own_name(place);

	put(t, ms_heapdump_library(place));
	ms_text_print(t, " ");
	if (!place->functions.n) {
		put(t, own ? own : unknown);
		ms_text_print(t, " %s", unknown);
	}
	ms_vec_for_each (function, &place->functions) {
		if (function != first)
			ms_text_print(t, " (inlined by) ");
		put_function(t, function);
	}
}

static void put_node(struct ms_text *t, const struct ms_heapdump_view *view,
                     const struct ms_amount_node *node)
{
	for (uint32_t i = 0; i < node->depth; i++)
		ms_text_print(t, "  ");
	switch (node->level) {
	case MS_LEVEL_GROUP:
		ms_text_print(t, "%s", ms_amounts_group(&view->tree, node));
		break;
	case MS_LEVEL_SIZE:
		ms_text_print(t, "size %" PRIu64, node->key);
		break;
	case MS_LEVEL_NAME: /* a dump has none */
		break;
	case MS_LEVEL_PLACE:
		ms_text_print(t, "%" PRIx64 " ", ms_heapdump_place_of(view, node)->pc);
		put_place(t, ms_heapdump_place_of(view, node));
		break;
	}
	ms_text_print(t, "\n");
}

static void put_amount(struct ms_text *t, const struct ms_heapdump_view *view,
                       const struct ms_amount_node *node, uint64_t total)
{
	/* A root is a part of itself. */
	const struct ms_amount_node *parent =
		node->parent == MS_AMOUNT_NONE ? node : &view->tree.nodes.at[node->parent];

	ms_text_print(t, "%9" PRIu64 " %6.2f%% %6.2f%% %8" PRIu64 " ", node->now.bytes,
	              ms_amounts_percent(node->now.bytes, total),
	              ms_amounts_percent(node->now.bytes, parent->now.bytes), node->now.count);
}

static void put_change(struct ms_text *t, const struct ms_amount_node *node)
{
	ms_text_print(t, "%+10" PRId64 " %9" PRIu64 " %9" PRIu64 " %+8" PRId64 " ",
	              (int64_t)(node->now.bytes - node->old.bytes), node->old.bytes,
	              node->now.bytes, (int64_t)(node->now.count - node->old.count));
}

static void put_head(struct ms_text *t, const struct ms_heapdump_view *view)
{
	const char *const *library;

	ms_text_print(t, "Resolving symbols using directory ");
	put(t, view->symbols);
	ms_text_print(t, "...\n");
	ms_vec_for_each (library, &view->unnamed) {
		put(t, *library);
		ms_text_print(t, " not found for symbol resolution\n");
	}
	if (view->n_dumps > 1)
		ms_text_print(t, "\n%10s %9s %9s %8s", "CHANGE", "OLD", "NEW", "COUNT");
	else
		ms_text_print(t, "\n%9s %6s %6s %8s", "BYTES", "%TOTAL", "%PARENT", "COUNT");
	ms_text_print(t, "    ADDR LIBRARY FUNCTION LOCATION\n");
}

static bool write_text(const struct ms_heapdump_view *view, struct ms_sink *sink)
{
	const struct ms_amount_node *node = ms_amounts_begin(&view->tree);
	uint64_t total = view->dumps[0]->bytes;
	struct ms_text t = { sink, true };
	bool differs = view->n_dumps > 1;

	put_head(&t, view);
	while (node && t.ok) {
		bool skip = differs && !node->changed;

		/* A blank line ends each tree, as it does in the viewer's. */
		if (node->level == MS_LEVEL_GROUP && node != ms_amounts_begin(&view->tree))
			ms_text_print(&t, "\n");
		if (!skip || node->level == MS_LEVEL_GROUP) {
			if (differs)
				put_change(&t, node);
			else
				put_amount(&t, view, node, total);
			put_node(&t, view, node);
		}
		node = ms_amounts_next(&view->tree, node, skip);
	}
	ms_text_print(&t, "\n");
	return t.ok;
}

const struct ms_heapdump_writer ms_heapdump_text = { .name = "text", .write = write_text };
