/* SPDX-License-Identifier: Apache-2.0 */
/* Which function a block holds, in a process of two libraries and a heap. */
#include <criterion/criterion.h>
#include <string.h>

#include "classes.h"
#include "engine/loaded/callbacks.h"

enum { PAGE = CLASSES_PAGE, RW = MS_PROT_READ | MS_PROT_WRITE, WORDS = 32 };

/* In a library: its functions, each of so many bytes, and the table over them. */
enum { FUNCTIONS = PAGE + 0x100, FUNCTION = 0x40, N_FUNCTIONS = 4, TABLE = CLASSES_TABLES + 0x800 };

#define BLOCK UINT64_C(0x10000800)
#define FIRST UINT64_C(0x40000000)
#define OTHER UINT64_C(0x50000000)

static struct ms_fake fake;
static struct ms_regions regions;
static struct ms_peek peek;
static ms_addr begin;

static void put_half(ms_addr at, uint32_t value)
{
	memcpy(ms_fake_at(&fake, at), &value, sizeof(value));
}

static void draw_table(ms_addr library)
{
	classes_frames(&fake, library, TABLE, FUNCTIONS, FUNCTION, N_FUNCTIONS);
}

static void setup(void)
{
	struct ms_error err;

	memset(&regions, 0, sizeof(regions));
	ms_fake_init(&fake);
	ms_fake_map(&fake, BLOCK & ~UINT64_C(0xfff), PAGE, RW, "");
	classes_map(&fake, FIRST, "/usr/lib/libfirst.so.1");
	classes_map(&fake, OTHER, "/usr/lib/libother.so.1");
	ms_fake_map(&fake, OTHER + (ms_addr)16 * PAGE, PAGE, MS_PROT_READ | MS_PROT_EXEC, "");
	draw_table(FIRST);
	cr_assert_eq(ms_classify(&fake.base, &fake.arena, &regions, &err), MS_OK);
	cr_assert(ms_peek_init(&peek, &fake.base, &fake.arena));
	begin = 0;
}

static void teardown(void)
{
	ms_fake_deinit(&fake);
}

TestSuite(callbacks, .init = setup, .fini = teardown);

static ms_addr function(ms_addr library, unsigned i)
{
	return library + FUNCTIONS + (ms_addr)i * FUNCTION;
}

static ms_addr found(uint64_t size)
{
	cr_assert(ms_peek_init(&peek, &fake.base, &fake.arena));
	return ms_callback_of(&peek, &regions, BLOCK, size, &begin);
}

static void put(size_t word, uint64_t value)
{
	ms_fake_put(&fake, BLOCK + 8 * word, value);
}

Test(callbacks, the_first_function_that_a_word_leads_to)
{
	cr_expect_eq(found(128), 0);
	put(1, BLOCK);
	put(5, function(FIRST, 2));
	put(6, function(FIRST, 1));
	cr_expect_eq(found(128), function(FIRST, 2));
	cr_expect_eq(begin, FIRST);
	put(0, function(FIRST, N_FUNCTIONS - 1));
	cr_expect_eq(found(128), function(FIRST, N_FUNCTIONS - 1));
}

Test(callbacks, only_where_a_function_begins)
{
	for (ms_addr i = 1; i < FUNCTION; i++) {
		put(3, function(FIRST, 1) + i);
		cr_assert_eq(found(128), 0, "%u", (unsigned)i);
	}
	put(3, function(FIRST, 0) - 8);
	cr_expect_eq(found(128), 0);
}

Test(callbacks, no_more_than_the_block_and_sixteen_words_are_looked_at)
{
	put(15, function(FIRST, 1));
	cr_expect_eq(found(128), function(FIRST, 1));
	cr_expect_eq(found(1 << 20), function(FIRST, 1));
	cr_expect_eq(found(127), 0);
	cr_expect_eq(found(0), 0);
	put(15, 0);
	put(16, function(FIRST, 1));
	cr_expect_eq(found(1 << 20), 0);
}

Test(callbacks, what_is_no_code_of_a_library_has_none)
{
	/* Constants, data, code that was made at run time, a library without a table. */
	put(0, FIRST + CLASSES_TABLES + 0x100);
	put(1, FIRST + (ms_addr)3 * PAGE);
	put(2, OTHER + (ms_addr)16 * PAGE);
	put(3, function(OTHER, 1));
	cr_expect_eq(found(128), 0);
	draw_table(OTHER);
	cr_expect_eq(found(128), function(OTHER, 1));
	cr_expect_eq(begin, OTHER);
}

Test(callbacks, constants_that_a_table_calls_a_function_are_none)
{
	put_half(FIRST + TABLE + 12 + (ms_addr)(N_FUNCTIONS - 1) * 8, 0x100);
	put(0, FIRST + TABLE + 0x100);
	cr_expect_eq(found(128), 0);
}

Test(callbacks, a_word_may_be_of_four_bytes)
{
	fake.base.abi.word_bytes = 4;
	put_half(BLOCK + 20, (uint32_t)function(FIRST, 1));
	cr_expect_eq(found(128), function(FIRST, 1));
	cr_expect_eq(found(24), function(FIRST, 1));
	cr_expect_eq(found(23), 0);
}
