/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/heapdump/dump.h"

static struct ms_arena arena;
static struct ms_heapdump dump;
static struct ms_error err;

static void setup(void)
{
	ms_arena_init(&arena);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(heapdump, .init = setup, .fini = teardown);

/* From memory of exactly that length, so that a sanitizer sees a read behind it. */
static enum ms_status parse_bytes(const char *text, size_t len)
{
	char *copy = malloc(len ? len : 1);
	struct ms_heapdump_file file = { "a.txt", copy, len };
	enum ms_status st;

	memset(&err, 0, sizeof(err));
	memcpy(copy, text, len);
	st = ms_heapdump_parse(&file, &arena, &dump, &err);
	free(copy);
	return st;
}

static enum ms_status parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

#define MAPS_END                                                           \
	"MAPS\n"                                                           \
	"55a0000-55b0000 r-xp 00001000 fd:01 77 /data/app/my app/lib.so\n" \
	"7f00000000-7f00001000 rw-p 00000000 00:00 0 \n"                   \
	"END\n"
#define HEAD_12                                                                 \
	"Android Native Heap Dump v1.2\n\nBuild fingerprint: 'google/x:10'\n\n" \
	"Total memory: 4700\nAllocation records: 3\nBacktrace size: 16\n\n"
#define HEAD_1(minor)                                                   \
	"Android Native Heap Dump v1." minor "\n\nTotal memory: 4700\n" \
	"Allocation records: 3\nBacktrace size: 16\n\n"

static const char v12[] = HEAD_12 "z 1  sz     4096  num    1  bt 55a0010 55a0020\n"
				  "z 0  sz      502  num    1  bt 55a0010\n"
				  "z 0  sz       51  num    2  bt 55a0010 7f00000001 99\n" MAPS_END;

Test(heapdump, reads_version_1_2)
{
	cr_assert_eq(parse(v12), MS_OK, "%s", err.text);
	cr_assert_str_eq(dump.version, "1.2");
	cr_assert_str_eq(dump.fingerprint, "google/x:10");
	cr_assert_eq(dump.total_bytes, 4700);
	cr_assert_eq(dump.total_records, 3);
	cr_assert_eq(dump.backtrace_size, 16);
	cr_assert(dump.counts_valid);
	cr_assert_eq(dump.records.n, 3);
	cr_assert_eq(dump.bytes, 4700);
	cr_assert_eq(dump.warnings.n, 0);
}

Test(heapdump, reads_records)
{
	const struct ms_heapdump_record *last;

	cr_assert_eq(parse(v12), MS_OK);
	cr_assert(dump.records.at[0].app);
	cr_assert_not(dump.records.at[1].app);
	last = &dump.records.at[2];
	cr_assert_eq(last->size, 51);
	cr_assert_eq(last->count, 2);
	cr_assert_eq(last->n_frames, 3);
	cr_assert_eq(dump.pcs.at[last->first + 1], 0x7f00000001);
	cr_assert_eq(dump.pcs.at[last->first + 2], 0x99);
	cr_assert_eq(last->info, SIZE_MAX);
}

Test(heapdump, reads_mappings)
{
	cr_assert_eq(parse(v12), MS_OK);
	cr_assert_eq(dump.mappings.n, 2);
	cr_assert_eq(dump.mappings.at[0].range.begin, 0x55a0000);
	cr_assert_eq(dump.mappings.at[0].range.end, 0x55b0000);
	cr_assert_eq(dump.mappings.at[0].offset, 0x1000);
	cr_assert_eq(dump.mappings.at[0].inode, 77);
	cr_assert_str_eq(dump.mappings.at[0].name, "/data/app/my app/lib.so");
	cr_assert_str_eq(dump.mappings.at[1].name, "");
}

/* Android's rules for the counts of old dumps. */
Test(heapdump, knows_which_counts_are_valid)
{
	static const struct {
		const char *text;
		bool valid;
		uint64_t bytes;
	} cases[] = {
#define Z(num) "z 0  sz       10  num    " num "  bt 1\n"
		{ HEAD_1("1") Z("16") Z("16") Z("16") "MAPS\nEND\n", true, 480 },
		{ HEAD_1("0") Z("16") Z("16") Z("16") "MAPS\nEND\n", false, 30 },
		{ HEAD_1("0") Z("16") Z("16") Z("16") Z("3") "MAPS\nEND\n", false, 40 },
		{ HEAD_1("0") Z("16") Z("16") Z("3") "MAPS\nEND\n", true, 350 },
		{ HEAD_1("0") Z("16") Z("16") "MAPS\nEND\n", false, 20 },
		{ HEAD_1("0") Z("16") "MAPS\nEND\n", false, 10 },
		{ HEAD_1("0") "MAPS\nEND\n", true, 0 },
		{ HEAD_1("0") "z 0  sz 10  num 3  bt\n" Z("16") "MAPS\nEND\n", false, 10 },
		{ Z("7"), true, 70 },
		{ "Backtrace size: 7\n" Z("7"), false, 10 },
#undef Z
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(parse(cases[i].text), MS_OK, "%zu: %s", i, err.text);
		cr_assert_eq(dump.counts_valid, cases[i].valid, "%zu", i);
		cr_assert_eq(dump.bytes, cases[i].bytes, "%zu: %lu", i, dump.bytes);
	}
}

Test(heapdump, leaves_out_what_has_no_stack)
{
	cr_assert_eq(parse(HEAD_1("1") "z 0  sz 30  num 2  bt\nz 0  sz 1  num 1  bt 5\n"
	                               "z 0  sz 7  num 1  bt\nMAPS\nEND\n"),
	             MS_OK);
	cr_assert_eq(dump.records.n, 1);
	cr_assert_eq(dump.records.at[0].size, 1);
	cr_assert_eq(dump.bytes, 1);
	cr_assert_eq(dump.stackless_records, 2);
	cr_assert_eq(dump.stackless_bytes, 67);
}

Test(heapdump, reads_bt_info)
{
	const struct ms_heapdump_info *info;

	cr_assert_eq(parse(HEAD_1("1") "z 0  sz 5  num 1  bt a b c\n"
	                               "  bt_info {\"/lib/a.so\" 1f \"op\"\" 5 f(int)\" 4} "
	                               "{\"<anonymous:1000>\" b \"\" 0} "
	                               "{\"/my lib/b.so\" c \"std::f<a, b>(c)\" 2a}\n"
	                               "MAPS\nEND\n"),
	             MS_OK, "%s", err.text);
	cr_assert_eq(dump.records.at[0].info, 0);
	info = dump.infos.at;
	cr_assert_str_eq(info[0].library, "/lib/a.so");
	cr_assert_eq(info[0].rel_pc, 0x1f);
	cr_assert_str_eq(info[0].function, "op\"\" 5 f(int)");
	cr_assert_str_eq(info[1].library, "<anonymous:1000>");
	cr_assert_str_eq(info[1].function, "");
	cr_assert_str_eq(info[2].library, "/my lib/b.so");
	cr_assert_str_eq(info[2].function, "std::f<a, b>(c)");
}

Test(heapdump, does_not_use_bt_info_of_other_length)
{
	cr_assert_eq(parse(HEAD_1("1") "z 0  sz 5  num 1  bt a b\n"
	                               "  bt_info {\"/lib/a.so\" 1f \"f\" 4}\n"
	                               "z 0  sz 5  num 1  bt a\nz 0  sz 5  num 1  bt a\n"
	                               "MAPS\nEND\n"),
	             MS_OK);
	cr_assert_eq(dump.records.at[0].info, SIZE_MAX);
	cr_assert_eq(dump.warnings.n, 1);
	cr_assert_str_eq(dump.warnings.at[0],
	                 "line 8: bt_info has 1 frames, its record 2: not used");
}

Test(heapdump, takes_line_ends_of_windows)
{
	static char text[4096];
	char *to = text;

	for (const char *from = v12; *from; from++) {
		if (*from == '\n') {
			*to++ = '\r';
			*to++ = '\r';
		}
		*to++ = *from;
	}
	cr_assert_eq(parse_bytes(text, (size_t)(to - text)), MS_OK, "%s", err.text);
	cr_assert_str_eq(dump.fingerprint, "google/x:10");
	cr_assert_str_eq(dump.mappings.at[0].name, "/data/app/my app/lib.so");
	cr_assert_eq(dump.bytes, 4700);
}

Test(heapdump, refuses_what_is_cut_off_anywhere)
{
	size_t whole = strlen(v12) - 1; /* the last newline may be missing */

	cr_assert_eq(parse_bytes(v12, whole), MS_OK);
	for (size_t len = 0; len < whole; len++) {
		cr_assert_eq(parse_bytes(v12, len), MS_E_CORRUPT, "%zu bytes", len);
		cr_assert(err.text[0] && err.advice[0]);
	}
}

Test(heapdump, survives_any_damaged_byte)
{
	static const char bad[] = { '\0', '\n', ' ', '"', '9', 'z', '\xff' };
	char text[sizeof(v12)];

	for (size_t i = 0; i < sizeof(v12) - 1; i++) {
		for (size_t b = 0; b < sizeof(bad); b++) {
			memcpy(text, v12, sizeof(v12));
			text[i] = bad[b];
			if (parse_bytes(text, sizeof(v12) - 1) != MS_OK)
				cr_assert(err.text[0] && err.advice[0]);
		}
	}
}

/* Line 7 is the first behind the head of 1.0 and 1.1. */
static const struct {
	const char *text;
	const char *error;
} wrong[] = {
#define BAD(line) HEAD_1("1") line "\nMAPS\nEND\n"
#define MAP(line) HEAD_1("1") "MAPS\n" line "\nEND\n"
	{ "", "a.txt is empty" },
	{ "hello\nworld\n", "a.txt is not an Android heap dump" },
	{ "\n", "a.txt is not an Android heap dump" },
	{ "MAPS\nEND\n", "a.txt is not an Android heap dump" },
	{ "Native heap dump not available. To enable, run these commands:\n",
	  "a.txt: its process kept no backtraces" },
	{ "Android Native Heap Dump\n", "a.txt, line 1: the version of the dump is missing" },
	{ "Android Native Heap Dump v1\n", "a.txt, line 1: this is not a version of a heap dump" },
	{ "Android Native Heap Dump v1.x\n",
	  "a.txt, line 1: this is not a version of a heap dump" },
	{ "Android Native Heap Dump v1.99999999999999999\n",
	  "a.txt, line 1: this is not a version of a heap dump" },
	{ HEAD_1("1"), "a.txt, line 6: the file ends before the dump does: END is missing" },
	{ BAD("z"), "a.txt, line 7: a record must begin with z 0 or z 1" },
	{ BAD("z 2  sz 1  num 1  bt a"), "a.txt, line 7: a record must begin with z 0 or z 1" },
	{ BAD("z 0  xx 1  num 1  bt a"),
	  "a.txt, line 7: the size of a record is missing, or too large" },
	{ BAD("z 0  sz -1  num 1  bt a"),
	  "a.txt, line 7: the size of a record is missing, or too large" },
	{ BAD("z 0  sz 18446744073709551616  num 1  bt a"),
	  "a.txt, line 7: the size of a record is missing, or too large" },
	{ BAD("z 0  sz 1  num 18446744073709551616  bt a"),
	  "a.txt, line 7: the number of blocks of a record is missing, or too large" },
	{ BAD("z 0  sz 1  num 1"), "a.txt, line 7: the backtrace of a record is missing" },
	{ BAD("z 0  sz 1  num 1  bt a xyz"),
	  "a.txt, line 7: this is not the address of a frame: xyz" },
	{ BAD("z 0  sz 1  num 1  bt 10000000000000000"),
	  "a.txt, line 7: this is not the address of a frame: 1000000000000000" },
	{ BAD("z 0  sz 1  num 1  bt a\nz 0  sz 9223372036854775807  num 2  bt a"),
	  "a.txt, line 8: the sizes of all records exceed 64 bits" },
	{ BAD("z 0  sz 9223372036854775807  num 1  bt a\nz 0  sz 1  num 1  bt a"),
	  "a.txt, line 8: the sizes of all records exceed 64 bits" },
	{ BAD("z 0  sz 0  num 9223372036854775807  bt a\nz 0  sz 0  num 1  bt a"),
	  "a.txt, line 8: the sizes of all records exceed 64 bits" },
	{ BAD("  bt_info {\"a\" 1 \"b\" 2}"), "a.txt, line 7: bt_info without a record above it" },
	{ BAD("z 0  sz 1  num 1  bt a\n  bt_info {\"a\" 1 \"b\" 2"),
	  "a.txt, line 8: a frame of bt_info is not whole" },
	{ BAD("z 0  sz 1  num 1  bt a\n  bt_info {\"a\" 1}"),
	  "a.txt, line 8: a frame of bt_info is not whole" },
	{ BAD("z 0  sz 1  num 1  bt a\n  bt_info {\"a\" x \"b\" 2}"),
	  "a.txt, line 8: a frame of bt_info is not whole" },
	{ BAD("z 0  sz 1  num 1  bt a\n  bt_info {\"a\" 1 \"b\" 2}\n  bt_info {\"a\" 1 \"b\" 2}"),
	  "a.txt, line 9: a second bt_info for one record" },
	{ MAP("hello"), "a.txt, line 8: this is not a line of /proc/PID/maps" },
	{ MAP("1000-2000 r-xp 0 fd:00"), "a.txt, line 8: this is not a line of /proc/PID/maps" },
	{ MAP("1000-2000 r-xp 0 fd00 5 /a"),
	  "a.txt, line 8: this is not a line of /proc/PID/maps" },
	{ MAP("1000-2000 rwxpp 0 fd:00 5 /a"),
	  "a.txt, line 8: this is not a line of /proc/PID/maps" },
	{ MAP("2000-1000 r-xp 0 fd:00 5 /a"),
	  "a.txt, line 8: a mapping that ends before it begins" },
	{ MAP("1000-3000 r-xp 0 fd:00 5 /a\n2000-4000 r-xp 0 fd:00 5 /a"),
	  "a.txt, line 9: a mapping that overlaps the one of line 8" },
	{ HEAD_1("1") HEAD_1("1"), "a.txt, line 7: a second dump begins here" },
	{ "Android Native Heap Dump v1.2\nBuild fingerprint: x\n",
	  "a.txt, line 2: the build fingerprint does not stand in quotes" },
	{ "Android Native Heap Dump v1.2\nBuild fingerprint: '\n",
	  "a.txt, line 2: the build fingerprint does not stand in quotes" },
	{ "Android Native Heap Dump v1.2\nTotal memory: x\n",
	  "a.txt, line 2: a number should stand here" },
	{ "Android Native Heap Dump v1.2\nAllocation records: \n",
	  "a.txt, line 2: a number should stand here" },
	{ "Android Native Heap Dump v1.2\nBacktrace size: 1 2\n",
	  "a.txt, line 2: a number should stand here" },
#undef BAD
#undef MAP
};

Test(heapdump, says_what_is_wrong_and_where)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(parse(wrong[i].text), MS_E_CORRUPT, "%s", wrong[i].text);
		cr_assert_str_eq(err.text, wrong[i].error);
		cr_assert(err.advice[0]);
	}
}

