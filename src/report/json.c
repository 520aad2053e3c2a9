/* SPDX-License-Identifier: Apache-2.0 */

/*
 * memscan.report/1 (CONTRACT: README, "The JSON report").
 *
 * The parts of fixed size are json-c trees; the leaks, of which there can be
 * millions, are one small tree each (json/values.h). One member a line, one leak a line:
 * that also suits grep and line-wise tools.
 */

#include <string.h>

#include "report/formats.h"
#include "report/frames.h"
#include "report/json/values.h"
#include "report/utf8.h"
#include "report/version.h"

/* Bytes of the target: what is no UTF-8 becomes U+FFFD, three bytes for one. */
static struct json_object *text(const char *s, size_t len)
{
	char clean[3 * MS_CMDLINE_TEXT + 1];

	ms_utf8_clean(s, len, false, clean, sizeof(clean));
	return json_object_new_string(clean);
}

/* Empty means "cannot be told", and that is told by absence. */
static void add_text(struct ms_json *j, struct json_object *object, const char *key, const char *s)
{
	if (s[0])
		ms_json_add(j, object, key, text(s, strlen(s)));
}

static void add_known(struct ms_json *j, struct json_object *object, const char *key, uint64_t n)
{
	if (n)
		ms_json_add_number(j, object, key, n);
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

	add_text(j, object, "name", facts->name);
	add_text(j, object, "kernel", facts->kernel);
	add_text(j, object, "arch", facts->arch);
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

	ms_json_add(j, object, "pid", json_object_new_int(facts->pid));
	add_text(j, object, "exe", facts->exe);
	if (facts->cmdline_len)
		ms_json_add(j, object, "cmdline", cmdline(j, facts));
	add_text(j, object, "arch", facts->arch);
	add_known(j, object, "word_size", facts->word_size);
	add_known(j, object, "threads", facts->threads);
	if (facts->start_time)
		ms_json_add(j, object, "start_time", json_object_new_int64(facts->start_time));
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
	const struct ms_scan_facts *facts = &report->scan;
	struct json_object *object = json_object_new_object();

	ms_json_add(j, object, "time", json_object_new_int64(facts->time));
	add_text(j, object, "source", facts->source);
	ms_json_add_number(j, object, "attempts", facts->attempts);
	ms_json_add_number(j, object, "pause_ns", facts->pause_ns);
	ms_json_add_number(j, object, "duration_ns", facts->duration_ns);
	add_known(j, object, "confirm_ns", report->confirm_ns);
	ms_json_add_number(j, object, "bytes_read", facts->bytes_read);
	add_known(j, object, "peak_rss_bytes", facts->peak_rss_bytes);
	ms_json_add(j, object, "phases", phases(j, facts));
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

static struct json_object *heap_object(struct ms_json *j, const struct ms_heap *heap)
{
	struct json_object *object = json_object_new_object();

	add_text(j, object, "allocator", heap->allocator);
	add_text(j, object, "version", heap->version);
	ms_json_add(j, object, "verified", json_object_new_boolean(heap->verified));
	ms_json_add_number(j, object, "allocations", heap->allocations);
	ms_json_add_number(j, object, "allocation_bytes", heap->allocation_bytes);
	ms_json_add_number(j, object, "free_bytes", heap->free_bytes);
	ms_json_add_number(j, object, "mapped_bytes", heap->mapped_bytes);
	return object;
}

static struct json_object *heaps(struct ms_json *j, const struct ms_report *report)
{
	struct json_object *array = json_object_new_array();
	const struct ms_heap *heap;
	size_t first = 0;

	ms_vec_for_each (heap, &report->heaps) {
		struct json_object *object = heap_object(j, heap);

		ms_json_add(j, object, "evidence",
		            strings(j, &report->evidence, first, heap->n_evidence));
		ms_json_append(j, array, object);
		first += heap->n_evidence;
	}
	return array;
}

static struct json_object *totals(struct ms_json *j, const struct ms_report *report)
{
	const struct ms_totals *t = &report->totals;
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "allocations", t->allocations);
	ms_json_add_number(j, object, "allocation_bytes", t->allocation_bytes);
	ms_json_add_number(j, object, "leaked_allocations", t->leaked_allocations);
	ms_json_add_number(j, object, "leaked_bytes", t->leaked_bytes);
	ms_json_add_number(j, object, "direct_allocations", t->direct_allocations);
	ms_json_add_number(j, object, "direct_bytes", t->direct_bytes);
	ms_json_add_number(j, object, "indirect_allocations", t->indirect_allocations);
	ms_json_add_number(j, object, "indirect_bytes", t->indirect_bytes);
	if (report->possible) {
		ms_json_add_number(j, object, "possible_allocations", t->possible_allocations);
		ms_json_add_number(j, object, "possible_bytes", t->possible_bytes);
	}
	ms_json_add_number(j, object, "suppressed_allocations", t->suppressed_allocations);
	ms_json_add_number(j, object, "suppressed_bytes", t->suppressed_bytes);
	if (report->confirm) {
		ms_json_add_number(j, object, "unconfirmed_allocations",
		                   t->unconfirmed_allocations);
		ms_json_add_number(j, object, "unconfirmed_bytes", t->unconfirmed_bytes);
	}
	return object;
}

