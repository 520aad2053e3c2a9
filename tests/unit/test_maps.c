/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "target/maps.h"

static struct ms_arena arena;
static struct ms_mappings maps;
static struct ms_error err;

static void setup(void)
{
	memset(&maps, 0, sizeof(maps));
	memset(&err, 0, sizeof(err));
	ms_arena_init(&arena);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(maps, .init = setup, .fini = teardown);

static enum ms_status parse(const char *text)
{
	return ms_maps_parse(text, strlen(text), &arena, &maps, &err);
}

Test(maps, reads_every_field_of_a_line)
{
	cr_assert_eq(
		parse("55d0c0ffe000-55d0c1000000 r-xs 0001a000 fd:1f 123456789      /usr/bin/x\n"),
		MS_OK, "%s", err.text);
	cr_assert_eq(maps.n, 1);
	cr_assert_eq(maps.at[0].range.begin, 0x55d0c0ffe000);
	cr_assert_eq(maps.at[0].range.end, 0x55d0c1000000);
	cr_assert_eq(maps.at[0].prot, MS_PROT_READ | MS_PROT_EXEC);
	cr_assert(maps.at[0].shared);
	cr_assert_eq(maps.at[0].offset, 0x1a000);
	cr_assert_eq(maps.at[0].dev_major, 0xfd);
	cr_assert_eq(maps.at[0].dev_minor, 0x1f);
	cr_assert_eq(maps.at[0].inode, 123456789);
	cr_assert_str_eq(maps.at[0].name, "/usr/bin/x");
}

Test(maps, a_mapping_without_name_has_an_empty_one)
{
	cr_assert_eq(parse("1000-2000 ---p 00000000 00:00 0 \n"), MS_OK);
	cr_assert_str_eq(maps.at[0].name, "");
	cr_assert_eq(maps.at[0].prot, 0);
	cr_assert_not(maps.at[0].shared);
}

/*
 * Of each copy of a file its own, also where lld linked it and all segments are of one page, or
 * a program reads the file just in front of it.
 */
Test(maps, a_head_is_the_first_mapping_of_its_copy_of_the_file)
{
	static const struct {
		ms_addr at;
		ms_addr head;
	} rows[] = { { 0x1000, 0x1000 },     { 0x2000, 0x1000 },    { 0x3000, 0x1000 },
		     { 0x4000, 0x1000 },     { 0x5000, 0x5000 },    { 0x6000, 0x5000 },
		     { 0x7000, 0x7000 },     { 0x8000, 0x8000 },    { 0x9000, 0x9000 },
		     { 0xb000, 0x9000 },     { 0xc000, 0 },         { 0x100000, 0x100000 },
		     { 0x200000, 0x200000 }, { 0x201000, 0x200000 } };

	cr_assert_eq(parse("1000-2000 r--p 0 0:1 7 /small\n"
	                   "2000-3000 r-xp 0 0:1 7 /small\n"
	                   "3000-4000 r--p 0 0:1 7 /small\n"
	                   "4000-5000 rw-p 0 0:1 7 /small\n"
	                   "5000-6000 r--p 0 0:1 7 /small\n"
	                   "6000-7000 r-xp 0 0:1 7 /small\n"
	                   "7000-8000 r-xp 0 0:0 0\n"
	                   "8000-9000 r-xp 0 0:1 8 /one\n"
	                   "9000-a000 r--p 0 0:1 9 /usual\n"
	                   "a000-b000 rw-p 0 0:0 0\n"
	                   "b000-c000 r-xp 1000 0:1 9 /usual\n"
	                   "c000-d000 r-xp 1000 0:1 10 /headless\n"
	                   "100000-200000 r--p 0 0:1 11 /read\n"
	                   "200000-201000 r--p 0 0:1 11 /read\n"
	                   "201000-280000 r-xp 1000 0:1 11 /read\n"),
	             MS_OK, "%s", err.text);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct ms_mapping *head =
			ms_maps_head(&maps, ms_maps_find(&maps, rows[i].at));

		cr_expect_eq(head ? head->range.begin : 0, rows[i].head, "%lx", rows[i].at);
	}
}

Test(maps, names_keep_blanks_marks_and_escapes)
{
	cr_assert_eq(parse("1000-2000 rw-p 0 0:0 7          /a b/c  d (deleted)\n"
	                   "2000-3000 rw-p 0 0:0 8          /new\\012line\n"
	                   "3000-4000 rw-p 0 0:0 0          [anon:x y]\n"),
	             MS_OK, "%s", err.text);
	cr_assert_str_eq(maps.at[0].name, "/a b/c  d (deleted)");
	cr_assert_str_eq(maps.at[1].name, "/new\\012line");
	cr_assert_str_eq(maps.at[2].name, "[anon:x y]");
}

Test(maps, a_name_is_not_taken_for_its_longer_neighbour)
{
	cr_assert_eq(parse("1000-2000 rw-p 0 0:0 7 /lib/a.so\n2000-3000 rw-p 0 0:0 7 /lib/a\n"
	                   "3000-4000 rw-p 0 0:0 7 /lib/a\n"),
	             MS_OK);
	cr_assert_str_eq(maps.at[1].name, "/lib/a");
	cr_assert_eq(maps.at[1].name, maps.at[2].name, "the same name is stored once");
}

