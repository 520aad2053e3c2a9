/* SPDX-License-Identifier: Apache-2.0 */
/* What containers do not use, under --strict-containers; and a source without it. */
#include <criterion/criterion.h>
#include <string.h>

#include "classes.h"
#include "drawn_kinds.h"
#include "drawn_scan.h"
#include "engine/strict/veil.h"

static struct drawn_kinds d;

/* A holder in the module's data, and room for a word elsewhere. */
#define HOLDER    (DK_DATA + 0x100)
#define ELSEWHERE (DK_DATA + 0x400)

static void setup(void)
{
	drawn_kinds_init(&d, "/usr/lib/libstdc++.so.6");
	d.strict = true;
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

static void setup_llvm(void)
{
	drawn_kinds_init(&d, "/usr/lib/libc++.so.1");
	d.strict = true;
}

TestSuite(strict, .init = setup, .fini = teardown);
TestSuite(strict_libcxx, .init = setup_llvm, .fini = teardown);

static bool is_hidden(ms_addr at)
{
	return ms_range_find(&d.tails.hidden, at) != NULL;
}

/* Search anew; whether the bytes of @at are hidden then. */
static bool hides(ms_addr at)
{
	drawn_kinds_find(&d);
	return is_hidden(at);
}

/* A vector of ten pointers that uses three, with the others left from before. */
static ms_addr draw_vector(void)
{
	ms_addr block = drawn_kinds_block(&d, 88);

	for (unsigned i = 0; i < 10; i++)
		ms_fake_put(&d.fake, block + i * 8, drawn_kinds_block(&d, 24));
	dk_put(&d, HOLDER, block, block + 24, block + 80);
	return block;
}

/* ---- vectors ---- */

Test(strict, the_spare_room_of_a_vector_is_hidden)
{
	ms_addr block = draw_vector();

	cr_assert(hides(block + 24) && is_hidden(block + 87));
	cr_assert_not(is_hidden(block + 23));
	cr_assert_eq(d.tails.sums.containers[MS_TAIL_VECTOR], 1);
	cr_assert_eq(d.tails.sums.pointers, 7);
	cr_assert_eq(d.tails.sums.bytes, 64);
	d.fake.no_view = true;
	cr_assert(hides(block + 24));
	d.strict = false;
	cr_assert_not(hides(block + 24));
}

Test(strict, each_word_of_a_vector_counts)
{
	ms_addr block = draw_vector();

	for (unsigned i = 0; i < 3; i++) {
		uint64_t *word = ms_fake_at(&d.fake, HOLDER + i * 8);

		*word += 4;
		cr_assert_not(hides(block + 80), "word %u", i);
		*word -= 4;
	}
	/* Its room is what was asked for, to the last. */
	ms_fake_put(&d.fake, HOLDER + 16, block + 56);
	cr_assert_not(hides(block + 80));
	ms_fake_put(&d.fake, HOLDER + 16, block + 64);
	cr_assert(hides(block + 80));
}

/* What is left of a vector says nothing of the block's next use, which has a holder. */
Test(strict, one_pointer_more_to_the_block_leaves_it_as_it_is)
{
	ms_addr block = draw_vector();
	ms_addr other = drawn_kinds_block(&d, 24);

	ms_fake_put(&d.fake, ELSEWHERE, block);
	cr_assert_not(hides(block + 24));
	ms_fake_put(&d.fake, ELSEWHERE, block + 40);
	cr_assert_not(hides(block + 24));
	ms_fake_put(&d.fake, ELSEWHERE, block + 88);
	cr_assert(hides(block + 24));
	ms_fake_put(&d.fake, other, block);
	cr_assert_not(hides(block + 24));
	ms_fake_put(&d.fake, other, 0);
	/* An element may point to another. */
	ms_fake_put(&d.fake, block + 8, block);
	cr_assert(hides(block + 24));
}

Test(strict, a_pointer_in_a_register_counts)
{
	ms_addr block = draw_vector();
	uint64_t words[] = { 0, block };
	struct ms_thread *thread = ms_fake_thread(&d.fake, 1, 0, 0);

	thread->words = words;
	thread->n_words = 2;
	cr_assert_not(hides(block + 24));
	words[1] = block - 8;
	cr_assert(hides(block + 24));
}

Test(strict, of_two_vectors_in_one_block_the_one_that_uses_more_counts)
{
	ms_addr block = draw_vector();

	dk_put(&d, ELSEWHERE, block, block + 48, block + 80);
	cr_assert(hides(block + 48));
	cr_assert_not(is_hidden(block + 47));
	/* A full one. */
	dk_put(&d, ELSEWHERE, block, block + 80, block + 80);
	cr_assert_not(hides(block + 79));
}

Test(strict, four_pointers_into_a_block_are_no_vector)
{
	ms_addr block = draw_vector();

	dk_put(&d, HOLDER, block, block + 24, block + 80, block + 80);
	cr_assert_not(hides(block + 24));
	/* Three words of which two have the next begin are none, either. */
	dk_put(&d, HOLDER, block, block, block + 80, 0);
	cr_assert(hides(block + 24));
	dk_put(&d, HOLDER, block, block, block + 80, block + 80);
	cr_assert_not(hides(block + 24));
	/* The end of a block is none of its bytes, and a word with it is not counted. */
	dk_put(&d, HOLDER, block, block, block + 88, 0);
	cr_assert(hides(block + 24));
	dk_put(&d, HOLDER, block, block, block + 88, block + 88);
	cr_assert_not(hides(block + 24));
	dk_put(&d, HOLDER, block + 88, block, block, block + 88, 0);
	cr_assert_not(hides(block + 24));
}

/* A stack is in use from its middle to its end. */
Test(strict, a_tail_that_points_into_itself_is_in_use)
{
	ms_addr block = draw_vector();

	ms_fake_put(&d.fake, block + 40, block + 56);
	cr_assert_not(hides(block + 24));
	ms_fake_put(&d.fake, block + 40, DK_CODE);
	cr_assert_not(hides(block + 24));
	ms_fake_put(&d.fake, block + 40, DK_DATA);
	cr_assert(hides(block + 24));
}

Test(strict, a_vector_in_a_block_counts_as_one_in_data)
{
	ms_addr block = draw_vector();
	ms_addr owner = drawn_kinds_block(&d, 64);

	dk_put(&d, HOLDER, owner, 0, 0);
	dk_put(&d, owner + 16, block, block + 24, block + 80);
	cr_assert(hides(block + 24));
}

/* ---- strings ---- */

Test(strict, what_is_behind_a_string_is_hidden)
{
	ms_addr block = drawn_kinds_block(&d, 61);

	strcpy(ms_fake_at(&d.fake, block), "a string of some length");
	dk_put(&d, HOLDER, block, 23, 60);
	dk_put(&d, block + 32, drawn_kinds_block(&d, 24));
	cr_assert(hides(block + 24));
	cr_assert_not(is_hidden(block + 23));
	cr_assert_eq(d.tails.sums.containers[MS_TAIL_STRING], 1);
	ms_fake_put(&d.fake, ELSEWHERE, block);
	cr_assert_not(hides(block + 24));
	ms_fake_put(&d.fake, ELSEWHERE, 0);
	ms_fake_put(&d.fake, HOLDER + 8, 22);
	cr_assert_not(hides(block + 24));
}

/* Each that shares it points to it. */
Test(strict, what_is_behind_a_shared_string_is_hidden)
{
	ms_addr block = drawn_kinds_block(&d, 85);

	dk_put(&d, block, 23, 60, 1);
	strcpy(ms_fake_at(&d.fake, block + 24), "a string of some length");
	dk_put(&d, HOLDER, block + 24, block + 24);
	dk_put(&d, block + 56, drawn_kinds_block(&d, 24));
	cr_assert(hides(block + 48));
	cr_assert_not(is_hidden(block + 47));
	ms_fake_put(&d.fake, ELSEWHERE, block + 32);
	cr_assert_not(hides(block + 48));
}

/* ---- deques ---- */

static ms_addr part[4];

/* Of parts 0 to 2, from the third word of the first to the fourth of the last. */
static ms_addr draw_deque(void)
{
	ms_addr map = drawn_kinds_block(&d, 64);

	for (unsigned i = 0; i < 4; i++) {
		part[i] = drawn_kinds_block(&d, 512);
		for (unsigned word = 0; word < 64; word++)
			ms_fake_put(&d.fake, part[i] + word * 8, DK_DATA);
		ms_fake_put(&d.fake, map + 16 + i * 8, part[i]);
	}
	dk_put(&d, HOLDER, map, 8, part[0] + 24, part[0], part[0] + 512, map + 16, part[2] + 32,
	       part[2], part[2] + 512, map + 32);
	return map;
}

Test(strict, the_ends_of_a_deque_are_hidden)
{
	ms_addr map = draw_deque();

	cr_assert(hides(part[0] + 23) && is_hidden(part[0]));
	cr_assert_not(is_hidden(part[0] + 24) || is_hidden(part[1]) || is_hidden(part[2] + 31));
	cr_assert(is_hidden(part[2] + 32) && is_hidden(part[2] + 519));
	cr_assert(is_hidden(map + 8) && is_hidden(map + 40));
	cr_assert_not(is_hidden(map + 16) || is_hidden(map + 39));
	cr_assert_eq(d.tails.sums.containers[MS_TAIL_DEQUE], 3);
	/* A part alone has both ends. */
	dk_put(&d, HOLDER, map, 8, part[1] + 24, part[1], part[1] + 512, map + 24, part[1] + 64,
	       part[1], part[1] + 512, map + 24);
	cr_assert(hides(part[1] + 23) && is_hidden(part[1] + 64));
	cr_assert_not(is_hidden(part[1] + 24) || is_hidden(part[1] + 63));
}

Test(strict, a_map_whose_places_were_moved_has_old_ones)
{
	ms_addr map = draw_deque();

	dk_put(&d, map, part[2], part[0]);
	cr_assert(hides(part[0] + 23) && is_hidden(part[2] + 32) && is_hidden(map));
}

Test(strict, of_two_deques_with_one_part_one_is_out_of_date)
{
	ms_addr map = draw_deque();

	dk_put(&d, ELSEWHERE, map, 8, part[0] + 64, part[0], part[0] + 512, map + 16, part[1] + 8,
	       part[1], part[1] + 512, map + 24);
	cr_assert_not(hides(part[0]) || is_hidden(part[1] + 8) || is_hidden(map));
	/* Words of the map are not counted twice for it. */
	dk_put(&d, DK_DATA + 0x500, part[0] + 64);
	cr_assert_not(hides(part[0]));
}

/* An iterator at the first of its part looks like an empty vector. */
Test(strict, an_iterator_into_a_deque_is_no_vector)
{
	ms_addr map = draw_deque();

	dk_put(&d, HOLDER, map, 8, part[0], part[0], part[0] + 512, map + 16, part[2], part[2],
	       part[2] + 512, map + 32);
	cr_assert_not(hides(part[0]));
	cr_assert(is_hidden(part[2]));
	dk_put(&d, HOLDER, map, part[0], part[0], part[0] + 512, map + 16, 0, 0, 0, 0, 0);
	cr_assert_not(hides(part[0] + 24));
	ms_fake_put(&d.fake, HOLDER + 32, 0);
	ms_fake_put(&d.fake, map + 16, 0);
	cr_assert(hides(part[0] + 24));
}

Test(strict, each_word_of_a_deque_counts)
{
	draw_deque();
	for (unsigned i = 0; i < 10; i++) {
		uint64_t *word = ms_fake_at(&d.fake, HOLDER + i * 8);
		uint64_t old = *word;

		*word += UINT64_C(0x0001000100000100);
		cr_assert_not(hides(part[0]) || is_hidden(part[2] + 32), "word %u", i);
		*word = old;
	}
	ms_fake_put(&d.fake, ELSEWHERE, part[2] + 48);
	cr_assert(hides(part[0]));
	cr_assert_not(is_hidden(part[2] + 32));
}

/* Of elements of 8 bytes, which nothing says: as many of 16 would have no room. */
static ms_addr draw_llvm_deque(uint64_t start, uint64_t size)
{
	ms_addr map = drawn_kinds_block(&d, 64);

	for (unsigned i = 0; i < 3; i++) {
		part[i] = drawn_kinds_block(&d, 4096);
		memset(ms_fake_at(&d.fake, part[i]), 0x11, 4096);
		ms_fake_put(&d.fake, map + 16 + i * 8, part[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		dk_put(&d, map + i * 40, part[i], 7);
	dk_put(&d, HOLDER, map, map + 16, map + 40, map + 64, start, size);
	return map;
}

Test(strict_libcxx, the_ends_of_a_deque_are_hidden)
{
	ms_addr map = draw_llvm_deque(3, 1100);

	cr_assert(hides(part[0] + 23) && is_hidden(part[0]));
	cr_assert_not(is_hidden(part[0] + 24) || is_hidden(part[1]));
	cr_assert(is_hidden(part[2] + (1103 - 1024) * 8));
	cr_assert_not(is_hidden(part[2] + (1103 - 1024) * 8 - 1));
	cr_assert(is_hidden(map) && is_hidden(map + 40));
	cr_assert_not(is_hidden(map + 16) || is_hidden(map + 39));
	ms_fake_put(&d.fake, ELSEWHERE, part[2] + 8);
	cr_assert(hides(part[0]) && !is_hidden(part[2] + 4088));
}

/* Of 8, 16, 24 or 32 bytes each: the first of 8 is before, and the last of 32 behind all others. */
Test(strict_libcxx, of_several_lengths_the_one_that_uses_most_counts)
{
	(void)draw_llvm_deque(10, 100);
	ms_fake_put(&d.fake, HOLDER + 16, ms_kind_word(ms_fake_at(&d.fake, HOLDER + 8), 0) + 8);
	cr_assert_not(hides(part[0] + 80));
	cr_assert(hides(part[0] + 79));
	cr_assert_not(is_hidden(part[0] + 110 * 32 - 1));
	cr_assert(is_hidden(part[0] + 110 * 32));
}

Test(strict_libcxx, a_whole_part_can_be_unused)
{
	(void)draw_llvm_deque(512 + 3, 800);
	cr_assert(hides(part[0]) && is_hidden(part[0] + 4095) && is_hidden(part[1] + 23));
	cr_assert_not(is_hidden(part[1] + 24));
}

Test(strict_libcxx, what_is_behind_a_string_is_hidden)
{
	ms_addr block = drawn_kinds_block(&d, 64);

	strcpy(ms_fake_at(&d.fake, block), "a string of some length");
	dk_put(&d, HOLDER, 65, 23, block);
	dk_put(&d, block + 32, drawn_kinds_block(&d, 24));
	cr_assert(hides(block + 24));
	cr_assert_not(is_hidden(block + 23));
}

/* ---- the source without them ---- */

Test(strict_veil, hidden_bytes_read_as_zeros)
{
	static const struct ms_range hidden[] = { { 0x10008, 0x10010 }, { 0x10ff8, 0x11000 } };
	struct ms_ranges ranges = { .n = 2 };
	struct ms_range present;
	struct ms_veil veil;
	uint64_t words[3];

	ms_fake_init(&fake);
	memset(ms_fake_map(&fake, 0x10000, PAGE, RW, ""), 0x11, PAGE);
	cr_assert(ms_ranges_add(&fake.arena, &ranges, 0, 1));
	ranges.n = 0;
	for (size_t i = 0; i < 2; i++)
		cr_assert(ms_ranges_add(&fake.arena, &ranges, hidden[i].begin, hidden[i].end));
	ms_veil_open(&veil, &fake.base, &ranges);
	cr_assert_eq(ms_source_read(&veil.base, 0x10004, words, 24), 24);
	cr_assert_eq(words[0], UINT64_C(0x0000000011111111));
	cr_assert_eq(words[1], UINT64_C(0x1111111100000000));
	cr_assert_eq(words[2], UINT64_C(0x1111111111111111));
	cr_assert_eq(ms_source_read(&veil.base, 0x10ff4, words, 24), 12);
	cr_assert_eq(words[0], UINT64_C(0x0000000011111111));
	cr_assert_null(ms_source_view(&veil.base, 0x10000, 9));
	cr_assert_not_null(ms_source_view(&veil.base, 0x10000, 8));
	cr_assert_not_null(ms_source_view(&veil.base, 0x10010, 0xfe8));
	cr_assert(ms_source_present(&veil.base, (struct ms_range){ 0x10000, 0x11000 }, &present));
	cr_assert_eq(ms_range_len(present), PAGE);
	ms_fake_deinit(&fake);
}

/* ---- a whole scan ---- */

static bool warns_of(const char *text)
{
	for (size_t i = 0; i < report.warnings.n; i++)
		if (strstr(report.warnings.at[i].text, text))
			return true;
	return false;
}

static void scan_anew(struct ms_scan_options options)
{
	memset(&report, 0, sizeof(report));
	fake.no_view = false;
	scan(options);
}

Test(strict_scan, what_only_a_tail_holds_is_a_leak)
{
	static const char said[] = "--strict-containers: 2 pointers in 16 unused bytes of 1 "
				   "containers (vectors 1, strings 0, parts of deques 0)";

	draw(6);
	classes_map(&fake, LIBRARY, "/lib/libstdc++.so.6");
	for (unsigned int i = 0; i < 4; i++)
		ms_fake_put(&fake, block(0) + 8 * i, block(i + 1));
	ms_fake_put(&fake, DATA, block(0));
	ms_fake_put(&fake, DATA + 8, block(0) + 16);
	ms_fake_put(&fake, DATA + 16, block(0) + 32);
	scan_anew((struct ms_scan_options){ .no_fold = true, .contents = true });
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_not(warns_of("--strict-containers"));
	scan_anew((struct ms_scan_options){ .no_fold = true, .strict_containers = true });
	cr_assert_eq(report.leaks.n, 3);
	cr_assert_eq(report.leaks.at[0].address, block(3));
	cr_assert_eq(report.leaks.at[1].address, block(4));
	cr_assert(warns_of(said));
	/* With the other searches as without. */
	scan_anew((struct ms_scan_options){ .strict_containers = true, .possible = true });
	cr_assert_eq(report.totals.leaked_allocations, 3);
	cr_assert_eq(report.totals.possible_allocations, 0);
	scan_anew((struct ms_scan_options){ .strict_containers = true, .heap = true });
	cr_assert_eq(report.totals.leaked_allocations, 3);
	ms_fake_deinit(&fake);
}

/* A leak's contents are as they are. */
Test(strict_scan, a_tail_of_a_leak_is_shown)
{
	draw(3);
	classes_map(&fake, LIBRARY, "/lib/libstdc++.so.6");
	ms_fake_put(&fake, block(0) + 24, block(2));
	ms_fake_put(&fake, block(1), block(0));
	ms_fake_put(&fake, block(1) + 8, block(0) + 16);
	ms_fake_put(&fake, block(1) + 16, block(0) + 32);
	scan_anew((struct ms_scan_options){
		.no_fold = true, .contents = true, .strict_containers = true });
	cr_assert_eq(report.leaks.n, 3);
	for (size_t i = 0; i < report.leaks.n; i++)
		if (report.leaks.at[i].address == block(0))
			cr_assert_eq(report.leaks.at[i].contents[26], (block(2) >> 16 & 0xff));
	ms_fake_deinit(&fake);
}

/* ---- stacks of OpenSSL ---- */

Test(strict, the_spare_room_of_a_stack_of_openssl_is_hidden)
{
	const uint64_t room = UINT64_C(8) << 32;
	ms_addr stack;
	ms_addr items;

	drawn_kinds_deinit(&d);
	drawn_kinds_init(&d, "/usr/lib/libcrypto.so.3");
	d.strict = true;
	stack = drawn_kinds_block(&d, 32);
	items = drawn_kinds_block(&d, 64);
	for (unsigned i = 0; i < 8; i++)
		ms_fake_put(&d.fake, items + i * 8, drawn_kinds_block(&d, 24));
	ms_fake_put(&d.fake, HOLDER, stack);
	dk_put(&d, stack, 3, items, room, DK_CODE);
	cr_expect(hides(items + 24) && is_hidden(items + 63) && !is_hidden(items + 23));
	dk_put(&d, stack, 8, items, room, DK_CODE);
	cr_expect_not(hides(items + 56));
	dk_put(&d, stack, 3, items, room, DK_DATA);
	cr_expect_not(hides(items + 24));
}
