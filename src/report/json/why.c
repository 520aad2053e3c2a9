/* SPDX-License-Identifier: Apache-2.0 */

/* memscan.why/1 (docs/JSON.md). */

#include <assert.h>
#include <string.h>

#include "report/json/fields.h"
#include "report/json/values.h"
#include "report/version.h"
#include "report/writers.h"

static const char *const standings[] = {
	[MS_STANDS_REACHABLE] = "reachable", [MS_STANDS_POSSIBLE] = "possible",
	[MS_STANDS_LEAKED] = "leaked",       [MS_STANDS_ROOT] = "root",
	[MS_STANDS_CODE] = "code",           [MS_STANDS_DEAD] = "dead stack",
	[MS_STANDS_MAPPED] = "mapping",      [MS_STANDS_FREE] = "free",
	[MS_STANDS_NOWHERE] = "not mapped",
};

static_assert(sizeof(standings) / sizeof(standings[0]) == MS_STANDINGS, "a name for each");

static const char *const kinds[] = {
	[MS_ROOT_GLOBALS] = "data",  [MS_ROOT_BREAK] = "brk", [MS_ROOT_UNPROVED] = "unverified",
	[MS_ROOT_STACK] = "stack",   [MS_ROOT_TLS] = "tls",   [MS_ROOT_REGISTER] = "register",
	[MS_ROOT_KERNEL] = "kernel",
};

static_assert(sizeof(kinds) / sizeof(kinds[0]) == MS_ROOT_KINDS, "a name for each");

static void add_name(struct ms_json *j, struct json_object *object, const char *key,
                     const char *name)
{
	if (name && name[0])
		ms_json_add(j, object, key, ms_json_name(name));
}

static void add_flag(struct ms_json *j, struct json_object *object, const char *key, bool value)
{
	ms_json_add(j, object, key, json_object_new_boolean(value));
}

static void add_symbol(struct ms_json *j, struct json_object *object,
                       const struct ms_report *report, const struct ms_spot *spot)
{
	const struct ms_symbol *symbol;

	if (!spot->pc || spot->pc > report->names.n)
		return;
	symbol = &report->names.at[spot->pc - 1].symbol;
	if (!symbol->function)
		return;
	add_name(j, object, "symbol", symbol->function);
	ms_json_add_number(j, object, "symbol_offset", symbol->function_offset);
}

static struct json_object *root_object(struct ms_json *j, const struct ms_report *report,
                                       const struct ms_spot *spot)
{
	struct json_object *object = json_object_new_object();

	add_name(j, object, "kind", kinds[spot->kind]);
	if (spot->at)
		ms_json_add_address(j, object, "address", spot->at);
	if (spot->at)
		ms_json_add(j, object, "offset", json_object_new_int64(spot->offset));
	add_name(j, object, "module", spot->name);
	add_symbol(j, object, report, spot);
	if (spot->tid > 0)
		ms_json_add_number(j, object, "thread", (uint64_t)spot->tid);
	add_name(j, object, "thread_name", spot->thread);
	return object;
}

static void add_block(struct ms_json *j, struct json_object *object, const struct ms_report *report,
                      const struct ms_answer_step *step)
{
	const struct ms_type *type = step->type ? &report->types.at[step->type - 1] : NULL;

	ms_json_add_address(j, object, "address", step->address);
	ms_json_add_number(j, object, "size", step->size);
	if (step->mapping)
		ms_json_add(j, object, "mapping", ms_json_name(step->name));
	if (type && type->name[0]) {
		struct json_object *named = json_object_new_object();

		add_name(j, named, "name", type->name);
		add_name(j, named, "how", ms_json_hows.at[type->how]);
		add_name(j, named, "sure", ms_json_sures.at[type->sure]);
		ms_json_add(j, object, "type", named);
	}
	if (type)
		add_name(j, object, "module", type->module);
	add_name(j, object, "text", step->text);
}

/* @n of the answer's steps. The last of a chain points to nothing. */
static struct json_object *step_list(struct ms_json *j, const struct ms_report *report,
                                     uint32_t first, uint32_t n, bool chain)
{
	struct json_object *array = json_object_new_array();

	for (uint32_t i = 0; i < n; i++) {
		const struct ms_answer_step *step = &report->answer.steps.at[first + i];
		struct json_object *object = json_object_new_object();

		if (step->omitted)
			ms_json_add_number(j, object, "omitted", step->omitted);
		add_block(j, object, report, step);
		if (!chain || i + 1 < n)
			ms_json_add_number(j, object, "offset", step->offset);
		ms_json_append(j, array, object);
	}
	return array;
}

