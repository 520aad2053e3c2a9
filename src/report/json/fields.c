/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/fields.h"

#include <assert.h>

static const char *const kinds[] = {
	[MS_LEAK_DIRECT] = "direct",
	[MS_LEAK_INDIRECT] = "indirect",
	[MS_LEAK_POSSIBLE] = "possible",
};

static const char *const reasons[] = {
	[MS_REASON_NONE] = "",
	[MS_REASON_INTERIOR] = "interior",
	[MS_REASON_MAPPING] = "mapping",
	[MS_REASON_STACK] = "stack",
	[MS_REASON_UNALIGNED] = "unaligned",
	[MS_REASON_TAGGED] = "tagged",
	[MS_REASON_OUTSIDE] = "outside",
	[MS_REASON_RELATIVE] = "relative",
	[MS_REASON_SIGNAL_STACK] = "signal-stack",
	[MS_REASON_REQUESTS] = "requests",
	[MS_REASON_FUSE] = "fuse",
	[MS_REASON_UNSEEN] = "unseen",
	[MS_REASON_GC] = "gc",
};

static const char *const hows[] = {
	[MS_HOW_VTABLE] = "vtable",
	[MS_HOW_FUNCTIONS] = "functions",
	[MS_HOW_DEBUG] = "debug",
	[MS_HOW_OBJECT] = "object",
	[MS_HOW_CONTAINER] = "container",
	[MS_HOW_TEXT] = "text",
	[MS_HOWS] = "",
};

