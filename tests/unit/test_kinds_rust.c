/* SPDX-License-Identifier: Apache-2.0 */
/* What Rust's collections keep their elements in. */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_kinds.h"

static struct drawn_kinds d;

#define HOLDER (DK_DATA + 0x100)

static void setup(void)
{
	drawn_kinds_init(&d, "/usr/bin/drawn");
	strcpy(ms_fake_at(&d.fake, DK_CONSTANTS + 0x200), "a message: library/std/src/io/mod.rs");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds_rust, .init = setup, .fini = teardown);

#define assert_name(block, wanted)                                      \
	cr_assert_str_eq(drawn_kinds_name(&d, (block)), (wanted), "%s", \
	                 drawn_kinds_name(&d, (block)))

/* ---- strings ---- */

static ms_addr text(const char *bytes, uint64_t room)
{
	ms_addr at = drawn_kinds_block(&d, room);

	memset(ms_fake_at(&d.fake, at), 0xfe, room);
	memcpy(ms_fake_at(&d.fake, at), bytes, strlen(bytes));
	return at;
}

Test(kinds_rust, a_string_needs_no_nul)
{
	ms_addr chars = text("ten bytes.", 32);

	dk_put(&d, HOLDER, chars, 32, 10);
	drawn_kinds_find(&d);
	assert_name(chars, "characters of String");
	cr_assert_eq(drawn_kinds_idle_word(&d, HOLDER, 3, chars), 3);
	/* As of later releases. */
	dk_put(&d, HOLDER, 32, chars, 10);
	drawn_kinds_find(&d);
	assert_name(chars, "characters of String");
	cr_assert_eq(drawn_kinds_idle_word(&d, HOLDER, 3, chars), 3);
}

/* Residual bytes stand behind it. */
Test(kinds_rust, a_string_is_shown_as_far_as_it_is_long)
{
	ms_addr chars = text("ten bytes.of an earlier one", 32);
	char preview[MS_PREVIEW_TEXT];

	dk_put(&d, HOLDER, chars, 32, 10);
	drawn_kinds_find(&d);
	ms_types_preview(d.types, ms_types_of_block(d.types, chars, 32), chars, preview);
	cr_assert_str_eq(preview, "ten bytes.");
	dk_put(&d, HOLDER, chars, 32, 27);
	drawn_kinds_find(&d);
	ms_types_preview(d.types, ms_types_of_block(d.types, chars, 32), chars, preview);
	cr_assert_str_eq(preview, "ten bytes.of an earlier ");
}

/* A Vec is not shown, though its bytes are printable. */
Test(kinds_rust, a_vec_has_no_text)
{
	ms_addr chars = text("AAAABBBBCCCCDDDD", 16);
	char preview[MS_PREVIEW_TEXT];

	dk_put(&d, HOLDER, chars, 2, 2);
	drawn_kinds_find(&d);
	assert_name(chars, "elements of Vec");
	ms_types_preview(d.types, ms_types_of_block(d.types, chars, 16), chars, preview);
	cr_assert_str_eq(preview, "");
}

Test(kinds_rust, a_string_is_text_as_far_as_it_is_long)
{
	ms_addr chars = text("ten bytes.", 37);

	dk_put(&d, HOLDER, chars, 37, 11);
	drawn_kinds_find(&d);
	assert_name(chars, "");
	/* A room that the block has not, or of which it has too much. */
	dk_put(&d, HOLDER, chars, 48, 10);
	drawn_kinds_find(&d);
	assert_name(chars, "");
	dk_put(&d, HOLDER, chars, 13, 10);
	drawn_kinds_find(&d);
	assert_name(chars, "");
}

Test(kinds_rust, an_address_is_no_string)
{
	ms_addr chars = drawn_kinds_block(&d, 24);

	/* 4 KiB on from the begin of 'AAA': bytes of an address can be printable. */
	ms_fake_map(&d.fake, UINT64_C(0x41414000), 4096, MS_PROT_READ, "");
	ms_fake_put(&d.fake, chars, UINT64_C(0x41414141));
	dk_put(&d, HOLDER, chars, 3, 3);
	drawn_kinds_find(&d);
	assert_name(chars, "elements of Vec");
	ms_fake_put(&d.fake, chars, UINT64_C(0x51414141));
	drawn_kinds_find(&d);
	assert_name(chars, "characters of String");
}

/* ---- vectors ---- */

