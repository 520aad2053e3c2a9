/* SPDX-License-Identifier: Apache-2.0 */
/* What leaked or grew between two drawn reports. */
#include <criterion/criterion.h>

#include "cli/diff/options.h"
#include "golden/reports.h"

static struct ms_arena arena;
static struct ms_report old;
static struct ms_report new;
static struct ms_diff diff;
static struct ms_error err;
static struct keeper keeper;

static void setup(void)
{
	ms_arena_init(&arena);
	drawn_report(&arena, &old);
	drawn_report(&arena, &new);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(diff, .init = setup, .fini = teardown);

static void make(void)
{
	diff = (struct ms_diff){ .reports = { &old, &new },
		                 .files = { "old.json", "new.json" },
		                 .limit = UINT64_MAX };
	cr_assert_eq(ms_diff_make(&diff, &arena, &err), MS_OK);
}

static const char *written(const char *format)
{
	keeper_init(&keeper);
	cr_assert(ms_diff_writer_find(format)->write(&diff, &keeper.base));
	return keeper.bytes;
}

#define assert_says(what) \
	cr_assert(strstr(written("text"), what), "no \"%s\" in:\n%s", what, keeper.bytes)
#define assert_not_says(what) cr_assert_null(strstr(written("text"), what), "in:\n%s", keeper.bytes)

static void assert_warns(const char *what)
{
	cr_assert_eq(diff.warnings.n, 1, "%zu warnings", diff.warnings.n);
	cr_assert_not_null(strstr(diff.warnings.at[0].text, what), "%s", diff.warnings.at[0].text);
}

/* ---- golden ones ---- */

static void make_pair(void)
{
	drawn_pair(&arena, &old, &new);
	make();
}

Test(diff, text_is_the_golden_one)
{
	make_pair();
	(void)written("text");
	assert_golden(&keeper, "tests/golden/diff.txt");
}

Test(diff, json_is_the_golden_one)
{
	make_pair();
	diff.limit = 2;
	(void)written("json");
	assert_golden(&keeper, "tests/golden/diff.json");
}

Test(diff, stops_when_the_sink_does)
{
	make_pair();
	for (size_t i = 0; i < 2; i++) {
		const struct ms_diff_writer *writer = ms_diff_writer_find(i ? "json" : "text");
		size_t len = strlen(written(writer->name));

		for (size_t room = 0; room < len; room += 7) {
			keeper_init(&keeper);
			keeper.room = room;
			cr_assert_not(writer->write(&diff, &keeper.base));
		}
	}
}

/* ---- leaks: a row for each letter, its signature; how many blocks of 8 bytes, of both ---- */

struct counts {
	const char *signature;
	uint64_t old;
	uint64_t new;
};

static const struct {
	struct counts leaks[4];
	const char *rows; /* that are wanted: letter, change */
} cases[] = {
	{ { { "a", 0, 1 } }, "a+" },
	{ { { "a", 1, 0 } }, "a-" },
	{ { { "a", 1, 1 } }, "" },
	{ { { "a", 1, 2 } }, "a>" },
	{ { { "a", 2, 1 } }, "a<" },
	{ { { "a", 1, 2 }, { "b", 5, 9 }, { "c", 0, 2 } }, "b> c+ a>" },
	{ { { "a", 9, 8 }, { "b", 5, 0 }, { "c", 7, 4 } }, "b- c< a<" },
	{ { { "a", 9, 1 }, { "b", 0, 1 }, { "c", 4, 4 }, { "d", 1, 3 } }, "d> b+ a<" },
};

static void draw_counts(const struct counts *leaks)
{
	setup();
	for (size_t i = 0; i < 4 && leaks[i].signature; i++) {
		if (leaks[i].old)
			drawn_leak(&arena, &old, leaks[i].signature, 8, leaks[i].old);
		if (leaks[i].new)
			drawn_leak(&arena, &new, leaks[i].signature, 8, leaks[i].new);
	}
	make();
}

Test(diff, leaks_are_compared_by_signature_most_growth_first)
{
	static const char marks[MS_CHANGES] = { [MS_CHANGE_NEW] = '+',
		                                [MS_CHANGE_GROWN] = '>',
		                                [MS_CHANGE_SHRUNK] = '<',
		                                [MS_CHANGE_GONE] = '-' };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char rows[64] = "";
		const struct ms_diff_row *row;

		draw_counts(cases[i].leaks);
		ms_vec_for_each (row, &diff.leaks)
			snprintf(rows + strlen(rows), sizeof(rows) - strlen(rows), "%s%s%c",
			         rows[0] ? " " : "", row->signature, marks[row->change]);
		cr_assert_str_eq(rows, cases[i].rows, "%zu: %s", i, rows);
	}
}

