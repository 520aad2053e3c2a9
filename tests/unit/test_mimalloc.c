/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#include "decoded.h"
#include "miheap.h"

/* The decoder of mimalloc. Pictures: miheap.h. */

#define PARAMS(rows) cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]))

/* Arrays, not pointers: Criterion hands parameters to a worker process by value. */
struct row {
	char what[64];
	char picture[128];
	char damage[128]; /* for miheap_break() */
	char lost[8];     /* pages whose blocks must not be told */
	char says[64];    /* must be in the evidence */
};

static struct miheap h;

static void check(const struct row *row, const char *version)
{
	miheap_init(&h);
	miheap_draw(&h, version, row->picture);
	miheap_break(&h, row->damage);
	cr_expect_str_empty(miheap_try(&h, row->lost), "%s, %s: %s", version, row->what, h.wrong);
	cr_expect(!row->says[0] || miheap_says(&h, row->says), "%s, %s: not told: %s", version,
	          row->what, row->says);
	miheap_deinit(&h);
}

static void check_all(const struct row *row)
{
	for (size_t i = 0; i < ms_n_mi_layouts; i++)
		check(row, ms_mi_layouts[i].versions);
}

static void check_2(const struct row *row)
{
	for (size_t i = 0; i < ms_n_mi_layouts; i++)
		if (!ms_mi_layouts[i].map.is_there)
			check(row, ms_mi_layouts[i].versions);
}

static void check_3(const struct row *row)
{
	for (size_t i = 0; i < ms_n_mi_layouts; i++)
		if (ms_mi_layouts[i].map.is_there)
			check(row, ms_mi_layouts[i].versions);
}

