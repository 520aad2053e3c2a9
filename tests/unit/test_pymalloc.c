/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "pyheap.h"

/* CPython's allocator of small objects. Pictures: pyheap.h. */

#define PARAMS(rows) cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]))

static const char MIXED[] = "32 uufuf 64 fuu 512 u 48 e ; - ; 48 ufff 32 uu 16 fffu 32 u";

static struct pyheap h;

struct row {
	char picture[96];
};

ParameterizedTestParameters(pymalloc, what_is_in_use_is_told_and_nothing_else)
{
	static struct row rows[] = {
		{ "32 uf" },
		{ "16 ffffffffu 512 fu 272 ufu" },
		{ "32 uuuu 48 uuf" },
		{ "32 fuf 32 uf 32 ufu 48 e 64 e 80 uf" },
		{ "32 uf ; 32 fu ; 48 uu ; 64 e" },
		{ "- ; - ; 32 uf 32 u ; - ; 64 uf" },
		{ "32 ufuf 64 fuu 512 u 48 e ; - ; 48 ufff 32 uu 16 fffu 32 u" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, pymalloc, what_is_in_use_is_told_and_nothing_else)
{
	for (int version = 0; version < PYHEAP_VERSIONS; version++)
		for (int no_view = 0; no_view <= 1; no_view++) {
			pyheap_init(&h);
			pyheap_draw(&h, (enum pyheap_version)version, row->picture);
			h.fake.no_view = no_view;
			cr_expect_str_empty(pyheap_try(&h), "%s: %s", row->picture, h.wrong);
			pyheap_deinit(&h);
		}
}

static void draw(const char *picture)
{
	pyheap_init(&h);
	pyheap_draw(&h, PYHEAP_3_11, picture);
}

Test(pymalloc, the_layout_is_told_from_pools_and_arenas)
{
	static const char *const told[] = { "CPython 3.9 and before", "CPython 3.10 to 3.14",
		                            "CPython 3.10 to 3.14" };

	for (int version = 0; version < PYHEAP_VERSIONS; version++) {
		pyheap_init(&h);
		pyheap_draw(&h, (enum pyheap_version)version, MIXED);
		cr_expect_str_empty(pyheap_try(&h), "%s", h.wrong);
		cr_expect(pyheap_says(&h, told[version]));
		pyheap_deinit(&h);
	}
}

Test(pymalloc, arenas_are_owned_and_no_roots)
{
	draw(MIXED);
	cr_expect_str_empty(pyheap_try(&h), "%s", h.wrong);
	cr_assert_eq(h.decoding.owned.n, 2);
	for (size_t i = 0; i < 2; i++) {
		cr_expect_eq(h.decoding.owned.at[i].begin, pyheap_object(&h, 2 * i)->address);
		cr_expect_eq(ms_range_len(h.decoding.owned.at[i]), 1 << 20);
	}
	pyheap_deinit(&h);
}

/* An interpreter's objects have words in front of where they are pointed to. */
Test(pymalloc, pointers_behind_a_begin_are_as_good_as_any)
{
	draw("32 uf");
	cr_expect_str_empty(pyheap_try(&h), "%s", h.wrong);
	cr_assert_eq(h.told.extents.n, 1);
	cr_expect(h.told.extents.at[0].inner);
	pyheap_deinit(&h);
}

/* ---- a pool that contradicts itself ---- */

static void count_up(void)
{
	pyheap_pool(&h, 1)->count++;
}

static void count_down(void)
{
	pyheap_pool(&h, 1)->count--;
}

static void take_off_the_list(void)
{
	pyheap_pool(&h, 1)->freeblock = 0;
}

/* The pool's blocks are 2 to 5; its list leads from 5 to 2. */
static void link(ms_addr from, ms_addr to)
{
	ms_fake_put(&h.fake, from, to);
}

static void list_twice(void)
{
	link(pyheap_block(&h, 2), pyheap_block(&h, 5));
}

static void list_outside(void)
{
	link(pyheap_block(&h, 5), pyheap_block(&h, 0));
}

static void list_in_the_middle(void)
{
	link(pyheap_block(&h, 5), pyheap_block(&h, 2) + 16);
}

static void list_what_is_not_carved(void)
{
	link(pyheap_block(&h, 5), pyheap_block(&h, 5) + 64);
}

static void list_the_header(void)
{
	link(pyheap_block(&h, 5), h.pools[1] - 16);
}

static void carve(void)
{
	pyheap_pool(&h, 1)->nextoffset += 64;
}

static void carve_a_part(void)
{
	pyheap_pool(&h, 1)->nextoffset += 16;
}

static void carve_too_much(void)
{
	pyheap_pool(&h, 1)->nextoffset = 48 + 64 * 256;
	pyheap_pool(&h, 1)->count = 256 - 2;
}

static void carve_less_than_nothing(void)
{
	pyheap_pool(&h, 1)->nextoffset = 16;
}

static void carve_less_than_nothing_of_16(void)
{
	pyheap_pool(&h, 1)->szidx = 0;
	pyheap_pool(&h, 1)->maxnextoffset = (1 << 14) - 16;
	pyheap_pool(&h, 1)->nextoffset = 16;
	pyheap_pool(&h, 1)->freeblock = 0;
	pyheap_pool(&h, 1)->count = UINT32_MAX / 16 - 1;
}

static void another_size(void)
{
	pyheap_pool(&h, 1)->szidx = 1;
}

static void no_size(void)
{
	pyheap_pool(&h, 1)->szidx = 0xffff;
}

static void another_end(void)
{
	pyheap_pool(&h, 1)->maxnextoffset -= 64;
}

static void another_arena(void)
{
	pyheap_pool(&h, 1)->arenaindex = 3;
}

Test(pymalloc, a_pool_that_contradicts_itself_is_roots_and_alone)
{
	static void (*const damages[])(void) = {
		count_up,
		count_down,
		take_off_the_list,
		list_twice,
		list_outside,
		list_in_the_middle,
		list_the_header,
		carve,
		list_what_is_not_carved,
		carve_a_part,
		carve_too_much,
		carve_less_than_nothing,
		another_size,
		no_size,
		another_end,
		another_arena,
		carve_less_than_nothing_of_16,
	};

	/* The pool is in no ring's end. */
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		draw("64 uf 64 fuuf 64 fu 32 fu ; 48 fu");
		damages[i]();
		cr_expect_str_empty(pyheap_try_without(&h, 1), "%zu: %s", i, h.wrong);
		cr_expect(pyheap_says(&h, "1 pools not proved: pool 0x7f000"), "%zu", i);
		pyheap_deinit(&h);
	}
}

/* ---- arenas ---- */

static void expect_doubt(const char *text)
{
	cr_assert_eq(pyheap_decode(&h), MS_OK);
	cr_assert_eq(h.heaps.n, 1);
	cr_expect_not(h.heaps.at[0].verified, "%s", text);
	cr_expect_eq(h.heaps.at[0].doubt, MS_DOUBT_DISAGREES);
	cr_expect(pyheap_says(&h, text), "%s: %s", text, h.evidence.at[h.evidence.n - 1].text);
}

Test(pymalloc, an_arena_that_counts_its_free_pools_wrongly_is_in_doubt)
{
	draw(MIXED);
	pyheap_object(&h, 0)->nfreepools--;
	expect_doubt("arena 0 does not count the pools that are free");
	pyheap_object(&h, 0)->nfreepools++;
	pyheap_object(&h, 0)->freepools = 0;
	expect_doubt("arena 0 does not count the pools that are free");
	pyheap_object(&h, 0)->nfreepools--;
	expect_doubt("arena 0 does not count the pools that are free");
	pyheap_object(&h, 0)->nfreepools++;
	pyheap_object(&h, 0)->freepools = h.pools[2];
	cr_assert_eq(pyheap_pool(&h, 2)->nextpool, 0);
	expect_doubt("arena 0 has a list of empty pools that leads astray");
	pyheap_object(&h, 0)->freepools = h.pools[0];
	expect_doubt("arena 0 has a list of empty pools that leads astray");
	pyheap_object(&h, 0)->freepools = h.pools[3];
	pyheap_pool(&h, 3)->nextpool = h.pools[3];
	expect_doubt("arena 0 has a list of empty pools that leads astray");
	pyheap_deinit(&h);
}

/* What the blocks are does not depend on it. */
Test(pymalloc, the_blocks_of_an_arena_in_doubt_are_told)
{
	draw(MIXED);
	pyheap_object(&h, 0)->nfreepools--;
	cr_assert_eq(pyheap_decode(&h), MS_OK);
	cr_expect_eq(h.decoding.unproved.n, 0);
	cr_expect_eq(h.heaps.at[0].allocations, 3 + 2 + 1 + 1 + 2 + 1 + 1);
	pyheap_deinit(&h);
}

Test(pymalloc, an_arena_object_without_sense_is_in_doubt_and_its_memory_left_alone)
{
	draw("32 uf ; 64 uu");
	pyheap_object(&h, 1)->ntotalpools++;
	expect_doubt("arena 1 contradicts itself");
	cr_expect_eq(h.decoding.owned.n, 1);
	cr_expect_eq(h.heaps.at[0].allocations, 1);
	pyheap_deinit(&h);
}

Test(pymalloc, an_arena_that_is_being_given_back_is_no_contradiction)
{
	draw("32 uf ; 64 e");
	h.fake.base.mappings.n--;
	cr_expect_str_empty(pyheap_try(&h), "%s", h.wrong);
	cr_expect_eq(h.decoding.owned.n, 1);
	pyheap_deinit(&h);
}

Test(pymalloc, arenas_that_overlap_are_nobodys)
{
	draw("32 uf ; 64 uu ; 64 uf");
	pyheap_object(&h, 1)->address = pyheap_object(&h, 2)->address + 0x4000;
	pyheap_object(&h, 1)->pool_address = pyheap_object(&h, 2)->address + 0x7000;
	expect_doubt("overlaps what is another's");
	cr_expect_eq(h.decoding.owned.n, 1);
	cr_expect_eq(h.heaps.at[0].allocations, 1);
	pyheap_deinit(&h);
}

Test(pymalloc, an_arena_that_another_allocator_has_is_left_to_it)
{
	draw("32 uf ; 64 uu");
	h.others.begin = pyheap_object(&h, 1)->address + 0x5000;
	h.others.end = h.others.begin + 0x1000;
	expect_doubt("arena 1 overlaps what is another's");
	cr_expect_eq(h.decoding.owned.n, 1);
	cr_expect_eq(h.heaps.at[0].allocations, 1);
	pyheap_deinit(&h);
}

Test(pymalloc, memory_of_a_file_is_no_arena)
{
	draw("32 uf ; 64 uu");
	h.fake.base.mappings.at[h.fake.base.mappings.n - 1].shared = true;
	expect_doubt("arena 1 overlaps what is another's");
	cr_expect_eq(h.decoding.owned.n, 1);
	pyheap_deinit(&h);
}

Test(pymalloc, a_longer_array_of_arenas_is_read_to_its_end)
{
	struct ms_py_object *objects;

	draw("32 uf");
	objects = pyheap_object(&h, 0);
	for (size_t i = 15; i < 31; i++)
		objects[i].nextarena = h.array + (i + 1) * sizeof(*objects);
	objects[20] = objects[0];
	memset(&objects[0], 0, sizeof(objects[0]));
	objects[0].nextarena = h.array + 48;
	objects[19].nextarena = objects[20].nextarena = h.array + 21 * sizeof(*objects);
	pyheap_pool(&h, 0)->arenaindex = 20;
	cr_expect_str_empty(pyheap_try(&h), "%s", h.wrong);
	pyheap_deinit(&h);
}

/* ---- no heap ---- */

/* 3.12 and 3.13 leave thousands of objects then. */
Test(pymalloc, what_an_interpreter_leaves_at_the_end_is_not_told)
{
	for (int version = 0; version < PYHEAP_VERSIONS; version++) {
		bool told = version != PYHEAP_3_13;

		pyheap_init(&h);
		pyheap_draw(&h, (enum pyheap_version)version, MIXED);
		h.ended = true;
		cr_expect_eq(pyheap_decode(&h), told ? MS_OK : MS_E_UNSUPPORTED);
		cr_expect_eq(h.warnings.n, !told);
		cr_expect_eq(h.decoding.owned.n, told ? 2 : 0);
		pyheap_deinit(&h);
	}
}

Test(pymalloc, without_pools_there_is_no_heap)
{
	draw("");
	cr_expect_eq(pyheap_decode(&h), MS_E_UNSUPPORTED);
	pyheap_deinit(&h);
}

Test(pymalloc, one_ring_may_be_in_the_middle_of_a_change)
{
	draw("32 uf 32 fu 64 fu 48 uf");
	ms_fake_put(&h.fake, h.table + 16, h.pools[1]);
	cr_expect_str_empty(pyheap_try(&h), "%s", h.wrong);
	ms_fake_put(&h.fake, h.table + 48, h.pools[1]);
	cr_expect_eq(pyheap_decode(&h), MS_E_UNSUPPORTED);
	pyheap_deinit(&h);
}

Test(pymalloc, one_ring_that_is_right_does_not_make_up_for_one_that_is_not)
{
	draw("32 uf 32 fu 64 fu");
	ms_fake_put(&h.fake, h.table + 16, h.pools[1]);
	cr_expect_eq(pyheap_decode(&h), MS_E_UNSUPPORTED);
	pyheap_deinit(&h);
}

Test(pymalloc, a_ring_of_other_sizes_is_none)
{
	draw("64 uf");
	pyheap_pool(&h, 0)->szidx = 1;
	pyheap_pool(&h, 0)->maxnextoffset += 32;
	cr_expect_eq(pyheap_decode(&h), MS_E_UNSUPPORTED);
	pyheap_deinit(&h);
}

/* Such a pool is as long as others: its size alone says that it is not of the ring. */
Test(pymalloc, a_ring_that_begins_with_a_pool_of_another_size_is_none)
{
	draw("64 uf 64 uf");
	pyheap_pool(&h, 0)->szidx = 1;
	pyheap_pool(&h, 0)->maxnextoffset += 32;
	cr_expect_eq(pyheap_decode(&h), MS_E_UNSUPPORTED);
	pyheap_deinit(&h);
}

Test(pymalloc, a_table_may_begin_where_nobody_wrote)
{
	draw("512 uf");
	(void)ms_fake_split(&h.fake, ms_align_up(h.table, 0x1000));
	cr_assert_eq(h.fake.base.mappings.at[1].range.end, ms_align_up(h.table, 0x1000));
	h.fake.absent[1] = true;
	cr_expect_str_empty(pyheap_try(&h), "%s", h.wrong);
	pyheap_deinit(&h);
}

Test(pymalloc, pools_of_no_sensible_length_are_none)
{
	static const uint32_t ends[] = { UINT32_MAX, 0, 1 << 13, (1 << 14) + 32 };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		draw("32 uf");
		pyheap_pool(&h, 0)->maxnextoffset = ends[i] - 32;
		cr_expect_eq(pyheap_decode(&h), MS_E_UNSUPPORTED);
		pyheap_deinit(&h);
	}
}