Test(diff, all_that_an_entry_stands_for_counts)
{
	struct ms_leak *leak = drawn_leak(&arena, &new, "a", 8, 3);

	leak->referenced_count = 2;
	leak->referenced_size = 100;
	leak->total_size += 100;
	drawn_leak(&arena, &new, "a", 16, 1); /* of --no-merge */
	make();
	cr_assert_eq(diff.leaks.n, 1);
	cr_assert_eq(diff.leaks.at[0].side[MS_DIFF_NEW].count, 4);
	cr_assert_eq(diff.leaks.at[0].side[MS_DIFF_NEW].bytes, 3 * 8 + 100 + 16);
	cr_assert_eq(diff.leaks.at[0].side[MS_DIFF_OLD].count, 0);
}

Test(diff, without_signatures_leaks_are_compared_by_type_and_size)
{
	drawn_leak(&arena, &old, "", 8, 3)->type = 1;
	drawn_leak(&arena, &new, "x", 8, 5)->type = 1;
	drawn_leak(&arena, &new, "y", 16, 1)->type = 1;
	drawn_leak(&arena, &new, "z", 8, 1)->type = 2;
	make();
	cr_assert_eq(diff.leaks.n, 3);
	cr_assert_null(diff.leaks.at[0].signature);
	cr_assert_eq(diff.leaks.at[0].change, MS_CHANGE_GROWN);
	cr_assert_eq(ms_diff_growth(&diff.leaks.at[0]), 2 * 8);
	cr_assert_eq(diff.leaks.at[1].change, MS_CHANGE_NEW);
	cr_assert_eq(diff.leaks.at[1].size, 16);
	cr_assert_str_eq(diff.leaks.at[2].type->name, "Node");
}

Test(diff, possible_leaks_are_rows_of_their_own_when_both_reports_have_them)
{
	drawn_leak(&arena, &new, "a", 8, 1)->kind = MS_LEAK_POSSIBLE;
	drawn_leak(&arena, &new, "a", 8, 1);
	new.possible = true;
	new.totals.possible = 1;
	make();
	cr_assert_eq(diff.leaks.n, 1);
	cr_assert_not(diff.leaks.at[0].possible);
	assert_warns("only the new report was made with --possible");
	old.possible = true;
	make();
	cr_assert_eq(diff.leaks.n, 2);
	cr_assert_eq(diff.leaks.at[0].possible + diff.leaks.at[1].possible, 1);
	cr_assert_eq(ms_diff_leaks_grown(&diff), 1);
}

/* ---- live blocks ---- */

Test(diff, live_blocks_are_compared_by_type_and_size)
{
	drawn_live(&arena, &old, 1, 8, 10);
	drawn_live(&arena, &old, 0, 8, 10);
	drawn_live(&arena, &new, 0, 8, 10);
	drawn_live(&arena, &new, 1, 8, 12);
	drawn_live(&arena, &new, 1, 16, 4);
	make();
	cr_assert(diff.has_live);
	cr_assert_eq(diff.live.n, 2);
	cr_assert_eq(diff.live.at[0].size, 16);
	cr_assert_eq(diff.live.at[0].change, MS_CHANGE_NEW);
	cr_assert_eq(diff.live.at[1].size, 8);
	cr_assert_str_eq(diff.live.at[1].type->name, "Session");
	cr_assert_eq(ms_diff_growth(&diff.live.at[1]), 16);
}

/* The same build in another folder, and numbers of types that differ. */
Test(diff, a_type_is_its_name_and_the_file_of_its_module)
{
	drawn_live(&arena, &old, 1, 8, 10);
	drawn_live(&arena, &new, 2, 8, 10);
	new.types.at[1] =
		(struct ms_type){ "Session", "/srv/server", MS_HOW_VTABLE, MS_SURE_CERTAIN };
	make();
	cr_assert_eq(diff.live.n, 0);
	new.types.at[1] =
		(struct ms_type){ "Session", "/srv/other", MS_HOW_VTABLE, MS_SURE_CERTAIN };
	make();
	cr_assert_eq(diff.live.n, 2);
}

/* Sizes 64 to 79 are one class in the old report, and not in the new one. */
Test(diff, sizes_that_one_report_groups_are_grouped_in_both)
{
	*drawn_live(&arena, &old, 1, 79, 1) = (struct ms_live){
		.type = 1, .least_size = 64, .size = 79, .allocations = 3, .bytes = 200
	};
	drawn_live(&arena, &old, 1, 72, 2); /* seen before all was grouped */
	drawn_live(&arena, &new, 1, 64, 3);
	drawn_live(&arena, &new, 1, 79, 4);
	drawn_live(&arena, &new, 1, 80, 1);
	drawn_live(&arena, &new, 2, 64, 1);
	drawn_live(&arena, &new, 1, 63, 1);
	make();
	cr_assert_eq(diff.live.n, 4);
	cr_assert_eq(diff.live.at[0].least_size, 64);
	cr_assert_eq(diff.live.at[0].size, 79);
	cr_assert_eq(diff.live.at[0].side[MS_DIFF_OLD].bytes, 200 + 2 * 72);
	cr_assert_eq(diff.live.at[0].side[MS_DIFF_NEW].bytes, 3 * 64 + 4 * 79);
}