ParameterizedTestParameters(mimalloc, blocks_on_no_list_are_in_use)
{
	static struct row rows[] = {
		{ "one", "48:u", "", "", "1 blocks in use, and 0 on lists" },
		{ "none was made", "48:", "", "", "0 blocks in use, and 0 on lists" },
		{ "each list", "48:ufulxfxl", "", "", "2 blocks in use, and 6 on lists" },
		{ "sizes", "16:uuf 24:ufu 32:fuu 1024:ulu 1280:uxu", "", "", "10 blocks in use" },
		{ "large ones", "10240:uuf 20480:uf 65536:u 400000:u 4194304:u", "", "",
		  "6 blocks" },
		{ "several pages of a size", "64:uu 64:uf 64:fu", "", "", "3 pages in" },
		{ "of threads that ended", "64:uu ! 64:ufx 4096:uu", "", "", "5 blocks in use" },
		{ "of two threads", "64:uu | 64:ufx 80:u", "", "", "in 2 heaps" },
		{ "all free", "64:ffff", "", "", "0 blocks in use, and 4 on lists" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, mimalloc, blocks_on_no_list_are_in_use, .timeout = 20)
{
	check_all(row);
}

/* Where they are padded, blocks have two words at least. */
Test(mimalloc, blocks_may_be_of_one_word, .timeout = 20)
{
	static const struct row row = { "words", "8:uuf 8:ulxu 64:u", "", "", "5 blocks in use" };

	for (size_t i = 0; i < ms_n_mi_layouts; i++)
		if (!ms_mi_layouts[i].page.padding)
			check(&row, ms_mi_layouts[i].versions);
}

ParameterizedTestParameters(mimalloc, blocks_that_wait_in_heaps_are_free)
{
	static struct row rows[] = {
		{ "one", "48:ud", "", "", "1 on lists, 1 of these in heaps" },
		{ "of several pages", "48:udd 64:ddu 20480:du", "", "", "5 of these in heaps" },
		{ "of several heaps", "48:ud | 64:dx 64:udd", "", "", "4 of these in heaps" },
		{ "beside other lists", "48:udfxlu", "", "", "4 on lists, 1 of these in heaps" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, mimalloc, blocks_that_wait_in_heaps_are_free, .timeout = 20)
{
	check_2(row);
}

Test(mimalloc, a_huge_block_has_a_segment_of_its_own, .timeout = 20)
{
	static const struct row rows[] = {
		{ "one", "48:u 20000000:u", "", "", "2 segments" },
		{ "longer than a segment", "70000000:u 48:uf 17000000:u", "", "", "3 segments" },
		{ "freed by another thread", "48:u 20000000:x", "", "", "1 blocks in use" },
		{ "that leads beyond it", "48:u 20000000:u", "huge.count += 1000", "1", "contra" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check_2(&rows[i]);
}

#define PAGES "48:uuffllxxu 64:uf 64:ux"

ParameterizedTestParameters(mimalloc, a_page_that_contradicts_itself_is_not_proved)
{
	static struct row rows[] = {
		{ "one more in use", PAGES, "page0.used += 1", "0", "not what it counts" },
		{ "one less", PAGES, "page0.used += -1", "0", "not what it counts" },
		{ "one more made", PAGES, "page0.capacity += 1", "0", "not what it counts" },
		{ "one less", PAGES, "page0.capacity += -1", "0", "not what it counts" },
		{ "free leads nowhere", PAGES, "page0.free = 0", "0", "not what it counts" },
		{ "free leads outside", PAGES, "page0.free = 0x1230", "0", "free list leads" },
		{ "to another page", PAGES, "page0.free = block1.1", "0", "free list leads" },
		{ "behind what was made", PAGES, "page0.free = block0.9", "0", "free list" },
		{ "into a block", PAGES, "page0.free += 8", "0", "free list leads" },
		{ "a loop", PAGES, "block0.2 -> block0.3", "0", "free list leads" },
		{ "a block that leads to itself", PAGES, "block0.3 -> block0.3", "0", "free list" },
		{ "on two lists", PAGES, "block0.4 -> block0.2", "0", "freed here leads" },
		{ "local_free leads outside", PAGES, "page0.local = 0x1230", "0", "freed here" },
		{ "thread_free leads outside", PAGES, "page0.thread = 0x1230", "0",
		  "freed elsewhere" },
		{ "a block that leads outside", PAGES, "block0.7 -> 0x77777777777", "0",
		  "freed elsewhere" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, mimalloc, a_page_that_contradicts_itself_is_not_proved,
                  .timeout = 20)
{
	check_all(row);
}

ParameterizedTestParameters(mimalloc, nothing_is_told_where_pages_may_be_missing)
{
	static struct row rows[] = {
		{ "a link to no page", PAGES, "page1.next = 0x12340", "*", "links to 0x12340" },
		{ "a link back to none", PAGES, "page2.prev += 8", "*", "which is none" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, mimalloc, nothing_is_told_where_pages_may_be_missing,
                  .timeout = 20)
{
	check_all(row);
}

ParameterizedTestParameters(mimalloc, heaps_count_their_pages)
{
	static struct row rows[] = {
		{ "one more", PAGES, "heap0.count += 1", "*", "does not count its 3 pages" },
		{ "one less", PAGES, "heap0.count += -1", "*", "does not count" },
		{ "of another thread", PAGES " | 80:u", "heap1.count = 7", "*", "does not count" },
		{ "a page of a heap that is none", PAGES, "page0.heap = 0x77770", "*", "" },
		{ "a page that is being made", PAGES " | 80:", "heap1.count = 0", "",
		  "4 pages in" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, mimalloc, heaps_count_their_pages, .timeout = 20)
{
	check_2(row);
}

ParameterizedTestParameters(mimalloc, lists_of_heaps_lead_to_blocks_of_pages)
{
	static struct row rows[] = {
		{ "outside", "48:ud", "heap0.delayed = 0x12340", "*", "does not end" },
		{ "to no block", "48:ud", "heap0.delayed = segment", "*", "" },
		{ "to itself", "48:udd", "block0.2 = block0.2", "*", "" },
		{ "a block that is free", "48:udf 64:u", "heap0.delayed = block0.2", "0",
		  "none of its own" },
		{ "more than are in use", "48:udd 64:u", "page0.used = 1, page0.capacity = 1", "0",
		  "none of its own" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, mimalloc, lists_of_heaps_lead_to_blocks_of_pages, .timeout = 20)
{
	check(row, "2.0.9");
}

ParameterizedTestParameters(mimalloc, slices_of_a_segment_are_all_of_it)
{
	static struct row rows[] = {
		{ "one more in use", PAGES, "segment.used += 1", "*", "contradicts itself" },
		{ "one less", PAGES, "segment.used += -1", "*", "contradicts itself" },
		{ "none", PAGES, "segment.used = 0", "*", "contradicts itself" },
		{ "a run that is too long", PAGES, "slice1.count = 2", "*", "contradicts itself" },
		{ "out of the segment", PAGES, "slice2.count = 0xfffffff", "*", "contradicts" },
		{ "a run of none", PAGES, "slice2.count = 0", "*", "contradicts itself" },
		{ "a page that is none", PAGES, "slice1.size = 0", "*", "contradicts itself" },
		{ "a size that is none", PAGES, "slice1.size = 44", "*", "contradicts itself" },
		{ "a size too large", PAGES, "slice1.size = 0x10000", "*", "contradicts itself" },
		{ "in the middle", PAGES, "slice1.offset = 80", "*", "contradicts itself" },
		{ "a segment without end", PAGES, "segment.slices = 0x4000000", "*",
		  "contradicts" },
		{ "longer than all memory", PAGES, "segment.slices = -1", "*", "contradicts" },
		{ "shorter than described", PAGES, "segment.slices = 100", "*", "contradicts" },
		{ "more is described", PAGES, "segment.entries = 513", "*", "contradicts" },
		{ "nothing is", PAGES, "segment.entries = 0", "*", "contradicts itself" },
		{ "no description", PAGES, "segment.info = 0", "*", "contradicts itself" },
		{ "made more than fit", PAGES, "page0.capacity = 0xffff", "*", "contradicts" },
		{ "room for more", PAGES, "page0.reserved = 0xffff", "*", "contradicts itself" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, mimalloc, slices_of_a_segment_are_all_of_it, .timeout = 20)
{
	check_2(row);
}

/* Versions that keep where the first block is. */
Test(mimalloc, the_first_block_of_a_page_is_in_it, .timeout = 20)
{
	static const struct row rows[] = {
		{ "behind it", PAGES, "page1.start += 0x10000", "*", "contradicts itself" },
		{ "in front", PAGES, "page1.start += -0x10000", "*", "contradicts itself" },
		{ "nowhere", PAGES, "page1.start = 0", "*", "contradicts itself" },
	};

	for (size_t i = 0; i < ms_n_mi_layouts; i++)
		for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
			if (!ms_mi_layouts[i].map.is_there && ms_mi_layouts[i].page.start)
				check(&rows[k], ms_mi_layouts[i].versions);
}

ParameterizedTestParameters(mimalloc, pages_are_where_the_map_has_them)
{
	static struct row rows[] = {
		{ "at a wrong place", PAGES, "map2 = 0x12340", "2", "not where the map has it" },
		{ "blocks over the next page", "64:u 80:u 96:u 96:u",
		  "page0.capacity = 1100, page0.reserved = 1100", "01", "not proved" },
		{ "too many made", PAGES, "page0.reserved = -1, page0.capacity = -1", "0", "not" },
		{ "a size that is none", PAGES, "page0.size = 0", "0", "not where the map has it" },
		{ "one too large", PAGES, "page0.size = 0x7ffffffffffffff8", "0", "not where" },
		{ "one that is no size", PAGES, "page1.size = 44", "1", "not where the map has" },
		{ "made more than there is room for", PAGES, "page0.reserved = 7", "0", "not" },
		{ "room for none", PAGES, "page0.reserved = 0, page0.capacity = 0", "0", "not" },
		{ "blocks elsewhere", PAGES, "page0.start += 0x100000", "0", "not where the map" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, mimalloc, pages_are_where_the_map_has_them, .timeout = 20)
{
	check_3(row);
}

ParameterizedTestParameters(mimalloc, a_map_may_keep_pages_that_are_gone)
{
	static struct row rows[] = {
		{ "in another one", "400000:u 64:u", "map2 = block0.0", "", "2 pages" },
		{ "beside its own", "400000:u 64:u", "map3 = page1", "", "2 pages" },
		{ "with nothing in it", "64:u 80:fff 64:u", "page1.size = 0, page1.capacity = 0",
		  "", "2 pages" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, mimalloc, a_map_may_keep_pages_that_are_gone, .timeout = 20)
{
	check(row, "3.0.1");
}

/* What is missing in the map alone is a page of its own, which others link to. */
Test(mimalloc, a_page_missing_in_the_map_is_missed, .timeout = 20)
{
	static const struct row row = { "linked", "64:u 64:u 64:u", "map1 = 0", "*", "links to" };

	miheap_init(&h);
	miheap_draw(&h, "3.6.0", row.picture);
	miheap_break(&h, row.damage);
	cr_assert_eq(miheap_decode(&h), MS_OK);
	cr_expect_eq(h.blocks.n, 0);
	cr_expect(miheap_says(&h, row.says));
	cr_expect(!h.found.at[0].verified);
	miheap_deinit(&h);
}

Test(mimalloc, what_no_proved_page_has_is_not_proved_where_anything_is_in_doubt, .timeout = 20)
{
	bool at_the_end = false;
	const struct ms_range *r;

	miheap_init(&h);
	miheap_draw(&h, "3.6.0", "64:u 80:u 96:u");
	miheap_break(&h, "page0.used += 1, map1 = 0");
	cr_assert_eq(miheap_decode(&h), MS_OK);
	cr_expect_eq(h.blocks.n, 1);
	ms_vec_for_each (r, &h.decoding.unproved) {
		cr_expect(!ms_range_has(*r, h.pages[2].start));
		at_the_end |= r->begin > h.pages[2].start;
	}
	cr_expect(ms_range_has(h.decoding.unproved.at[0], h.pages[0].start));
	cr_expect(ms_range_has(h.decoding.unproved.at[0], h.pages[1].start));
	cr_expect(at_the_end);
	miheap_deinit(&h);
}

/* What the other tests leave to miheap: the very addresses and bytes. */
Test(mimalloc, blocks_are_told_with_their_usable_bytes)
{
	miheap_init(&h);
	miheap_draw(&h, "2.0.9", "48:uuf 10240:u");
	cr_assert_eq(miheap_decode(&h), MS_OK);
	cr_expect_str_eq(miheap_told(&h), "20000010180:48 200000101b0:48 20000020000:10240 ");
	cr_expect_str_eq(h.found.at[0].allocator, "mimalloc");
	cr_expect_str_eq(h.found.at[0].version, "2.0.9");
	cr_expect_eq(h.found.at[0].allocations, 3);
	cr_expect_eq(h.found.at[0].allocation_bytes, 2 * 48 + 10240);
	cr_expect_eq(h.found.at[0].free_bytes, 48);
	cr_expect_eq(h.found.at[0].mapped_bytes, MS_MI_SEGMENT);
	cr_expect_eq(h.found.at[0].n_evidence, h.evidence.n);
	miheap_deinit(&h);
}

Test(mimalloc, the_segment_is_owned_and_the_arena)
{
	for (size_t i = 0; i < ms_n_mi_layouts; i++) {
		bool owned = false;
		const struct ms_range *r;

		miheap_init(&h);
		miheap_draw(&h, ms_mi_layouts[i].versions, "48:uuf");
		cr_assert_eq(miheap_decode(&h), MS_OK);
		ms_vec_for_each (r, &h.decoding.owned)
			owned |= r->begin <= 0x20000000000 && r->end >= 0x20000800000;
		cr_expect(owned, "%s", ms_mi_layouts[i].versions);
		miheap_deinit(&h);
	}
}

Test(mimalloc, what_is_owned_is_no_more_than_slices_add_up_to)
{
	const struct ms_range *r;

	/* A page where the segment says that it goes on, and memory of somebody else's behind. */
	miheap_init(&h);
	miheap_draw(&h, "2.0.9", "48:u 40000000:u");
	ms_fake_map(&h.fake, ms_align_up(h.pages[1].area + 40000000, MS_MI_SLICE), 8 << 20,
	            MS_PROT_READ | MS_PROT_WRITE, "");
	miheap_break(&h, "huge.slices += 4");
	cr_assert_eq(miheap_decode(&h), MS_OK);
	cr_expect(!h.found.at[0].verified);
	miheap_deinit(&h);

	/* An arena that says that it is longer than its slices. */
	miheap_init(&h);
	miheap_draw(&h, "3.6.0", "48:u");
	ms_fake_map(&h.fake, 0x20000800000, 8 << 20, MS_PROT_READ | MS_PROT_WRITE, "");
	miheap_break(&h, "arena.size += 0x100000");
	cr_assert_eq(miheap_decode(&h), MS_OK);
	ms_vec_for_each (r, &h.decoding.owned)
		cr_expect(r->end <= 0x20000800000);
	miheap_deinit(&h);
}

Test(mimalloc, a_thread_inside_malloc_leaves_nothing_proved)
{
	for (size_t i = 0; i < ms_n_mi_layouts; i++) {
		miheap_init(&h);
		miheap_draw(&h, ms_mi_layouts[i].versions, PAGES);
		ms_fake_thread(&h.fake, 77, 0x1000, 0)->in_malloc = MS_MALLOC_WORKS;
		cr_expect_str_empty(miheap_try(&h, "*"), "%s", h.wrong);
		cr_expect(miheap_says(&h, "thread 77 is inside malloc"));
		cr_expect_eq(h.found.at[0].doubt, MS_DOUBT_CHANGES);
		miheap_deinit(&h);
	}
}

/* @named: with a warning */
static void expect_unclaimed(const char *version, const char *damage, bool named)
{
	miheap_init(&h);
	miheap_draw(&h, version, "48:u");
	miheap_break(&h, damage);
	cr_assert_eq(miheap_decode(&h), MS_OK);
	cr_expect_eq(h.found.n, 0, "%s: %s", version, damage);
	cr_expect_eq(h.decoding.owned.n, 0);
	cr_expect_eq(h.warnings.n, named, "%s: %s", version, damage);
	miheap_deinit(&h);
}

/* It is then named, where it is in use. */
Test(mimalloc, a_version_that_is_not_known_is_not_claimed)
{
	for (size_t i = 0; i < ms_n_mi_layouts; i++) {
		const char *version = ms_mi_layouts[i].versions;

		expect_unclaimed(version, "queue = page0, root = 0", true);
		expect_unclaimed(version, "queue = page0, root = 0x100003f00", true);
		expect_unclaimed(version, "root = 0", false);
		expect_unclaimed(version, "queue = page0, size9 = 8", false);
		expect_unclaimed(version, "queue = page0, size40 += 4", false);
	}
}

/* What a page leads to by its size is in front of the queues. */
Test(mimalloc, a_heap_of_an_unknown_version_is_in_use_where_it_leads_to_pages_by_size)
{
	unsigned bytes;

	miheap_init(&h);
	miheap_draw(&h, "3.1.5", "48:u");
	miheap_break(&h, "root = 0");
	ms_fake_put(&h.fake, miheap_place(&h, "queue", &bytes) - 129 * sizeof(uint64_t),
	            h.pages[0].at);
	cr_assert_eq(miheap_decode(&h), MS_OK);
	cr_expect(notes_say(&h.warnings, "does not read is in use in /lib/own.so: its blocks"));
	miheap_deinit(&h);

	miheap_init(&h);
	miheap_draw(&h, "3.1.5", "48:u");
	miheap_break(&h, "root = 0");
	ms_fake_put(&h.fake, miheap_place(&h, "queue", &bytes) - 130 * sizeof(uint64_t),
	            h.pages[0].at);
	cr_assert_eq(miheap_decode(&h), MS_OK);
	cr_expect_eq(h.warnings.n, 0);
	miheap_deinit(&h);
}

/* As many bytes as the program asked for, by what stands behind them. */
Test(mimalloc, blocks_that_are_padded_are_told_as_asked_for)
{
	static const char *const versions[] = { "2.1.2, secure", "3.4.1, secure" };

	for (size_t i = 0; i < 2; i++) {
		ms_addr end;
		uint64_t word;
		char told[64];

		miheap_init(&h);
		miheap_draw(&h, versions[i], "48:uuuu");
		end = h.pages[0].start + 48;
		/* 33 of 40; more than there are; no padding. */
		cr_assert(ms_source_word(&h.fake.base, end - 8, &word));
		ms_fake_put(&h.fake, end - 8, word | UINT64_C(7) << 32);
		cr_assert(ms_source_word(&h.fake.base, end + 40, &word));
		ms_fake_put(&h.fake, end + 40, word | UINT64_C(40) << 32);
		ms_fake_put(&h.fake, end + 88, 0x1234);
		cr_assert_eq(miheap_decode(&h), MS_OK);
		(void)snprintf(told, sizeof(told), "%llx:33 %llx:48 %llx:48 %llx:40 ",
		               (unsigned long long)end - 48, (unsigned long long)end,
		               (unsigned long long)end + 48, (unsigned long long)end + 96);
		cr_expect_str_eq(miheap_told(&h), told);
		miheap_deinit(&h);
	}
}

/* CPython has such a copy within it. */
Test(mimalloc, a_copy_that_was_never_used_is_not_claimed)
{
	miheap_init(&h);
	miheap_draw(&h, "3.0.1", "");
	miheap_break(&h, "root = 0");
	cr_expect_neq(miheap_decode(&h), MS_E_NOMEM);
	cr_expect_eq(h.found.n, 0);
	miheap_deinit(&h);
}
