/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <json-c/json.h>

#include "golden/sample.h"

static struct ms_arena arena;
static struct ms_report report;
static struct keeper keeper;
static struct json_object *root;

static void setup(void)
{
	ms_arena_init(&arena);
	sample_report(&arena, &report);
}

static void teardown(void)
{
	json_object_put(root);
	ms_arena_deinit(&arena);
}

TestSuite(json, .init = setup, .fini = teardown);

/* Write the report and parse it as strictly as json-c can. */
static void read_back(void)
{
	struct json_tokener *tokener = json_tokener_new();

	keep_report(&keeper, "json", &report);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	json_object_put(root);
	root = json_tokener_parse_ex(tokener, keeper.bytes, (int)keeper.len);
	cr_assert_not_null(root, "%s in:\n%s",
	                   json_tokener_error_desc(json_tokener_get_error(tokener)), keeper.bytes);
	json_tokener_free(tokener);
}

/* What "a.b.0.c" leads to, or NULL. */
static struct json_object *at(const char *path)
{
	char copy[128];
	char *rest = NULL;
	struct json_object *here = root;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *key = strtok_r(copy, ".", &rest); key; key = strtok_r(NULL, ".", &rest)) {
		if (json_object_is_type(here, json_type_array))
			here = json_object_array_get_idx(here, strtoul(key, NULL, 10));
		else
			here = json_object_object_get(here, key);
	}
	return here;
}

Test(json, full_report_is_the_golden_one)
{
	read_back();
	assert_golden(&keeper, "tests/golden/report.json");
}

static const struct {
	const char *path;
	enum json_type type;
	int64_t number;
	const char *string;
} fields[] = {
	{ "schema", json_type_string, 0, "memscan.report/1" },
	{ "tool.name", json_type_string, 0, "memscan" },
	{ "tool.version", json_type_string, 0, "0.1.0" },
	{ "host.name", json_type_string, 0, "alpha" },
	{ "host.kernel", json_type_string, 0, "6.1.0-18-amd64" },
	{ "host.arch", json_type_string, 0, "x86_64" },
	{ "target.pid", json_type_int, 4321, NULL },
	{ "target.exe", json_type_string, 0, "/usr/sbin/server" },
	{ "target.cmdline.0", json_type_string, 0, "server" },
	{ "target.cmdline.2", json_type_string, 0, "/etc/my server.conf" },
	{ "target.arch", json_type_string, 0, "x86_64" },
	{ "target.word_size", json_type_int, 8, NULL },
	{ "target.threads", json_type_int, 7, NULL },
	{ "target.start_time", json_type_int, 1700000000000000001, NULL },
	{ "scan.time", json_type_int, 1700000100000000002, NULL },
	{ "scan.source", json_type_string, 0, "copy" },
	{ "scan.attempts", json_type_int, 2, NULL },
	{ "scan.pause_ns", json_type_int, 1234567, NULL },
	{ "scan.duration_ns", json_type_int, 23456789, NULL },
	{ "scan.bytes_read", json_type_int, 135168, NULL },
	{ "scan.peak_rss_bytes", json_type_int, 9437184, NULL },
	{ "scan.phases.0.name", json_type_string, 0, "freeze" },
	{ "scan.phases.6.name", json_type_string, 0, "fold" },
	{ "scan.phases.6.ns", json_type_int, 1007, NULL },
	{ "heaps.0.allocator", json_type_string, 0, "glibc" },
	{ "heaps.0.version", json_type_string, 0, "2.36" },
	{ "heaps.0.verified", json_type_boolean, 1, NULL },
	{ "heaps.0.allocations", json_type_int, 9, NULL },
	{ "heaps.0.allocation_bytes", json_type_int, 1500, NULL },
	{ "heaps.0.free_bytes", json_type_int, 700, NULL },
	{ "heaps.0.mapped_bytes", json_type_int, 135168, NULL },
	{ "heaps.0.evidence.1", json_type_string, 0, "second of glibc" },
	{ "heaps.1.verified", json_type_boolean, 0, NULL },
	{ "heaps.1.evidence.0", json_type_string, 0, "only of odd" },
	{ "totals.allocations", json_type_int, 10, NULL },
	{ "totals.allocation_bytes", json_type_int, 1564, NULL },
	{ "totals.leaked_allocations", json_type_int, 9, NULL },
	{ "totals.leaked_bytes", json_type_int, 214, NULL },
	{ "totals.direct_allocations", json_type_int, 6, NULL },
	{ "totals.direct_bytes", json_type_int, 156, NULL },
	{ "totals.indirect_allocations", json_type_int, 3, NULL },
	{ "totals.indirect_bytes", json_type_int, 58, NULL },
	{ "totals.possible_allocations", json_type_int, 1, NULL },
	{ "totals.possible_bytes", json_type_int, 24, NULL },
	{ "totals.suppressed_allocations", json_type_int, 12, NULL },
	{ "totals.suppressed_bytes", json_type_int, 13, NULL },
	{ "totals.unconfirmed_allocations", json_type_int, 14, NULL },
	{ "totals.unconfirmed_bytes", json_type_int, 15, NULL },
	{ "scan.confirm_ns", json_type_int, 1500000001, NULL },
	{ "unlisted.leaks", json_type_int, 2, NULL },
	{ "unlisted.small_leaks", json_type_int, 2, NULL },
	{ "unlisted.possible", json_type_int, 1, NULL },
	{ "unlisted.small_possible", json_type_int, 1, NULL },
	{ "leaks.0.id", json_type_int, 1, NULL },
	{ "leaks.0.kind", json_type_string, 0, "direct" },
	{ "leaks.0.address", json_type_string, 0, "0x7a03454400" },
	{ "leaks.0.size", json_type_int, 20, NULL },
	{ "leaks.0.referenced_count", json_type_int, 2, NULL },
	{ "leaks.0.referenced_size", json_type_int, 48, NULL },
	{ "leaks.0.similar_count", json_type_int, 4, NULL },
	{ "leaks.0.similar_size", json_type_int, 96, NULL },
	{ "leaks.0.similar_referenced_count", json_type_int, 1, NULL },
	{ "leaks.0.similar_referenced_size", json_type_int, 10, NULL },
	{ "leaks.0.total_size", json_type_int, 174, NULL },
	{ "leaks.0.contents", json_type_string, 0, "1f20417e7f80ff0001020304050607086c617374" },
	{ "leaks.2.kind", json_type_string, 0, "possible" },
	{ "leaks.2.reason", json_type_string, 0, "interior" },
	{ "histogram.0.least_size", json_type_int, 896, NULL },
	{ "histogram.0.size", json_type_int, 1023, NULL },
	{ "histogram.1.module", json_type_string, 0, "/usr/lib/libops.so.2" },
	{ "histogram.1.allocations", json_type_int, 5, NULL },
	{ "histogram.1.bytes", json_type_int, 500, NULL },
	{ "histogram.1.leaked_allocations", json_type_int, 2, NULL },
	{ "histogram.1.leaked_bytes", json_type_int, 200, NULL },
	{ "histogram.2.type.name", json_type_string, 0, "pool::Box<int, char const*>" },
	{ "histogram.2.type.how", json_type_string, 0, "vtable" },
	{ "histogram.3.size", json_type_int, 43, NULL },
	{ "unreachable_mappings.0.address", json_type_string, 0, "0x7f0000000000" },
	{ "unreachable_mappings.0.size", json_type_int, 1048576, NULL },
	{ "unreachable_mappings.0.name", json_type_string, 0, "[anon: pool]" },
	{ "warnings.0", json_type_string, 0, "1 page could not be read" },
};

