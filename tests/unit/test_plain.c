/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_kinds.h"
#include "engine/kinds/python/plain.h"

/* Objects of CPython with words that are no references. */

#define TYPE_TYPE  (DK_DATA + 0x200)
#define STR_TYPE   (DK_DATA + 0x400)
#define BYTES_TYPE (DK_DATA + 0x600)
#define LIST_TYPE  (DK_DATA + 0x800)

/* Of a str: in one piece and ASCII; in one piece; neither. */
enum { ASCII = 0x64, LATIN_1 = 0x24, ELSEWHERE = 0x04 };

enum {
	ITEM = 5 * 8,
	FLAGS = 21 * 8,
	IS_MADE = 9,
	IS_COLLECTED = 14,
	IS_LIST = 25,
	IS_TUPLE = 26,
	IS_BYTES = 27,
	IS_STR = 28,
	IS_TYPE = 31
};

enum { TYPE_BYTES = 408, TEXT_3_11 = 48, TEXT_3_12 = 40, BYTES_DATA = 32 };

static struct drawn_kinds d;
static struct ms_ranges hidden;
static struct ms_marks wide;
static ms_addr lost; /* a block that residual words point to */

static void draw_type(ms_addr at, const char *name, uint64_t bytes, uint64_t flag)
{
	ms_addr text = DK_CONSTANTS + (at & 0xf00) / 16;

	strcpy(ms_fake_at(&d.fake, text), name);
	dk_put(&d, at, 1, TYPE_TYPE, 0, text, bytes);
	ms_fake_put(&d.fake, at + FLAGS, UINT64_C(1) << flag);
}

