/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "tcheap.h"

/* gperftools' tcmalloc as it is when nothing is wrong. Pictures: tcheap.h. */

#define PARAMS(rows) cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]))
#define ALL          "64:uf0ss1u 16:u1f 512:u* L3 n2 512:fuf0 r4 S1=100 | 8:uu0f 4096:uf n1"

struct row {
	char name[64];
	char picture[128];
};

static struct tcheap h;

ParameterizedTestParameters(tcmalloc, what_is_used_is_told)
{
	static struct row rows[] = {
		{ "one object", "64:u" },
		{ "no object", "64:f" },
		{ "a full span", "1024:*" },
		{ "spans of one class side by side", "64:uf 64:fu 64:uu" },
		{ "spans of classes that suit the same granule", "48:uf 80:fu 16:uu" },
		{ "spans of different granules", "8:uf 64:fu 1024:uu 16:u 4096:fu" },
		{ "objects larger than a page", "8192:u 16384:u 262144:u 32768:u" },
		{ "objects on spans' lists", "64:fufufu 64:uuu" },
		{ "objects in transfer slots", "64:ussussu 32:ss" },
		{ "objects in threads' caches", "64:u0u1u2 32:0000 16:9" },
		{ "a large block between spans", "64:u L1 64:u L9 L2 64:u" },
		{ "free pages between spans", "64:u n3 64:u r3 64:u n1 r1" },
		{ "a sampled small block", "64:u S1=8 S1=100 S1=1024" },
		{ "a sampled large block", "64:u S4=32767 S37=300000" },
		{ "memory that was taken in pieces", "64:u n3 | L2 64:u | 64:uf" },
		{ "all together", ALL },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, tcmalloc, what_is_used_is_told)
{
	static const char *const versions[] = { "2.10", "2.18" };

	for (size_t i = 0; i < 2; i++) {
		tcheap_init(&h);
		tcheap_draw(&h, versions[i], row->picture);
		cr_expect_str_empty(tcheap_try(&h, ""), "%s, %s: %s", versions[i], row->name,
		                    h.wrong);
		cr_expect_str_eq(h.found.at[0].allocator, "tcmalloc");
		cr_expect_str_eq(h.found.at[0].version, versions[i]);
		tcheap_deinit(&h);
	}
}

Test(tcmalloc, other_pages_are_told_by_the_largest_class)
{
	for (uint8_t shift = 13; shift <= 16; shift++) {
		tcheap_init(&h);
		h.page_shift = shift;
		tcheap_draw(&h, "2.18", "4096:u L2 8192:u 64:uf0");
		cr_expect_str_empty(tcheap_try(&h, ""), "%d: %s", shift, h.wrong);
		tcheap_deinit(&h);
	}
}

static size_t reads_of_decoding(bool sparse)
{
	size_t reads;

	tcheap_init(&h);
	h.sparse = sparse;
	tcheap_draw(&h, "2.18", ALL);
	reads = h.fake.reads;
	cr_expect_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	reads = h.fake.reads - reads;
	tcheap_deinit(&h);
	return reads;
}

Test(tcmalloc, pages_that_were_never_touched_are_not_read)
{
	size_t all = reads_of_decoding(false);
	size_t sparse = reads_of_decoding(true);

	cr_expect_lt(sparse, all / 2, "%zu reads of %zu", sparse, all);
}

/* Pieces of a megabyte are looked at; what is sought may lie on their borders. */
Test(tcmalloc, it_is_found_wherever_it_stands_in_the_data)
{
	/* The last: the first two sizes on both sides of a border, as no other word is. */
	static const uint32_t before[] = { 0,       0x7ff38, 0xce000, 0xfe000,
		                           0xff000, 0xffcf0, 0xffd00, 0xffcf8 };

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		tcheap_init(&h);
		h.data_before = before[i];
		tcheap_draw(&h, "2.10", "64:uf0");
		cr_expect_str_empty(tcheap_try(&h, ""), "%#x: %s", before[i], h.wrong);
		tcheap_deinit(&h);
	}
}

Test(tcmalloc, sums_are_told)
{
	const struct ms_heap *heap;

	tcheap_init(&h);
	tcheap_draw(&h, "2.10", "1024:uufss0ff n2 r3 L1");
	cr_assert_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	heap = &h.found.at[0];
	cr_expect_eq(heap->mapped_bytes, 7 * 8192);
	cr_expect_eq(heap->allocations, 3);
	cr_expect_eq(heap->allocation_bytes, 2 * 1024 + 8192);
	cr_expect_eq(heap->free_bytes, 6 * 1024 + 5 * 8192);
	tcheap_deinit(&h);
}