Test(json, every_field_of_the_schema_has_its_name_type_and_value)
{
	read_back();
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct json_object *value = at(fields[i].path);

		cr_assert_eq(json_object_get_type(value), fields[i].type, "%s", fields[i].path);
		if (fields[i].string)
			cr_assert_str_eq(json_object_get_string(value), fields[i].string, "%s",
			                 fields[i].path);
		else
			cr_assert_eq(json_object_get_int64(value), fields[i].number, "%s",
			             fields[i].path);
	}
}

static const char *const absent[] = {
	"heaps.0.version",
	"target.exe",
	"target.cmdline",
	"target.start_time",
	"host.name",
	"scan.peak_rss_bytes",
	"totals.possible_bytes",
	"leaks.0.contents",
	"leaks.0.reason",
	"totals.possible_allocations",
	"totals.unconfirmed_allocations",
	"totals.unconfirmed_bytes",
	"scan.confirm_ns",
	"unlisted.possible",
	"unlisted.small_possible",
	"unreachable_mappings.0.name",
	"histogram.0.type",
	"histogram.0.leaked_allocations",
	"histogram.0.leaked_bytes",
	"histogram.1.least_size",
	"histogram.1.type",
};

Test(json, what_does_not_apply_is_absent_and_never_null)
{
	report.heaps.at[0].version[0] = '\0';
	report.target.exe[0] = '\0';
	report.target.cmdline_len = 0;
	report.target.start_time = 0;
	report.host.name[0] = '\0';
	report.scan.peak_rss_bytes = 0;
	report.possible = false;
	report.confirm = false;
	report.confirm_ns = 0;
	report.leaks.at[0].contents_len = 0;
	report.mappings.at[0].name[0] = '\0';
	read_back();
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
		cr_assert_null(at(absent[i]), "%s", absent[i]);
	cr_assert_null(strstr(keeper.bytes, "null"));
}