static void setup(void)
{
	drawn_kinds_init(&d, "/usr/bin/python3.11");
	draw_type(TYPE_TYPE, "type", TYPE_BYTES, IS_TYPE);
	draw_type(STR_TYPE, "str", 80, IS_STR);
	draw_type(BYTES_TYPE, "bytes", 33, IS_BYTES);
	draw_type(LIST_TYPE, "list", 40, IS_LIST);
	lost = drawn_kinds_block(&d, 200);
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(plain, .init = setup, .fini = teardown);

/* Find what is hidden of the block at @at, whose word @i points to one: whether that is. */
static bool hides(ms_addr at, size_t i)
{
	struct ms_collector collector = { 0 };

	ms_fake_put(&d.fake, at + i * 8, lost + 16);
	drawn_kinds_find(&d);
	memset(&hidden, 0, sizeof(hidden));
	memset(&wide, 0, sizeof(wide));
	cr_assert_eq(ms_plain_find(&d.blocks, &d.roots, &collector, &hidden, &wide), MS_OK);
	cr_assert(ms_ranges_tidy(&d.found, &hidden));
	return ms_range_find(&hidden, at + i * 8);
}

/* A str of @len letters, in a block with room for two words more. */
static ms_addr text(uint64_t len, uint64_t state, uint64_t references)
{
	ms_addr at = drawn_kinds_block(&d, TEXT_3_11 + len + 1 + 16);

	dk_put(&d, at, references, STR_TYPE, len, UINT64_MAX, state);
	return at;
}

Test(plain, letters_and_what_is_behind_them_are_no_pointers)
{
	const size_t first = TEXT_3_11 / 8;

	cr_expect(hides(text(4, ASCII, 1), first), "four letters");
	cr_expect(hides(text(4, ASCII, 1), first + 1));
	cr_expect(hides(text(8, ASCII, 1), first + 1), "directly behind them");
	cr_expect(hides(text(12, ASCII, 1), first + 1));
	cr_expect_not(hides(text(12, ASCII, 1), first), "eight letters cannot be one");
	cr_expect_not(hides(text(4, ASCII, 1), first - 1), "a word of the object itself");
	cr_expect_not(hides(text(4, LATIN_1, 1), first));
	cr_expect_not(hides(text(4, ELSEWHERE, 1), first));
	cr_expect_not(hides(text(4, ASCII, 0), first), "it was given back");
	cr_expect_not(hides(text(4, ASCII, lost), first), "that is no count of references");
	cr_expect_not(hides(text(UINT64_MAX - 8, ASCII, 1), first));
}

Test(plain, a_text_begins_earlier_from_3_12_on)
{
	draw_type(STR_TYPE, "str", 64, IS_STR);
	cr_expect(hides(text(4, ASCII, 1), TEXT_3_12 / 8));
	draw_type(STR_TYPE, "str", 72, IS_STR);
	cr_expect_not(hides(text(4, ASCII, 1), TEXT_3_12 / 8), "of an unknown version");
}

Test(plain, a_whole_word_of_bytes_may_be_a_pointer)
{
	ms_addr at = drawn_kinds_block(&d, BYTES_DATA + 32);

	dk_put(&d, at, 1, BYTES_TYPE, 12, UINT64_MAX);
	cr_expect_not(hides(at, BYTES_DATA / 8));
	cr_expect(hides(at, BYTES_DATA / 8 + 1));
	cr_expect(hides(at, BYTES_DATA / 8 + 2));
}

Test(plain, a_class_of_the_program_has_the_name_alone)
{
	ms_addr at = drawn_kinds_block(&d, BYTES_DATA + 32);

	dk_put(&d, at, 1, BYTES_TYPE, 12, UINT64_MAX);
	draw_type(BYTES_TYPE, "bytes", 41, IS_BYTES);
	cr_expect_not(hides(at, BYTES_DATA / 8 + 2), "it has attributes there");
	draw_type(BYTES_TYPE, "bytes", 33, IS_TYPE);
	cr_expect_not(hides(at, BYTES_DATA / 8 + 2));
	draw_type(STR_TYPE, "str", 80, IS_TYPE);
	cr_expect_not(hides(text(4, ASCII, 1), TEXT_3_11 / 8));
}

Test(plain, room_for_items_of_a_list_has_none)
{
	ms_addr list = drawn_kinds_block(&d, 56);
	ms_addr items = drawn_kinds_block(&d, 64);

	dk_put(&d, list + 16, 1, LIST_TYPE, 2, items, 8);
	cr_expect(hides(items, 2));
	cr_expect(hides(items, 7));
	cr_expect_not(hides(items, 1));
	dk_put(&d, list + 16, 1, LIST_TYPE, 2, items, 1);
	cr_expect_not(hides(items, 2), "fewer than there are");
	dk_put(&d, list + 16, 1, LIST_TYPE, 2, items, 80);
	cr_expect_not(hides(items, 2), "more than there is room for");
	dk_put(&d, list + 16, 1, LIST_TYPE, 2, items + 8, 4);
	cr_expect_not(hides(items, 3), "in the middle of a block");
}

static void draw_items(ms_addr type, uint64_t bytes)
{
	ms_fake_put(&d.fake, type + ITEM, bytes);
}

/* What they keep for speed is borrowed. */
Test(plain, instructions_have_none)
{
	enum { CODE_BYTES = 192 };
	ms_addr at = drawn_kinds_block(&d, CODE_BYTES + 64);

	dk_put(&d, at, 1, LIST_TYPE, 32);
	draw_type(LIST_TYPE, "code", CODE_BYTES, IS_TYPE);
	cr_expect_not(hides(at, CODE_BYTES / 8), "until 3.10 there are none in it");
	draw_items(LIST_TYPE, 2);
	cr_expect(hides(at, CODE_BYTES / 8));
	cr_expect(hides(at, CODE_BYTES / 8 + 7));
	cr_expect_not(hides(at, CODE_BYTES / 8 - 1));
	draw_type(LIST_TYPE, "code", CODE_BYTES, IS_MADE);
	cr_expect_not(hides(at, CODE_BYTES / 8), "a class of the program");
}

Test(plain, the_last_word_behind_a_tuple_is_none)
{
	ms_addr at = drawn_kinds_block(&d, 56);

	draw_type(LIST_TYPE, "tuple", 24, IS_TUPLE);
	draw_items(LIST_TYPE, 8);
	dk_put(&d, at + 16, 1, LIST_TYPE, 1);
	cr_expect(hides(at, 6));
	cr_expect_not(hides(at, 5));
	dk_put(&d, at + 16, 1, LIST_TYPE, 2);
	cr_expect_not(hides(at, 6), "its second item");
	dk_put(&d, at + 16, 1, LIST_TYPE, 0);
	cr_expect_not(hides(at, 6), "more than sizes are rounded up by");
	dk_put(&d, at + 16, 1, LIST_TYPE, UINT64_MAX / 8);
	cr_expect_not(hides(at, 6));
}

Test(plain, the_last_word_behind_an_object_of_the_interpreters_is_none)
{
	ms_addr at = drawn_kinds_block(&d, 40);

	draw_type(LIST_TYPE, "float", 32, IS_TYPE);
	dk_put(&d, at, 1, LIST_TYPE);
	cr_expect(hides(at, 4));
	cr_expect_not(hides(at, 3));
	draw_type(LIST_TYPE, "float", 24, IS_TYPE);
	cr_expect_not(hides(at, 4), "more than sizes are rounded up by");
	draw_type(LIST_TYPE, "float", 32, IS_MADE);
	cr_expect_not(hides(at, 4), "a class of the program may have more");
	draw_type(LIST_TYPE, "float", 32, IS_STR);
	cr_expect_not(hides(at, 4), "letters are behind it");
	draw_type(LIST_TYPE, "dict", 16, IS_COLLECTED);
	cr_expect_not(hides(at, 4), "it would have links");
	dk_put(&d, at + 16, 1, LIST_TYPE);
	cr_expect(hides(at, 4));
}

Test(plain, is_known_where_a_file_is_cpythons)
{
	drawn_kinds_deinit(&d);
	drawn_kinds_init(&d, "/usr/lib/libother.so");
	draw_type(TYPE_TYPE, "type", TYPE_BYTES, IS_TYPE);
	draw_type(STR_TYPE, "str", 80, IS_STR);
	lost = drawn_kinds_block(&d, 200);
	cr_expect_not(hides(text(4, ASCII, 1), TEXT_3_11 / 8));
}
