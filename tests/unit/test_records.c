/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/records/recording.h"

static struct ms_arena arena;
static struct ms_recording recording;
static struct ms_recording_reader reader;
static struct ms_error err;

static void setup(void)
{
	ms_arena_init(&arena);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(records, .init = setup, .fini = teardown);

/* ---- lines ---- */

struct line {
	const char *text;
	enum ms_operation_problem problem;
	struct ms_operation op;
};

static void check_line(const struct line *c)
{
	size_t len = strlen(c->text);
	char *copy = malloc(len ? len : 1);
	struct ms_operation op;

	memcpy(copy, c->text, len);
	cr_expect_eq(ms_operation_read(copy, len, &op), c->problem, "%s", c->text);
	free(copy);
	if (c->problem != MS_OP_READ)
		return;
	cr_expect_eq(op.kind, c->op.kind, "%s", c->text);
	cr_expect_eq(op.tid, c->op.tid, "%s", c->text);
	cr_expect_eq(op.address, c->op.address, "%s", c->text);
	cr_expect_eq(op.old, c->op.old, "%s", c->text);
	cr_expect_eq(op.number, c->op.number, "%s", c->text);
	cr_expect_eq(op.size, c->op.size, "%s", c->text);
	cr_expect_eq(op.timed, c->op.timed, "%s", c->text);
	cr_expect_eq(op.start_ns, c->op.start_ns, "%s", c->text);
	cr_expect_eq(op.end_ns, c->op.end_ns, "%s", c->text);
}

#define CHECK_LINES(lines)                                              \
	for (size_t i = 0; i < sizeof(lines) / sizeof((lines)[0]); i++) \
	check_line(&(lines)[i])
#define OP(k, t, a, ...)                                             \
	MS_OP_READ,                                                  \
	{                                                            \
		.kind = (k), .tid = (t), .address = (a), __VA_ARGS__ \
	}
#define TIMES .timed = true, .start_ns = 7, .end_ns = 9

Test(records, reads_each_form_of_a_line)
{
	static const struct line lines[] = {
		{ "1: malloc 0x1a 5", OP(MS_OP_MALLOC, 1, 0x1a, .size = 5) },
		{ "1: malloc 0x1a 5 7 9", OP(MS_OP_MALLOC, 1, 0x1a, .size = 5, TIMES) },
		{ "1: calloc 0x1A 3 5", OP(MS_OP_CALLOC, 1, 0x1a, .number = 3, .size = 15) },
		{ "1: calloc 0x1a 3 5 7 9",
		  OP(MS_OP_CALLOC, 1, 0x1a, .number = 3, .size = 15, TIMES) },
		{ "1: realloc 0x1a 0x2b 5", OP(MS_OP_REALLOC, 1, 0x1a, .old = 0x2b, .size = 5) },
		{ "1: realloc 0x1a 0x2b 5 7 9",
		  OP(MS_OP_REALLOC, 1, 0x1a, .old = 0x2b, .size = 5, TIMES) },
		{ "1: memalign 0x1a 16 5", OP(MS_OP_MEMALIGN, 1, 0x1a, .number = 16, .size = 5) },
		{ "1: memalign 0x1a 16 5 7 9",
		  OP(MS_OP_MEMALIGN, 1, 0x1a, .number = 16, .size = 5, TIMES) },
		{ "1: free 0x1a", OP(MS_OP_FREE, 1, 0x1a) },
		{ "1: free 0x1a 7 9", OP(MS_OP_FREE, 1, 0x1a, TIMES) },
		{ "1: thread_done 0x0", OP(MS_OP_THREAD_DONE, 1, 0) },
		{ "1: thread_done 0x0 9",
		  OP(MS_OP_THREAD_DONE, 1, 0, .timed = true, .start_ns = 9, .end_ns = 9) },
		{ "1: malloc 0x0 18446744073709551615",
		  OP(MS_OP_MALLOC, 1, 0, .size = UINT64_MAX) },
		{ "2147483647: free 0xffffffffffffffff 7 9",
		  OP(MS_OP_FREE, 2147483647, UINT64_MAX, TIMES) },
		{ "1: calloc 0x0 99999999999 99999999999",
		  OP(MS_OP_CALLOC, 1, 0, .number = 99999999999, .size = UINT64_MAX) },
		{ "1:  malloc\t0x1a  5 ", OP(MS_OP_MALLOC, 1, 0x1a, .size = 5) },
		{ "1: free b6038060", OP(MS_OP_FREE, 1, 0xb6038060) },
		{ "1: free 0", OP(MS_OP_FREE, 1, 0) },
	};

	CHECK_LINES(lines);
}

/* Since November 2024; the side of the times on which it stands is not known. */
Test(records, passes_over_present_bytes)
{
	static const struct line lines[] = {
		{ "1: free 0x1a 7 9 4096", OP(MS_OP_FREE, 1, 0x1a, TIMES) },
		{ "1: free 0x1a 7 9 -1", OP(MS_OP_FREE, 1, 0x1a, TIMES) },
		{ "1: free 0x1a 7 9 0", OP(MS_OP_FREE, 1, 0x1a, TIMES) },
		{ "1: free 0x1a -1 7 9", OP(MS_OP_FREE, 1, 0x1a, TIMES) },
		{ "1: free 0x1a 4096 7 9", OP(MS_OP_FREE, 1, 0x1a, TIMES) },
		{ "1: free 0x1a 4096", OP(MS_OP_FREE, 1, 0x1a) },
		{ "1: free 0x1a -1", OP(MS_OP_FREE, 1, 0x1a) },
		{ "1: realloc 0x1a 0x2b 5 7 9 -1",
		  OP(MS_OP_REALLOC, 1, 0x1a, .old = 0x2b, .size = 5, TIMES) },
		{ "1: realloc 0x1a 0x2b 5 12", OP(MS_OP_REALLOC, 1, 0x1a, .old = 0x2b, .size = 5) },
	};

	CHECK_LINES(lines);
}

Test(records, refuses_what_is_no_line)
{
	static const struct line lines[] = {
		{ "x", MS_OP_NO_LINE, { 0 } },
		{ "1", MS_OP_NO_LINE, { 0 } },
		{ "1 malloc 0x1 5", MS_OP_NO_LINE, { 0 } },
		{ "-1: malloc 0x1 5", MS_OP_NO_LINE, { 0 } },
		{ "2147483648: malloc 0x1 5", MS_OP_NO_LINE, { 0 } },
		{ "1:malloc 0x1 5", MS_OP_NO_LINE, { 0 } },
		{ "1: mallocs 0x1 5", MS_OP_NO_LINE, { 0 } },
		{ "1: mallo 0x1 5", MS_OP_NO_LINE, { 0 } },
		{ "1: malloc", MS_OP_NO_LINE, { 0 } },
		{ "1: malloc 0x", MS_OP_NO_LINE, { 0 } },
		{ "1: malloc 0x1g 5", MS_OP_NO_LINE, { 0 } },
		{ "1: malloc 0x10000000000000000 5", MS_OP_NO_LINE, { 0 } },
		{ "1: free 0x1,", MS_OP_NO_LINE, { 0 } },
		{ "1: malloc 0x1", MS_OP_NO_DATA, { 0 } },
		{ "1: malloc 0x1 ", MS_OP_NO_DATA, { 0 } },
		{ "1: malloc 0x1 -5", MS_OP_NO_DATA, { 0 } },
		{ "1: malloc 0x1 5x", MS_OP_NO_DATA, { 0 } },
		{ "1: malloc 0x1 18446744073709551616", MS_OP_NO_DATA, { 0 } },
		{ "1: malloc 0x1 20000000000000000000", MS_OP_NO_DATA, { 0 } },
		{ "1: calloc 0x1 5", MS_OP_NO_DATA, { 0 } },
		{ "1: calloc 0x1 99999999999 99999999999", MS_OP_NO_DATA, { 0 } },
		{ "1: realloc 0x1 0x2", MS_OP_NO_DATA, { 0 } },
		{ "1: realloc 0x1 x 5", MS_OP_NO_DATA, { 0 } },
		{ "1: memalign 0x1 16", MS_OP_NO_DATA, { 0 } },
		{ "1: malloc 0x1 5 7", MS_OP_NO_TIMES, { 0 } },
		{ "1: malloc 0x1 5 9 7", MS_OP_NO_TIMES, { 0 } },
		{ "1: malloc 0x1 5 7 x", MS_OP_NO_TIMES, { 0 } },
		{ "1: malloc 0x1 5 7 9223372036854775808", MS_OP_NO_TIMES, { 0 } },
		{ "1: free 0x1 7 9 1 1", MS_OP_NO_TIMES, { 0 } },
		{ "1: free 0x1 7 9 -2", MS_OP_NO_TIMES, { 0 } },
		{ "1: free 0x1 -1 9", MS_OP_NO_TIMES, { 0 } },
		{ "1: thread_done 0x0 7 9", MS_OP_NO_TIMES, { 0 } },
		{ "1: thread_done 0x0 -1", MS_OP_NO_TIMES, { 0 } },
	};

	CHECK_LINES(lines);
}

/* ---- files ---- */

/* In pieces of @piece bytes. */
static enum ms_status feed(const char *text, size_t len, size_t piece)
{
	enum ms_status st;

	memset(&recording, 0, sizeof(recording));
	memset(&err, 0, sizeof(err));
	reader = (struct ms_recording_reader){
		.recording = &recording, .arena = &arena, .file = "a.txt", .until = reader.until
	};
	st = ms_recording_begin(&reader, &err);
	for (size_t at = 0; !st && at < len; at += piece)
		st = ms_recording_feed(&reader, text + at, len - at < piece ? len - at : piece,
		                       &err);
	return st ? st : ms_recording_end(&reader, &err);
}

static enum ms_status parse(const char *text)
{
	return feed(text, strlen(text), 7);
}

Test(records, tells_what_is_wrong_with_a_file)
{
	static const struct {
		const char *text;
		const char *told;
		const char *advised;
	} cases[] = {
		{ "", "a.txt is empty", "record_allocs" },
		{ "\n\r\n", "a.txt has no whole record", "record_allocs" },
		{ "1: free 0x1", "a.txt has no whole record", "record_allocs" },
		{ "1: free 0x1\nhello\n2: free 0x2\n",
		  "a.txt, line 2: Failed to process line: hello", "expected TID: malloc|calloc" },
		{ "\n1: malloc 0x1 x\n",
		  "a.txt, line 2: Failed to read malloc data: 1: malloc 0x1 x",
		  "expected TID: malloc 0xADDRESS SIZE [START END]" },
		{ "1: realloc 0x1 0x2\n",
		  "a.txt, line 1: Failed to read realloc data: 1: realloc 0x1 0x2",
		  "expected TID: realloc 0xNEW 0xOLD SIZE [START END]" },
		{ "1: free 0x1 9 7\r\n",
		  "a.txt, line 1: Failed to read timestamps: 1: free 0x1 9 7",
		  "expected TID: free 0xADDRESS [START END]" },
		{ "1: thread_done 0x0 9 7\n",
		  "a.txt, line 1: Failed to read thread_done end time: 1: thread_done 0x0 9 7",
		  "expected TID: thread_done 0x0 [END]" },
		{ "Android Native Heap Dump v1.2\n",
		  "a.txt, line 1: Failed to process line: Android Native Heap Dump v1.2",
		  "memscan heapdump" },
		{ "1: malloc 0x1 9223372036854775807\n1: malloc 0x2 1\n",
		  "the sizes of all records exceed 64 bits", "line 2 of a.txt" },
		{ "1: malloc 0x1 9223372036854775808\n", "the sizes of all records exceed 64 bits",
		  "line 1 of a.txt" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(parse(cases[i].text), MS_E_CORRUPT, "%s", cases[i].text);
		cr_expect_str_eq(err.text, cases[i].told);
		cr_expect(strstr(err.advice, cases[i].advised), "%s", err.advice);
	}
}

Test(records, refuses_an_endless_line)
{
	static char text[3 * MS_RECORDING_LINE];

	memset(text, 'x', sizeof(text));
	memcpy(text, "1: free 0x1\n", 12);
	cr_assert_eq(feed(text, sizeof(text), 1000), MS_E_CORRUPT);
	cr_assert_str_eq(err.text, "a.txt, line 2 is too long for a recording");
}

Test(records, leaves_out_a_line_that_was_cut_off)
{
	cr_assert_eq(parse("1: malloc 0x1 5\n1: free 0x1"), MS_OK, "%s", err.text);
	cr_assert_eq(recording.end.blocks, 1);
	cr_assert_eq(recording.warnings.n, 1);
	cr_assert_str_eq(recording.warnings.at[0],
	                 "line 2 was cut off, and is ignored: 1: free 0x1");
}

Test(records, takes_pieces_of_any_length)
{
	static const char text[] = "1: malloc 0x1 5\r\n\n2: malloc 0x2 6\n1: free 0x1\n";

	for (size_t piece = 1; piece < sizeof(text); piece++) {
		cr_assert_eq(feed(text, sizeof(text) - 1, piece), MS_OK, "%zu", piece);
		cr_assert_eq(recording.operations, 3);
		cr_assert_eq(recording.end.bytes, 6);
		cr_assert_eq(reader.line, 4);
	}
}
