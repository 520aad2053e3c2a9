/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "report/stacks.h"

/* Keeps what is written, up to @room bytes. */
struct keeper {
	struct ms_sink base;
	size_t room;
	size_t len;
	char text[32768];
};

static bool keep(struct ms_sink *base, const char *bytes, size_t len)
{
	struct keeper *k = (struct keeper *)base;

	if (k->len + len > k->room)
		return false;
	memcpy(k->text + k->len, bytes, len);
	k->len += len;
	k->text[k->len] = '\0';
	return true;
}

static struct keeper keeper;

static void setup(void)
{
	memset(&keeper, 0, sizeof(keeper));
	keeper.base.write = keep;
	keeper.room = sizeof(keeper.text) - 1;
}

TestSuite(frames, .init = setup);

static const struct {
	struct ms_frame frame;
	const char *line;
} rows[] = {
	{ { 0x7f0000012345,
	    { .module = "/lib/x.so",
	      .rel_pc = 0x12345,
	      .function = "func",
	      .function_offset = 12,
	      .build_id = "0a1b",
	      .file = "/src/dir/file.c",
	      .line = 123 } },
	  "    #07 pc 0000000000012345  /lib/x.so (func+12) (BuildId: 0a1b) at file.c:123\n" },
	{ { 0x1000, { .module = "/lib/x.so", .rel_pc = 0x1000, .function = "func" } },
	  "    #07 pc 0000000000001000  /lib/x.so (func)\n" },
	{ { 0x1000, { .module = "/a.apk", .rel_pc = 0x1000, .elf_offset = 0x3000 } },
	  "    #07 pc 0000000000001000  /a.apk (offset 0x3000)\n" },
	{ { 0x7f0000000010, { .module = "", .map_begin = 0x7f0000000000, .rel_pc = 0x10 } },
	  "    #07 pc 0000000000000010  <anonymous:7f0000000000>\n" },
	{ { 0x1234, { 0 } }, "    #07 pc 0000000000001234  <unknown>\n" },
	{ { 0x1,
	    { .module = "/a\033[2J\nb",
	      .rel_pc = 1,
	      .function = "f\r",
	      .file = "\033c",
	      .line = 1 } },
	  "    #07 pc 0000000000000001  /a?[2J?b (f?) at ?c:1\n" },
	{ { 0x1, { .module = "/a", .rel_pc = 1, .file = "dir/", .line = 1 } },
	  "    #07 pc 0000000000000001  /a at dir/:1\n" },
};

/* Write a stack of eight such frames; returns what is said of the last, and what follows. */
static const char *write_frame(const struct ms_frame *frame)
{
	struct ms_frame frames[8];
	struct ms_backtrace trace = { .frames = { frames, 8, 8 } };
	const struct ms_stack_dump dump = {
		.time = "", .abi = "", .word_bytes = 8, .threads = { &trace, 1, 1 }
	};

	for (size_t i = 0; i < 8; i++)
		frames[i] = *frame;
	cr_assert(ms_stacks_write(&dump, &keeper.base));
	return strstr(keeper.text, "    #07");
}

Test(frames, a_line_has_what_is_known_and_no_more)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char line[512];

		setup();
		(void)snprintf(line, sizeof(line), "%s\n----- end 0 -----\n", rows[i].line);
		cr_assert_str_eq(write_frame(&rows[i].frame), line);
	}
}

Test(frames, a_long_name_is_written_whole)
{
	char name[2001];
	struct ms_frame frame = { 1, { .module = "/a", .function = name } };

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	cr_assert_not_null(strstr(write_frame(&frame), name));
}

static bool write_dump(void)
{
	struct ms_frame frame = { 0x10, { .module = "/a", .rel_pc = 0x10, .function = "f" } };
	struct ms_backtrace traces[] = {
		{ .tid = 5, .name = "main", .frames = { &frame, 1, 1 } },
		{ .tid = 6, .failure = "no reason" },
	};
	const struct ms_stack_dump dump = { .word_bytes = 8,
		                            .pid = 5,
		                            .time = "2026-11-21 17:13:21.123456789+0000",
		                            .cmdline = "prog\0a b\0",
		                            .cmdline_len = 9,
		                            .abi = "x86_64",
		                            .threads = { traces, 2, 2 } };

	return ms_stacks_write(&dump, &keeper.base);
}

Test(frames, a_dump_is_debuggerds)
{
	cr_assert(write_dump());
	cr_assert_str_eq(keeper.text,
	                 "\n\n----- pid 5 at 2026-11-21 17:13:21.123456789+0000 -----\n"
	                 "Cmd line: prog a b\n"
	                 "ABI: 'x86_64'\n"
	                 "\n\"main\" sysTid=5\n"
	                 "    #00 pc 0000000000000010  /a (f)\n"
	                 "\n\"<unknown>\" sysTid=6\n"
	                 "    Unwind failed: tid = 6: Error no reason\n"
	                 "\n----- end 5 -----\n");
}

Test(frames, a_sink_that_is_full_stops_the_writer)
{
	keeper.room = 100;
	cr_assert_not(write_dump());
}
