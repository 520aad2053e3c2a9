/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/holders.h"
#include "report/diff/writers.h"
#include "report/json/fields.h"
#include "report/json/values.h"
#include "report/version.h"

static const char *const changes[MS_CHANGES] = {
	[MS_CHANGE_NEW] = "new",
	[MS_CHANGE_GROWN] = "grown",
	[MS_CHANGE_SHRUNK] = "shrunk",
	[MS_CHANGE_GONE] = "gone",
};

/* What is not known is absent. */
static void add_text(struct ms_json *j, struct json_object *object, const char *key,
                     const char *text)
{
	if (text && text[0])
		ms_json_add(j, object, key, ms_json_name(text));
}

static void add_signed(struct ms_json *j, struct json_object *object, const char *key, int64_t n)
{
	ms_json_add(j, object, key, json_object_new_int64(n));
}

static struct json_object *tool(struct ms_json *j)
{
	struct json_object *object = json_object_new_object();

	add_text(j, object, "name", "memscan");
	add_text(j, object, "version", MS_VERSION);
	return object;
}

static struct json_object *side_object(struct ms_json *j, const struct ms_diff *diff, int side)
{
	const struct ms_report *report = diff->reports[side];
	struct json_object *object = json_object_new_object();

	add_text(j, object, "file", diff->files[side]);
	add_text(j, object, "host", report->host.name);
	add_signed(j, object, "pid", report->target.pid);
	add_text(j, object, "exe", report->target.exe);
	add_signed(j, object, "time", report->scan.time);
	ms_json_add_number(j, object, "allocations", report->totals.allocations);
	ms_json_add_number(j, object, "allocation_bytes", report->totals.allocation_bytes);
	ms_json_add_number(j, object, "leaked_allocations", report->totals.leaked_allocations);
	ms_json_add_number(j, object, "leaked_bytes", report->totals.leaked_bytes);
	return object;
}

static void add_amounts(struct ms_json *j, struct json_object *object,
                        const struct ms_diff_amount side[MS_DIFF_SIDES])
{
	const struct ms_diff_amount *old = &side[MS_DIFF_OLD];
	const struct ms_diff_amount *new = &side[MS_DIFF_NEW];

	ms_json_add_number(j, object, "old_allocations", old->count);
	ms_json_add_number(j, object, "new_allocations", new->count);
	ms_json_add_number(j, object, "old_bytes", old->bytes);
	ms_json_add_number(j, object, "new_bytes", new->bytes);
	add_signed(j, object, "growth_bytes", ms_diff_by(old->bytes, new->bytes));
}

static struct json_object *heap_object(struct ms_json *j, const struct ms_diff_heap *heap)
{
	struct json_object *object = json_object_new_object();

	add_text(j, object, "allocator", heap->allocator);
	add_amounts(j, object, heap->side);
	ms_json_add_number(j, object, "old_mapped_bytes", heap->mapped_bytes[MS_DIFF_OLD]);
	ms_json_add_number(j, object, "new_mapped_bytes", heap->mapped_bytes[MS_DIFF_NEW]);
	return object;
}

static struct json_object *heaps(struct ms_json *j, const struct ms_diff *diff)
{
	struct json_object *array = json_object_new_array();
	const struct ms_diff_heap *heap;

	ms_vec_for_each (heap, &diff->heaps)
		ms_json_append(j, array, heap_object(j, heap));
	return array;
}

static void add_type(struct ms_json *j, struct json_object *object, const struct ms_type *type)
{
	struct json_object *named;

	if (!type)
		return;
	if (type->name[0]) {
		named = json_object_new_object();
		add_text(j, named, "name", type->name);
		add_text(j, named, "how", type->how < MS_HOWS ? ms_json_hows.at[type->how] : "");
		add_text(j, named, "sure", ms_json_sures.at[type->sure]);
		ms_json_add(j, object, "type", named);
	}
	add_text(j, object, "module", type->module);
}

static struct json_object *root_object(struct ms_json *j, const struct ms_diff_root *root)
{
	struct json_object *object = json_object_new_object();

