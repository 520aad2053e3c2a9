/* SPDX-License-Identifier: Apache-2.0 */
#include "golden/sample.h"

/* What lives, by the calls that allocated it. */

static struct ms_arena arena;
static struct ms_report report;
static struct keeper keeper;

static void init(void)
{
	sample_report(&arena, &report);
}

TestSuite(live, .init = init);

static const char *written(const char *format)
{
	keeper_init(&keeper);
	cr_assert(ms_live_writer_find(format)->write(&report, &keeper.base));
	return keeper.bytes;
}

static void assert_says(const char *format, const char *what)
{
	cr_assert(strstr(written(format), what), "no \"%s\" in:\n%s", what, keeper.bytes);
}

Test(live, the_text_has_each_stack_with_what_of_it_is_leaked)
{
	assert_says("text", "memscan 0.1.0: process 4321 /usr/sbin/server\n"
	                    "  in its pid namespace: process 7\n"
	                    "  scan: paused 1.235 ms, source copy\n"
	                    "  stacks: those of samples, one in about 524288 bytes since attach; ");
	assert_says("text",
	            "  all: 1564 bytes in 10 allocations\n\n"
	            "  about 30 KB (error 2345 bytes) in 90 allocations (error 10), by 8 samples\n"
	            "   leaked: about 12 KB (error 678 bytes) in 40 allocations (error 5), by 4 "
	            "samples\n"
	            "          #00  pc 0000000000001abc  /opt/my lib/pool.so");
	assert_says("text", "(ops_new+0)\n"
	                    "          #01  pc 0000000000000010  <unknown>\n\n"
	                    "16 more stacks are not listed: --limit all lists them\n");
	report.sites.at[0].leaked.samples = 0;
	assert_says("text", "by 8 samples\n          #00  pc ");
	report.target.ns_pid = 0;
	assert_says("text", "/usr/sbin/server\n  scan: paused ");
}

Test(live, a_stack_that_was_cut_says_so)
{
	static const char cut[] =
		"          (cut: the stack goes on, but no more of it was kept)\n\n";

	struct ms_stack *stack = &report.stacks.at[report.sites.at[0].stack - 1];

	stack->cut = 0;
	cr_assert_null(strstr(written("text"), "(cut"));
	stack->cut = 1;
	assert_says("text", cut);
	assert_says("json", ",\"backtrace_cut\":true}");
}

Test(live, folded_it_is_bytes_by_stack_outermost_first)
{
	report.sites.at[0].live.bytes = 30721;
	cr_assert_str_eq(written("folded"),
	                 "0x200010;ops_new 300000\n"
	                 "0x600000;main;pool::take();pool::grow(unsigned long) 30721\n");
}

Test(live, its_json_is_that_of_a_report)
{
	assert_says("json", "\"sampled_stacks\":[\n{\"live\":{\"samples\":8,");
	cr_assert_null(ms_live_writer_find("html"));
}

Test(live, a_writer_stops_when_its_sink_does)
{
	static const char *const formats[] = { "text", "folded" };

	for (size_t i = 0; i < 2; i++)
		for (size_t room = 0; room < 60; room++) {
			keeper_init(&keeper);
			keeper.room = room;
			cr_assert(!ms_live_writer_find(formats[i])->write(&report, &keeper.base));
		}
}
