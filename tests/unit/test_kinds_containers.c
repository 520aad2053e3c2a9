/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_kinds.h"
#include "random_heap.h"

static struct drawn_kinds d;

/* A holder in the module's data. */
#define HOLDER (DK_DATA + 0x100)

static void setup(void)
{
	drawn_kinds_init(&d, "/usr/lib/libstdc++.so.6");
}

static void setup_llvm(void)
{
	drawn_kinds_init(&d, "/usr/lib/libc++.so.1");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds_containers, .init = setup, .fini = teardown);
TestSuite(kinds_libcxx, .init = setup_llvm, .fini = teardown);

#define assert_name(block, wanted) cr_assert_str_eq(drawn_kinds_name(&d, (block)), (wanted))

/* The words at @at, of which there are @n, all matter to what @block is. */
static void assert_each_word_counts(ms_addr at, size_t n, ms_addr block)
{
	cr_assert_neq(drawn_kinds_name(&d, block)[0], '\0');
	cr_assert_eq(drawn_kinds_idle_word(&d, at, n, block), n);
}

static ms_addr text_block(const char *text, uint64_t len, uint64_t offset)
{
	ms_addr at = drawn_kinds_block(&d, len);

	strcpy(ms_fake_at(&d.fake, at + offset), text);
	return at;
}

/* ---- strings ---- */

static const char name[] = "\x01 a string of some length";

enum { NAME_BYTES = sizeof(name) - 1 };

Test(kinds_containers, a_long_string_names_its_buffer)
{
	ms_addr buffer = text_block(name, 41, 0);

	dk_put(&d, HOLDER, buffer, NAME_BYTES, 40);
	for (int no_view = 0; no_view < 2; no_view++) {
		d.fake.no_view = no_view;
		drawn_kinds_find(&d);
		assert_name(buffer, "buffer of std::string");
		cr_assert_eq(drawn_kinds_type(&d, buffer)->how, MS_HOW_CONTAINER);
	}
	assert_each_word_counts(HOLDER, 3, buffer);
}

Test(kinds_containers, a_string_ends_where_it_says)
{
	ms_addr buffer = text_block(name, 41, 0);

	dk_put(&d, HOLDER, buffer, NAME_BYTES - 1, 40);
	drawn_kinds_find(&d);
	assert_name(buffer, "");
	dk_put(&d, HOLDER, buffer, NAME_BYTES + 1, 40);
	drawn_kinds_find(&d);
	assert_name(buffer, "");
	/* A GString. */
	dk_put(&d, HOLDER, buffer, NAME_BYTES, 32);
	drawn_kinds_find(&d);
	assert_name(buffer, "");
	/* A block of another size. */
	dk_put(&d, HOLDER, buffer, NAME_BYTES, 100);
	drawn_kinds_find(&d);
	assert_name(buffer, "");
}

Test(kinds_containers, an_object_that_has_the_string_is_in_the_name)
{
	ms_addr buffer = text_block(name, 41, 0);
	ms_addr owner;

	classes_add(&d.fake, DK_LIBRARY, 0, "7Session");
	owner = drawn_kinds_block(&d, 64);
	dk_put(&d, owner, classes_vtable(DK_LIBRARY, 0), 0, 0, buffer, NAME_BYTES, 40);
	/* A copy of the pointer, without an owner. */
	dk_put(&d, HOLDER, buffer, NAME_BYTES, 40);
	drawn_kinds_find(&d);
	assert_name(owner, "Session");
	assert_name(buffer, "buffer of std::string in Session+0x18");
}

/*
 * Words of text are no pointers, but those of a string's buffer may be; which of the two a block
 * is, a word says that stands not far before it.
 */
Test(kinds_containers, a_shared_string_of_before_cxx11)
{
	ms_addr buffer = text_block(name, 24 + 41, 24);

	dk_put(&d, buffer, NAME_BYTES, 40, 0);
	dk_put(&d, HOLDER, buffer + 24);
	drawn_kinds_find(&d);
	assert_name(buffer, "buffer of std::string");
	assert_each_word_counts(buffer, 2, buffer);
	assert_each_word_counts(HOLDER, 1, buffer);
}

static const char *preview_of(ms_addr block)
{
	static char preview[MS_PREVIEW_TEXT];

	ms_types_preview(d.types, ms_types_of_block(d.types, block, 64), block, preview);
	return preview;
}

