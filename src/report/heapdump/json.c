/* SPDX-License-Identifier: Apache-2.0 */

/*
 * memscan.heapdump/1: one object. Nodes are a flat list in the order of the text, one a
 * line, each with its parent's number: stacks are deeper than some parsers nest.
 */
#include "report/heapdump/formats.h"
#include "report/json/values.h"
#include "report/version.h"

struct json {
	struct ms_json base;
	const struct ms_heapdump_view *view;
};

static struct json_object *functions_of(struct json *j, const struct ms_heapdump_place *place)
{
	struct json_object *array = json_object_new_array();
	const struct ms_function *function;

	ms_vec_for_each (function, &place->functions) {
		struct json_object *one = json_object_new_object();

		if (function->name)
			ms_json_add(&j->base, one, "function", ms_json_name(function->name));
		if (function->file) {
			ms_json_add(&j->base, one, "file", ms_json_name(function->file));
			ms_json_add_number(&j->base, one, "line", function->line);
		}
		ms_json_append(&j->base, array, one);
	}
	if (!place->functions.n && ms_heapdump_own_name(place)) {
		struct json_object *one = json_object_new_object();

		ms_json_add(&j->base, one, "function", ms_json_name(ms_heapdump_own_name(place)));
		ms_json_append(&j->base, array, one);
	}
	return array;
}

static void add_place(struct json *j, struct json_object *object,
                      const struct ms_heapdump_place *place)
{
	ms_json_add_address(&j->base, object, "address", place->pc);
	if (place->mapping || place->info)
		ms_json_add(&j->base, object, "library", ms_json_name(ms_heapdump_library(place)));
	if (place->mapping)
		ms_json_add_address(&j->base, object, "offset", place->offset);
	/* Innermost first; empty: not known. */
	ms_json_add(&j->base, object, "functions", functions_of(j, place));
}

static void add_amounts(struct json *j, struct json_object *object,
                        const struct ms_amount_node *node)
{
	ms_json_add_number(&j->base, object, "bytes", node->now.bytes);
	ms_json_add_number(&j->base, object, "count", node->now.count);
	ms_json_add_number(&j->base, object, "own_bytes", node->now.own_bytes);
	ms_json_add_number(&j->base, object, "own_count", node->now.own_count);
	if (j->view->n_dumps == 1)
		return;
	ms_json_add_number(&j->base, object, "old_bytes", node->old.bytes);
	ms_json_add_number(&j->base, object, "old_count", node->old.count);
}

static struct json_object *node_object(struct json *j, const struct ms_amount_node *node)
{
	struct json_object *object = json_object_new_object();
	size_t id = (size_t)(node - j->view->tree.nodes.at);

	ms_json_add_number(&j->base, object, "id", id);
	if (node->parent != MS_AMOUNT_NONE)
		ms_json_add_number(&j->base, object, "parent", node->parent);
	switch (node->level) {
	case MS_LEVEL_GROUP:
		ms_json_add(&j->base, object, "tree",
		            json_object_new_string(ms_amounts_group(&j->view->tree, node)));
		break;
	case MS_LEVEL_SIZE:
		ms_json_add_number(&j->base, object, "size", node->key);
		break;
	case MS_LEVEL_NAME: /* a dump has none */
		break;
	case MS_LEVEL_PLACE:
		add_place(j, object, ms_heapdump_place_of(j->view, node));
		break;
	}
	add_amounts(j, object, node);
	return object;
}

static struct json_object *dump_object(struct json *j, size_t i)
{
	const struct ms_heapdump *dump = j->view->dumps[i];
	struct json_object *object = json_object_new_object();
	struct json_object *warnings = json_object_new_array();
	const char *const *warning;

	ms_json_add(&j->base, object, "file", ms_json_name(j->view->files[i]));
	if (dump->version[0])
		ms_json_add(&j->base, object, "version", json_object_new_string(dump->version));
	if (dump->fingerprint)
		ms_json_add(&j->base, object, "fingerprint", ms_json_name(dump->fingerprint));
	ms_json_add_number(&j->base, object, "total_bytes", dump->total_bytes);
	ms_json_add_number(&j->base, object, "allocation_records", dump->total_records);
	ms_json_add_number(&j->base, object, "backtrace_size", dump->backtrace_size);
	ms_json_add(&j->base, object, "counts_valid", json_object_new_boolean(dump->counts_valid));
	ms_json_add_number(&j->base, object, "bytes", dump->bytes);
	ms_json_add_number(&j->base, object, "stackless_records", dump->stackless_records);
	ms_json_add_number(&j->base, object, "stackless_bytes", dump->stackless_bytes);
	ms_vec_for_each (warning, &dump->warnings)
		ms_json_append(&j->base, warnings, ms_json_name(*warning));
	ms_json_add(&j->base, object, "warnings", warnings);
	return object;
}

static void put_head(struct json *j)
{
	struct json_object *unnamed = json_object_new_array();
	const char *const *library;

	ms_text_print(&j->base.text,
	              "{\"schema\":\"memscan.heapdump/1\",\n"
	              "\"tool\":{\"name\":\"memscan\",\"version\":\"" MS_VERSION "\"},\n\"dump\":");
	ms_json_put(&j->base, dump_object(j, 0));
	if (j->view->n_dumps > 1) {
		ms_text_print(&j->base.text, ",\n\"old\":");
		ms_json_put(&j->base, dump_object(j, 1));
	}
	ms_text_print(&j->base.text, ",\n\"reverse\":%s,\n\"by\":\"%s\",\n\"libraries_not_found\":",
	              j->view->reversed ? "true" : "false", j->view->by_size ? "size" : "stack");
	ms_vec_for_each (library, &j->view->unnamed)
		ms_json_append(&j->base, unnamed, ms_json_name(*library));
	ms_json_put(&j->base, unnamed);
	ms_text_print(&j->base.text, ",\n\"nodes\":[\n");
}

static bool write_json(const struct ms_heapdump_view *view, struct ms_sink *sink)
{
	const struct ms_amount_node *node = ms_amounts_begin(&view->tree);
	struct json j = { { { sink, true } }, view };

	put_head(&j);
	while (node && j.base.text.ok) {
		ms_json_put(&j.base, node_object(&j, node));
		node = ms_amounts_next(&view->tree, node, false);
		ms_text_print(&j.base.text, node ? ",\n" : "\n");
	}
	ms_text_print(&j.base.text, "]}\n");
	return j.base.text.ok;
}

const struct ms_heapdump_writer ms_heapdump_json = { .name = "json", .write = write_json };
