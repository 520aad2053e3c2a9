/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One page that opens and closes its branches by itself: no script, nothing from
 * elsewhere. Names are others' and escaped.
 */
#include <inttypes.h>

#include "report/heapdump/formats.h"
#include "report/utf8.h"

static const char head[] =
	"<!DOCTYPE html>\n"
	"<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Native heap</title>\n"
	"<style>\n"
	"body { font-family: monospace; white-space: pre; }\n"
	"p { margin: 0.2em 0; white-space: normal; }\n"
	"details > details, details > div { margin-left: 2ch; }\n"
	"div { padding-left: 2ch; }\n"
	"summary { cursor: pointer; }\n"
	"summary:hover, div:hover { background: #eee; }\n"
	".more { color: #b00; } .less { color: #070; } .place { color: #777; }\n"
	"</style></head><body>\n";

static void put_escaped(struct ms_text *t, const char *s)
{
	while (*s) {
		size_t plain = strcspn(s, "&<>\"'");

		ms_text_name(t, s, plain);
		s += plain;
		if (*s)
			ms_text_print(t, "&#%d;", *s++);
	}
}

static const char *shown(const struct ms_heapdump_view *view, const char *path)
{
	return view->verbose ? path : ms_heapdump_base_name(path);
}

static void put_function(struct ms_text *t, const struct ms_heapdump_view *view,
                         const struct ms_function *function)
{
	put_escaped(t, function->name ? function->name : "???");
	ms_text_print(t, " <span class=\"place\">");
	put_escaped(t, function->file ? shown(view, function->file) : "???");
	if (function->file)
		ms_text_print(t, ":%" PRIu32, function->line);
	ms_text_print(t, "</span>");
}

static void put_place(struct ms_text *t, const struct ms_heapdump_view *view,
                      const struct ms_heapdump_place *place)
{
	struct ms_function own = { .name = ms_heapdump_own_name(place) };

	put_escaped(t, shown(view, ms_heapdump_library(place)));
	ms_text_print(t, " ");
	if (!place->functions.n)
		put_function(t, view, &own);
	for (size_t i = 0; i < place->functions.n; i++) {
		if (i)
			ms_text_print(t, " (inlined by) ");
		put_function(t, view, &place->functions.at[i]);
	}
}

/* Change, where there are two dumps; else the part of the node's own tree. */
static void put_amount(struct ms_text *t, const struct ms_heapdump_view *view,
                       const struct ms_heapdump_node *node, uint64_t tree_bytes)
{
	int64_t change = (int64_t)(node->now.bytes - node->old.bytes);

	if (view->n_dumps == 1) {
		ms_text_print(t, "%" PRIu64 " %6.2f%% %6" PRIu64 " ", node->now.bytes,
		              ms_heapdump_percent(node->now.bytes, tree_bytes), node->now.count);
		return;
	}
	ms_text_print(t,
	              "<span class=\"%s\">%+" PRId64 "</span> %" PRIu64 " &rarr; %" PRIu64
	              " %+" PRId64 " ",
	              change > 0 ? "more" : "less", change, node->old.bytes, node->now.bytes,
	              (int64_t)(node->now.count - node->old.count));
}

static void put_node(struct ms_text *t, const struct ms_heapdump_view *view,
                     const struct ms_heapdump_node *node, uint64_t tree_bytes)
{
	put_amount(t, view, node, tree_bytes);
	switch (node->kind) {
	case MS_HEAPDUMP_ROOT:
		ms_text_print(t, "%s", node->value ? "app" : "zygote");
		break;
	case MS_HEAPDUMP_SIZE:
		ms_text_print(t, "size %" PRIu64, node->value);
		break;
	case MS_HEAPDUMP_PLACE:
		put_place(t, view, ms_heapdump_place_of(view, node));
		break;
	}
}

static void put_head(struct ms_text *t, const struct ms_heapdump_view *view)
{
	const char *const *library;

	ms_text_put(t, head, strlen(head));
	for (size_t i = view->n_dumps; i-- > 0;) {
		const struct ms_heapdump *dump = view->dumps[i];

		ms_text_print(t, "<p>");
		put_escaped(t, view->files[i]);
		ms_text_print(t, ": %" PRIu64 " bytes", dump->bytes);
		if (dump->fingerprint) {
			ms_text_print(t, ", build ");
			put_escaped(t, dump->fingerprint);
		}
		ms_text_print(t, "</p>\n");
	}
	ms_vec_for_each (library, &view->unnamed) {
		ms_text_print(t, "<p>");
		put_escaped(t, *library);
		ms_text_print(t, " not found for symbol resolution</p>\n");
	}
}

/* Close what is open between a node of depth @from and the next one, of depth @to. */
static void close_nodes(struct ms_text *t, uint32_t from, uint32_t to)
{
	for (; from > to; from--)
		ms_text_print(t, "</details>\n");
}

static void open_node(struct ms_text *t, const struct ms_heapdump_node *node, bool leaf)
{
	if (leaf)
		ms_text_print(t, "<div>");
	else if (node->kind == MS_HEAPDUMP_ROOT)
		ms_text_print(t, "<details open><summary>");
	else
		ms_text_print(t, "<details><summary>");
}

static bool write_html(const struct ms_heapdump_view *view, struct ms_sink *sink)
{
	const struct ms_heapdump_node *node = ms_heapdump_begin(view);
	struct ms_text t = { sink, true };
	uint64_t tree_bytes = 0;
	uint32_t depth = 0;

	put_head(&t, view);
	while (node && t.ok) {
		bool skip = view->n_dumps > 1 && !node->changed;
		bool leaf = skip || node->first == MS_HEAPDUMP_NONE;

		close_nodes(&t, depth, node->depth);
		depth = node->depth;
		if (node->kind == MS_HEAPDUMP_ROOT)
			tree_bytes = node->now.bytes;
		if (!skip || node->kind == MS_HEAPDUMP_ROOT) {
			open_node(&t, node, leaf);
			put_node(&t, view, node, tree_bytes);
			ms_text_print(&t, leaf ? "</div>\n" : "</summary>\n");
			depth += !leaf;
		}
		node = ms_heapdump_next(view, node, skip);
	}
	close_nodes(&t, depth, 0);
	ms_text_print(&t, "</body></html>\n");
	return t.ok;
}

const struct ms_heapdump_writer ms_heapdump_html = { "html", write_html };