Test(heapdump, refuses_bytes_that_are_no_text)
{
	static const char binary[] = "\177ELF\2\1\1\0\0\0";

	cr_assert_eq(parse_bytes(binary, sizeof(binary) - 1), MS_E_CORRUPT);
	cr_assert_str_eq(err.text,
	                 "a.txt, line 1: a byte that is not text: this is not a heap dump");
}

Test(heapdump, refuses_versions_to_come)
{
	cr_assert_eq(parse("Android Native Heap Dump v2.0\n"), MS_E_UNSUPPORTED);
	cr_assert_str_eq(err.text, "a.txt, line 1: heap dumps of version 2.0");
	cr_assert_str_eq(err.advice, "memscan reads versions 1.0 to 1.2");
}

Test(heapdump, bounds_the_depth_of_stacks)
{
	static char text[16 * 1024];
	char *at = text + sprintf(text, HEAD_1("1") "z 0  sz 1  num 1  bt");

	for (int i = 0; i < MS_HEAPDUMP_MOST_FRAMES; i++)
		at += sprintf(at, " 1");
	strcpy(at, "\nMAPS\nEND\n");
	cr_assert_eq(parse(text), MS_OK, "%s", err.text);
	strcpy(at, " 1\nMAPS\nEND\n");
	cr_assert_eq(parse(text), MS_E_CORRUPT);
	cr_assert_str_eq(err.text, "a.txt, line 7: a stack of more than 1024 frames");
}

