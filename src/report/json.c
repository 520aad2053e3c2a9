/* SPDX-License-Identifier: Apache-2.0 */

/*
 * memscan.report/1 (docs/JSON.md).
 *
 * The parts of fixed size are json-c trees; the leaks, of which there can be
 * millions, are one small tree each (json/values.h). One member a line, one leak a line:
 * that also suits grep and line-wise tools.
 */

#include <string.h>

#include "report/frames.h"
#include "report/json/fields.h"
#include "report/json/values.h"
#include "report/utf8.h"
#include "report/version.h"
#include "report/writers.h"

/* Bytes of the target: what is no UTF-8 becomes U+FFFD, three bytes for one. */
static struct json_object *text(const char *s, size_t len)
{
	char clean[3 * MS_CMDLINE_TEXT + 1];

	ms_utf8_clean(s, len, false, clean, sizeof(clean));
	return json_object_new_string(clean);
}

/* Empty means "not known", and what is not known is absent. */
static void add_text(struct ms_json *j, struct json_object *object, const char *key, const char *s)
{
	if (s[0])
		ms_json_add(j, object, key, text(s, strlen(s)));
}

static uint64_t unsigned_at(const void *at, size_t size)
{
	uint32_t narrow;
	uint64_t wide;

	memcpy(&narrow, at, sizeof(narrow));
	if (size == sizeof(narrow))
		return narrow;
	memcpy(&wide, at, sizeof(wide));
	return wide;
}

static int64_t signed_at(const void *at, size_t size)
{
	uint64_t n = unsigned_at(at, size);

	return size == sizeof(int32_t) ? (int32_t)n : (int64_t)n;
}

static struct json_object *number(const struct ms_json_field *field, const void *at)
{
	if (field->form == MS_JSON_SIGNED)
		return json_object_new_int64(signed_at(at, field->size));
	return json_object_new_uint64(unsigned_at(at, field->size));
}

static void add_field(struct ms_json *j, struct json_object *object,
                      const struct ms_json_field *field, const unsigned char *at)
{
	switch (field->form) {
	case MS_JSON_UNSIGNED:
	case MS_JSON_SIGNED:
		if (!field->optional || unsigned_at(at, field->size))
			ms_json_add(j, object, field->key, number(field, at));
		break;
	case MS_JSON_BOOL:
		ms_json_add(j, object, field->key, json_object_new_boolean(*at));
		break;
	case MS_JSON_ADDRESS:
		ms_json_add_address(j, object, field->key, unsigned_at(at, field->size));
		break;
	case MS_JSON_TEXT:
		if (!field->optional || *at)
			ms_json_add(j, object, field->key,
			            text((const char *)at, strlen((const char *)at)));
		break;
	case MS_JSON_NAME:
		add_text(j, object, field->key, field->names->at[*at]);
		break;
	}
}

/* The fields of the struct at @base. */
static void add_fields(struct ms_json *j, struct json_object *object,
                       const struct ms_json_fields *fields, const void *base)
{
	for (size_t i = 0; i < fields->n; i++)
		add_field(j, object, &fields->at[i],
		          (const unsigned char *)base + fields->at[i].offset);
}

static struct json_object *tool(struct ms_json *j)
{
	struct json_object *object = json_object_new_object();

	add_text(j, object, "name", "memscan");
	add_text(j, object, "version", MS_VERSION);
	return object;
}

static struct json_object *host(struct ms_json *j, const struct ms_host_facts *facts)
{
	struct json_object *object = json_object_new_object();

	add_fields(j, object, &ms_json_host, facts);
	return object;
}

static struct json_object *cmdline(struct ms_json *j, const struct ms_target_facts *facts)
{
	struct json_object *array = json_object_new_array();
	size_t at = 0;

	while (at < facts->cmdline_len) {
		size_t len = strnlen(facts->cmdline + at, facts->cmdline_len - at);

		ms_json_append(j, array, text(facts->cmdline + at, len));
		at += len + 1;
	}
	return array;
}

static struct json_object *target(struct ms_json *j, const struct ms_target_facts *facts)
{
	struct json_object *object = json_object_new_object();

	add_fields(j, object, &ms_json_process, facts);
	if (facts->cmdline_len)
		ms_json_add(j, object, "cmdline", cmdline(j, facts));
	add_fields(j, object, &ms_json_machine, facts);
	return object;
}

static struct json_object *phases(struct ms_json *j, const struct ms_scan_facts *facts)
{
	struct json_object *array = json_object_new_array();