/* Where it begins in the block, and no byte behind it. */
Test(kinds_containers, a_string_is_shown_unless_it_is_binary)
{
	ms_addr plain = text_block("seventeen of them", 41, 0);
	ms_addr shared = text_block("seventeen of those", 24 + 41, 24);
	ms_addr binary = text_block(name, 41, 0);

	dk_put(&d, HOLDER, plain, 17, 40);
	dk_put(&d, HOLDER + 64, binary, NAME_BYTES, 40);
	dk_put(&d, shared, 18, 40, 0);
	dk_put(&d, HOLDER + 128, shared + 24);
	drawn_kinds_find(&d);
	cr_assert_str_eq(preview_of(plain), "seventeen of them");
	cr_assert_str_eq(preview_of(shared), "seventeen of those");
	assert_name(binary, "buffer of std::string");
	cr_assert_str_eq(preview_of(binary), "");
}

Test(kinds_containers, nothing_is_a_container_where_no_cxx_is)
{
	ms_addr buffer;

	drawn_kinds_deinit(&d);
	drawn_kinds_init(&d, "/usr/lib/libplain.so");
	buffer = text_block(name, 41, 0);
	dk_put(&d, HOLDER, buffer, NAME_BYTES, 40);
	drawn_kinds_find(&d);
	assert_name(buffer, "");
}

Test(kinds_libcxx, a_long_string_names_its_buffer)
{
	ms_addr buffer = text_block(name, 48, 0);

	dk_put(&d, HOLDER, 48 | 1, NAME_BYTES, buffer);
	drawn_kinds_find(&d);
	assert_name(buffer, "buffer of std::string");
	assert_each_word_counts(HOLDER, 3, buffer);
}

/* ---- vector, deque ---- */

Test(kinds_containers, a_vector_names_its_elements)
{
	ms_addr block = drawn_kinds_block(&d, 80);

	dk_put(&d, HOLDER, block, block + 24, block + 80);
	drawn_kinds_find(&d);
	assert_name(block, "elements of std::vector");
	cr_assert_eq(drawn_kinds_type(&d, block)->sure, MS_SURE_LIKELY);
	assert_each_word_counts(HOLDER, 3, block);
	/* Its room ends with the block. */
	dk_put(&d, HOLDER, block, block + 24, block + 32);
	drawn_kinds_find(&d);
	assert_name(block, "");
	dk_put(&d, HOLDER, block, block + 64, block + 56);
	drawn_kinds_find(&d);
	assert_name(block, "");
	dk_put(&d, HOLDER, block + 8, block + 24, block + 80);
	drawn_kinds_find(&d);
	assert_name(block, "");
}

Test(kinds_containers, a_deque_names_its_parts)
{
	ms_addr map = drawn_kinds_block(&d, 64);
	ms_addr part[3];

	for (int i = 0; i < 3; i++) {
		part[i] = drawn_kinds_block(&d, 512);
		ms_fake_put(&d.fake, map + 16 + 8 * (unsigned)i, part[i]);
	}
	dk_put(&d, HOLDER, map, 8, part[0] + 8, part[0], part[0] + 512, map + 16, part[2] + 16,
	       part[2], part[2] + 512, map + 32);
	drawn_kinds_find(&d);
	assert_name(map, "map of std::deque");
	assert_name(part[0], "elements of std::deque");
	assert_name(part[2], "elements of std::deque");
	assert_each_word_counts(HOLDER, 10, map);
	ms_fake_put(&d.fake, map + 24, part[1] + 8);
	drawn_kinds_find(&d);
	assert_name(part[0], "");
}

