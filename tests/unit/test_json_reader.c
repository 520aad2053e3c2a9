/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "golden/sample.h"
#include "report/frames.h"
#include "report/json/reader.h"

static struct ms_arena arena;
static struct ms_report sent;
static struct ms_report got;
static struct ms_error err;
static struct keeper keeper;
static char text[KEPT_BYTES]; /* what is read */

static void setup(void)
{
	ms_arena_init(&arena);
	sample_report(&arena, &sent);
	keep_report(&keeper, "json", &sent);
	memcpy(text, keeper.bytes, keeper.len + 1);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(json_reader, .init = setup, .fini = teardown);

static enum ms_status read_bytes(const char *bytes, size_t len)
{
	const struct ms_json_file file = { "old.json", bytes, len };

	memset(&err, 0, sizeof(err));
	return ms_json_read_report(&file, &arena, &got, &err);
}

static enum ms_status read_text(void)
{
	return read_bytes(text, strlen(text));
}

static void assert_read(void)
{
	cr_assert_eq(read_text(), MS_OK, "%s; %s", err.text, err.advice);
}

/* Write @sent, read it as @got, and write that: the same text. */
static void assert_round_trip(void)
{
	keep_report(&keeper, "json", &sent);
	memcpy(text, keeper.bytes, keeper.len + 1);
	assert_read();
	keep_report(&keeper, "json", &got);
	cr_assert_str_eq(keeper.bytes, text);
}

/* Put @to in the place of the first @from of the text. */
static void replace(const char *from, const char *to)
{
	char *at = strstr(text, from);
	size_t rest;

	cr_assert_not_null(at, "%s", from);
	rest = strlen(at + strlen(from)) + 1;
	cr_assert_lt((size_t)(at - text) + strlen(to) + rest, sizeof(text));
	memmove(at + strlen(to), at + strlen(from), rest);
	memcpy(at, to, strlen(to));
}

Test(json_reader, gives_back_what_was_written)
{
	assert_round_trip();
}

#define assert_same(member) \
	cr_assert_arr_eq(&got.member, &sent.member, sizeof(sent.member), "%s", #member)

#define assert_vector(name)                                                                       \
	do {                                                                                      \
		cr_assert_eq(got.name.n, sent.name.n, "%s", #name);                               \
		cr_assert_arr_eq(got.name.at, sent.name.at, sent.name.n * sizeof(*sent.name.at)); \
	} while (0)

/* Member by member: what is between them is nobody's. */
static void assert_same_heap(const struct ms_heap *a, const struct ms_heap *b)
{
	cr_assert_arr_eq(a->allocator, b->allocator, sizeof(a->allocator));
	cr_assert_arr_eq(a->version, b->version, sizeof(a->version));
	cr_assert_eq(a->verified, b->verified);
	cr_assert_eq(a->doubt, b->doubt);
	cr_assert_eq(a->beside, b->beside);
	cr_assert_eq(a->allocations, b->allocations);
	cr_assert_eq(a->allocation_bytes, b->allocation_bytes);
	cr_assert_eq(a->free_bytes, b->free_bytes);
	cr_assert_eq(a->mapped_bytes, b->mapped_bytes);
	cr_assert_eq(a->n_evidence, b->n_evidence);
}

Test(json_reader, distinguishes_who_made_a_leak_from_what_it_points_to)
{
	sent.leaks.at[2].unproved = 1;
	assert_round_trip();
	cr_assert_null(strstr(text, "made_by"));
	cr_assert(got.leaks.at[2].maker.module && got.leaks.at[2].unproved);
	sent.leaks.at[2].unproved = sent.leaks.at[1].unproved = 0;
	assert_round_trip();
	cr_assert_null(strstr(text, "points_to"));
	cr_assert(got.leaks.at[2].maker.module && !got.leaks.at[2].unproved);
}

Test(json_reader, a_callback_by_a_symbol_without_a_size_has_no_name)
{
	const size_t pc = sent.leaks.at[2].callback - 1;

	sent.names.at[pc].symbol.unsized = true;
	assert_round_trip();
	cr_assert_null(got.names.at[got.leaks.at[2].callback - 1].symbol.function);
}

/* But for what JSON does not have. */
Test(json_reader, fills_every_field)
{
	sent.scan.steps = 0;
	sent.heaps.at[1].doubt = MS_DOUBT_NONE;
	assert_read();
	assert_same(host);
	assert_same(target);
	assert_same(scan);
	assert_same(totals);
	cr_assert(got.possible && got.confirm);
	cr_assert_eq(got.confirm_ns, sent.confirm_ns);
	cr_assert_eq(got.heaps.n, sent.heaps.n);
	for (size_t i = 0; i < sent.heaps.n; i++)
		assert_same_heap(&got.heaps.at[i], &sent.heaps.at[i]);
	assert_vector(evidence);
	assert_vector(mappings);
	assert_vector(suppressed);
	assert_vector(warnings);
	cr_assert_eq(got.code.n + got.lost.n, 0);
}

Test(json_reader, fills_every_field_of_the_histogram)
{
	assert_read();
	cr_assert(got.heap);
	cr_assert_eq(got.live_limit, UINT64_MAX);
	cr_assert_eq(got.live.n, sent.live.n);
	for (size_t i = 0; i < sent.live.n; i++) {
		const struct ms_live *a = &sent.live.at[i];
		const struct ms_live *b = &got.live.at[i];

		cr_assert_arr_eq(a, b, offsetof(struct ms_live, type), "%zu", i);
		cr_assert_eq(!a->type, !b->type);
		if (a->type)
			cr_assert_arr_eq(&sent.types.at[a->type - 1], &got.types.at[b->type - 1],
			                 sizeof(struct ms_type));
	}
	sent.heap = false;
	assert_round_trip();
	cr_assert_not(got.heap);
}

/* Types are numbered anew, in the order of the leaks. */
Test(json_reader, fills_every_field_of_a_leak)
{
	assert_read();
	cr_assert_eq(got.leaks.n, sent.leaks.n);
	for (size_t i = 0; i < sent.leaks.n; i++) {
		const struct ms_leak *a = &sent.leaks.at[i];
		struct ms_leak b = got.leaks.at[i];

		cr_assert_eq(!a->type, !b.type);
		if (a->type)
			cr_assert_arr_eq(&sent.types.at[a->type - 1], &got.types.at[b.type - 1],
			                 sizeof(struct ms_type));
		cr_assert_eq(!a->stack, !b.stack);
		cr_assert_eq(a->older, b.older);
		cr_assert_eq(!a->maker.module, !b.maker.module);
		if (a->maker.module)
			cr_assert_str_eq(sent.modules.at[a->maker.module - 1].path,
			                 got.modules.at[b.maker.module - 1].path);
		b.type = a->type;
		b.stack = a->stack;
		cr_assert_arr_eq(a, &b, offsetof(struct ms_leak, contents_len));
		cr_assert_eq(a->contents_len, b.contents_len);
		cr_assert_arr_eq(a->contents, b.contents, a->contents_len);
	}
}

static void assert_text(const char *a, const char *b)
{
	cr_assert_str_eq(a ? a : "", b ? b : "");
}

static void assert_same_frame(size_t a_pc, size_t b_pc, size_t i)
{
	struct ms_named_frame a;
	struct ms_named_frame b;

	ms_frame_tell(&sent, a_pc, i, &a);
	ms_frame_tell(&got, b_pc, i, &b);
	cr_assert_eq(a.pc, b.pc);
	cr_assert_eq(a.inlined, b.inlined);
	assert_text(a.symbol.module, b.symbol.module);
	assert_text(a.symbol.build_id, b.symbol.build_id);
	assert_text(a.symbol.function, b.symbol.function);
	assert_text(a.symbol.file, b.symbol.file);
	cr_assert_eq(a.symbol.line, b.symbol.line);
	if (a.symbol.module && a.symbol.module[0])
		cr_assert_eq(a.symbol.rel_pc, b.symbol.rel_pc);
}

Test(json_reader, fills_every_frame)
{
	assert_read();
	cr_assert_eq(got.pcs.n, sent.pcs.n + 1, "the callback has its own");
	cr_assert_eq(got.names.n, got.pcs.n);
	cr_assert_eq(got.leaks.at[2].callback, got.pcs.n);
	cr_assert_eq(got.pcs.at[got.pcs.n - 1], 0x7f0000002abc);
	cr_assert_str_eq(got.names.at[got.pcs.n - 1].symbol.function, "pool::take()");
	for (size_t i = 0; i < 2; i++) {
		const struct ms_stack *a = &sent.stacks.at[sent.leaks.at[i].stack - 1];
		const struct ms_stack *b = &got.stacks.at[got.leaks.at[i].stack - 1];

		cr_assert_eq(a->n, b->n);
		for (uint32_t pc = 0; pc < a->n; pc++) {
			size_t n = ms_frames_at(&sent, a->first + pc);

			cr_assert_eq(n, ms_frames_at(&got, b->first + pc));
			for (size_t f = 0; f < n; f++)
				assert_same_frame(a->first + pc, b->first + pc, f);
		}
	}
}

Test(json_reader, knows_all_kinds_and_reasons)
{
	sent.leaks.at[1].kind = MS_LEAK_INDIRECT;
	for (uint8_t reason = MS_REASON_NONE + 1; reason < MS_REASONS; reason++) {
		sent.leaks.at[2].reason = reason;
		assert_round_trip();
		cr_assert_eq(got.leaks.at[1].kind, MS_LEAK_INDIRECT);
		cr_assert_eq(got.leaks.at[2].kind, MS_LEAK_POSSIBLE);
		cr_assert_eq(got.leaks.at[2].reason, reason);
	}
}

Test(json_reader, stacks_that_were_cut_stay_so)
{
	sent.stacks.at[0].cut = 1;
	assert_round_trip();
	cr_expect_not_null(strstr(text, ",\"backtrace_cut\":true"));
	cr_expect_eq(got.stacks.at[got.leaks.at[0].stack - 1].cut,
	             sent.stacks.at[sent.leaks.at[0].stack - 1].cut);
}

Test(json_reader, large_numbers_stay_exact)
{
	sent.leaks.at[0].size = UINT64_MAX;
	sent.leaks.at[0].address = UINT64_MAX;
	sent.target.threads = UINT32_MAX;
	sent.target.pid = INT32_MAX;
	sent.scan.time = INT64_MIN;
	assert_round_trip();
	cr_assert_eq(got.leaks.at[0].size, UINT64_MAX);
	cr_assert_eq(got.leaks.at[0].address, UINT64_MAX);
	cr_assert_eq(got.target.threads, UINT32_MAX);
	cr_assert_eq(got.scan.time, INT64_MIN);
}

Test(json_reader, what_was_not_known_is_not_known)
{
	sent.target.exe[0] = sent.host.name[0] = sent.heaps.at[0].version[0] = '\0';
	sent.target.cmdline_len = 0;
	sent.target.start_time = 0;
	sent.possible = sent.confirm = false;
	sent.confirm_ns = 0;
	sent.leaks.n = 2; /* the third is a possible one */
	sent.totals.possible = sent.totals.small_possible = 0;
	sent.suppressed.n = 0;
	assert_round_trip();
	cr_assert_eq(got.target.cmdline_len, 0);
	cr_assert_not(got.possible || got.confirm);
}

Test(json_reader, any_byte_in_a_name_comes_back)
{
	for (int i = 0; i < 127; i++)
		sent.target.cmdline[i] = (char)(127 - i);
	sent.target.cmdline[127] = '\0';
	sent.target.cmdline_len = 128;
	snprintf(sent.target.exe, sizeof(sent.target.exe), "/tmp/\"\\\n\x1b\xc2\x9b\xe2\x80\xae");
	assert_round_trip();
	cr_assert_str_eq(got.target.exe, sent.target.exe);
	cr_assert_arr_eq(got.target.cmdline, sent.target.cmdline, 128);
}

/* Bad bytes take three for one in the text. */
Test(json_reader, what_is_too_long_is_cut_off_between_characters)
{
	memset(sent.target.cmdline, 0xff, sizeof(sent.target.cmdline));
	sent.target.cmdline_len = sizeof(sent.target.cmdline);
	keep_report(&keeper, "json", &sent);
	memcpy(text, keeper.bytes, keeper.len + 1);
	assert_read();
	cr_assert_leq(got.target.cmdline_len, sizeof(got.target.cmdline));
	cr_assert_eq(got.target.cmdline_len % 3, 1);
	cr_assert_eq(strlen(got.target.cmdline) + 1, got.target.cmdline_len);
}

Test(json_reader, equal_stacks_and_types_are_kept_once)
{
	sent.leaks.at[2].stack = sent.leaks.at[0].stack;
	sent.leaks.at[2].type = sent.leaks.at[0].type;
	assert_round_trip();
	cr_assert_eq(got.stacks.n, 2);
	cr_assert_eq(got.types.n, 2);
	cr_assert_eq(got.pcs.n, sent.pcs.n + 1);
	cr_assert_eq(got.leaks.at[0].stack, got.leaks.at[2].stack);
	cr_assert_eq(got.leaks.at[0].type, got.leaks.at[2].type);
}

/* The same addresses may have other names, in two reports of one. */
Test(json_reader, stacks_of_other_names_are_others)
{
	char *second;

	sent.leaks.at[2].stack = sent.leaks.at[0].stack;
	sent.sites.n = 0;
	keep_report(&keeper, "json", &sent);
	memcpy(text, keeper.bytes, keeper.len + 1);
	second = strstr(strstr(text, "\"function\":\"main\"") + 1, "\"function\":\"main\"");
	cr_assert_not_null(second);
	memcpy(second, "\"function\":\"mine\"", 17);
	assert_read();
	cr_assert_eq(got.stacks.n, 3);
	cr_assert_neq(got.leaks.at[0].stack, got.leaks.at[2].stack);
}

static const struct {
	const char *from;
	const char *to;
} harmless[] = {
	{ "{\n\"schema\"", " \t\r\n{ \"schema\" " },
	{ "\n}\n", "}" },
	{ "\"tool\":", "\"later\":[[1,{\"a\":null}],2,\"3\"],\"tool\":" },
	{ "\"tool\":", "\"later\":{\"leaks\":[1]},\"tool\":" },
	{ "\"tool\":", "\"later\":[],\"tool\":" },
	{ "\"pid\"", "\"later\":-1.5e3,\"pid\"" },
	{ "\"size\":20", "\"later\":{\"x\":[]},\"size\":20" },
	{ "\"size\":100", "\"later\":[{}],\"size\":100" },
	{ "{\"name\":\"freeze\"", "{\"name\":\"thaw\",\"ns\":1},{\"name\":\"freeze\"" },
};

Test(json_reader, what_a_later_memscan_adds_is_skipped)
{
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
		keep_report(&keeper, "json", &sent);
		memcpy(text, keeper.bytes, keeper.len + 1);
		replace(harmless[i].from, harmless[i].to);
		assert_read();
		keep_report(&keeper, "json", &got);
		assert_golden(&keeper, "tests/golden/report.json");
	}
}

Test(json_reader, ways_that_a_later_memscan_knows_are_none)
{
	replace("\"reason\":\"interior\"", "\"reason\":\"hidden\"");
	for (int i = 0; i < 2; i++) /* of a leak, and in the histogram */
		replace("\"how\":\"vtable\"", "\"how\":\"dwarf\"");
	assert_read();
	cr_assert_eq(got.leaks.at[2].reason, MS_REASON_NONE);
	cr_assert_eq(got.types.at[0].how, MS_HOWS);
	cr_assert_str_eq(got.types.at[0].name, "pool::Box<int, char const*>");
	keep_report(&keeper, "json", &got);
	cr_assert_null(strstr(keeper.bytes, "\"how\""));
}

Test(json_reader, members_may_come_in_any_order)
{
	replace("\"schema\":\"memscan.report/1\",\n", "");
	replace("\n}\n", ",\"schema\":\"memscan.report/1\"}\n");
	assert_read();
	cr_assert_eq(got.leaks.n, sent.leaks.n);
}

static const struct {
	const char *from;
	const char *to;
	enum ms_status status;
	const char *says;
} damaged[] = {
	{ "report/1", "report/2", MS_E_UNSUPPORTED, "line 2: unknown format 'memscan.report/2'" },
	{ "report/1", "heapdump/1", MS_E_CORRUPT, "\"schema\" is 'memscan.heapdump/1'" },
	{ "\"schema\":\"memscan.report/1\",\n", "", MS_E_CORRUPT, "\"schema\" is missing" },
	{ "\"kind\":\"direct\"", "\"kind\":\"likely\"", MS_E_UNSUPPORTED, "unknown kind 'likely'" },
	{ "\"kind\":\"direct\",", "", MS_E_CORRUPT, "line 11: \"kind\" is missing" },
	{ "\"size\":20", "\"size\":\"20\"", MS_E_CORRUPT, "\"size\" is not of type int" },
	{ "\"size\":20", "\"size\":20.5", MS_E_CORRUPT, "\"size\" is not of type int" },
	{ "\"size\":20", "\"size\":-1", MS_E_CORRUPT, "\"size\" is out of range" },
	{ "\"size\":20", "\"size\":null", MS_E_CORRUPT, "\"size\" is missing" },
	{ "\"threads\":7", "\"threads\":4294967296", MS_E_CORRUPT, "\"threads\" is out of range" },
	{ "\"pid\":4321", "\"pid\":2147483648", MS_E_CORRUPT, "\"pid\" is out of range" },
	{ "\"time\":17", "\"time\":99", MS_E_CORRUPT, "\"time\" is out of range" },
	{ "\"verified\":true", "\"verified\":1", MS_E_CORRUPT, "\"verified\" is not" },
	{ "0x7a03454400", "0x7A03454400", MS_E_CORRUPT, "\"address\" is no address" },
	{ "0x7a03454400", "0x", MS_E_CORRUPT, "\"address\" is no address" },
	{ "0x7a03454400", "0x10000000000000000", MS_E_CORRUPT, "\"address\" is no address" },
	{ "0x7f0000002abc", "1", MS_E_CORRUPT, "\"pc\" is no address" },
	{ "\"pc\":\"0x7f0000002abc\",", "", MS_E_CORRUPT, "a frame has no \"pc\"" },
	{ "\"pc\":\"0x7f0000002abc\"", "\"pc\":\"0x1\"", MS_E_CORRUPT, "has another \"pc\"" },
	{ ",{\"pc\":\"0x600000\"}", ",7", MS_E_CORRUPT, "a frame is no object" },
	{ "{\"pc\":\"0x600000\"}", "{\"pc\":\"0x6\",\"inlined\":true}", MS_E_CORRUPT,
	  "into nothing" },
	{ "1f2041", "1f204", MS_E_CORRUPT, "\"contents\" has a length of 39" },
	{ "1f2041", "1f204g", MS_E_CORRUPT, "\"contents\" is not hexadecimal" },
	{ "7468697274", "007468697274", MS_E_CORRUPT, "\"contents\" has a length of 66" },
	{ "\"size\":1048576", "\"size\":18446744073709551615", MS_E_CORRUPT, "out of range" },
	{ "\"leaks\":[", "\"leaks\":7,\"x\":[", MS_E_CORRUPT, "\"leaks\" is no list" },
	{ "\"leaks\":[", "\"leaks\":[7,", MS_E_CORRUPT, "\"leaks\" has a value that is not" },
	{ "\"totals\":{", "\"totals\":[{}],\"x\":{", MS_E_CORRUPT, "\"totals\" is a list" },
	{ "\"unlisted\"", "\"leaks\":[],\"unlisted\"", MS_E_CORRUPT,
	  "\"leaks\" stands there twice" },
	{ "\"unlisted\"", "\"unliked\"", MS_E_CORRUPT, "\"unlisted\" is missing" },
	{ "\"size\":100,", "", MS_E_CORRUPT, "\"size\" is missing" },
	{ "\"least_size\":896", "\"least_size\":1024", MS_E_CORRUPT, "\"least_size\" is out" },
	{ "leaked_allocations\":2", "leaked_allocations\":6", MS_E_CORRUPT,
	  "more blocks are leaked" },
	{ "leaked_bytes\":200", "leaked_bytes\":501", MS_E_CORRUPT, "more blocks are leaked" },
	{ "\"histogram\":[", "\"histogram\":[7,", MS_E_CORRUPT, "\"histogram\" has a value" },
	{ "\"histogram\":[", "\"histogram\":{},\"x\":[", MS_E_CORRUPT, "\"histogram\" is no list" },
	{ "\"unlisted\"", "unlisted", MS_E_CORRUPT, "it is no JSON" },
	{ "\"unlisted\":", "\"unlisted\"", MS_E_CORRUPT, "there is no ':'" },
	{ "{\"live\":{\"samples\":8,", "{\"alive\":{\"samples\":8,", MS_E_CORRUPT,
	  "a sampled stack has no live blocks" },
	{ "{\"module\":\"/opt/my lib/\\u001bshop.so\",", "{", MS_E_CORRUPT,
	  "\"points_to\" has no module" },
	{ "\"made_by\":{\"module\"", "\"made_by\":{\"modules\"", MS_E_CORRUPT,
	  "\"made_by\" has no module" },
	{ "\"constants\":3", "\"constants\":4294967296", MS_E_CORRUPT, "out of range" },
	{ "\"bytes_error\":1234", "\"bytes_errors\":1234", MS_E_CORRUPT,
	  "line 11: \"bytes_error\" is missing" },
	{ ",\n\"unlisted\"", "\n\"unlisted\"", MS_E_CORRUPT, "line 14: there is no '}'" },
	{ "],\n\"unlisted\"", ",],\n\"unlisted\"", MS_E_CORRUPT, "it is no JSON" },
	{ "\"warnings\":[\"", "\"warnings\":[null,\"", MS_E_CORRUPT, "null" },
	{ "\"warnings\":[\"", "\"warnings\":[\"\xff", MS_E_CORRUPT, "utf-8" },
	{ "\n}\n", "\n}\n{}", MS_E_CORRUPT, "something stands behind the report" },
	{ "{\n\"schema\"", "[\n\"schema\"", MS_E_CORRUPT, "line 1: there is no '{'" },
	{ "\"kind\":\"direct\"", "\"kind\":\"\\u001b[2J\"", MS_E_UNSUPPORTED, "kind '?[2J'" },
};

Test(json_reader, damage_is_told_with_its_line_and_what_to_do)
{
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		memcpy(text, keeper.bytes, keeper.len + 1);
		replace(damaged[i].from, damaged[i].to);
		got.leaks.n = 99;
		cr_assert_eq(read_text(), damaged[i].status, "%zu %s", i, damaged[i].to);
		cr_assert_eq(err.status, damaged[i].status);
		cr_assert_not_null(strstr(err.text, damaged[i].says), "%zu: %s", i, err.text);
		cr_assert_not_null(strstr(err.text, "old.json, line "), "%s", err.text);
		cr_assert_neq(err.advice[0], '\0', "%s", err.text);
		cr_assert_eq(got.leaks.n, 99, "a failure writes nothing");
	}
}

Test(json_reader, no_beginning_of_a_report_is_one)
{
	size_t len = strlen(text) - 2; /* with its last bracket it is whole */

	for (size_t n = 0; n < len; n++) {
		cr_assert_eq(read_bytes(text, n), MS_E_CORRUPT, "%zu of %zu bytes", n, len);
		cr_assert_neq(err.advice[0], '\0');
	}
}

Test(json_reader, what_has_nothing_in_it_is_no_report)
{
	static const struct {
		const char *text;
		const char *says;
	} cases[] = {
		{ "", "line 1: it is empty" },          { " \n", "it is empty" },
		{ "{}", "\"schema\" is missing" },      { "{ }\n", "\"schema\" is missing" },
		{ "{} {}", "something stands behind" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(read_bytes(cases[i].text, strlen(cases[i].text)), MS_E_CORRUPT);
		cr_assert_not_null(strstr(err.text, cases[i].says), "%s", err.text);
		cr_assert_neq(err.advice[0], '\0');
	}
}

/* @n times @piece as the value of a member that is not known. */
static char *with_pieces(const char *piece, size_t n, size_t *ret_len)
{
	static const char head[] = "{\"later\":{\"x\":";
	size_t len = strlen(piece);
	char *bytes = malloc(sizeof(head) + n * len);

	cr_assert_not_null(bytes);
	memcpy(bytes, head, sizeof(head) - 1);
	for (size_t i = 0; i < n; i++)
		memcpy(bytes + sizeof(head) - 1 + i * len, piece, len);
	*ret_len = sizeof(head) - 1 + n * len;
	return bytes;
}

static void assert_refused(const char *piece, size_t n, const char *says)
{
	size_t len;
	char *bytes = with_pieces(piece, n, &len);

	cr_assert_eq(read_bytes(bytes, len), MS_E_CORRUPT);
	cr_assert_not_null(strstr(err.text, says), "%s", err.text);
	free(bytes);
}

Test(json_reader, depth_and_size_of_a_value_are_bounded)
{
	assert_refused("[", 100000, "nested more than 32 deep");
	assert_refused("{\"a\":", 100000, "nested more than 32 deep");
	assert_refused(" ", MS_JSON_MOST_VALUE, "a value has more than");
}

static size_t put_leak(char *at, size_t room, int i)
{
	return (size_t)snprintf(
		at, room,
		"{\"id\":%d,\"kind\":\"direct\",\"address\":\"0x%x\",\"size\":16,"
		"\"referenced_count\":0,\"referenced_size\":0,\"similar_count\":0,"
		"\"similar_size\":0,\"similar_referenced_count\":0,"
		"\"similar_referenced_size\":0,\"total_size\":16,\"module\":\"m%d\","
		"\"backtrace\":[{\"pc\":\"0x%x\",\"function\":\"f%d\"}]},\n",
		i, i, i % 9000, i % 9000, i % 9000);
}

/* With more stacks and types than are remembered. */
Test(json_reader, reads_many_leaks)
{
	enum { LEAKS = 20000, ROOM = 400 };
	const char *rest = strstr(text, "{\"id\":3");
	char *bytes = malloc(strlen(text) + (size_t)LEAKS * ROOM);
	size_t len = (size_t)(rest - text);

	cr_assert_not_null(bytes);
	memcpy(bytes, text, len);
	for (int i = 0; i < LEAKS; i++)
		len += put_leak(bytes + len, ROOM, i);
	memcpy(bytes + len, rest, strlen(rest));
	cr_assert_eq(read_bytes(bytes, len + strlen(rest)), MS_OK, "%s", err.text);
	free(bytes);
	cr_assert_eq(got.leaks.n, LEAKS + 3);
	for (int i = 0; i < LEAKS; i++) {
		const struct ms_leak *leak = &got.leaks.at[i + 2];
		const struct ms_named *named = &got.names.at[got.stacks.at[leak->stack - 1].first];
		char name[16];

		snprintf(name, sizeof(name), "f%d", i % 9000);
		cr_assert_str_eq(named->symbol.function, name);
		snprintf(name, sizeof(name), "m%d", i % 9000);
		cr_assert_str_eq(got.types.at[leak->type - 1].module, name);
	}
}