	for (int i = 0; i < MS_PHASES; i++) {
		struct json_object *phase = json_object_new_object();

		add_text(j, phase, "name", ms_phase_name((enum ms_phase)i));
		ms_json_add_number(j, phase, "ns", facts->phase_ns[i]);
		ms_json_append(j, array, phase);
	}
	return array;
}

static struct json_object *scan(struct ms_json *j, const struct ms_report *report)
{
	struct json_object *object = json_object_new_object();

	add_fields(j, object, &ms_json_scan, report);
	ms_json_add(j, object, "phases", phases(j, &report->scan));
	return object;
}

/* Notes [@first, @first + @n) as an array of strings. */
static struct json_object *strings(struct ms_json *j, const struct ms_notes *notes, size_t first,
                                   size_t n)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = first; i < first + n && i < notes->n; i++)
		ms_json_append(j, array, text(notes->at[i].text, strlen(notes->at[i].text)));
	return array;
}

static struct json_object *heaps(struct ms_json *j, const struct ms_report *report)
{
	struct json_object *array = json_object_new_array();
	const struct ms_heap *heap;
	size_t first = 0;

	ms_vec_for_each (heap, &report->heaps) {
		struct json_object *object = json_object_new_object();

		add_fields(j, object, &ms_json_heap, heap);
		ms_json_add(j, object, "evidence",
		            strings(j, &report->evidence, first, heap->n_evidence));
		ms_json_append(j, array, object);
		first += heap->n_evidence;
	}
	return array;
}

static struct json_object *sampling(struct ms_json *j, const struct ms_sampling *sampling)
{
	struct json_object *object = json_object_new_object();
	struct json_object *older;

	add_fields(j, object, &ms_json_sampling, sampling);
	if (!sampling->has_older)
		return object;
	older = json_object_new_object();
	add_fields(j, older, &ms_json_older, &sampling->older);
	ms_json_add(j, object, "before_attach", older);
	return object;
}

static struct json_object *totals(struct ms_json *j, const struct ms_report *report)
{
	struct json_object *object = json_object_new_object();

	add_fields(j, object, &ms_json_totals, &report->totals);
	if (report->possible)
		add_fields(j, object, &ms_json_possible, &report->totals);
	add_fields(j, object, &ms_json_suppressed, &report->totals);
	if (report->confirm)
		add_fields(j, object, &ms_json_unconfirmed, &report->totals);
	return object;
}

/* Beside the totals, which are the same whatever is listed. */
static struct json_object *unlisted(struct ms_json *j, const struct ms_report *report)
{
	struct ms_unlisted rest = ms_report_unlisted(report);
	struct json_object *object = json_object_new_object();

	add_fields(j, object, &ms_json_unlisted, &rest);
	if (report->possible)
		add_fields(j, object, &ms_json_unlisted_possible, &rest);
	return object;
}

static struct json_object *mappings(struct ms_json *j, const struct ms_lost_mappings *lost)
{
	struct json_object *array = json_object_new_array();
	const struct ms_lost_mapping *mapping;

	ms_vec_for_each (mapping, lost) {
		struct json_object *object = json_object_new_object();

		ms_json_add_address(j, object, "address", mapping->range.begin);
		ms_json_add_number(j, object, "size", ms_range_len(mapping->range));
		add_text(j, object, "name", mapping->name);
		ms_json_append(j, array, object);
	}
	return array;
}

static struct json_object *suppressions(struct ms_json *j, const struct ms_suppressed_list *list)
{
	struct json_object *array = json_object_new_array();
	const struct ms_suppressed *suppressed;

	ms_vec_for_each (suppressed, list) {
		struct json_object *object = json_object_new_object();

		add_fields(j, object, &ms_json_suppression, suppressed);
		ms_json_append(j, array, object);
	}
	return array;
}

static void add_contents(struct ms_json *j, struct json_object *object, const struct ms_leak *leak)
{
	static const char digits[] = "0123456789abcdef";
	char hex[2 * MS_CONTENTS + 1] = "";

	for (size_t i = 0; i < leak->contents_len; i++) {
		hex[2 * i] = digits[leak->contents[i] >> 4];
		hex[2 * i + 1] = digits[leak->contents[i] & 15];
	}
	add_text(j, object, "contents", hex);
}