static const char *const sures[] = {
	[MS_SURE_CERTAIN] = "",
	[MS_SURE_LIKELY] = "likely",
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static_assert(COUNT(kinds) == MS_LEAK_KINDS, "a name for each kind");
static_assert(COUNT(reasons) == MS_REASONS, "a name for each reason");
static_assert(COUNT(sures) == MS_SURES, "a word for each");
static_assert(COUNT(hows) == MS_HOWS + 1, "a name for each way to find a type");

static const struct ms_json_names kind_names = { kinds, COUNT(kinds) };
const struct ms_json_names ms_json_reasons = { reasons, COUNT(reasons) };
const struct ms_json_names ms_json_hows = { hows, MS_HOWS };
const struct ms_json_names ms_json_sures = { sures, COUNT(sures) };

/* @form and what follows of the @member of struct @type. */
#define MEMBER(type, member, form, optional) \
	(form), (optional), offsetof(struct type, member), sizeof(((struct type *)0)->member)

#define AMOUNT(type, member)                                                 \
	{                                                                    \
#member, MEMBER(type, member, MS_JSON_UNSIGNED, false), NULL \
	}
#define KNOWN_AMOUNT(type, member)                                          \
	{                                                                   \
#member, MEMBER(type, member, MS_JSON_UNSIGNED, true), NULL \
	}
#define TEXT(type, member)                                              \
	{                                                               \
#member, MEMBER(type, member, MS_JSON_TEXT, true), NULL \
	}

static const struct ms_json_field host[] = {
	TEXT(ms_host_facts, name),
	TEXT(ms_host_facts, kernel),
	TEXT(ms_host_facts, arch),
};

static const struct ms_json_field process[] = {
	{ "pid", MEMBER(ms_target_facts, pid, MS_JSON_SIGNED, false), NULL },
	{ "ns_pid", MEMBER(ms_target_facts, ns_pid, MS_JSON_SIGNED, true), NULL },
	TEXT(ms_target_facts, exe),
};

static const struct ms_json_field machine[] = {
	TEXT(ms_target_facts, arch),
	KNOWN_AMOUNT(ms_target_facts, word_size),
	KNOWN_AMOUNT(ms_target_facts, threads),
	{ "start_time", MEMBER(ms_target_facts, start_time, MS_JSON_SIGNED, true), NULL },
};

#define SCAN(field, form, optional)                                         \
	{                                                                   \
#field, MEMBER(ms_report, scan.field, form, optional), NULL \
	}

static const struct ms_json_field scan[] = {
	SCAN(time, MS_JSON_SIGNED, false),          SCAN(source, MS_JSON_TEXT, true),
	SCAN(attempts, MS_JSON_UNSIGNED, false),    SCAN(pause_ns, MS_JSON_UNSIGNED, false),
	SCAN(duration_ns, MS_JSON_UNSIGNED, false), KNOWN_AMOUNT(ms_report, confirm_ns),
	SCAN(bytes_read, MS_JSON_UNSIGNED, false),  SCAN(peak_rss_bytes, MS_JSON_UNSIGNED, true),
};

static const struct ms_json_field heap[] = {
	TEXT(ms_heap, allocator),
	TEXT(ms_heap, version),
	{ "verified", MEMBER(ms_heap, verified, MS_JSON_BOOL, false), NULL },
	AMOUNT(ms_heap, allocations),
	AMOUNT(ms_heap, allocation_bytes),
	AMOUNT(ms_heap, free_bytes),
	AMOUNT(ms_heap, mapped_bytes),
};

static const struct ms_json_field sampling[] = {
	KNOWN_AMOUNT(ms_sampling, interval), AMOUNT(ms_sampling, samples),
	AMOUNT(ms_sampling, live),           AMOUNT(ms_sampling, dropped),
	AMOUNT(ms_sampling, stacks),
};

static const struct ms_json_field older[] = {
	AMOUNT(ms_older, live_bytes),
	AMOUNT(ms_older, live_bytes_error),
	AMOUNT(ms_older, leaked_bytes),
	AMOUNT(ms_older, leaked_bytes_error),
};

static const struct ms_json_field totals[] = {
	AMOUNT(ms_totals, allocations),          AMOUNT(ms_totals, allocation_bytes),
	AMOUNT(ms_totals, leaked_allocations),   AMOUNT(ms_totals, leaked_bytes),
	AMOUNT(ms_totals, direct_allocations),   AMOUNT(ms_totals, direct_bytes),
	AMOUNT(ms_totals, indirect_allocations), AMOUNT(ms_totals, indirect_bytes),
	KNOWN_AMOUNT(ms_totals, unread_bytes),   KNOWN_AMOUNT(ms_totals, interior_allocations),
	KNOWN_AMOUNT(ms_totals, interior_bytes),
};

static const struct ms_json_field possible[] = {
	AMOUNT(ms_totals, possible_allocations),
	AMOUNT(ms_totals, possible_bytes),
};

static const struct ms_json_field suppressed[] = {
	AMOUNT(ms_totals, suppressed_allocations),
	AMOUNT(ms_totals, suppressed_bytes),
};

static const struct ms_json_field unconfirmed[] = {
	AMOUNT(ms_totals, unconfirmed_allocations),
	AMOUNT(ms_totals, unconfirmed_bytes),
};

static const struct ms_json_field unlisted[] = {
	AMOUNT(ms_unlisted, leaks),
	AMOUNT(ms_unlisted, small_leaks),
};

static const struct ms_json_field unlisted_possible[] = {
	AMOUNT(ms_unlisted, possible),
	AMOUNT(ms_unlisted, small_possible),
};

static const struct ms_json_field leak[] = {
	AMOUNT(ms_leak, id),
	{ "kind", MEMBER(ms_leak, kind, MS_JSON_NAME, false), &kind_names },
	{ "address", MEMBER(ms_leak, address, MS_JSON_ADDRESS, false), NULL },
	AMOUNT(ms_leak, size),
	AMOUNT(ms_leak, referenced_count),
	AMOUNT(ms_leak, referenced_size),
	AMOUNT(ms_leak, similar_count),
	AMOUNT(ms_leak, similar_size),
	AMOUNT(ms_leak, similar_referenced_count),
	AMOUNT(ms_leak, similar_referenced_size),
	AMOUNT(ms_leak, total_size),
	TEXT(ms_leak, signature),
};

static const struct ms_json_field reason[] = {
	{ "reason", MEMBER(ms_leak, reason, MS_JSON_NAME, true), &ms_json_reasons },
};

static const struct ms_json_field references[] = {
	KNOWN_AMOUNT(ms_leak, references),
	KNOWN_AMOUNT(ms_leak, references_found),
};

static const struct ms_json_field estimate[] = {
	AMOUNT(ms_estimate, samples),     AMOUNT(ms_estimate, count),
	AMOUNT(ms_estimate, count_error), AMOUNT(ms_estimate, bytes),
	AMOUNT(ms_estimate, bytes_error),
};

static const struct ms_json_field maker[] = {
	KNOWN_AMOUNT(ms_maker, tables),
	KNOWN_AMOUNT(ms_maker, code),
	KNOWN_AMOUNT(ms_maker, constants),
};

static const struct ms_json_field live[] = {
	AMOUNT(ms_live, size),
	AMOUNT(ms_live, allocations),
	AMOUNT(ms_live, bytes),
	KNOWN_AMOUNT(ms_live, leaked_allocations),
	KNOWN_AMOUNT(ms_live, leaked_bytes),
};

static const struct ms_json_field suppression[] = {
	{ "pattern", MEMBER(ms_suppressed, pattern, MS_JSON_TEXT, false), NULL },
	AMOUNT(ms_suppressed, allocations),
	AMOUNT(ms_suppressed, bytes),
};

#define TABLE(table)                  \
	{                             \
		(table), COUNT(table) \
	}

const struct ms_json_fields ms_json_host = TABLE(host);
const struct ms_json_fields ms_json_process = TABLE(process);
const struct ms_json_fields ms_json_machine = TABLE(machine);
const struct ms_json_fields ms_json_scan = TABLE(scan);
const struct ms_json_fields ms_json_heap = TABLE(heap);
const struct ms_json_fields ms_json_sampling = TABLE(sampling);
const struct ms_json_fields ms_json_older = TABLE(older);
const struct ms_json_fields ms_json_totals = TABLE(totals);
const struct ms_json_fields ms_json_possible = TABLE(possible);
const struct ms_json_fields ms_json_suppressed = TABLE(suppressed);
const struct ms_json_fields ms_json_unconfirmed = TABLE(unconfirmed);
const struct ms_json_fields ms_json_unlisted = TABLE(unlisted);
const struct ms_json_fields ms_json_unlisted_possible = TABLE(unlisted_possible);
const struct ms_json_fields ms_json_leak = TABLE(leak);
const struct ms_json_fields ms_json_reason = TABLE(reason);
const struct ms_json_fields ms_json_references = TABLE(references);
const struct ms_json_fields ms_json_estimate = TABLE(estimate);
const struct ms_json_fields ms_json_maker = TABLE(maker);
const struct ms_json_fields ms_json_live = TABLE(live);
const struct ms_json_fields ms_json_suppression = TABLE(suppression);