static struct json_object *chain_list(struct ms_json *j, const struct ms_report *report,
                                      const struct ms_subject *subject)
{
	struct json_object *array = json_object_new_array();

	for (uint32_t i = 0; i < subject->n_chains; i++) {
		const struct ms_answer_chain *chain =
			&report->answer.chains.at[subject->first_chain + i];
		struct json_object *object = json_object_new_object();

		ms_json_add(j, object, "root", root_object(j, report, &chain->root));
		ms_json_add_number(j, object, "length", chain->length);
		ms_json_add(j, object, "steps", step_list(j, report, chain->first, chain->n, true));
		ms_json_append(j, array, object);
	}
	return array;
}

static void add_holding(struct ms_json *j, struct json_object *object,
                        const struct ms_report *report, const struct ms_subject *subject)
{
	if (subject->standing == MS_STANDS_REACHABLE) {
		ms_json_add(j, object, "chains", chain_list(j, report, subject));
		add_flag(j, object, "more", subject->more);
		if (subject->roots)
			ms_json_add_number(j, object, "roots", subject->roots);
		return;
	}
	if (subject->standing == MS_STANDS_POSSIBLE)
		add_name(j, object, "reason", ms_json_reasons.at[subject->reason]);
	ms_json_add_number(j, object, "holders_count", subject->holders);
	ms_json_add(j, object, "holders",
	            step_list(j, report, subject->first_holder, subject->n_holders, false));
}

static struct json_object *subject_object(struct ms_json *j, const struct ms_report *report,
                                          const struct ms_subject *subject)
{
	struct json_object *object = json_object_new_object();

	if (subject->asked)
		ms_json_add_address(j, object, "asked", subject->asked);
	add_name(j, object, "standing", standings[subject->standing]);
	if (subject->standing <= MS_STANDS_LEAKED) {
		add_block(j, object, report, &subject->self);
		add_holding(j, object, report, subject);
	} else if (subject->spot.at) {
		ms_json_add(j, object, "memory", root_object(j, report, &subject->spot));
	}
	return object;
}

static struct json_object *tool(struct ms_json *j)
{
	struct json_object *object = json_object_new_object();

	add_name(j, object, "name", "memscan");
	add_name(j, object, "version", MS_VERSION);
	return object;
}

static struct json_object *target(struct ms_json *j, const struct ms_report *report)
{
	struct json_object *object = json_object_new_object();

	ms_json_add(j, object, "pid", json_object_new_int64(report->target.pid));
	add_name(j, object, "exe", report->target.exe);
	return object;
}

static struct json_object *scan(struct ms_json *j, const struct ms_report *report)
{
	struct json_object *object = json_object_new_object();

	ms_json_add(j, object, "time", json_object_new_int64(report->scan.time));
	add_name(j, object, "source", report->scan.source);
	ms_json_add_number(j, object, "pause_ns", report->scan.pause_ns);
	ms_json_add_number(j, object, "duration_ns", report->scan.duration_ns);
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

static void put_member(struct ms_json *j, const char *key, struct json_object *value)
{
	ms_text_print(&j->text, ",\n\"%s\":", key);
	ms_json_put(j, value);
}

static bool write_why(const struct ms_report *report, struct ms_sink *sink)
{
	const struct ms_answer_facts *facts = &report->answer.facts;
	struct ms_json j = { { sink, true } };
	const struct ms_subject *subject;

	ms_text_print(&j.text, "{\n\"schema\":\"memscan.why/1\"");
	put_member(&j, "tool", tool(&j));
	put_member(&j, "target", target(&j, report));
	put_member(&j, "scan", scan(&j, report));
	if (facts->of_type) {
		put_member(&j, "blocks_of_type", json_object_new_uint64(facts->of_type));
		put_member(&j, "reachable_of_type", json_object_new_uint64(facts->of_type_held));
	}
	ms_text_print(&j.text, ",\n\"subjects\":[");
	ms_vec_for_each (subject, &report->answer.subjects) {
		ms_text_print(&j.text, subject > report->answer.subjects.at ? ",\n" : "\n");
		ms_json_put(&j, subject_object(&j, report, subject));
	}
	ms_text_print(&j.text, "]");
	put_member(&j, "warnings", warnings(&j, report));
	ms_text_print(&j.text, "\n}\n");
	return j.text.ok;
}

const struct ms_writer ms_why_json_writer = { "json", write_why };
