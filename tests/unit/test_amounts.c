/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "golden/sample.h"
#include "report/amounts/amounts.h"

static struct ms_arena arena;
static struct ms_report report;
static struct ms_amounts amounts;
static struct ms_amount_tree tree = { .amounts = &amounts };
static struct ms_error err;
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

TestSuite(amounts, .init = setup, .fini = teardown);

static void grow(enum ms_amounts_by by)
{
	cr_assert_eq(ms_amounts_of_leaks(&report, by, &arena, &amounts, &err), MS_OK);
	tree.nodes.n = 0;
	cr_assert_eq(ms_amounts_grow(&tree, &arena, &err), MS_OK);
}

static const char *folded(enum ms_amounts_by by)
{
	grow(by);
	keeper_init(&keeper);
	cr_assert(ms_amounts_folded(&tree, &keeper.base));
	return keeper.bytes;
}

static const char *html(enum ms_amounts_by by)
{
	static const char *const lines[] = { "old <report>" };
	const struct ms_amount_page page = { .title = "a & b", .lines = lines, .n_lines = 1 };

	grow(by);
	keeper_init(&keeper);
	cr_assert(ms_amounts_html(&tree, &page, &keeper.base));
	return keeper.bytes;
}

Test(amounts, a_report_folds_by_stack)
{
	cr_assert_str_eq(folded(MS_AMOUNTS_BY_STACK),
	                 "LEAKS;0x600000;main;pool::take();pool::grow(unsigned long) 20538\n"
	                 "LEAKS;0x200010;ops_new 40\n"
	                 "POSSIBLE LEAKS;unknown type 24\n");
}

Test(amounts, a_report_folds_by_type)
{
	cr_assert_str_eq(folded(MS_AMOUNTS_BY_TYPE), "LEAKS;pool::Box<int, char const*> 174\n"
	                                             "LEAKS;unknown type of libops.so.2 40\n"
	                                             "POSSIBLE LEAKS;unknown type 24\n");
}

/* Where there is one group it goes without saying. */
Test(amounts, a_report_without_names_folds_by_place)
{
	report.names.n = 0;
	report.leaks.n = 2;
	cr_assert_str_eq(folded(MS_AMOUNTS_BY_STACK),
	                 "0x600000;pool.so (deleted)+0x2000;pool.so (deleted)+0x1abc 20538\n"
	                 "0x200010;libops.so.2+0x123 40\n");
}

Test(amounts, counts_are_of_all_blocks_of_a_leak)
{
	const struct ms_amount_node *node;

	grow(MS_AMOUNTS_BY_TYPE);
	node = ms_amounts_begin(&tree);
	cr_assert_eq(node->now.bytes, 174 + 40);
	cr_assert_eq(node->now.count, 8 + 1);
	node = ms_amounts_next(&tree, node, false);
	cr_assert_eq(node->now.own_bytes, 174);
	cr_assert_eq(node->now.own_count, 8);
}

/* Addresses that are equal in two stacks are one place, types of equal names one type. */
Test(amounts, what_is_equal_is_one)
{
	report.pcs.at[report.stacks.at[0].first + 1] = report.pcs.at[report.stacks.at[1].first + 2];
	memcpy(report.types.at[0].name, report.types.at[1].name, sizeof(report.types.at[0].name));
	cr_assert_str_eq(folded(MS_AMOUNTS_BY_TYPE), "LEAKS;pool::Box<int, char const*> 214\n"
	                                             "POSSIBLE LEAKS;unknown type 24\n");
	grow(MS_AMOUNTS_BY_STACK);
	cr_assert_eq(tree.nodes.n, 7, "two groups, 4 places, a type: %zu", tree.nodes.n);
}

/* A leak by samples (or @stack 0: without a stack) of so many blocks of 16 bytes. */
static void add_sampled(uint32_t stack, uint64_t n, struct ms_estimate estimate)
{
	*(struct ms_leak *)ms_vec_push(&arena, &report.leaks) = (struct ms_leak){
		.size = 16,
		.similar_count = n - 1,
		.similar_size = 16 * (n - 1),
		.total_size = 16 * n,
		.stack = stack,
		.sampled = estimate,
	};
}

/* All together remain what was found; what was made before attach is none of the samples'. */
Test(amounts, samples_stand_for_what_has_no_stack)
{
	report.leaks.n = report.names.n = 0;
	add_sampled(1, 2, (struct ms_estimate){ .samples = 2, .count = 50, .bytes = 800 });
	add_sampled(0, 60, (struct ms_estimate){ 0 });
	add_sampled(0, 30, (struct ms_estimate){ 0 });
	report.leaks.at[2].type = 2;
	add_sampled(0, 5, (struct ms_estimate){ 0 });
	report.leaks.at[3].type = 1;
	report.leaks.at[3].older = true;
	cr_assert_str_eq(folded(MS_AMOUNTS_BY_STACK), "0x200010;libops.so.2+0x123 800\n"
	                                              "unknown type 448\n"
	                                              "pool::Box<int, char const*> 224\n"
	                                              "unknown type of libops.so.2 80\n");
	cr_assert_eq(ms_amounts_begin(&tree)->now.bytes, 16 * (2 + 60 + 30 + 5));
	cr_assert_eq(ms_amounts_begin(&tree)->now.count, 2 + 60 + 30 + 5);
	/* By type all is known. */
	cr_assert_str_eq(folded(MS_AMOUNTS_BY_TYPE), "unknown type 992\n"
	                                             "pool::Box<int, char const*> 480\n"
	                                             "unknown type of libops.so.2 80\n");
}