/* Beside the totals, which are the same whatever is listed. */
static struct json_object *unlisted(struct ms_json *j, const struct ms_report *report)
{
	struct ms_unlisted rest = ms_report_unlisted(report);
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "leaks", rest.leaks);
	ms_json_add_number(j, object, "small_leaks", rest.small_leaks);
	if (report->possible) {
		ms_json_add_number(j, object, "possible", rest.possible);
		ms_json_add_number(j, object, "small_possible", rest.small_possible);
	}
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

		ms_json_add(j, object, "pattern",
		            text(suppressed->pattern, strlen(suppressed->pattern)));
		ms_json_add_number(j, object, "allocations", suppressed->allocations);
		ms_json_add_number(j, object, "bytes", suppressed->bytes);
		ms_json_append(j, array, object);
	}
	return array;
}

static const char *kind_name(enum ms_leak_kind kind)
{
	switch (kind) {
	case MS_LEAK_DIRECT:
		return "direct";
	case MS_LEAK_INDIRECT:
		return "indirect";
	case MS_LEAK_POSSIBLE:
		return "possible";
	case MS_LEAK_KINDS:
		break;
	}
	return "";
}

static const char *reason_name(enum ms_reason reason)
{
	switch (reason) {
	case MS_REASON_INTERIOR:
		return "interior";
	case MS_REASON_MAPPING:
		return "mapping";
	case MS_REASON_UNALIGNED:
		return "unaligned";
	case MS_REASON_RELATIVE:
		return "relative";
	case MS_REASON_SIGNAL_STACK:
		return "signal-stack";
	case MS_REASON_UNSEEN:
		return "unseen";
	case MS_REASON_NONE:
	case MS_REASONS:
		break;
	}
	return "";
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

static const char *how_name(enum ms_how how)
{
	switch (how) {
	case MS_HOW_VTABLE:
		return "vtable";
	case MS_HOW_FUNCTIONS:
		return "functions";
	case MS_HOWS:
		break;
	}
	return "";
}

/* The module stands by itself: it is known also where no name is. */
static void add_type(struct ms_json *j, struct json_object *object, const struct ms_type *type)
{
	struct json_object *told;

	if (type->name[0]) {
		told = json_object_new_object();
		add_text(j, told, "name", type->name);
		add_text(j, told, "how", how_name((enum ms_how)type->how));
		ms_json_add(j, object, "type", told);
	}
	add_text(j, object, "module", type->module);
}

static void add_known_text(struct ms_json *j, struct json_object *object, const char *key,
                           const char *s)
{
	if (s)
		add_text(j, object, key, s);
}

static struct json_object *frame_object(struct ms_json *j, const struct ms_told_frame *frame)
{
	const struct ms_symbol *symbol = &frame->symbol;
	struct json_object *object = json_object_new_object();

	ms_json_add_address(j, object, "pc", frame->pc);
	add_known_text(j, object, "module", symbol->module);
	add_known_text(j, object, "build_id", symbol->build_id);
	if (symbol->module && symbol->module[0])
		ms_json_add_address(j, object, "offset", symbol->rel_pc);
	add_known_text(j, object, "function", symbol->function);
	if (frame->inlined)
		ms_json_add(j, object, "inlined", json_object_new_boolean(true));
	add_known_text(j, object, "file", symbol->file);
	if (symbol->file)
		add_known(j, object, "line", symbol->line);
	return object;
}

static struct json_object *backtrace(struct ms_json *j, const struct ms_report *report,
                                     const struct ms_stack *stack)
{
	struct json_object *array = json_object_new_array();

	for (size_t pc = stack->first; pc < (size_t)stack->first + stack->n; pc++) {
		size_t n = ms_frames_at(report, pc);

		for (size_t i = 0; i < n && j->text.ok; i++) {
			struct ms_told_frame frame;

			ms_frame_tell(report, pc, i, &frame);
			ms_json_append(j, array, frame_object(j, &frame));
		}
	}
	return array;
}

static struct json_object *leak_object(struct ms_json *j, const struct ms_report *report,
                                       const struct ms_leak *leak)
{
	struct json_object *object = json_object_new_object();

	ms_json_add_number(j, object, "id", leak->id);
	add_text(j, object, "kind", kind_name((enum ms_leak_kind)leak->kind));
	ms_json_add_address(j, object, "address", leak->address);
	ms_json_add_number(j, object, "size", leak->size);
	ms_json_add_number(j, object, "referenced_count", leak->referenced_count);
	ms_json_add_number(j, object, "referenced_size", leak->referenced_size);
	ms_json_add_number(j, object, "similar_count", leak->similar_count);
	ms_json_add_number(j, object, "similar_size", leak->similar_size);
	ms_json_add_number(j, object, "similar_referenced_count", leak->similar_referenced_count);
	ms_json_add_number(j, object, "similar_referenced_size", leak->similar_referenced_size);
	ms_json_add_number(j, object, "total_size", leak->total_size);
	add_contents(j, object, leak);
	if (leak->type)
		add_type(j, object, &report->types.at[leak->type - 1]);
	add_text(j, object, "reason", reason_name((enum ms_reason)leak->reason));
	if (leak->stack)
		ms_json_add(j, object, "backtrace",
		            backtrace(j, report, &report->stacks.at[leak->stack - 1]));
	return object;
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
	put_member(&j, "totals", totals(&j, report));
	put_leaks(&j, report);
	put_member(&j, "unlisted", unlisted(&j, report));
	put_member(&j, "unreachable_mappings", mappings(&j, &report->mappings));
	if (report->suppressed.n)
		put_member(&j, "suppressions", suppressions(&j, &report->suppressed));
	put_member(&j, "warnings", strings(&j, &report->warnings, 0, report->warnings.n));
	ms_text_print(&j.text, "\n}\n");
	return j.text.ok;
}

const struct ms_writer ms_json_writer = { "json", write_json };
