/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "golden/sample.h"
#include "report/utf8.h"
#include "report/writers.h"

static struct ms_arena arena;
static struct ms_report report;
static struct keeper keeper;

static void setup(void)
{
	ms_arena_init(&arena);
	sample_report(&arena, &report);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(text, .init = setup, .fini = teardown);

static const char *written(void)
{
	keep_report(&keeper, "text", &report);
	return keeper.bytes;
}

#define assert_says(what) \
	cr_assert(strstr(written(), what), "no \"%s\" in:\n%s", what, keeper.bytes)
#define assert_not_says(what) cr_assert_null(strstr(written(), what), "in:\n%s", keeper.bytes)

Test(text, full_report_is_the_golden_one)
{
	(void)written();
	assert_golden(&keeper, "tests/golden/report.txt");
}

Test(text, colours_only_wrap_what_stands_there_anyway)
{
	keeper_init(&keeper);
	keeper.base.colour = true;
	cr_assert(ms_writer_find("text")->write(&report, &keeper.base));
	assert_golden(&keeper, "tests/golden/report-colour.txt");
}

Test(text, no_leaks_is_the_summary_with_zeros)
{
	memset(&report.totals, 0, sizeof(report.totals));
	report.totals.allocations = 1;
	report.totals.allocation_bytes = 24;
	report.leaks.n = 0;
	report.possible = false;
	report.mappings.n = 0;
	report.live_limit = UINT64_MAX;
	report.sampling.stacks = report.sites.n;
	assert_says("\n0 bytes in 0 allocations unreachable out of 24 bytes in 1 allocation\n");
	assert_not_says("unreachable at");
	assert_not_says("Possible");
	assert_not_says("Unreachable mappings");
	assert_not_says("not listed");
}

Test(text, kinds_are_told_where_they_differ)
{
	assert_not_says("kind:");
	report.leaks.at[1].kind = MS_LEAK_INDIRECT;
	assert_says("  20 bytes unreachable at 7a03454400\n   kind: direct\n");
	assert_says("  40 bytes unreachable at 7a03450000\n   kind: indirect\n");
}

Test(text, counts_of_one_are_singular)
{
	report.leaks.at[0].referenced_count = 1;
	report.leaks.at[0].similar_count = 1;
	report.totals.leaked_allocations = 1;
	report.totals.leaks = 6;
	report.totals.possible = 2;
	report.totals.small_leaks = 2;
	assert_says("referencing 48 unreachable bytes in 1 allocation\n");
	assert_says("and 96 similar unreachable bytes in 1 allocation\n");
	assert_says("214 bytes in 1 allocation unreachable out of 1564 bytes in 10 allocations\n");
	assert_says("1 more leak is not listed: --limit all");
	assert_says("1 smaller leak is not listed: --min-size 0");
	assert_not_says("more possible");
	assert_says("1 smaller possible leak is not listed: --min-size 0");
}

Test(text, lists_live_blocks_up_to_the_limit)
{
	assert_says("\n           901            1     896-1023              0  not known\n");
	assert_not_says(" 43 ");
	report.live_limit = 4;
	assert_says("\n            43            1           43              0  not known\n\n");
	assert_not_says("more row");
	report.live_limit = 2;
	assert_says("\n2 more rows are not listed: --limit all lists them\n");
	report.heap = false;
	assert_not_says("Live blocks");
}

/* ---- samples ---- */

Test(text, leaks_by_their_calls_come_first_unless_all_blocks_are_listed)
{
	assert_not_says("Largest leaks by the calls");
	report.heap = false;
	assert_says("could not be read\n\n"
	            "Largest leaks by the calls that allocated them, from samples:\n"
	            "  about 12 KB (error 678 bytes) in 40 allocations (error 5), by 4 samples\n"
	            "          #00  pc 0000000000001abc  ");
	assert_says(
		"(main+7)\n"
		"  146 KB in 1 allocation, by 1 sample\n"
		"          #00  pc 0000000000011123  /usr/lib/libops.so.2 (unloaded) (ops_new+0)\n"
		"          #01  pc 0000000000000010  <unknown>\n\n"
		"Largest leaks:\n");
	assert_not_says("Live blocks by the calls");
	assert_not_says("more stack");
}

Test(text, what_is_known_by_samples_is_said_once)
{
	report.sampling.dropped = 0;
	assert_says("  stacks: those of samples, one in about 524288 bytes since attach; 15 of 16 "
	            "known blocks live\n"
	            "  without a stack: allocated before attach, or not sampled\n");
	report.sampling.interval = 0;
	assert_says("  stacks: those of all allocations since attach; 15 of 16 known blocks live\n"
	            "  without a stack: allocated before attach\n");
	report.sampling.on = 0;
	report.leaks.at[2].older = 0;
	assert_not_says("attach");
}

Test(text, a_maker_is_said_with_what_points_to_it)
{
	struct ms_leak *leak = &report.leaks.at[2];

	leak->maker = (struct ms_maker){ 1, 1, 2, 1 };
	assert_says(
		"   most likely made by ?shop.so (1 pointer to a table of functions, 2 pointers to "
		"its code, 1 pointer to its constants)\n");
	leak->maker = (struct ms_maker){ 1, 0, 3, 0 };
	assert_says("   most likely made by ?shop.so (3 pointers to its code)\n");
	report.leaks.at[1].maker.module = 0;
	leak->unproved = 1;
	assert_says("   contains pointers to ?shop.so (3 pointers to its code)\n");
	assert_not_says("most likely");
	leak->maker = (struct ms_maker){ 0 };
	assert_not_says("contains pointers");
}

Test(text, a_callback_is_named_where_a_symbol_says_how_far_it_goes)
{
	const size_t pc = report.leaks.at[2].callback - 1;

	report.names.at[pc].symbol.function_offset = 0;
	assert_says("   holds callback: pool::take() in pool.so (deleted)\n");
	report.names.at[pc].symbol.unsized = true;
	assert_says("   holds callback: pool.so (deleted)+0x");
}

/* ---- the few entries that most bytes are in ---- */

/* How the first leak of the list is told where it is 2 of 20 bytes, 40 in all, unless changed. */
static struct ms_leak *largest(void)
{
	struct ms_leak *leak = &report.leaks.at[0];

	report.totals.leaked_bytes = 100;
	report.leaks.n = 1;
	*leak = (struct ms_leak){ .id = 1,
		                  .address = 0x1000,
		                  .size = 20,
		                  .similar_count = 1,
		                  .similar_size = 20,
		                  .total_size = 40 };
	return leak;
}

Test(text, opens_with_what_most_bytes_are_in)
{
	(void)largest();
	report.sampling.on = 0;
	report.totals.unread_bytes = 0;
	assert_says("copy\n  confirm: scanned again after 1.5 s; not confirmed: 15 bytes in 14 "
	            "allocations\n  warning: 1 page could not be read\n\n"
	            "Largest leaks:\n  2 x 20 bytes each, together 40 bytes\n\n100 bytes in 9 ");
}

Test(text, says_what_the_largest_are_and_hold)
{
	static const struct {
		struct ms_leak like;
		const char *row;
	} cases[] = {
		{ { .type = 2 },
		  "2 x pool::Box<int, char const*>, 20 bytes each, together 40 bytes" },
		{ { .type = 1 }, "2 x 20 bytes each, together 40 bytes" },
		{ { .similar_size = 21 }, "2 x blocks of several sizes, together 41 bytes" },
		{ { .similar_size = 40 }, "2 x blocks of several sizes, together 60 bytes" },
		{ { .type = 2, .similar_size = 21 },
		  "2 x pool::Box<int, char const*>, together 41 bytes" },
		{ { .referenced_count = 1, .referenced_size = 5 },
		  "2 x 20 bytes each, with what they hold 45 bytes" },
		{ { .similar_referenced_count = 1, .similar_referenced_size = 9959 },
		  "2 x 20 bytes each, with what they hold 9999 bytes" },
		{ { .similar_referenced_count = 1, .similar_referenced_size = 9960 },
		  "2 x 20 bytes each, with what they hold 10 KB" },
		{ { .similar_referenced_count = 1, .similar_referenced_size = 10711 },
		  "2 x 20 bytes each, with what they hold 10 KB" },
		{ { .similar_referenced_count = 1, .similar_referenced_size = 10712 },
		  "2 x 20 bytes each, with what they hold 11 KB" },
		{ { .similar_referenced_count = 1, .similar_referenced_size = UINT64_C(1) << 40 },
		  "2 x 20 bytes each, with what they hold 1024 GB" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_leak *leak = largest();
		char row[128];

		leak->type = cases[i].like.type;
		leak->similar_size = cases[i].like.similar_size ? cases[i].like.similar_size : 20;
		leak->referenced_count = cases[i].like.referenced_count;
		leak->referenced_size = cases[i].like.referenced_size;
		leak->similar_referenced_count = cases[i].like.similar_referenced_count;
		leak->similar_referenced_size = cases[i].like.similar_referenced_size;
		leak->total_size = leak->size + leak->similar_size + leak->referenced_size +
		                   leak->similar_referenced_size;
		snprintf(row, sizeof(row), "\nLargest leaks:\n  %s\n\n", cases[i].row);
		assert_says(row);
	}
}

/* Of entries of so many bytes as many as make three quarters, but few. */
Test(text, opens_with_few)
{
	static const struct {
		uint64_t first, others, leaked;
		size_t rows;
	} cases[] = {
		{ 75, 1, 100, 1 }, { 74, 1, 100, 2 }, { 20, 20, 100, 4 }, { 20, 9, 1000, 5 }
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_leak sample = *largest();
		size_t rows = 0;

		report.leaks.n = 0;
		report.totals.leaked_bytes = cases[i].leaked;
		for (size_t n = 0; n < 20; n++) {
			struct ms_leak *leak = ms_vec_push(&arena, &report.leaks);

			*leak = sample;
			leak->total_size = n ? cases[i].others : cases[i].first;
		}
		for (const char *at = written(); (at = strstr(at, "\n  2 x ")); at++)
			rows++;
		cr_expect_eq(rows, cases[i].rows, "%zu: %zu", i, rows);
	}
}

Test(text, does_not_open_with_leaks_where_each_is_one)
{
	struct ms_leak *leak = largest();

	leak->similar_count = 0;
	leak->similar_size = 0;
	leak->total_size = 20;
	assert_not_says("Largest");
	leak = largest();
	leak->kind = MS_LEAK_POSSIBLE;
	assert_not_says("Largest");
}

Test(text, names_cannot_command_the_terminal)
{
	static const char hostile[] = "a\033[2Jb\xc2\x9b"
				      "c\xff\n0 bytes";

	snprintf(report.target.exe, sizeof(report.target.exe), "%s", hostile);
	snprintf(report.mappings.at[0].name, sizeof(report.mappings.at[0].name), "%s", hostile);
	snprintf(report.warnings.at[0].text, sizeof(report.warnings.at[0].text), "%s", hostile);
	snprintf(report.target.cmdline, sizeof(report.target.cmdline), "%s", hostile);
	cr_assert_null(memchr(written(), '\033', keeper.len));
	assert_says("process 4321 a?[2Jb?c\xef\xbf\xbd?0 bytes\n");
	assert_says("warning: a?[2Jb?c");
	assert_says("7f0000000000 a?[2Jb?c");
	assert_says("command: a?[2Jb?c");
}

/* What is not named is told by its module alone, at its place there. */
Test(text, frames_without_names_have_their_modules)
{
	report.names.n = 0;
	report.leaks.at[0].sampled.samples = 0;
	assert_says(
		"last\n"
		"          #00  pc 0000000000001abc  /opt/my lib/pool.so (deleted) (offset 0x3000)\n"
		"          #01  pc 0000000000002000  /opt/my lib/pool.so (deleted) (offset 0x3000)\n"
		"          #02  pc 0000000000600000  <unknown>\n"
		"          (cut: the stack goes on, but no more of it was kept)\n\n");
	assert_says("          #00  pc 0000000000000123  /usr/lib/libops.so.2\n"
	            "          #01  pc 0000000000000010  <unknown>\n\n");
}

Test(text, frames_of_small_programs_are_short)
{
	report.target.word_size = 4;
	assert_says("          #02  pc 00002000  /opt/my lib/pool.so (deleted)");
}

Test(text, frames_cannot_command_the_terminal)
{
	report.names.at[3].symbol.function = "a\033[2J\nb";
	report.names.at[3].symbol.file = "/x/\033[2J";
	report.names.at[3].symbol.module = "/\033[2J";
	assert_says("  /?[2J (a?[2J?b+7) ?[2J:0\n");
	cr_assert_null(memchr(keeper.bytes, '\033', keeper.len));
}

Test(text, a_leak_by_itself_has_its_frames_when_the_report_is_there)
{
	keeper_init(&keeper);
	ms_text_leak(&report.leaks.at[1], NULL, &keeper.base);
	cr_assert_null(strstr(keeper.bytes, "#00"));
	ms_text_leak(&report.leaks.at[1], &report, &keeper.base);
	cr_assert(strstr(keeper.bytes, "          #00  pc 0000000000011123  "
	                               "/usr/lib/libops.so.2 (unloaded) (ops_new+0)\n"));
}

Test(text, long_names_come_whole)
{
	memset(report.target.cmdline, 'x', sizeof(report.target.cmdline));
	report.target.cmdline_len = sizeof(report.target.cmdline);
	cr_assert_eq(strspn(strchr(written(), 'x'), "x"), MS_CMDLINE_TEXT);
}

Test(text, stops_when_the_sink_does)
{
	(void)written();
	for (size_t room = 0; room < keeper.len; room += 7) {
		struct keeper small;

		keeper_init(&small);
		small.room = room;
		cr_assert_not(ms_writer_find("text")->write(&report, &small.base));
	}
}

Test(text, unknown_formats_have_no_writer)
{
	cr_assert_null(ms_writer_find("xml"));
	cr_assert_null(ms_writer_find(""));
}

static const struct {
	const char *in;
	size_t len;
	const char *out;
} utf8_cases[] = {
	{ "plain", 5, "plain" },
	{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
	{ "\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd" },                 /* overlong '/' */
	{ "\xe0\x80\xaf", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* overlong too */
	{ "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* surrogate */
	{ "\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	{ "\xe2\x82", 2, "\xef\xbf\xbd\xef\xbf\xbd" },     /* cut off */
	{ "\xe2\x82\xac", 2, "\xef\xbf\xbd\xef\xbf\xbd" }, /* the rest is not ours to read */
	{ "a\0b", 3,
	  "a\xef\xbf\xbd"
	  "b" },
};

Test(utf8, takes_characters_and_nothing_else)
{
	char out[64];

	for (size_t i = 0; i < sizeof(utf8_cases) / sizeof(utf8_cases[0]); i++) {
		size_t used =
			ms_utf8_clean(utf8_cases[i].in, utf8_cases[i].len, false, out, sizeof(out));

		cr_assert_eq(used, utf8_cases[i].len, "case %zu", i);
		cr_assert_str_eq(out, utf8_cases[i].out, "case %zu", i);
	}
}

Test(utf8, controls_are_not_printed)
{
	static const char in[] = "a\x1b\x7f\xc2\x9b\xd8\x9c\xe2\x80\x8e\xe2\x80\xa8\xe2\x80\xae"
				 "\xe2\x81\xa6\xe2\x81\xa9 \xe2\x81\xaa\xe2\x82\xac";
	char out[64];

	cr_assert_eq(ms_utf8_clean(in, sizeof(in) - 1, true, out, sizeof(out)), sizeof(in) - 1);
	cr_assert_str_eq(out, "a????????? \xe2\x81\xaa\xe2\x82\xac");
}

Test(utf8, finds_the_next_control)
{
	struct ms_utf8_control control;

	cr_assert_eq(ms_utf8_plain("a\xc3\xa9\xe2\x80\xae.", 7, &control), 3);
	cr_assert_eq(control.code, 0x202e);
	cr_assert_eq(control.length, 3);
	cr_assert_eq(ms_utf8_plain("a\xc3\xa9\xe2\x80", 5, &control), 5);
	cr_assert_eq(control.length, 0);
}

Test(text, a_source_that_makes_no_sense_commands_no_terminal)
{
	(void)snprintf(report.scan.source, sizeof(report.scan.source), "\x1b[2J");
	keep_report(&keeper, "text", &report);
	cr_assert_null(memchr(keeper.bytes, '\x1b', keeper.len));
	cr_assert_not_null(strstr(keeper.bytes, "source ?[2J\n"));
}

Test(utf8, cuts_between_characters)
{
	char out[5];

	cr_assert_eq(ms_utf8_clean("ab\xe2\x82\xac", 5, false, out, sizeof(out)), 2);
	cr_assert_str_eq(out, "ab");
}

Test(text, says_how_many_blocks_are_possible_leaks_by_their_middle)
{
	(void)largest();
	report.possible = false;
	assert_says("99 bytes in 3 more allocations reachable by pointers into the middle alone "
	            "(memscan --possible lists them)\n");
	report.totals.interior_allocations = 1;
	assert_says("99 bytes in 1 more allocation reachable");
	report.totals.interior_allocations = 0;
	assert_not_says("into the middle");
	report.totals.interior_allocations = 3;
	report.possible = true;
	assert_not_says("into the middle");
}