/* Stale pointers are left there, which would hide leaks. */
Test(tcmalloc, its_own_structures_are_no_roots)
{
	tcheap_init(&h);
	tcheap_draw(&h, "2.18", ALL);
	cr_assert_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	for (uint32_t i = 0; i < h.n_spans; i++)
		cr_expect(tcheap_is_owned(&h, tcheap_at(&h, TC_SPAN, i)));
	/* The structure of a span that was given back. */
	cr_expect(tcheap_is_owned(&h, h.spans[0].at - 8));
	cr_expect(tcheap_is_owned(&h, tcheap_at(&h, TC_CACHE, 0)));
	cr_expect(tcheap_is_owned(&h, tcheap_at(&h, TC_CACHE, 1)));
	cr_expect(tcheap_is_owned(&h, tcheap_at(&h, TC_ENTRY, 0)));
	cr_expect(tcheap_is_owned(&h, tcheap_at(&h, TC_ROOT, 0)));
	cr_expect(tcheap_is_owned(&h, tcheap_at(&h, TC_CENTRAL, 0) +
	                                      offsetof(struct ms_tc_central, slots[63])));
	cr_expect(tcheap_is_owned(&h, tcheap_at(&h, TC_TRACE, 0)), "of memory that was taken");
	cr_expect(tcheap_is_owned(&h, tcheap_at(&h, TC_TRACE, 1)), "of memory that was taken");
	cr_expect(tcheap_is_owned(&h, tcheap_at(&h, TC_TRACE, 63)), "of a sampled block");
	/* What nothing says that it is the allocator's is the program's. */
	cr_expect_not(tcheap_is_owned(&h, tcheap_at(&h, TC_TRACE, 30)));
	cr_expect_not(tcheap_is_owned(&h, h.data));
	tcheap_deinit(&h);
}

Test(tcmalloc, a_thread_inside_malloc_leaves_doubt)
{
	struct ms_thread *thread;

	tcheap_init(&h);
	tcheap_draw(&h, "2.10", ALL);
	thread = ms_fake_thread(&h.fake, 7, 0, 0);
	thread->in_malloc = MS_MALLOC_WAITS;
	cr_expect_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	thread->in_malloc = MS_MALLOC_WORKS;
	cr_expect_str_empty(tcheap_try(&h, "not proved: thread 7 is inside malloc"), "%s", h.wrong);
	cr_expect_eq(h.found.at[0].doubt, MS_DOUBT_CHANGES);
	tcheap_deinit(&h);
}

/* tcmalloc goes on with the span alone, which is no pointer to the block. */
Test(tcmalloc, a_large_block_that_a_thread_gives_back_is_not_told)
{
	const ms_addr stack = 0x7fff00000000;
	uint64_t words[2] = { 0 };
	struct ms_thread *thread;

	tcheap_init(&h);
	tcheap_draw(&h, "2.10", "64:u L2 L1");
	(void)ms_fake_map(&h.fake, stack, 4096, MS_PROT_READ | MS_PROT_WRITE, "[stack]");
	thread = ms_fake_thread(&h.fake, 7, stack + 1024, 0);
	thread->words = words;
	thread->n_words = 2;
	words[1] = tcheap_at(&h, TC_SPAN, 1);
	cr_expect_str_empty(tcheap_try(&h, ""), "a thread that is elsewhere: %s", h.wrong);
	thread->pc = h.data - 64;
	cr_assert_eq(tcheap_decode(&h), MS_OK);
	cr_expect(h.found.at[0].verified);
	cr_expect_eq(h.found.at[0].allocations, 2);
	cr_expect_eq(h.blocks.n, 2);
	cr_expect(ms_range_find(&h.decoding.unproved, h.objects[32].addr));
	cr_expect_not(ms_range_find(&h.decoding.unproved, h.objects[33].addr));
	/* One that waits for a lock has it on its stack, and a way back into tcmalloc. */
	words[1] = thread->pc = 0;
	ms_fake_put(&h.fake, stack + 1024 + 64, tcheap_at(&h, TC_SPAN, 2));
	ms_fake_put(&h.fake, stack + 1024 + 128, h.data - 64);
	cr_assert_eq(tcheap_decode(&h), MS_OK);
	cr_expect(ms_range_find(&h.decoding.unproved, h.objects[33].addr));
	tcheap_deinit(&h);
}

Test(tcmalloc, a_process_without_it_is_left_alone)
{
	struct ms_fake *fake = &h.fake;

	tcheap_init(&h);
	(void)ms_fake_map(fake, 0x10000, 0x200000, MS_PROT_READ | MS_PROT_WRITE, "[heap]");
	cr_expect_eq(tcheap_decode(&h), MS_E_UNSUPPORTED);
	cr_expect_eq(h.found.n, 0);
	tcheap_deinit(&h);
}

/* By it the code is found where tcmalloc is linked into a program. */
Test(tcmalloc, tells_what_its_code_refers_to)
{
	ms_addr central;

	tcheap_init(&h);
	tcheap_draw(&h, "2.10", "64:u");
	cr_assert_eq(tcheap_decode(&h), MS_OK);
	central = tcheap_at(&h, TC_CENTRAL, 0) - h.spans[0].class * sizeof(struct ms_tc_central);
	cr_assert_eq(h.decoding.anchors.n, 2);
	cr_expect_eq(h.decoding.anchors.at[0].begin, central);
	cr_expect(ms_range_has(h.decoding.anchors.at[1], tcheap_at(&h, TC_SIZES, 0)));
	tcheap_deinit(&h);
}