	add_text(j, object, "kind", root->kind);
	add_text(j, object, "module", root->module);
	add_text(j, object, "symbol", root->symbol);
	if (root->symbol[0] && root->symbol_offset)
		ms_json_add_number(j, object, "symbol_offset", root->symbol_offset);
	if (root->offset)
		add_signed(j, object, "offset", root->offset);
	add_text(j, object, "thread_name", root->thread_name);
	return object;
}

static struct json_object *row_object(struct ms_json *j, const struct ms_diff_row *row)
{
	struct json_object *object = json_object_new_object();

	add_text(j, object, "change", changes[row->change]);
	if (row->possible)
		ms_json_add(j, object, "possible", json_object_new_boolean(true));
	add_text(j, object, "signature", row->signature);
	add_type(j, object, row->type);
	if (row->root)
		ms_json_add(j, object, "root", root_object(j, row->root));
	if (row->least_size != row->size)
		ms_json_add_number(j, object, "least_size", row->least_size);
	if (row->size)
		ms_json_add_number(j, object, "size", row->size);
	add_amounts(j, object, row->side);
	return object;
}

static size_t listed(const struct ms_diff *diff, const struct ms_diff_rows *rows)
{
	return diff->limit < rows->n ? (size_t)diff->limit : rows->n;
}

static void put_rows(struct ms_json *j, const struct ms_diff *diff, const char *key,
                     const struct ms_diff_rows *rows)
{
	ms_text_print(&j->text, ",\n\"%s\":[", key);
	for (size_t i = 0; i < listed(diff, rows) && j->text.ok; i++) {
		ms_text_print(&j->text, i ? ",\n" : "\n");
		ms_json_put(j, row_object(j, &rows->at[i]));
	}
	ms_text_print(&j->text, "]");
}

static struct json_object *unlisted(struct ms_json *j, const struct ms_diff *diff)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "leaks", diff->leaks.n - listed(diff, &diff->leaks));
	if (diff->has_live)
		ms_json_add_number(j, object, "live", diff->live.n - listed(diff, &diff->live));
	if (diff->holders[MS_DIFF_NEW])
		ms_json_add_number(j, object, "roots", diff->roots.n - listed(diff, &diff->roots));
	return object;
}

static struct json_object *warnings(struct ms_json *j, const struct ms_diff *diff)
{
	struct json_object *array = json_object_new_array();
	const struct ms_note *note;

	ms_vec_for_each (note, &diff->warnings)
		ms_json_append(j, array, ms_json_name(note->text));
	return array;
}

static void put_member(struct ms_json *j, const char *key, struct json_object *value)
{
	ms_text_print(&j->text, ",\n\"%s\":", key);
	ms_json_put(j, value);
}

static bool write_json(const struct ms_diff *diff, struct ms_sink *sink)
{
	struct ms_json j = { { sink, true } };

	ms_text_print(&j.text, "{\n\"schema\":\"memscan.diff/1\"");
	put_member(&j, "tool", tool(&j));
	put_member(&j, "old", side_object(&j, diff, MS_DIFF_OLD));
	put_member(&j, "new", side_object(&j, diff, MS_DIFF_NEW));
	put_member(&j, "elapsed_ns", json_object_new_int64(ms_diff_elapsed_ns(diff)));
	put_member(&j, "grew", json_object_new_boolean(ms_diff_grew(diff)));
	put_member(&j, "heaps", heaps(&j, diff));
	put_rows(&j, diff, "leaks", &diff->leaks);
	if (diff->holders[MS_DIFF_NEW])
		put_rows(&j, diff, "roots", &diff->roots);
	if (diff->has_live)
		put_rows(&j, diff, "live", &diff->live);
	put_member(&j, "unlisted", unlisted(&j, diff));
	put_member(&j, "warnings", warnings(&j, diff));
	ms_text_print(&j.text, "\n}\n");
	return j.text.ok;
}

const struct ms_diff_writer ms_diff_json_writer = { "json", write_json };