Test(amounts, samples_may_stand_for_more_than_was_found)
{
	report.leaks.n = report.names.n = 0;
	add_sampled(1, 2, (struct ms_estimate){ .samples = 2, .count = 50, .bytes = 800 });
	add_sampled(0, 40, (struct ms_estimate){ 0 });
	cr_assert_str_eq(folded(MS_AMOUNTS_BY_STACK), "0x200010;libops.so.2+0x123 800\n");
}

Test(amounts, leaks_without_a_stack_stand_by_their_type)
{
	report.leaks.at[0].stack = report.leaks.at[1].stack = 0;
	cr_assert_str_eq(folded(MS_AMOUNTS_BY_STACK), "LEAKS;pool::Box<int, char const*> 174\n"
	                                              "LEAKS;unknown type of libops.so.2 40\n"
	                                              "POSSIBLE LEAKS;unknown type 24\n");
}

Test(amounts, a_report_without_leaks_is_an_empty_tree)
{
	report.leaks.n = report.types.n = report.stacks.n = report.pcs.n = 0;
	cr_assert_str_eq(folded(MS_AMOUNTS_BY_STACK), "");
	cr_assert_null(ms_amounts_begin(&tree));
}

static void assert_says(const char *text, const char *part)
{
	cr_assert_not_null(strstr(text, part), "%s in:\n%s", part, text);
}

Test(amounts, a_page_has_the_same)
{
	const char *page = html(MS_AMOUNTS_BY_STACK);

	assert_says(page, "<title>a &#38; b</title>");
	assert_says(page, "<p>old &#60;report&#62;</p>\n"
	                  "<details open><summary>20578 100.00%     10 leaks</summary>\n");
	assert_says(page, "pool.so (deleted) pool::grow(unsigned long) "
	                  "<span class=\"place\">grow.hh:12</span> (inlined by) pool::take()");
	assert_says(page, "<summary>24 100.00%      1 possible leaks</summary>\n");
	assert_says(page, "1 unknown type</div>");
	assert_says(html(MS_AMOUNTS_BY_TYPE),
	            "174  81.31%      8 pool::Box&#60;int, char const*&#62;<");
}

static const char *written(const char *format)
{
	const struct ms_writer *writer = ms_writer_find(format);

	cr_assert_not_null(writer);
	keeper_init(&keeper);
	cr_assert(writer->write(&report, &keeper.base));
	return keeper.bytes;
}

Test(amounts, are_formats_of_a_report)
{
	cr_assert_str_eq(written("folded"),
	                 "LEAKS;0x600000;main;pool::take();pool::grow(unsigned long) 20538\n"
	                 "LEAKS;0x200010;ops_new 40\n"
	                 "POSSIBLE LEAKS;unknown type 24\n");
	(void)written("html");
	assert_says(keeper.bytes, "<title>Leaked memory</title>");
	assert_says(keeper.bytes, "<summary>20578 100.00%     10 leaks</summary>");
}

/* Names are the target's: none commands the terminal that a format, or a viewer of it, prints to.
 */
Test(amounts, no_name_commands_a_terminal)
{
	static const char *const formats[] = { "folded", "html", "pprof", "text" };
	static const char evil[] = "e\033]0;t\a\n\xc2\x9b\x9b\xe2\x80\xae!";
	static const char harmless[] = "e?]0"; /* folded stacks have no semicolon */

	for (size_t i = 0; i < report.names.n; i++)
		for (size_t k = 0; k < report.names.at[i].functions.n; k++)
			report.names.at[i].functions.at[k].name = evil;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		(void)written(formats[i]);
		cr_assert_not_null(memmem(keeper.bytes, keeper.len, harmless, strlen(harmless)),
		                   "%s", formats[i]);
		cr_assert_not_null(memmem(keeper.bytes, keeper.len, "??\xef\xbf\xbd?!", 7), "%s",
		                   formats[i]);
		cr_assert_null(memmem(keeper.bytes, keeper.len, "\033]", 2), "%s", formats[i]);
		cr_assert_null(memmem(keeper.bytes, keeper.len, "\xc2\x9b", 2), "%s", formats[i]);
	}
}

/* A sum that is not whole says so. */
Test(amounts, a_page_says_what_is_not_listed)
{
	report.totals.leaks = report.leaks.n;
	report.totals.possible = 1;
	report.totals.small_leaks = report.totals.small_possible = 0;
	cr_assert_null(strstr(written("html"), "not listed"));
	report.totals.leaks += 3;
	assert_says(written("html"), "<p>3 entries are not listed</p>");
}

Test(amounts, stops_when_the_sink_does)
{
	size_t len = strlen(folded(MS_AMOUNTS_BY_STACK));

	for (size_t room = 0; room < len; room += 3) {
		keeper_init(&keeper);
		keeper.room = room;
		cr_assert_not(ms_amounts_folded(&tree, &keeper.base));
	}
}