Test(diff, says_how_to_get_a_histogram)
{
	make();
	cr_assert_not(diff.has_live);
	assert_says("scan with --heap both times");
	drawn_live(&arena, &old, 1, 8, 10);
	make();
	cr_assert_not(diff.has_live);
	assert_warns("only the old report has a histogram");
	assert_not_says("scan with --heap both times.");
	new.heap = true;
	old.live.n = 0;
	make();
	assert_says("Live blocks by type and size: no change\n");
}

/* ---- heaps and warnings ---- */

Test(diff, heaps_are_compared_by_allocator)
{
	*(struct ms_heap *)ms_vec_push(&arena, &new.heaps) =
		(struct ms_heap){ .allocator = "pymalloc",
		                  .verified = true,
		                  .allocations = 7,
		                  .allocation_bytes = 70,
		                  .mapped_bytes = 700 };
	old.heaps.at[0].allocation_bytes = 1000;
	new.heaps.at[0].allocation_bytes = 900;
	make();
	cr_assert_eq(diff.heaps.n, 2);
	assert_says("heap of glibc: -100 live bytes, +0 allocations, +0 mapped bytes\n");
	assert_says("heap of pymalloc: +70 live bytes, +7 allocations, +700 mapped bytes\n");
}

static void same(void)
{
}

static void other_program(void)
{
	snprintf(new.target.exe, sizeof(new.target.exe), "/bin/other");
}

static void other_pid(void)
{
	new.target.pid++;
}

static void started_later(void)
{
	new.target.start_time += INT64_C(20000000000);
}

static void started_earlier(void)
{
	new.target.start_time -= INT64_C(20000000000);
}

/* The clock was set meanwhile. */
static void started_a_little_later(void)
{
	new.target.start_time += INT64_C(5000000000);
}

static void start_not_known(void)
{
	new.target.start_time = 0;
}

static void older(void)
{
	new.scan.time -= 1;
}

static void cut_off(void)
{
	old.totals.leaks += 3;
}

static void small_ones(void)
{
	new.totals.leaks += 2;
	new.totals.small_leaks += 2;
}

static void confirmed(void)
{
	new.confirm = true;
}

static void unfolded(void)
{
	drawn_leak(&arena, &old, "a", 8, 1);
	drawn_leak(&arena, &new, "a", 8, 1)->kind = MS_LEAK_INDIRECT;
}

static void in_doubt(void)
{
	old.heaps.at[0].verified = false;
}

static const struct {
	void (*change)(void);
	const char *warning; /* NULL: none */
} unlike[] = {
	{ same, NULL },
	{ other_program, "different programs: /usr/sbin/server and /bin/other" },
	{ other_pid, "two runs of the program: process 4321 and process 4322" },
	{ started_later, "two runs of the program" },
	{ started_earlier, "two runs of the program" },
	{ started_a_little_later, NULL },
	{ start_not_known, NULL },
	{ older, "older than the old one: were the files swapped?" },
	{ cut_off, "3 leaks are not listed in the old report and not compared" },
	{ small_ones, "2 smaller leaks are not listed in the new report" },
	{ confirmed, "only the leaks of the new report were confirmed" },
	{ unfolded, "only one report lists indirect leaks by themselves" },
	{ in_doubt, "a heap could not be verified" },
};

Test(diff, warns_of_what_makes_the_reports_unlike)
{
	for (size_t i = 0; i < sizeof(unlike) / sizeof(unlike[0]); i++) {
		setup();
		unlike[i].change();
		make();
		if (unlike[i].warning)
			assert_warns(unlike[i].warning);
		else
			cr_assert_eq(diff.warnings.n, 0, "%zu", i);
	}
}

/* ---- the verdict ---- */

static const char *verdict(void)
{
	static char line[512];

	make();
	(void)written("text");
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(keeper.bytes, "\n"), keeper.bytes);
	return line;
}

Test(diff, nothing_grew)
{
	drawn_live(&arena, &old, 1, 8, 10);
	drawn_live(&arena, &new, 1, 8, 10);
	drawn_leak(&arena, &old, "a", 8, 2);
	drawn_leak(&arena, &new, "a", 8, 2);
	cr_assert_str_eq(verdict(), "Live heap did not grow; nothing more is leaked");
	cr_assert_not(ms_diff_grew(&diff));
}

