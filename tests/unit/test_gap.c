/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/inject/gap.h"
#include "target/maps.h"

static struct ms_arena arena;
static struct ms_mappings maps;

static void setup(void)
{
	memset(&maps, 0, sizeof(maps));
	ms_arena_init(&arena);
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(gap, .init = setup, .fini = teardown);

static void draw(const char *text)
{
	struct ms_error err;

	cr_assert_eq(ms_maps_parse(text, strlen(text), &arena, &maps, &err), MS_OK, "%s", err.text);
}

enum { LEAST = 1 << 20 };
static const struct ms_range text = { 0x7f0000100000, 0x7f0000300000 };

#define LIBC "7f0000100000-7f0000300000 r-xp 00000000 fe:00 1 /libc.so.6\n"

static ms_addr find(const char *drawn)
{
	draw(drawn);
	return ms_gap_find(&maps, text, 0, LEAST);
}

/* Whether the agent at @at touches none of the maps, and no page beside them. */
static bool is_apart(ms_addr at)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, &maps)
		if (at < map->range.end + 4096 && at + ms_gap_bytes() + 4096 > map->range.begin)
			return false;
	return at % 4096 == 0;
}

Test(gap, is_right_below_the_libraries_as_a_rule)
{
	ms_addr at = find("550000000000-550000001000 r-xp 00000000 fe:00 2 /prog\n"
	                  "550000100000-550000200000 rw-p 00000000 00:00 0 [heap]\n" LIBC
	                  "7f0000300000-7f0010000000 r-xp 00000000 fe:00 3 /ld.so\n"
	                  "7ff000000000-7ff000021000 rw-p 00000000 00:00 0 [stack]\n");

	cr_expect(is_apart(at));
	cr_expect_lt(at, text.begin);
	cr_expect_lt(text.begin - at, ms_gap_bytes() + (1 << 20));
}

Test(gap, is_above_the_libraries_when_what_is_below_is_taken)
{
	ms_addr at = find("7e0000000000-7f0000100000 rw-p 00000000 00:00 0\n" LIBC
	                  "7f0040000000-7f0040001000 rw-p 00000000 00:00 0\n");

	cr_expect(is_apart(at));
	cr_expect_geq(at, text.end);
	cr_expect_lt(at - text.end, 1 << 20);
}

Test(gap, is_the_nearer_of_two)
{
	ms_addr at = find("7e0000000000-7efff0000000 rw-p 00000000 00:00 0\n"
	                  "7effff000000-7f0000100000 rw-p 00000000 00:00 0\n" LIBC
	                  "7f0000300000-7f0001000000 rw-p 00000000 00:00 0\n");

	cr_expect(is_apart(at));
	cr_expect_eq(ms_align_down(at, 1 << 20), 0x7f0001000000);
}

Test(gap, that_is_too_far_away_is_none)
{
	cr_expect_eq(find("7e0000000000-7f0000100000 rw-p 00000000 00:00 0\n" LIBC
	                  "7f0000300000-7f0080000000 rw-p 00000000 00:00 0\n"),
	             0);
}

Test(gap, that_is_too_small_is_none)
{
	cr_expect_eq(find("7e0000000000-7efffe000000 rw-p 00000000 00:00 0\n"
	                  "7f0000000000-7f0000100000 rw-p 00000000 00:00 0\n" LIBC
	                  "7f0000300000-7f0080000000 rw-p 00000000 00:00 0\n"),
	             0);
}

Test(gap, leaves_the_heap_room_to_grow)
{
	static const char near[] = "7e0000000000-7effd0000000 rw-p 00000000 00:00 0\n"
				   "7effd0000000-7effe0000000 rw-p 00000000 00:00 0 [heap]\n" LIBC
				   "7f0000300000-7f0080000000 rw-p 00000000 00:00 0\n";
	static const char far[] = "7e0000000000-7eff90000000 rw-p 00000000 00:00 0\n"
				  "7eff90000000-7effa0000000 rw-p 00000000 00:00 0 [heap]\n" LIBC
				  "7f0000300000-7f0080000000 rw-p 00000000 00:00 0\n";

	cr_expect_eq(find(near), 0);
	memset(&maps, 0, sizeof(maps));
	cr_expect(is_apart(find(far)));
}

/* Whether the agent at @at leaves a heap of brk() that begins at @brk a GiB. */
static bool leaves_to_grow(ms_addr at, ms_addr brk)
{
	return at && (at + ms_gap_bytes() <= brk || at >= brk + (1 << 30));
}