/* 1100 elements of 8 bytes, from the fourth on, in three parts. */
Test(kinds_libcxx, a_deque_names_its_parts)
{
	ms_addr map = drawn_kinds_block(&d, 64);
	ms_addr part[3];

	for (unsigned i = 0; i < 3; i++) {
		part[i] = drawn_kinds_block(&d, 4096);
		ms_fake_put(&d.fake, map + 16 + 8 * i, part[i]);
	}
	dk_put(&d, HOLDER, map, map + 16, map + 40, map + 64, 3, 1100);
	drawn_kinds_find(&d);
	assert_name(map, "map of std::deque");
	assert_name(part[0], "elements of std::deque");
	assert_name(part[2], "elements of std::deque");
	assert_each_word_counts(HOLDER, 6, map);
	/* Of 255 bytes a part has 16, of one byte 4096: less than two parts are free at an end. */
	for (unsigned i = 0; i < 4; i++) {
		static const uint64_t sizes[] = { 12, 13, 12284, 12285 };

		ms_fake_put(&d.fake, HOLDER + 40, sizes[i]);
		drawn_kinds_find(&d);
		cr_assert_eq(drawn_kinds_name(&d, part[0])[0] != '\0', i == 1 || i == 2, "%u", i);
	}
	ms_fake_put(&d.fake, HOLDER + 40, 1100);
	ms_fake_put(&d.fake, map + 24, part[1] + 8);
	drawn_kinds_find(&d);
	assert_name(part[0], "");
	ms_fake_put(&d.fake, map + 24, drawn_kinds_block(&d, 4080));
	drawn_kinds_find(&d);
	assert_name(part[0], "");
}

/* ---- nodes ---- */

enum { NODES = 7 };

static ms_addr node[NODES];

static void make_nodes(uint64_t len)
{
	for (int i = 0; i < NODES; i++)
		node[i] = drawn_kinds_block(&d, len);
	/* So that a count of one more is not refused for there being fewer blocks. */
	(void)drawn_kinds_block(&d, len);
}

static void assert_nodes(const char *wanted)
{
	drawn_kinds_find(&d);
	for (int i = 0; i < NODES; i++)
		assert_name(node[i], wanted);
}

static void draw_list(void)
{
	make_nodes(24);
	for (int i = 0; i < NODES; i++)
		dk_put(&d, node[i], i + 1 < NODES ? node[i + 1] : HOLDER, i ? node[i - 1] : HOLDER);
	dk_put(&d, HOLDER, node[0], node[NODES - 1], NODES);
}

Test(kinds_containers, a_list_names_its_nodes)
{
	draw_list();
	assert_nodes("node of std::list");
	assert_each_word_counts(HOLDER, 3, node[3]);
	assert_each_word_counts(node[5], 2, node[3]);
	ms_fake_put(&d.fake, HOLDER + 16, NODES - 1);
	assert_nodes("");
	ms_fake_put(&d.fake, HOLDER + 16, NODES + 1);
	assert_nodes("");
}

Test(kinds_containers, a_list_that_never_ends_is_none)
{
	draw_list();
	ms_fake_put(&d.fake, node[NODES - 1], node[0]);
	ms_fake_put(&d.fake, node[0] + 8, HOLDER);
	assert_nodes("");
}

/* A tree of seven: 3 above 1 and 5, these above the rest; in libstdc++'s order of links. */
static const int parent[NODES] = { 1, 3, 1, -1, 5, 3, 5 };

static ms_addr child(int of, bool right)
{
	for (int i = 0; i < NODES; i++)
		if (parent[i] == of && (i > of) == right)
			return node[i];
	return 0;
}

static void draw_tree(bool llvm)
{
	ms_addr head = HOLDER + 8;

	make_nodes(40);
	for (int i = 0; i < NODES; i++) {
		ms_addr above = parent[i] < 0 ? head : node[parent[i]];

		if (llvm)
			dk_put(&d, node[i], child(i, false), child(i, true), above, 1);
		else
			dk_put(&d, node[i], (unsigned)i % 2, above, child(i, false),
			       child(i, true));
	}
	if (llvm)
		dk_put(&d, HOLDER, node[0], node[3], NODES);
	else
		dk_put(&d, HOLDER, 0, 0, node[3], node[0], node[NODES - 1], NODES);
}

Test(kinds_containers, a_map_names_its_nodes)
{
	draw_tree(false);
	assert_nodes("node of std::map or std::set");
	cr_assert_eq(drawn_kinds_idle_word(&d, node[5], 4, node[0]), 4);
	ms_fake_put(&d.fake, HOLDER + 40, NODES - 1);
	assert_nodes("");
	ms_fake_put(&d.fake, HOLDER + 40, NODES + 1);
	assert_nodes("");
	ms_fake_put(&d.fake, HOLDER + 40, NODES);
	ms_fake_put(&d.fake, node[6] + 8, node[3]);
	assert_nodes("");
}

