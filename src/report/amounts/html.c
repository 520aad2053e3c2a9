/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One page that opens and closes its branches by itself: no script, nothing from
 * elsewhere. Names are others' and escaped.
 */
#include <inttypes.h>

#include <string.h>

#include "base/file.h"
#include "report/amounts/amounts.h"
#include "report/print.h"

static const char begin[] = "<!DOCTYPE html>\n"
			    "<html lang=\"en\"><head><meta charset=\"utf-8\"><title>";

static const char style[] =
	"</title>\n"
	"<style>\n"
	"body { font-family: monospace; white-space: pre; }\n"
	"p { margin: 0.2em 0; white-space: normal; }\n"
	"details > details, details > div { margin-left: 2ch; }\n"
	"div { padding-left: 2ch; }\n"
	"summary { cursor: pointer; }\n"
	"summary:hover, div:hover { background: #eee; }\n"
	".more { color: #b00; } .less { color: #070; } .place { color: #777; }\n"
	"</style></head><body>\n";

struct writer {
	struct ms_text text;
	const struct ms_amount_tree *tree;
	const struct ms_amount_page *page;
};

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

static const char *shown(const struct writer *w, const char *path)
{
	return w->page->whole_paths ? path : ms_file_name(path);
}

static void put_function(struct writer *w, const struct ms_function *function)
{
	struct ms_text *t = &w->text;

	put_escaped(t, function->name ? function->name : "???");
	ms_text_print(t, " <span class=\"place\">");
	put_escaped(t, function->file ? shown(w, function->file) : "???");
	if (function->file)
		ms_text_print(t, ":%" PRIu32, function->line);
	ms_text_print(t, "</span>");
}

static void put_place(struct writer *w, const struct ms_place *place)
{
	const struct ms_function unknown = { 0 };

	if (place->own) {
		put_escaped(&w->text, place->own);
		return;
	}
	put_escaped(&w->text, place->library ? shown(w, place->library) : "???");
	ms_text_print(&w->text, " ");
	if (!place->functions.n)
		put_function(w, &unknown);
	for (size_t i = 0; i < place->functions.n; i++) {
		if (i)
			ms_text_print(&w->text, " (inlined by) ");
		put_function(w, &place->functions.at[i]);
	}
}

/* A group's name in small letters. */
static void put_group(struct ms_text *t, const char *name)
{
	for (; *name; name++)
		ms_text_print(t, "%c", *name >= 'A' && *name <= 'Z' ? *name + ('a' - 'A') : *name);
}

/* Change, where there are old ones; else the part of the node's own tree. */
static void put_amount(struct writer *w, const struct ms_amount_node *node, uint64_t tree_bytes)
{
	int64_t change = (int64_t)(node->now.bytes - node->old.bytes);

	if (!w->tree->amounts->differs) {
		ms_text_print(&w->text, "%" PRIu64 " %6.2f%% %6" PRIu64 " ", node->now.bytes,
		              ms_amounts_percent(node->now.bytes, tree_bytes), node->now.count);
		return;
	}
	ms_text_print(&w->text,
	              "<span class=\"%s\">%+" PRId64 "</span> %" PRIu64 " &rarr; %" PRIu64
	              " %+" PRId64 " ",
	              change > 0 ? "more" : "less", change, node->old.bytes, node->now.bytes,
	              (int64_t)(node->now.count - node->old.count));
}

static void put_node(struct writer *w, const struct ms_amount_node *node, uint64_t tree_bytes)
{
	put_amount(w, node, tree_bytes);
	switch (node->level) {
	case MS_LEVEL_GROUP:
		put_group(&w->text, ms_amounts_group(w->tree, node));
		break;
	case MS_LEVEL_SIZE:
		ms_text_print(&w->text, "size %" PRIu64, node->key);
		break;
	case MS_LEVEL_NAME:
		put_escaped(&w->text, w->tree->amounts->names.at[node->key]);
		break;
	case MS_LEVEL_PLACE:
		put_place(w, ms_amounts_place(w->tree, node));
		break;
	}
}

static void put_head(struct writer *w)
{
	ms_text_put(&w->text, begin, strlen(begin));
	put_escaped(&w->text, w->page->title);
	ms_text_put(&w->text, style, strlen(style));
	for (size_t i = 0; i < w->page->n_lines; i++) {
		ms_text_print(&w->text, "<p>");
		put_escaped(&w->text, w->page->lines[i]);
		ms_text_print(&w->text, "</p>\n");
	}
}

/* Close what is open between a node of depth @from and the next one, of depth @to. */
static void close_nodes(struct ms_text *t, uint32_t from, uint32_t to)
{
	for (; from > to; from--)
		ms_text_print(t, "</details>\n");
}

static void open_node(struct ms_text *t, const struct ms_amount_node *node, bool leaf)
{
	if (leaf)
		ms_text_print(t, "<div>");
	else if (node->level == MS_LEVEL_GROUP)
		ms_text_print(t, "<details open><summary>");
	else
		ms_text_print(t, "<details><summary>");
}

bool ms_amounts_html(const struct ms_amount_tree *tree, const struct ms_amount_page *page,
                     struct ms_sink *sink)
{
	struct writer w = { { sink, true }, tree, page };
	const struct ms_amount_node *node = ms_amounts_begin(tree);
	uint64_t tree_bytes = 0;
	uint32_t depth = 0;

	put_head(&w);
	while (node && w.text.ok) {
		bool skip = tree->amounts->differs && !node->changed;
		bool leaf = skip || node->first == MS_AMOUNT_NONE;

		close_nodes(&w.text, depth, node->depth);
		depth = node->depth;
		if (node->level == MS_LEVEL_GROUP)
			tree_bytes = node->now.bytes;
		if (!skip || node->level == MS_LEVEL_GROUP) {
			open_node(&w.text, node, leaf);
			put_node(&w, node, tree_bytes);
			ms_text_print(&w.text, leaf ? "</div>\n" : "</summary>\n");
			depth += !leaf;
		}
		node = ms_amounts_next(tree, node, skip);
	}
	close_nodes(&w.text, depth, 0);
	ms_text_print(&w.text, "</body></html>\n");
	return w.text.ok;
}