Test(json, a_histogram_is_there_when_it_was_asked_for_and_is_not_cut)
{
	report.live_limit = 0;
	read_back();
	cr_assert_eq(json_object_array_length(at("histogram")), 4);
	report.live.n = 0;
	read_back();
	cr_assert_eq(json_object_array_length(at("histogram")), 0);
	report.heap = false;
	read_back();
	cr_assert_null(at("histogram"));
}

Test(json, frames_without_names_have_their_places_as_linked)
{
	struct ms_code *code = ms_range_find(&report.code, 0x7f0000003000);

	report.names.n = 0;
	code->bias = 0x7f0000003000 - 0x402000;
	code->has_bias = 1;
	read_back();
	cr_assert_str_eq(json_object_get_string(at("leaks.0.backtrace.1.offset")), "0x402000");
}

Test(json, frames_without_names_have_their_modules)
{
	report.names.n = 0;
	read_back();
	cr_assert_eq(json_object_array_length(at("leaks.0.backtrace")), 3);
	cr_assert_str_eq(json_object_get_string(at("leaks.0.backtrace.1.offset")), "0x2000");
	cr_assert_str_eq(json_object_get_string(at("leaks.0.backtrace.1.build_id")), "01fe23ab");
	cr_assert_null(at("leaks.0.backtrace.1.function"));
	cr_assert_null(at("leaks.0.backtrace.2.module"));
	cr_assert_null(at("leaks.0.backtrace.2.offset"));
	cr_assert_null(at("leaks.1.backtrace.0.build_id"));
	cr_assert_null(at("leaks.1.backtrace.1.offset"));
	cr_assert_null(at("leaks.2.backtrace"));
}

Test(json, empty_lists_are_there_as_lists)
{
	static const char *const lists[] = { "heaps", "leaks", "unreachable_mappings", "warnings" };

	report.heaps.n = report.leaks.n = report.mappings.n = report.warnings.n = 0;
	read_back();
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		cr_assert(json_object_is_type(at(lists[i]), json_type_array), "%s", lists[i]);
		cr_assert_eq(json_object_array_length(at(lists[i])), 0, "%s", lists[i]);
	}
}

Test(json, any_byte_in_a_name_gives_valid_json)
{
	char *bytes = report.target.cmdline;

	for (int i = 0; i < 256; i++)
		bytes[i] = (char)(255 - i);
	report.target.cmdline_len = 256;
	snprintf(report.target.exe, sizeof(report.target.exe), "/tmp/\"\\\n\xff\xc3");
	snprintf(report.mappings.at[0].name, sizeof(report.mappings.at[0].name), "\x80\"");
	read_back();
	cr_assert_str_eq(json_object_get_string(at("target.exe")),
	                 "/tmp/\"\\\n\xef\xbf\xbd\xef\xbf\xbd");
	cr_assert_str_eq(json_object_get_string(at("unreachable_mappings.0.name")),
	                 "\xef\xbf\xbd\"");
}

/* They would command the terminal of whoever looks at the file, yet must not be lost. */
Test(json, controls_are_escaped)
{
	static const char name[] = "/a\x1b\x7f\xc2\x9b\xe2\x80\xaez";

	(void)snprintf(report.target.exe, sizeof(report.target.exe), "%s", name);
	read_back();
	cr_assert_not_null(strstr(keeper.bytes, "\"/a\\u001b\\u007f\\u009b\\u202ez\""));
	cr_assert_str_eq(json_object_get_string(at("target.exe")), name);
}

Test(json, a_command_line_of_bad_bytes_comes_whole)
{
	memset(report.target.cmdline, 0xff, sizeof(report.target.cmdline));
	report.target.cmdline_len = sizeof(report.target.cmdline);
	read_back();
	cr_assert_eq(json_object_get_string_len(at("target.cmdline.0")), 3 * MS_CMDLINE_TEXT);
}

Test(json, large_numbers_stay_exact)
{
	report.leaks.at[0].size = UINT64_MAX;
	report.leaks.at[0].address = UINT64_MAX;
	read_back();
	cr_assert_eq(json_object_get_uint64(at("leaks.0.size")), UINT64_MAX);
	cr_assert_str_eq(json_object_get_string(at("leaks.0.address")), "0xffffffffffffffff");
}

Test(json, stops_when_the_sink_does)
{
	read_back();
	for (size_t room = 0; room < keeper.len; room += 7) {
		struct keeper small;

		keeper_init(&small);
		small.room = room;
		cr_assert_not(ms_writer_find("json")->write(&report, &small.base));
	}
}