Test(kinds_containers, an_object_that_has_the_map_is_in_the_name)
{
	ms_addr owner;

	draw_tree(false);
	classes_add(&d.fake, DK_LIBRARY, 0, "7Session");
	owner = drawn_kinds_block(&d, 64);
	dk_put(&d, owner, classes_vtable(DK_LIBRARY, 0), 0, 0, node[3], node[0], node[NODES - 1],
	       NODES);
	ms_fake_put(&d.fake, HOLDER + 16, 0);
	ms_fake_put(&d.fake, node[3] + 8, owner + 16);
	assert_nodes("node of std::map or std::set in Session+0x8");
}

/* No tree is as high, but it is walked to its end. */
Test(kinds_containers, a_map_may_be_of_any_height)
{
	enum { HIGH = 300 };
	ms_addr nodes[HIGH + 1];
	ms_addr above = HOLDER + 8;

	for (int i = 0; i < HIGH; i++)
		nodes[i] = drawn_kinds_block(&d, 40);
	nodes[HIGH] = 0;
	for (int i = 0; i < HIGH; above = nodes[i], i++)
		dk_put(&d, nodes[i], 1, above, i % 2 ? nodes[i + 1] : 0, i % 2 ? 0 : nodes[i + 1]);
	dk_put(&d, HOLDER, 0, 0, nodes[0], nodes[HIGH - 1], nodes[0], HIGH);
	drawn_kinds_find(&d);
	for (int i = 0; i < HIGH; i++)
		assert_name(nodes[i], "node of std::map or std::set");
	ms_fake_put(&d.fake, HOLDER + 40, HIGH - 1);
	drawn_kinds_find(&d);
	assert_name(nodes[0], "");
}

Test(kinds_libcxx, a_map_names_its_nodes)
{
	draw_tree(true);
	assert_nodes("node of std::map or std::set");
	ms_fake_put(&d.fake, HOLDER + 16, NODES + 1);
	assert_nodes("");
}

static void draw_hash(bool single)
{
	ms_addr buckets = single ? HOLDER + 48 : drawn_kinds_block(&d, 13 * 8);

	make_nodes(24);
	for (int i = 0; i < NODES; i++)
		dk_put(&d, node[i], i + 1 < NODES ? node[i + 1] : 0, (uint64_t)i);
	dk_put(&d, HOLDER, buckets, single ? 1 : 13, node[0], NODES, 0x3f800000, 13, 0);
}

Test(kinds_containers, an_unordered_container_names_its_nodes_and_buckets)
{
	draw_hash(false);
	assert_nodes("node of an unordered container");
	assert_name(node[0] - 112, "buckets of an unordered container");
	assert_each_word_counts(HOLDER, 5, node[2]);
	ms_fake_put(&d.fake, HOLDER + 24, NODES - 1);
	assert_nodes("");
}

Test(kinds_containers, an_unordered_container_may_have_its_only_bucket_inside)
{
	draw_hash(true);
	assert_nodes("node of an unordered container");
	ms_fake_put(&d.fake, HOLDER, HOLDER + 40);
	assert_nodes("");
}

/* ---- what is known better ---- */

Test(kinds_containers, a_class_is_not_what_it_is_held_by)
{
	ms_addr block = drawn_kinds_block(&d, 80);

	classes_add(&d.fake, DK_LIBRARY, 0, "7Session");
	ms_fake_put(&d.fake, block, classes_vtable(DK_LIBRARY, 0));
	dk_put(&d, HOLDER, block, block + 24, block + 80);
	drawn_kinds_find(&d);
	assert_name(block, "Session");
}

Test(kinds_containers, of_several_claims_the_better_one_counts)
{
	ms_addr buffer = text_block(name, 41, 0);

	dk_put(&d, HOLDER, buffer, buffer + 8, buffer + 40, buffer, NAME_BYTES, 40);
	drawn_kinds_find(&d);
	assert_name(buffer, "buffer of std::string");
}

/* What is marked is held by something, and nobody asks for it. */
Test(kinds_containers, of_leaks_alone_what_they_hold_is_named)
{
	ms_addr buffer = text_block(name, 41, 0);
	ms_addr other = text_block(name, 41, 0);
	ms_addr owner = drawn_kinds_block(&d, 64);

	dk_put(&d, owner, 0, buffer, NAME_BYTES, 40);
	dk_put(&d, HOLDER, other, NAME_BYTES, 40);
	d.live_only = true;
	drawn_kinds_find(&d);
	assert_name(buffer, "buffer of std::string");
	assert_name(other, "");
}

/* ---- many pieces ---- */

enum { PIECE = 1 << 16, PIECES = 3 };