Test(heapdump, warns_of_what_does_not_agree)
{
	static const struct {
		const char *text;
		const char *warning;
	} cases[] = {
		{ HEAD_1("1") "z 0  sz 1  num 1  bt 1\nMAPS\nEND\n",
		  "the dump announces 3 records and has 1" },
		{ HEAD_1("1") "z 0  sz 1  num 1  bt 1\nz 0  sz 1  num 1  bt\nz 0  sz 1  num 1  bt 2\n"
		              "MAPS\nCould not open /proc/self/maps\nEND\n",
		  "line 11: the dump has no mappings: functions cannot be named" },
		{ "Android Native Heap Dump v1.1\nMAPS\nEND\n\n$ exit\n",
		  "what follows END is not read" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(parse(cases[i].text), MS_OK, "%s", err.text);
		cr_assert_eq(dump.warnings.n, 1, "%zu", i);
		cr_assert_str_eq(dump.warnings.at[0], cases[i].warning);
	}
}

Test(heapdump, bounds_the_number_of_warnings)
{
	static char text[8 * 1024];
	char *at = text + sprintf(text, HEAD_1("1"));

	for (int i = 0; i < 50; i++)
		at += sprintf(at, "z 0  sz 1  num 1  bt 1\n  bt_info\n");
	strcpy(at, "MAPS\nEND\n");
	cr_assert_eq(parse(text), MS_OK, "%s", err.text);
	cr_assert_eq(dump.warnings.n, MS_HEAPDUMP_MOST_WARNINGS);
}

/* What adb, or a shell, says before the dump, and lines that versions to come may add. */
Test(heapdump, passes_over_lines_that_it_does_not_know)
{
	cr_assert_eq(parse("WARNING: linker: x\nAndroid Native Heap Dump v1.3\nColour: red\n"
	                   "z 0  sz 6  num 1  bt 1\nMAPS\nEND\n"),
	             MS_OK);
	cr_assert_eq(dump.bytes, 6);
}

Test(heapdump, orders_mappings)
{
	cr_assert_eq(parse(HEAD_1("1") "MAPS\n3000-4000 r-xp 0 fd:00 5 /b\n"
	                               "1000-3000 r-xp 0 fd:00 6 /a\nEND\n"),
	             MS_OK);
	cr_assert_str_eq(dump.mappings.at[0].name, "/a");
	cr_assert_str_eq(dump.mappings.at[1].name, "/b");
}