Test(kinds_rust, a_vec_has_a_room_that_vectors_grow_to)
{
	ms_addr elements = drawn_kinds_block(&d, 8 * 24);

	dk_put(&d, HOLDER, elements, 8, 5);
	drawn_kinds_find(&d);
	assert_name(elements, "elements of Vec");
	cr_assert_eq(drawn_kinds_type(&d, elements)->sure, MS_SURE_LIKELY);
	cr_assert_eq(drawn_kinds_idle_word(&d, HOLDER, 3, elements), 3);
	/* All of it is used. */
	dk_put(&d, HOLDER, 7, elements, 7);
	drawn_kinds_find(&d);
	assert_name(elements, "");
	dk_put(&d, HOLDER, 12, elements, 12);
	drawn_kinds_find(&d);
	assert_name(elements, "elements of Vec");
	/* More than there is room for, or a room of another kind. */
	dk_put(&d, HOLDER, 8, elements, 9);
	drawn_kinds_find(&d);
	assert_name(elements, "");
	dk_put(&d, HOLDER, 12, elements, 5);
	drawn_kinds_find(&d);
	assert_name(elements, "");
}

/* ---- maps ---- */

enum { ELEMENT = 24 };

/*
 * A table of @n places, of which the first two are full and the others empty, in a block that has
 * @unused bytes more.
 */
static ms_addr draw_table_in(uint64_t n, uint64_t unused, uint8_t **ret_places)
{
	uint64_t elements = ms_align_up(n * ELEMENT, 16);
	ms_addr at = drawn_kinds_block(&d, elements + n + 16 + unused);
	uint8_t *places = ms_fake_at(&d.fake, at + elements);

	memset(places, 0xff, n + 16);
	places[0] = 0x11;
	places[1] = 0x22;
	memcpy(places + (n < 16 ? 16 : n), places, n < 16 ? n : 16);
	*ret_places = places;
	return at;
}

static ms_addr draw_table(uint64_t n, uint8_t **ret_places)
{
	return draw_table_in(n, 0, ret_places);
}

Test(kinds_rust, a_map_has_its_first_places_twice)
{
	for (uint64_t n = 4; n <= 1024; n *= 2) {
		uint8_t *places;
		ms_addr at = draw_table(n, &places);

		drawn_kinds_find(&d);
		assert_name(at, "table of HashMap or HashSet");
		places[1] = 0x33;
		drawn_kinds_find(&d);
		assert_name(at, "");
		/* Full, empty or used before: nothing else. */
		places[1] = 0x81;
		places[n < 16 ? 17 : n + 1] = 0x81;
		drawn_kinds_find(&d);
		assert_name(at, "");
	}
}

Test(kinds_rust, a_large_map_may_leave_a_part_of_its_last_page)
{
	uint8_t *places;
	ms_addr at = draw_table_in(4096, 4000, &places);

	memset(places + 4096 + 16, 0x33, 4000);
	/* How far it may be looked is by the number of blocks. */
	for (int i = 0; i < 100; i++)
		(void)drawn_kinds_block(&d, 24);
	drawn_kinds_find(&d);
	assert_name(at, "table of HashMap or HashSet");
	places[1] = 0x33;
	drawn_kinds_find(&d);
	assert_name(at, "");
	/* Of a page that nothing is in, or of a small block, there is no such part. */
	(void)draw_table_in(4096, 5000, &places);
	(void)draw_table_in(64, 4000, &places);
	drawn_kinds_find(&d);
	for (size_t i = 1; i < d.n; i++)
		assert_name(d.at[i], "");
}

Test(kinds_rust, an_eighth_of_a_map_is_empty)
{
	uint8_t *places;
	ms_addr at = draw_table(32, &places);

	memset(places, 0x11, 28);
	memset(places + 32, 0x11, 16);
	drawn_kinds_find(&d);
	assert_name(at, "table of HashMap or HashSet");
	places[28] = 0x11;
	drawn_kinds_find(&d);
	assert_name(at, "");
}

Test(kinds_rust, a_map_without_an_element_is_none)
{
	uint8_t *places;
	ms_addr at = draw_table(16, &places);

	memset(places, 0xff, 32);
	drawn_kinds_find(&d);
	assert_name(at, "");
}

/* ---- where it is ---- */

Test(kinds_rust, without_its_library_nothing_is_of_rust)
{
	ms_addr chars = text("ten bytes.", 32);

	*(char *)ms_fake_at(&d.fake, DK_CONSTANTS + 0x200 + 11) = 'L';
	dk_put(&d, HOLDER, chars, 32, 10);
	drawn_kinds_find(&d);
	assert_name(chars, "");
}