/* The module stands by itself: it is known also where no name is. */
static void add_type(struct ms_json *j, struct json_object *object, const struct ms_type *type)
{
	struct json_object *type_object;

	if (type->name[0]) {
		type_object = json_object_new_object();
		add_text(j, type_object, "name", type->name);
		add_text(j, type_object, "how", ms_json_hows.at[type->how]);
		add_text(j, type_object, "sure", ms_json_sures.at[type->sure]);
		ms_json_add(j, object, "type", type_object);
	}
	add_text(j, object, "module", type->module);
}

static void add_known_text(struct ms_json *j, struct json_object *object, const char *key,
                           const char *s)
{
	if (s)
		add_text(j, object, key, s);
}

static struct json_object *frame_object(struct ms_json *j, const struct ms_named_frame *frame)
{
	const struct ms_symbol *symbol = &frame->symbol;
	struct json_object *object = json_object_new_object();

	ms_json_add_address(j, object, "pc", frame->pc);
	add_known_text(j, object, "module", symbol->module);
	if (symbol->unloaded)
		ms_json_add(j, object, "unloaded", json_object_new_boolean(true));
	add_known_text(j, object, "build_id", symbol->build_id);
	if (symbol->module && symbol->module[0])
		ms_json_add_address(j, object, "offset", symbol->rel_pc);
	add_known_text(j, object, "function", symbol->function);
	if (frame->inlined)
		ms_json_add(j, object, "inlined", json_object_new_boolean(true));
	add_known_text(j, object, "file", symbol->file);
	if (symbol->file && symbol->line)
		ms_json_add_number(j, object, "line", symbol->line);
	return object;
}

static void add_backtrace(struct ms_json *j, struct json_object *object,
                          const struct ms_report *report, const struct ms_stack *stack)
{
	struct json_object *array = json_object_new_array();

	for (size_t pc = stack->first; pc < (size_t)stack->first + stack->n; pc++) {
		size_t n = ms_frames_at(report, pc);

		for (size_t i = 0; i < n && j->text.ok; i++) {
			struct ms_named_frame frame;

			ms_frame_tell(report, pc, i, &frame);
			ms_json_append(j, array, frame_object(j, &frame));
		}
	}
	ms_json_add(j, object, "backtrace", array);
	if (stack->cut)
		ms_json_add(j, object, "backtrace_cut", json_object_new_boolean(true));
}

/* The function itself, and not one that is inlined at its begin. */
static struct json_object *callback(struct ms_json *j, const struct ms_report *report, size_t pc)
{
	struct ms_named_frame frame;

	ms_frame_tell(report, pc, ms_frames_at(report, pc) - 1, &frame);
	if (frame.symbol.unsized)
		frame.symbol.function = NULL;
	return frame_object(j, &frame);
}

static struct json_object *estimate(struct ms_json *j, const struct ms_estimate *estimate)
{
	struct json_object *object = json_object_new_object();

	add_fields(j, object, &ms_json_estimate, estimate);
	return object;
}

static struct json_object *maker(struct ms_json *j, const struct ms_report *report,
                                 const struct ms_maker *maker)
{
	struct json_object *object = json_object_new_object();

	add_text(j, object, "module", report->modules.at[maker->module - 1].path);
	add_fields(j, object, &ms_json_maker, maker);
	return object;
}

static struct json_object *like_object(struct ms_json *j, const struct ms_like *like)
{
	struct json_object *object = json_object_new_object();
	struct json_object *samples = json_object_new_array();

	ms_json_add_number(j, object, "count", like->count);
	add_text(j, object, "pattern", like->pattern);
	ms_json_append(j, samples, text(like->first, strlen(like->first)));
	if (like->last[0])
		ms_json_append(j, samples, text(like->last, strlen(like->last)));
	ms_json_add(j, object, "samples", samples);
	return object;
}

/* Of an entry that stands for several leaks. */
static struct json_object *texts(struct ms_json *j, const struct ms_report *report,
                                 const struct ms_leak *leak)
{
	struct json_object *object = json_object_new_object();
	struct json_object *array = json_object_new_array();

	ms_json_add_number(j, object, "count", leak->texts);
	for (uint32_t i = 0; i < leak->n_likes; i++)
		ms_json_append(j, array, like_object(j, &report->likes.at[leak->first_like + i]));
	ms_json_add(j, object, "alike", array);
	return object;
}