Test(gap, leaves_a_heap_room_of_which_nothing_is_mapped_yet)
{
	static const ms_addr begins[] = { 0x7f0000300000, 0x7f0000312340, 0x7f0001000000,
		                          0x7f0020000000 };

	draw("7e0000000000-7f0000100000 rw-p 00000000 00:00 0\n" LIBC);
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		ms_addr at = ms_gap_find(&maps, text, begins[i], LEAST);

		cr_expect(is_apart(at), "%#llx", (unsigned long long)begins[i]);
		cr_expect(leaves_to_grow(at, begins[i]), "%#llx", (unsigned long long)begins[i]);
	}
	cr_expect_lt(ms_gap_find(&maps, text, 0x7f0020000000, LEAST), 0x7f0020000000,
	             "what is in front of it is nearer");
	cr_expect_geq(ms_gap_find(&maps, text, 0x7f0001000000, LEAST), 0x7f0041000000,
	              "what is in front of it is too small");
}

Test(gap, leaves_the_stack_room_to_grow)
{
	ms_addr at = find("7e0000000000-7f0000100000 rw-p 00000000 00:00 0\n" LIBC
	                  "7f0030000000-7f0030021000 rw-p 00000000 00:00 0 [stack]\n");

	cr_expect(is_apart(at));
	cr_expect_lt(at + ms_gap_bytes(), 0x7f0030000000 - (1 << 28));
	memset(&maps, 0, sizeof(maps));
	cr_expect_eq(find("7e0000000000-7f0000100000 rw-p 00000000 00:00 0\n" LIBC
	                  "7f0010000000-7f0010021000 rw-p 00000000 00:00 0 [stack]\n"
	                  "7f0010021000-7f0080000000 rw-p 00000000 00:00 0\n"),
	             0);
}

Test(gap, is_nowhere_that_no_process_may_map)
{
	const struct ms_range low = { 0x200000, 0x300000 };

	draw("00200000-00300000 r-xp 00000000 fe:00 1 /libc.so.6\n"
	     "00300000-90000000 rw-p 00000000 00:00 0\n");
	cr_expect_eq(ms_gap_find(&maps, low, 0, LEAST), 0);
}

/* ---- an agent that is there ---- */

enum { AT = 0x100000 };

/* Memory as a file, its addresses as offsets. */
static int memory(ms_addr at)
{
	struct ms_agent_head head = { .n_functions = MS_AGENT_N };
	int fd = memfd_create("memory", MFD_CLOEXEC);

	memcpy(head.magic, MS_AGENT_TEXT_MAGIC, sizeof(head.magic));
	cr_assert_eq(pwrite(fd, &head, sizeof(head), (off_t)at), sizeof(head));
	cr_assert_eq(ftruncate(fd, 1 << 28), 0);
	return fd;
}

static ms_addr find_agent(const char *drawn)
{
	struct ms_agent_head head = { .n_functions = 0 };
	int fd = memory(AT);
	ms_addr at;

	draw(drawn);
	at = ms_gap_find_agent(fd, &maps, &head);
	cr_expect_eq(head.n_functions, at ? MS_AGENT_N : 0);
	(void)close(fd);
	return at;
}

Test(gap, of_an_agent_is_found_again)
{
	cr_expect_eq(find_agent("00100000-00106000 r-xp 00000000 00:00 0\n"
	                        "00106000-09000000 rw-p 00000000 00:00 0\n"),
	             AT);
}

Test(gap, of_an_agent_is_found_behind_other_code_of_nobodys)
{
	cr_expect_eq(find_agent("000f0000-00106000 r-xp 00000000 00:00 0\n"
	                        "00106000-09000000 rw-p 00000000 00:00 0\n"),
	             AT);
}

static const char *const no_agents[] = {
	"00100000-00106000 rwxp 00000000 00:00 0\n00106000-09000000 rw-p 00000000 00:00 0\n",
	"00100000-00106000 r-xp 00000000 fe:00 7 /x\n00106000-09000000 rw-p 00000000 00:00 0\n",
	"00100000-00106000 r-xs 00000000 00:00 0\n00106000-09000000 rw-p 00000000 00:00 0\n",
	"00100000-00105000 r-xp 00000000 00:00 0\n00105000-09000000 rw-p 00000000 00:00 0\n",
	"00100000-00106000 r-xp 00000000 00:00 0\n00107000-09000000 rw-p 00000000 00:00 0\n",
	"00100000-00106000 r-xp 00000000 00:00 0\n00106000-00900000 rw-p 00000000 00:00 0\n",
	"00100000-00106000 r-xp 00000000 00:00 0\n00106000-09000000 r--p 00000000 00:00 0\n",
	"00100000-00106000 r-xp 00000000 00:00 0\n",
	"00101000-00107000 r-xp 00000000 00:00 0\n00107000-09000000 rw-p 00000000 00:00 0\n",
};

