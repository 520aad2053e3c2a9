/* SPDX-License-Identifier: Apache-2.0 */

/* memscan.why/1 (docs/JSON.md). */

#include <assert.h>
#include <string.h>

#include "report/json/answer.h"
#include "report/json/fields.h"
#include "report/writers.h"

static const char *const standings[] = {
	[MS_STANDS_REACHABLE] = "reachable", [MS_STANDS_POSSIBLE] = "possible",
	[MS_STANDS_LEAKED] = "leaked",       [MS_STANDS_ROOT] = "root",
	[MS_STANDS_CODE] = "code",           [MS_STANDS_DEAD] = "dead stack",
	[MS_STANDS_MAPPED] = "mapping",      [MS_STANDS_FREE] = "free",
	[MS_STANDS_NOWHERE] = "not mapped",
};

static_assert(sizeof(standings) / sizeof(standings[0]) == MS_STANDINGS, "a name for each");

static void add_flag(struct ms_json *j, struct json_object *object, const char *key, bool value)
{
	ms_json_add(j, object, key, json_object_new_boolean(value));
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
		ms_json_add_block(j, object, report, step);
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

		ms_json_add(j, object, "root", ms_json_spot(j, report, &chain->root));
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
		ms_json_add_text(j, object, "reason", ms_json_reasons.at[subject->reason]);
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
	ms_json_add_text(j, object, "standing", standings[subject->standing]);
	if (subject->standing <= MS_STANDS_LEAKED) {
		ms_json_add_block(j, object, report, &subject->self);
		add_holding(j, object, report, subject);
	} else if (subject->spot.at) {
		ms_json_add(j, object, "memory", ms_json_spot(j, report, &subject->spot));
	}
	return object;
}

static bool write_why(const struct ms_report *report, struct ms_sink *sink)
{
	const struct ms_answer_facts *facts = &report->answer.facts;
	struct ms_json j = { { sink, true } };
	const struct ms_subject *subject;

	ms_json_answer_begin(&j, report, "memscan.why/1");
	if (facts->of_type) {
		ms_json_member(&j, "blocks_of_type", json_object_new_uint64(facts->of_type));
		ms_json_member(&j, "reachable_of_type",
		               json_object_new_uint64(facts->of_type_held));
	}
	ms_text_print(&j.text, ",\n\"subjects\":[");
	ms_vec_for_each (subject, &report->answer.subjects) {
		ms_text_print(&j.text, subject > report->answer.subjects.at ? ",\n" : "\n");
		ms_json_put(&j, subject_object(&j, report, subject));
	}
	ms_text_print(&j.text, "]");
	ms_json_answer_end(&j, report);
	return j.text.ok;
}

const struct ms_writer ms_why_json_writer = { .name = "json", .write = write_why };