Test(diff, the_heap_shrank)
{
	drawn_live(&arena, &old, 1, 8, 10);
	drawn_live(&arena, &new, 1, 8, 9);
	drawn_leak(&arena, &old, "a", 8, 2);
	new.scan.time += INT64_C(7200000000000);
	cr_assert_str_eq(verdict(), "Live heap shrank by 8 bytes in 2.0 h; nothing more is leaked");
	cr_assert_not(ms_diff_grew(&diff));
}

Test(diff, one_more_is_leaked_though_all_in_all_it_is_less)
{
	drawn_leak(&arena, &old, "a", 8, 200);
	drawn_leak(&arena, &new, "b", 8, 1)->type = 1;
	drawn_leak(&arena, &new, "c", 4, 1);
	cr_assert_str_eq(verdict(), "Live heap did not grow; 1 x Session (8 bytes) more is leaked, "
	                            "and more of 1 other leak");
	cr_assert(ms_diff_grew(&diff));
}

Test(diff, leaks_that_hold_more)
{
	drawn_leak(&arena, &old, "a", 8, 2)->type = 3;
	drawn_leak(&arena, &new, "a", 8, 2)->type = 3;
	new.leaks.at[0].total_size += 20480;
	cr_assert_str_eq(
		verdict(),
		"Live heap did not grow; 20.0 KB more are leaked of object with a table of "
		"functions in libops.so.2 (8 bytes)");
}

Test(diff, leaks_that_are_not_listed_are_in_the_verdict)
{
	new.totals.leaked_bytes = 5 << 20;
	cr_assert_str_eq(verdict(), "Live heap did not grow; 5.0 MB more are leaked");
	cr_assert(ms_diff_grew(&diff));
}

Test(diff, more_live_bytes_alone_are_growth)
{
	new.totals.allocation_bytes = 1;
	cr_assert_str_eq(verdict(), "Live heap grew by 1 byte; nothing more is leaked");
	cr_assert(ms_diff_grew(&diff));
}

/* ---- any numbers ---- */

Test(diff, numbers_of_any_size_harm_nothing)
{
	for (int i = 0; i < 3; i++) {
		struct ms_leak *leak = drawn_leak(&arena, i ? &new : &old, "a", 8, 1);
		struct ms_live *live = drawn_live(&arena, i ? &new : &old, 1, 8, 1);

		leak->similar_count = leak->total_size = UINT64_MAX - (uint64_t)i;
		live->allocations = live->bytes = UINT64_MAX - (uint64_t)i;
	}
	old.scan.time = INT64_MIN;
	new.scan.time = INT64_MAX;
	old.target.start_time = INT64_MIN;
	new.target.start_time = INT64_MAX;
	new.totals.allocation_bytes = new.totals.leaked_bytes = UINT64_MAX;
	make();
	cr_assert_eq(diff.leaks.n, 0, "the sum is the largest number there is");
	(void)written("text");
	(void)written("json");
	cr_assert_eq(ms_diff_by(0, UINT64_MAX), INT64_MAX);
	cr_assert_eq(ms_diff_by(UINT64_MAX, 0), -INT64_MAX);
}

/* ---- options ---- */

static struct ms_diff_options options;

static bool parse(const char *line)
{
	static char words[256];
	char *argv[16] = { (char[]){ "diff" } };
	char *rest = NULL;
	int argc = 1;

	snprintf(words, sizeof(words), "%s", line);
	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	memset(&err, 0, sizeof(err));
	return ms_diff_options_parse(argc, argv, &options, &err);
}

Test(diff, options_say_what_is_compared_and_how)
{
	cr_assert(parse("a b") && options.limit == 20 && !options.output);
	cr_assert_str_eq(options.files[MS_DIFF_OLD], "a");
	cr_assert_str_eq(options.files[MS_DIFF_NEW], "b");
	cr_assert_str_eq(options.writer->name, "text");
	cr_assert(parse("a --json b -l all -o c") && options.limit == UINT64_MAX);
	cr_assert_str_eq(options.writer->name, "json");
	cr_assert_str_eq(options.output, "c");
	cr_assert(parse("--help") && options.help);
}

Test(diff, wrong_calls_are_told_and_advised)
{
	static const char *const wrong[][2] = {
		{ "", "no reports were given" },
		{ "a", "diff takes two reports, and one was given" },
		{ "a b c", "not also 'c'" },
		{ "a b --limit few", "--limit takes" },
		{ "a b --format html", "--format takes text or json, not 'html'" },
		{ "a b --output= ", "--output takes a name" },
		{ "a b --heap", "there is no option --heap" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_not(parse(wrong[i][0]), "%s", wrong[i][0]);
		cr_assert_not_null(strstr(err.text, wrong[i][1]), "%s", err.text);
		cr_assert_neq(err.advice[0], '\0');
	}
}