/* No kernel writes one; a file that pretends to be a map may. */
Test(maps, a_name_ends_at_a_nul_and_nothing_is_read_behind_it)
{
	static const char text[] =
		"1000-2000 rw-p 0 0:0 7 /a\0bcdefgh\n2000-3000 rw-p 0 0:0 7 /a\0bcdefgh\n";

	cr_assert_eq(ms_maps_parse(text, sizeof(text) - 1, &arena, &maps, &err), MS_OK);
	cr_assert_str_eq(maps.at[0].name, "/a");
	cr_assert_str_eq(maps.at[1].name, "/a");
}

/* The kernel's file behind them is nobody else's, unless the mapping is shared. */
Test(maps, huge_pages_without_a_file_have_no_inode)
{
	cr_assert_eq(parse("1000-2000 rw-p 0 0:10 47 /anon_hugepage (deleted)\n"
	                   "2000-3000 rw-s 0 0:10 48 /anon_hugepage (deleted)\n"
	                   "3000-4000 rw-p 0 0:10 49 /dev/hugepages/x\n"),
	             MS_OK);
	cr_assert_eq(maps.n, 3);
	cr_expect_eq(maps.at[0].inode, 0);
	cr_expect_eq(maps.at[1].inode, 48);
	cr_expect_eq(maps.at[2].inode, 49);
}

/* Each list ends with 0. */
static void check_flagged(const char *text, const char *flag, const ms_addr *begins)
{
	struct ms_ranges found = { 0 };
	char *copy = ms_arena_strndup(&arena, text, strlen(text));
	size_t n = 0;

	cr_assert_eq(ms_maps_parse_flagged(copy, flag, &arena, &found, &err), MS_OK);
	for (; begins[n]; n++)
		cr_expect(n < found.n && found.at[n].begin == begins[n], "%s: %llx", flag,
		          (unsigned long long)begins[n]);
	cr_expect_eq(found.n, n, "%s", flag);
}

Test(maps, mappings_are_found_by_their_details)
{
	static const char flags[] = "1000-2000 rw-p 0 0:0 0\nSize: 4 kB\nVmFlags: rd wr wf ac\n"
				    "2000-3000 rw-p 0 0:0 0 [x wf]\nVmFlags: rd wr ht\n"
				    "3000-4000 rw-p 0 0:0 0\nVmFlags: rd wr ht wf";
	static const char swapped[] =
		"1000-2000 rw-s 0 0:1 7 /dev/zero\nSwap: 0 kB\n"
		"2000-3000 rw-p 0 0:0 0\nSwap: 4 kB\n"
		"3000-4000 rw-s 0 0:1 8 /memfd:x\nSwapPss: 4 kB\nSwap:   8 kB\n";

	check_flagged(flags, MS_FLAG_HUGE_PAGE, (ms_addr[]){ 0x2000, 0x3000, 0 });
	check_flagged(flags, MS_FLAG_WIPED, (ms_addr[]){ 0x1000, 0x3000, 0 });
	check_flagged(flags, MS_FLAG_MISSING, (ms_addr[]){ 0 });
	check_flagged(swapped, MS_SHARED_SWAPPED, (ms_addr[]){ 0x3000, 0 });
}

Test(maps, the_last_line_may_lack_its_newline)
{
	cr_assert_eq(parse("1000-2000 rw-p 0 0:0 0\n2000-3000 rw-p 0 0:0 0 [heap]"), MS_OK);
	cr_assert_eq(maps.n, 2);
	cr_assert_str_eq(maps.at[1].name, "[heap]");
}

Test(maps, nonsense_is_corrupt_and_not_guessed)
{
	static const char *const bad[] = {
		"\n",
		"x\n",
		"1000\n",
		"1000-2000\n",
		"1000-2000 rw\n",
		"2000-1000 rw-p 0 0:0 0\n",
		"1000-1000 rw-p 0 0:0 0\n",
		"1000-2000 rw-p 0 0 0\n",
		"1000-2000 rw-p  0:0 0\n",
		"123456789012345678901-2 rw-p 0 0:0 0\n",
		"2000-3000 rw-p 0 0:0 0\n1000-2000 rw-p 0 0:0 0\n",
		"1000-3000 rw-p 0 0:0 0\n2000-4000 rw-p 0 0:0 0\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(parse(bad[i]), MS_E_CORRUPT, "\"%s\" was accepted", bad[i]);
}

Test(maps, finds_the_mapping_of_an_address)
{
	cr_assert_eq(
		parse("1000-2000 rw-p 0 0:0 0\n2000-3000 r--p 0 0:0 0\n5000-6000 rw-p 0 0:0 0\n"),
		MS_OK);
	cr_assert_null(ms_maps_find(&maps, 0xfff));
	cr_assert_eq(ms_maps_find(&maps, 0x1000), &maps.at[0]);
	cr_assert_eq(ms_maps_find(&maps, 0x2000), &maps.at[1]);
	cr_assert_null(ms_maps_find(&maps, 0x3000));
	cr_assert_eq(ms_maps_find(&maps, 0x5fff), &maps.at[2]);
	cr_assert_null(ms_maps_find(&maps, UINT64_MAX));
}

Test(maps, our_own_map_holds_our_own_code_and_stack)
{
	int local = 0;

	cr_assert_eq(ms_maps_read(getpid(), &arena, &maps, &err), MS_OK, "%s", err.text);
	cr_assert_not_null(ms_maps_find(&maps, (uintptr_t)&local));
	cr_assert(ms_maps_find(&maps, (uintptr_t)setup)->prot & MS_PROT_EXEC);
}

Test(maps, a_process_that_is_not_there_is_gone)
{
	cr_assert_eq(ms_maps_read(0x3ffffff, &arena, &maps, &err), MS_E_GONE);
}
