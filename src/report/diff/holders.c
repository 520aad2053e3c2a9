/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/holders.h"

#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "report/json/walk.h"

enum { MEMBERS = 6 };

struct reader {
	struct ms_json_input in;
	struct ms_report report;
	struct ms_holders holders;
	bool seen[MEMBERS];
};

#define FIELD(type, key, member, form, optional)                          \
	{                                                                 \
		(key), (form), (optional), offsetof(struct type, member), \
			sizeof(((struct type *)0)->member), NULL          \
	}
#define TABLE(table)                                        \
	{                                                   \
		(table), sizeof(table) / sizeof((table)[0]) \
	}

static const struct ms_json_field weight_rows[] = {
	FIELD(ms_diff_amount, "count", count, MS_JSON_UNSIGNED, false),
	FIELD(ms_diff_amount, "bytes", bytes, MS_JSON_UNSIGNED, false),
};
static const struct ms_json_field retained_rows[] = {
	FIELD(ms_diff_amount, "retained_count", count, MS_JSON_UNSIGNED, false),
	FIELD(ms_diff_amount, "retained_bytes", bytes, MS_JSON_UNSIGNED, false),
};
static const struct ms_json_field root_rows[] = {
	FIELD(ms_diff_root, "kind", kind, MS_JSON_TEXT, false),
	FIELD(ms_diff_root, "module", module, MS_JSON_TEXT, true),
	FIELD(ms_diff_root, "symbol", symbol, MS_JSON_TEXT, true),
	FIELD(ms_diff_root, "symbol_offset", symbol_offset, MS_JSON_UNSIGNED, true),
	FIELD(ms_diff_root, "offset", offset, MS_JSON_SIGNED, true),
	FIELD(ms_diff_root, "thread_name", thread_name, MS_JSON_TEXT, true),
};
static const struct ms_json_field scan_rows[] = {
	FIELD(ms_report, "time", scan.time, MS_JSON_SIGNED, false),
};
static const struct ms_json_field totals_rows[] = {
	FIELD(ms_holders, "roots", n_roots, MS_JSON_UNSIGNED, true),
};
static const struct ms_json_field size_rows[] = {
	FIELD(ms_diff_row, "size", size, MS_JSON_UNSIGNED, true),
};

static const struct ms_json_fields weight_fields = TABLE(weight_rows);
static const struct ms_json_fields retained_fields = TABLE(retained_rows);
static const struct ms_json_fields root_fields = TABLE(root_rows);
static const struct ms_json_fields scan_fields = TABLE(scan_rows);
static const struct ms_json_fields totals_fields = TABLE(totals_rows);
static const struct ms_json_fields size_fields = TABLE(size_rows);

static void take_schema(void *reader, struct json_object *value)
{
	static const char schema[] = "memscan.retained/1";
	struct reader *r = reader;

	if (strcmp(json_object_get_string(value), schema) != 0)
		ms_json_unsupported(&r->in, "format", json_object_get_string(value));
}

static void take_target(void *reader, struct json_object *object)
{
	struct reader *r = reader;

	ms_json_get_fields(&r->in, object, &ms_json_process, &r->report.target);
}

static void take_scan(void *reader, struct json_object *object)
{
	struct reader *r = reader;

	ms_json_get_fields(&r->in, object, &scan_fields, &r->report);
}

static void take_weight(struct reader *r, struct json_object *object, const char *key,
                        struct ms_diff_amount *ret)
{
	struct json_object *weight = ms_json_get(&r->in, object, key, json_type_object);

	if (weight)
		ms_json_get_fields(&r->in, weight, &weight_fields, ret);
	else
		ms_json_corrupt(&r->in, "\"%s\" is missing", key);
}

static void take_totals(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct ms_totals *totals = &r->report.totals;
	struct ms_diff_amount reachable = { 0 };
	struct ms_diff_amount unreachable = { 0 };

	take_weight(r, object, "reachable", &reachable);
	take_weight(r, object, "unreachable", &unreachable);
	ms_json_get_fields(&r->in, object, &totals_fields, &r->holders);
	totals->allocations = reachable.count + unreachable.count;
	totals->allocation_bytes = reachable.bytes + unreachable.bytes;
	totals->leaked_allocations = unreachable.count;
	totals->leaked_bytes = unreachable.bytes;
}