/* A string's holder stands across the border of each piece, in a block that is longer. */
static void put_holders(ms_addr long_block, const ms_addr *buffers)
{
	ms_addr border = ms_align_up(long_block - DK_HEAP, PIECE) + DK_HEAP;

	for (size_t i = 0; i < PIECES; i++)
		dk_put(&d, border + i * PIECE - 8 * (i % 3), buffers[i], NAME_BYTES, 40);
}

Test(kinds_containers, a_holder_may_stand_across_the_border_of_pieces)
{
	static const uint64_t lengths[] = { 3 * PIECE + PIECE / 2, 5 * PIECE };
	struct ms_error err;

	for (unsigned way = 0; way < 8; way++) {
		ms_addr buffers[PIECES];

		for (size_t i = 0; i < PIECES; i++)
			buffers[i] = text_block(name, 41, 0);
		put_holders(drawn_kinds_block(&d, lengths[way & 1]), buffers);
		d.fake.no_view = way & 2;
		if (way & 4)
			cr_assert_eq(ms_workers_start(3, &d.workers, &err), MS_OK);
		drawn_kinds_find(&d);
		for (size_t i = 0; i < PIECES; i++)
			assert_name(buffers[i], "buffer of std::string");
		if (d.workers)
			ms_workers_stop(d.workers);
		teardown();
		setup();
	}
}

/* ---- heaps of chance ---- */

enum { HEAPS = 4, PER_MILLE = 10 };

static struct random_heap heap;

/* The types of the blocks of a random heap, as if C++ was there; until the heap goes. */
static const uint32_t *find_random(uint64_t seed, struct ms_workers *workers, uint64_t *ret_n)
{
	struct ms_kinds_search search;
	struct ms_regions regions = { 0 };
	struct ms_roots roots = { 0 };
	struct ms_error err;

	random_heap_draw(&heap, seed, seed % 2);
	classes_map(&heap.fake, UINT64_C(0x60000000), "/usr/lib/libc++.so.1");
	cr_assert_eq(ms_classify(&heap.fake.base, &heap.fake.arena, &regions, &err), MS_OK);
	roots.src = &heap.fake.base;
	roots.regions = &regions;
	cr_assert(ms_ranges_add(&heap.fake.arena, &roots.ranges, RH_ROOT, RH_ROOT + RH_ROOT_BYTES));
	search = (struct ms_kinds_search){ .types = ms_types_new(&heap.fake.base, &regions,
		                                                 &heap.fake.arena),
		                           .blocks = &heap.blocks,
		                           .roots = &roots,
		                           .workers = workers };
	cr_assert_eq(ms_kinds_find(&search, true), MS_OK);
	*ret_n = ms_blocks_numbers(&heap.blocks);
	return search.numbers;
}

/* Number of them that get a type. */
static uint64_t count_named(uint64_t seed, uint64_t *n)
{
	const uint32_t *numbers = find_random(seed, NULL, n);
	uint64_t named = 0;

	for (uint32_t i = 0; i < *n; i++)
		named += numbers[i] != MS_TYPE_UNKNOWN;
	ms_fake_deinit(&heap.fake);
	return named;
}

Test(kinds_random, types_are_the_same_however_many_look_for_them)
{
	static uint32_t alone[1 << 20];
	struct ms_workers *workers;
	struct ms_error err;

	for (uint64_t seed = 1; seed <= 2; seed++) {
		const uint32_t *numbers;
		uint64_t n;

		numbers = find_random(seed, NULL, &n);
		cr_assert_lt(n, sizeof(alone) / sizeof(alone[0]));
		memcpy(alone, numbers, n * sizeof(*numbers));
		ms_fake_deinit(&heap.fake);
		cr_assert_eq(ms_workers_start(3, &workers, &err), MS_OK);
		numbers = find_random(seed, workers, &n);
		ms_workers_stop(workers);
		cr_assert_arr_eq(numbers, alone, n * sizeof(*numbers));
		ms_fake_deinit(&heap.fake);
	}
}

Test(kinds_random, random_heaps_have_hardly_a_name)
{
	for (uint64_t seed = 1; seed <= HEAPS; seed++) {
		uint64_t n;
		uint64_t named = count_named(seed, &n);

		cr_assert_lt(named * 1000, n * PER_MILLE, "%llu of %llu", (unsigned long long)named,
		             (unsigned long long)n);
	}
}