Test(pymalloc, pools_that_no_array_has_are_in_doubt)
{
	draw("32 uf ; 48 uf ; 64 u");
	ms_fake_put(&h.fake, h.pointer, h.array + 48);
	expect_doubt("no array of arenas has the pools that are in the table");
	cr_expect_eq(h.decoding.owned.n, 0);
	cr_expect_eq(h.heaps.at[0].allocations, 0);
	pyheap_deinit(&h);
}

Test(pymalloc, pools_that_are_not_where_the_array_has_them_are_in_doubt)
{
	draw("32 uf ; 48 uu");
	pyheap_pool(&h, 0)->arenaindex = 1;
	expect_doubt("no array of arenas has the pools that are in the table");
	pyheap_deinit(&h);
}

Test(pymalloc, an_array_in_a_modules_data_is_none)
{
	struct ms_py_object *objects;

	draw("32 uf");
	objects = ms_fake_at(&h.fake, h.pointer + 16);
	memcpy(objects, pyheap_object(&h, 0), 16 * sizeof(*objects));
	for (size_t i = 1; i < 15; i++)
		objects[i].nextarena += h.pointer + 16 - h.array;
	ms_fake_put(&h.fake, h.pointer, h.pointer + 16);
	expect_doubt("no array of arenas has the pools that are in the table");
	pyheap_deinit(&h);
}

Test(pymalloc, a_table_that_nobody_can_write_to_is_none)
{
	draw("32 uf");
	h.fake.base.mappings.at[1].prot = MS_PROT_READ;
	cr_expect_eq(pyheap_decode(&h), MS_E_UNSUPPORTED);
	pyheap_deinit(&h);
}

Test(pymalloc, other_abis_are_left_alone)
{
	draw(MIXED);
	h.fake.base.abi.word_bytes = 4;
	cr_expect_eq(pyheap_decode(&h), MS_E_UNSUPPORTED);
	pyheap_deinit(&h);
}