/* A place on a stack is another one at the next call, that of a variable is not. */
static void take_out_places(struct ms_diff_root *root)
{
	bool of_stack = strcmp(root->kind, "stack") == 0 || strcmp(root->kind, "register") == 0;

	if (of_stack || root->symbol[0])
		root->offset = 0;
	if (of_stack)
		root->symbol_offset = 0;
}

static struct ms_diff_row *push_row(struct reader *r, struct ms_diff_rows *rows)
{
	struct ms_diff_row *row = ms_vec_push(r->in.arena, rows);

	if (!row)
		ms_json_no_memory(&r->in);
	return row;
}

static void take_root(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct json_object *from = ms_json_get(&r->in, object, "root", json_type_object);
	struct ms_diff_root *root = ms_arena_alloc(r->in.arena, sizeof(*root));
	struct ms_diff_row *row = push_row(r, &r->holders.roots);

	if (!from)
		ms_json_corrupt(&r->in, "an entry has no \"root\"");
	if (!root)
		ms_json_no_memory(&r->in);
	if (!from || !root || !row)
		return;
	row->root = root;
	ms_json_get_fields(&r->in, from, &root_fields, root);
	ms_json_get_fields(&r->in, object, &retained_fields, &row->side[MS_DIFF_NEW]);
	take_out_places(root);
}

static void take_type(void *reader, struct json_object *object)
{
	struct reader *r = reader;
	struct json_object *named = ms_json_get(&r->in, object, "type", json_type_object);
	struct json_object *name =
		named ? ms_json_get(&r->in, named, "name", json_type_string) : NULL;
	struct json_object *module = ms_json_get(&r->in, object, "module", json_type_string);
	struct ms_diff_row *row = push_row(r, &r->holders.types);
	struct ms_type *type = NULL;

	if (name || module) {
		type = ms_arena_alloc(r->in.arena, sizeof(*type));
		if (!type)
			ms_json_no_memory(&r->in);
	}
	if (!row || r->in.st)
		return;
	if (type)
		type->how = MS_HOWS;
	if (name)
		ms_json_string(name, type->name, sizeof(type->name));
	if (module)
		ms_json_string(module, type->module, sizeof(type->module));
	row->type = type;
	ms_json_get_fields(&r->in, object, &size_fields, row);
	row->least_size = row->size;
	ms_json_get_fields(&r->in, object, &weight_fields, &row->side[MS_DIFF_NEW]);
}

static const struct ms_json_member members[MEMBERS] = {
	{ "schema", true, false, json_type_string, take_schema },
	{ "target", true, false, json_type_object, take_target },
	{ "scan", true, false, json_type_object, take_scan },
	{ "totals", true, false, json_type_object, take_totals },
	{ "by_root", true, true, json_type_object, take_root },
	{ "by_type", true, true, json_type_object, take_type },
};

enum ms_status ms_holders_read(const struct ms_json_file *file, struct ms_arena *arena,
                               struct ms_report *report, struct ms_holders *ret,
                               struct ms_error *err)
{
	struct reader r;
	struct ms_json_walk walk = { members, MEMBERS, r.seen, &r };

	memset(&r, 0, sizeof(r));
	ms_json_input_init(&r.in, file, arena, err);
	ms_json_walk(&r.in, &walk);
	ms_json_input_deinit(&r.in);
	if (r.in.st)
		return r.in.st;
	*report = r.report;
	*ret = r.holders;
	return MS_OK;
}

int ms_diff_compare_roots(const struct ms_diff_root *a, const struct ms_diff_root *b)
{
	int ret = strcmp(a->kind, b->kind);

	if (!ret)
		ret = strcmp(ms_file_name(a->module), ms_file_name(b->module));
	if (!ret)
		ret = strcmp(a->symbol, b->symbol);
	if (!ret)
		ret = strcmp(a->thread_name, b->thread_name);
	if (!ret)
		ret = (a->symbol_offset > b->symbol_offset) - (a->symbol_offset < b->symbol_offset);
	return ret ? ret : (a->offset > b->offset) - (a->offset < b->offset);
}