Test(gap, of_what_is_no_agent_is_not_taken)
{
	for (size_t i = 0; i < sizeof(no_agents) / sizeof(no_agents[0]); i++) {
		memset(&maps, 0, sizeof(maps));
		cr_expect_eq(find_agent(no_agents[i]), 0, "%s", no_agents[i]);
	}
}

/* ---- one that was begun ---- */

/* With the mark at @mark, on a page that has this entry in the pagemap. */
static ms_addr find_begun(const char *drawn, ms_addr mark, uint64_t entry)
{
	int mem = memfd_create("memory", MFD_CLOEXEC);
	int pagemap = memfd_create("pagemap", MFD_CLOEXEC);
	ms_addr at;

	cr_assert_eq(ftruncate(mem, 1 << 28), 0);
	cr_assert_eq(ftruncate(pagemap, 1 << 20), 0);
	cr_assert_eq(pwrite(mem, MS_AGENT_BEGUN, sizeof(MS_AGENT_BEGUN) - 1, (off_t)mark),
	             sizeof(MS_AGENT_BEGUN) - 1);
	cr_assert_eq(pwrite(pagemap, &entry, sizeof(entry), (off_t)(mark / 4096 * sizeof(entry))),
	             sizeof(entry));
	memset(&maps, 0, sizeof(maps));
	draw(drawn);
	at = ms_gap_find_begun(mem, pagemap, &maps);
	cr_expect(!at || ms_gap_is_begun(mem, at));
	(void)close(mem);
	(void)close(pagemap);
	return at;
}

enum { MARK = AT + MS_AGENT_TEXT_BYTES };
static const uint64_t present = UINT64_C(1) << 63, swapped = UINT64_C(1) << 62;

#define NO_TEXT_YET "00100000-09000000 rw-p 00000000 00:00 0\n"
#define WITH_TEXT                                   \
	"00100000-00106000 r-xp 00000000 00:00 0\n" \
	"00106000-09000000 rw-p 00000000 00:00 0\n"

Test(gap, of_an_agent_that_was_begun_is_found)
{
	cr_expect_eq(find_begun(NO_TEXT_YET, MARK, present), AT);
	cr_expect_eq(find_begun(WITH_TEXT, MARK, present), AT);
	cr_expect_eq(find_begun(WITH_TEXT, MARK, swapped), AT);
	cr_expect_eq(find_begun("000f0000-00106000 r-xp 00000000 00:00 0\n"
	                        "00106000-09000000 rw-p 00000000 00:00 0\n",
	                        MARK, present),
	             AT);
}

Test(gap, of_what_was_not_begun_is_not_taken)
{
	static const char *const others[] = {
		"00100000-09000000 rwxp 00000000 00:00 0\n",
		"00100000-09000000 rw-s 00000000 00:00 0\n",
		"00100000-09000000 rw-p 00000000 fe:00 7 /x\n",
		"00100000-01000000 rw-p 00000000 00:00 0\n",
		"00101000-09000000 rw-p 00000000 00:00 0\n",
		"00106000-09000000 rw-p 00000000 00:00 0\n",
		"00100000-00106000 r-xp 00000000 fe:00 7 /x\n00106000-09000000 rw-p 00000000 00:00 0\n",
		"00100000-00106000 rw-p 00000000 00:00 0\n00106000-09000000 rw-p 00000000 00:00 0\n",
		"00102000-00106000 r-xp 00000000 00:00 0\n00106000-09000000 rw-p 00000000 00:00 0\n",
		"00100000-00105000 r-xp 00000000 00:00 0\n00106000-09000000 rw-p 00000000 00:00 0\n",
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_eq(find_begun(others[i], MARK, present), 0, "%s", others[i]);
	cr_expect_eq(find_begun(WITH_TEXT, MARK, 0), 0, "its page is not there");
	cr_expect_eq(find_begun(WITH_TEXT, MARK + 8, present), 0);
}