static struct json_object *leak_object(struct ms_json *j, const struct ms_report *report,
                                       const struct ms_leak *leak)
{
	struct json_object *object = json_object_new_object();

	add_fields(j, object, &ms_json_leak, leak);
	add_contents(j, object, leak);
	if (leak->type)
		add_type(j, object, &report->types.at[leak->type - 1]);
	if (leak->callback)
		ms_json_add(j, object, "callback", callback(j, report, leak->callback - 1));
	add_text(j, object, "text", leak->text);
	if (leak->texts)
		ms_json_add(j, object, "texts", texts(j, report, leak));
	add_fields(j, object, &ms_json_reason, leak);
	add_fields(j, object, &ms_json_references, leak);
	if (leak->older)
		ms_json_add(j, object, "before_attach", json_object_new_boolean(true));
	if (leak->maker.module)
		ms_json_add(j, object, leak->unproved ? "points_to" : "made_by",
		            maker(j, report, &leak->maker));
	if (leak->sampled.samples)
		ms_json_add(j, object, "sampled", estimate(j, &leak->sampled));
	if (leak->stack)
		add_backtrace(j, object, report, &report->stacks.at[leak->stack - 1]);
	return object;
}

static struct json_object *live_object(struct ms_json *j, const struct ms_report *report,
                                       const struct ms_live *live)
{
	struct json_object *object = json_object_new_object();

	if (live->type)
		add_type(j, object, &report->types.at[live->type - 1]);
	if (live->least_size != live->size)
		ms_json_add_number(j, object, "least_size", live->least_size);
	add_fields(j, object, &ms_json_live, live);
	return object;
}

static void put_live(struct ms_json *j, const struct ms_report *report)
{
	const struct ms_live_list *list = &report->live;

	if (!report->heap)
		return;
	ms_text_print(&j->text, ",\n\"histogram\":[");
	for (size_t i = 0; i < list->n && j->text.ok; i++) {
		ms_text_print(&j->text, i ? ",\n" : "\n");
		ms_json_put(j, live_object(j, report, &list->at[i]));
	}
	ms_text_print(&j->text, "]");
}

static struct json_object *site_object(struct ms_json *j, const struct ms_report *report,
                                       const struct ms_site *site)
{
	struct json_object *object = json_object_new_object();

	ms_json_add(j, object, "live", estimate(j, &site->live));
	if (site->leaked.samples)
		ms_json_add(j, object, "leaked", estimate(j, &site->leaked));
	add_backtrace(j, object, report, &report->stacks.at[site->stack - 1]);
	return object;
}

static void put_sites(struct ms_json *j, const struct ms_report *report)
{
	if (!report->sampling.on)
		return;
	ms_text_print(&j->text, ",\n\"sampled_stacks\":[");
	for (size_t i = 0; i < report->sites.n && j->text.ok; i++) {
		ms_text_print(&j->text, i ? ",\n" : "\n");
		ms_json_put(j, site_object(j, report, &report->sites.at[i]));
	}
	ms_text_print(&j->text, "]");
}

static void put_leaks(struct ms_json *j, const struct ms_report *report)
{
	const struct ms_leaks *leaks = &report->leaks;

	ms_text_print(&j->text, ",\n\"leaks\":[");
	for (size_t i = 0; i < leaks->n && j->text.ok; i++) {
		ms_text_print(&j->text, i ? ",\n" : "\n");
		ms_json_put(j, leak_object(j, report, &leaks->at[i]));
	}
	ms_text_print(&j->text, "]");
}

static void put_member(struct ms_json *j, const char *key, struct json_object *value)
{
	ms_text_print(&j->text, ",\n\"%s\":", key);
	ms_json_put(j, value);
}

static bool write_json(const struct ms_report *report, struct ms_sink *sink)
{
	struct ms_json j = { { sink, true } };

	ms_text_print(&j.text, "{\n\"schema\":\"memscan.report/1\"");
	put_member(&j, "tool", tool(&j));
	put_member(&j, "host", host(&j, &report->host));
	put_member(&j, "target", target(&j, &report->target));
	put_member(&j, "scan", scan(&j, report));
	put_member(&j, "heaps", heaps(&j, report));
	if (report->sampling.on)
		put_member(&j, "sampling", sampling(&j, &report->sampling));
	put_member(&j, "totals", totals(&j, report));
	put_leaks(&j, report);
	put_member(&j, "unlisted", unlisted(&j, report));
	put_live(&j, report);
	put_sites(&j, report);
	put_member(&j, "unreachable_mappings", mappings(&j, &report->mappings));
	if (report->suppressed.n)
		put_member(&j, "suppressions", suppressions(&j, &report->suppressed));
	put_member(&j, "warnings", strings(&j, &report->warnings, 0, report->warnings.n));
	ms_text_print(&j.text, "\n}\n");
	return j.text.ok;
}

const struct ms_writer ms_json_writer = { .name = "json", .write = write_json };
