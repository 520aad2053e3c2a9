/* SPDX-License-Identifier: Apache-2.0 */

/*
 * memscan.heapdump/1: one object. Nodes are a flat list in the order of the text, one a
 * line, each with its parent's number: stacks are deeper than some parsers nest.
 */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "report/heapdump/formats.h"
#include "report/utf8.h"
#include "report/version.h"

/* Longer names are cut off. */
enum { LONGEST_NAME = 16 * 1024 };

struct json {
	struct ms_text text;
	const struct ms_heapdump_view *view;
};

/* Write @value and drop it. */
static void put_value(struct json *j, struct json_object *value)
{
	size_t len = 0;
	const char *bytes = NULL;

	if (value)
		bytes = json_object_to_json_string_length(
			value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
	if (bytes)
		ms_text_put(&j->text, bytes, len);
	else
		j->text.ok = false;
	json_object_put(value);
}

/* Give @value to @object, which owns it from here. */
static void add(struct json *j, struct json_object *object, const char *key,
                struct json_object *value)
{
	if (value && object && json_object_object_add(object, key, value) == 0)
		return;
	json_object_put(value);
	j->text.ok = false;
}

static void append(struct json *j, struct json_object *array, struct json_object *value)
{
	if (value && array && json_object_array_add(array, value) == 0)
		return;
	json_object_put(value);
	j->text.ok = false;
}

static struct json_object *name(const char *s)
{
	char clean[LONGEST_NAME];

	ms_utf8_clean(s, strlen(s), false, clean, sizeof(clean));
	return json_object_new_string(clean);
}

static struct json_object *address(uint64_t addr)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "0x%" PRIx64, addr);
	return json_object_new_string(text);
}

static struct json_object *functions_of(struct json *j, const struct ms_heapdump_place *place)
{
	struct json_object *array = json_object_new_array();
	const struct ms_function *function;

	ms_vec_for_each (function, &place->functions) {
		struct json_object *one = json_object_new_object();

		if (function->name)
			add(j, one, "function", name(function->name));
		if (function->file) {
			add(j, one, "file", name(function->file));
			add(j, one, "line", json_object_new_uint64(function->line));
		}
		append(j, array, one);
	}
	if (!place->functions.n && ms_heapdump_own_name(place)) {
		struct json_object *one = json_object_new_object();

		add(j, one, "function", name(ms_heapdump_own_name(place)));
		append(j, array, one);
	}
	return array;
}

static void add_place(struct json *j, struct json_object *object,
                      const struct ms_heapdump_place *place)
{
	add(j, object, "address", address(place->pc));
	if (place->mapping || place->info)
		add(j, object, "library", name(ms_heapdump_library(place)));
	if (place->mapping)
		add(j, object, "offset", address(place->offset));
	/* Innermost first; empty: not known. */
	add(j, object, "functions", functions_of(j, place));
}

static void add_amounts(struct json *j, struct json_object *object,
                        const struct ms_heapdump_node *node)
{
	add(j, object, "bytes", json_object_new_uint64(node->now.bytes));
	add(j, object, "count", json_object_new_uint64(node->now.count));
	add(j, object, "own_bytes", json_object_new_uint64(node->now.own_bytes));
	add(j, object, "own_count", json_object_new_uint64(node->now.own_count));
	if (j->view->n_dumps == 1)
		return;
	add(j, object, "old_bytes", json_object_new_uint64(node->old.bytes));
	add(j, object, "old_count", json_object_new_uint64(node->old.count));
}

static struct json_object *node_object(struct json *j, const struct ms_heapdump_node *node)
{
	struct json_object *object = json_object_new_object();
	size_t id = (size_t)(node - j->view->nodes.at);

	add(j, object, "id", json_object_new_uint64(id));
	if (node->parent != MS_HEAPDUMP_NONE)
		add(j, object, "parent", json_object_new_uint64(node->parent));
	switch (node->kind) {
	case MS_HEAPDUMP_ROOT:
		add(j, object, "tree", json_object_new_string(ms_heapdump_root_name(node)));
		break;
	case MS_HEAPDUMP_SIZE:
		add(j, object, "size", json_object_new_uint64(node->value));
		break;
	case MS_HEAPDUMP_PLACE:
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

	add(j, object, "file", name(j->view->files[i]));
	if (dump->version[0])
		add(j, object, "version", json_object_new_string(dump->version));
	if (dump->fingerprint)
		add(j, object, "fingerprint", name(dump->fingerprint));
	add(j, object, "total_bytes", json_object_new_uint64(dump->total_bytes));
	add(j, object, "allocation_records", json_object_new_uint64(dump->total_records));
	add(j, object, "backtrace_size", json_object_new_uint64(dump->backtrace_size));
	add(j, object, "counts_valid", json_object_new_boolean(dump->counts_valid));
	add(j, object, "bytes", json_object_new_uint64(dump->bytes));
	add(j, object, "stackless_records", json_object_new_uint64(dump->stackless_records));
	add(j, object, "stackless_bytes", json_object_new_uint64(dump->stackless_bytes));
	ms_vec_for_each (warning, &dump->warnings)
		append(j, warnings, name(*warning));
	add(j, object, "warnings", warnings);
	return object;
}

static void put_head(struct json *j)
{
	struct json_object *unnamed = json_object_new_array();
	const char *const *library;

	ms_text_print(&j->text,
	              "{\"schema\":\"memscan.heapdump/1\",\n"
	              "\"tool\":{\"name\":\"memscan\",\"version\":\"" MS_VERSION "\"},\n\"dump\":");
	put_value(j, dump_object(j, 0));
	if (j->view->n_dumps > 1) {
		ms_text_print(&j->text, ",\n\"old\":");
		put_value(j, dump_object(j, 1));
	}
	ms_text_print(&j->text, ",\n\"reverse\":%s,\n\"by\":\"%s\",\n\"libraries_not_found\":",
	              j->view->reversed ? "true" : "false", j->view->by_size ? "size" : "stack");
	ms_vec_for_each (library, &j->view->unnamed)
		append(j, unnamed, name(*library));
	put_value(j, unnamed);
	ms_text_print(&j->text, ",\n\"nodes\":[\n");
}

static bool write_json(const struct ms_heapdump_view *view, struct ms_sink *sink)
{
	const struct ms_heapdump_node *node = ms_heapdump_begin(view);
	struct json j = { { sink, true }, view };

	put_head(&j);
	while (node && j.text.ok) {
		put_value(&j, node_object(&j, node));
		node = ms_heapdump_next(view, node, false);
		ms_text_print(&j.text, node ? ",\n" : "\n");
	}
	ms_text_print(&j.text, "]}\n");
	return j.text.ok;
}

const struct ms_heapdump_writer ms_heapdump_json = { "json", write_json };
