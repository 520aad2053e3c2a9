/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/answer.h"

#include <assert.h>

#include "report/json/fields.h"
#include "report/version.h"

static const char *const kinds[] = {
	[MS_ROOT_GLOBALS] = "data",
	[MS_ROOT_BREAK] = "brk",
	[MS_ROOT_UNPROVED] = "unverified",
	[MS_ROOT_STACK] = "stack",
	[MS_ROOT_TLS] = "tls",
	[MS_ROOT_REGISTER] = "register",
	[MS_ROOT_KERNEL] = "kernel",
	[MS_ROOT_TRANSIT] = "transit",
};

static_assert(sizeof(kinds) / sizeof(kinds[0]) == MS_ROOT_KINDS, "a name for each");

void ms_json_add_text(struct ms_json *j, struct json_object *object, const char *key,
                      const char *text)
{
	if (text && text[0])
		ms_json_add(j, object, key, ms_json_name(text));
}

static void add_symbol(struct ms_json *j, struct json_object *object,
                       const struct ms_report *report, uint32_t pc)
{
	const struct ms_symbol *symbol;

	if (!pc || pc > report->names.n)
		return;
	symbol = &report->names.at[pc - 1].symbol;
	if (!symbol->function || symbol->unsized)
		return;
	ms_json_add_text(j, object, "symbol", symbol->function);
	ms_json_add_number(j, object, "symbol_offset", symbol->function_offset);
}

struct json_object *ms_json_spot(struct ms_json *j, const struct ms_report *report,
                                 const struct ms_spot *spot)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_text(j, object, "kind", kinds[spot->kind]);
	if (spot->at)
		ms_json_add_address(j, object, "address", spot->at);
	if (spot->at)
		ms_json_add(j, object, "offset", json_object_new_int64(spot->offset));
	ms_json_add_text(j, object, spot->kind == MS_ROOT_TRANSIT ? "queue" : "module", spot->name);
	if (spot->kind == MS_ROOT_TRANSIT)
		ms_json_add(j, object, "number", json_object_new_int64(spot->offset));
	add_symbol(j, object, report, spot->pc);
	if (spot->tid > 0)
		ms_json_add_number(j, object, "thread", (uint64_t)spot->tid);
	ms_json_add_text(j, object, "thread_name", spot->thread);
	return object;
}

void ms_json_add_type(struct ms_json *j, struct json_object *object, const struct ms_type *type)
{
	struct json_object *named;

	if (type->name[0]) {
		named = json_object_new_object();
		ms_json_add_text(j, named, "name", type->name);
		ms_json_add_text(j, named, "how", ms_json_hows.at[type->how]);
		ms_json_add_text(j, named, "sure", ms_json_sures.at[type->sure]);
		ms_json_add(j, object, "type", named);
	}
	ms_json_add_text(j, object, "module", type->module);
}

/* A function, as places in roots are. */
static struct json_object *callback(struct ms_json *j, const struct ms_report *report,
                                    const struct ms_answer_step *step)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "offset", step->callback_offset);
	ms_json_add_text(j, object, "module", step->name);
	add_symbol(j, object, report, step->callback);
	return object;
}

void ms_json_add_block(struct ms_json *j, struct json_object *object,
                       const struct ms_report *report, const struct ms_answer_step *step)
{
	const struct ms_type *type = step->type ? &report->types.at[step->type - 1] : NULL;

	ms_json_add_address(j, object, "address", step->address);
	ms_json_add_number(j, object, "size", step->size);
	if (step->mapping)
		ms_json_add(j, object, "mapping", ms_json_name(step->name));
	if (type)
		ms_json_add_type(j, object, type);
	if (step->callback)
		ms_json_add(j, object, "callback", callback(j, report, step));
	ms_json_add_text(j, object, "text", step->text);
}

static struct json_object *tool(struct ms_json *j)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_text(j, object, "name", "memscan");
	ms_json_add_text(j, object, "version", MS_VERSION);
	return object;
}

static struct json_object *target(struct ms_json *j, const struct ms_report *report)
{
	struct json_object *object = json_object_new_object();

	ms_json_add(j, object, "pid", json_object_new_int64(report->target.pid));
	if (report->target.ns_pid)
		ms_json_add(j, object, "ns_pid", json_object_new_int64(report->target.ns_pid));
	ms_json_add_text(j, object, "exe", report->target.exe);
	return object;
}

static struct json_object *scan(struct ms_json *j, const struct ms_report *report)
{
	struct json_object *object = json_object_new_object();

	ms_json_add(j, object, "time", json_object_new_int64(report->scan.time));
	ms_json_add_text(j, object, "source", report->scan.source);
	ms_json_add_number(j, object, "pause_ns", report->scan.pause_ns);
	ms_json_add_number(j, object, "duration_ns", report->scan.duration_ns);
	if (report->scan.peak_rss_bytes)
		ms_json_add_number(j, object, "peak_rss_bytes", report->scan.peak_rss_bytes);
	return object;
}

static struct json_object *warnings(struct ms_json *j, const struct ms_report *report)
{
	struct json_object *array = json_object_new_array();
	const struct ms_note *note;

	ms_vec_for_each (note, &report->warnings)
		ms_json_append(j, array, ms_json_name(note->text));
	return array;
}

void ms_json_member(struct ms_json *j, const char *key, struct json_object *value)
{
	ms_text_print(&j->text, ",\n\"%s\":", key);
	ms_json_put(j, value);
}

void ms_json_answer_begin(struct ms_json *j, const struct ms_report *report, const char *schema)
{
	ms_text_print(&j->text, "{\n\"schema\":\"%s\"", schema);
	ms_json_member(j, "tool", tool(j));
	ms_json_member(j, "target", target(j, report));
	ms_json_member(j, "scan", scan(j, report));
}

void ms_json_answer_end(struct ms_json *j, const struct ms_report *report)
{
	ms_json_member(j, "warnings", warnings(j, report));
	ms_text_print(&j->text, "\n}\n");
}
