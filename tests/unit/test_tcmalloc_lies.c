/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "tcheap.h"

/*
 * What a heap of tcmalloc's must be for memscan to call it verified. Each row names one thing
 * that is relied on, and a damage after which only that is wrong: the heap as drawn is
 * verified, the damaged one is not, tells no block, and all its memory is handed over.
 * Pictures: tcheap.h.
 *
 * Not relied on, and so not here, because nothing is told from them, or because tcmalloc
 * itself believes the same words: how central lists and the page heap link spans; entries
 * of the page map for pages inside of spans; water marks and limits of caches and slots;
 * stack traces, but for the size of a sampled block.
 */

#define PARAMS(rows)    cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]))
#define ALL             "64:uf0ss1uf 16:u1f0 512:u* L3 n2 512:fuf0 r4 | 8:uu0f 4096:uf n1"

#define OF(type, field) offsetof(struct type, field), sizeof(((struct type *)0)->field)

struct row {
	char name[64];
	char picture[96];
	enum tc_place place;
	uint32_t index;
	size_t offset;
	size_t width;
	enum { SET, ADD, OBJECT } how; /* OBJECT: the value is an object's number */
	int64_t value;
	char says[64];
	enum ms_doubt doubt;
};

static struct tcheap h;

static void damage(const struct row *row)
{
	uint64_t old = tcheap_get(&h, row->place, row->index, row->offset, (unsigned)row->width);
	uint64_t value = (uint64_t)row->value;

	if (row->how == ADD)
		value += old;
	if (row->how == OBJECT)
		value = h.objects[row->value].addr;
	tcheap_set(&h, row->place, row->index, row->offset, (unsigned)row->width, value);
}

static void check_only_when_damaged(const struct row *row)
{
	static const char *const versions[] = { "2.10", "2.18" };

	for (size_t i = 0; i < 2; i++) {
		tcheap_init(&h);
		tcheap_draw(&h, versions[i], row->picture);
		cr_expect_str_empty(tcheap_try(&h, ""), "%s: %s", row->name, h.wrong);
		damage(row);
		cr_expect_str_empty(tcheap_try(&h, row->says), "%s: %s", row->name, h.wrong);
		cr_expect_eq(h.found.at[0].doubt, row->doubt, "%s: doubt %d", row->name,
		             h.found.at[0].doubt);
		tcheap_deinit(&h);
	}
}

ParameterizedTestParameters(tcmalloc_lies, a_span)
{
	static struct row rows[] = {
		{ "it counts its objects in use", ALL, TC_SPAN, 0, OF(ms_tc_raw_span, refcount),
		  ADD, 1, "objects in use, but", MS_DOUBT_DISAGREES },
		{ "its list is of its objects", ALL, TC_SPAN, 0, OF(ms_tc_raw_span, objects), ADD,
		  8, "are no list", MS_DOUBT_DAMAGED },
		{ "its list has its own objects", "64:uff 64:uff", TC_SPAN, 0,
		  OF(ms_tc_raw_span, objects), OBJECT, 33, "are no list", MS_DOUBT_DAMAGED },
		{ "a link of its list is an object", "64:uff", TC_OBJECT, 2, 0, 8, SET, 0x1234,
		  "are no list", MS_DOUBT_DAMAGED },
		{ "its list does not loop", "64:uff", TC_OBJECT, 1, 0, 8, OBJECT, 2, "are no list",
		  MS_DOUBT_DAMAGED },
		{ "its list does not end too early", "64:uff", TC_OBJECT, 2, 0, 8, SET, 0,
		  "objects in use, but", MS_DOUBT_DISAGREES },
		{ "what its page has in the map is it", ALL, TC_SPAN, 4, OF(ms_tc_raw_span, start),
		  ADD, 1, "is no span of it", MS_DOUBT_DAMAGED },
		{ "it has a page", ALL, TC_SPAN, 4, OF(ms_tc_raw_span, length), SET, 0,
		  "is no span of it", MS_DOUBT_DAMAGED },
		{ "it is not longer than memory", ALL, TC_SPAN, 3, OF(ms_tc_raw_span, length), SET,
		  1 << 20, "is no span of it", MS_DOUBT_DAMAGED },
		{ "its length is that of its class", ALL, TC_SPAN, 0, OF(ms_tc_raw_span, length),
		  ADD, 1, "is no span of it", MS_DOUBT_DAMAGED },
		{ "its class is one", ALL, TC_SPAN, 1, OF(ms_tc_raw_span, class), SET, 200,
		  "is no span of it", MS_DOUBT_DAMAGED },
		{ "of a class it is in use", ALL, TC_SPAN, 1, OF(ms_tc_raw_span, flags), SET,
		  MS_TC_NORMAL, "is no span of it", MS_DOUBT_DAMAGED },
		{ "it is at one of three places", ALL, TC_SPAN, 3, OF(ms_tc_raw_span, flags), SET,
		  3, "is no span of it", MS_DOUBT_DAMAGED },
		{ "it can be read", ALL, TC_ENTRY, 3, 0, 8, SET, 0x10000, "is no span of it",
		  MS_DOUBT_DAMAGED },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, tcmalloc_lies, a_span)
{
	check_only_when_damaged(row);
}

ParameterizedTestParameters(tcmalloc_lies, the_page_heap)
{
	static struct row rows[] = {
		{ "it counts the bytes of all spans", ALL, TC_STATS, 0, OF(ms_tc_stats, system),
		  ADD, 8192, "the page heap does not count", MS_DOUBT_DISAGREES },
		{ "it counts those of free ones", ALL, TC_STATS, 0, OF(ms_tc_stats, free), ADD,
		  -8192, "the page heap does not count", MS_DOUBT_DISAGREES },
		{ "it counts those of returned ones", ALL, TC_STATS, 0, OF(ms_tc_stats, unmapped),
		  SET, 0, "the page heap does not count", MS_DOUBT_DISAGREES },
		{ "a free one is not taken for a block", ALL, TC_SPAN, 4, OF(ms_tc_raw_span, flags),
		  SET, 0, "the page heap does not count", MS_DOUBT_DISAGREES },
		{ "a block is not taken for free", ALL, TC_SPAN, 3, OF(ms_tc_raw_span, flags), SET,
		  MS_TC_NORMAL, "the page heap does not count", MS_DOUBT_DISAGREES },
		{ "spans are as many as are counted", ALL, TC_ALLOCATOR, 0,
		  OF(ms_tc_allocator, inuse), ADD, 1, "11 spans are counted, but 10 found",
		  MS_DOUBT_CHANGES },
		{ "their count is found", ALL, TC_ALLOCATOR, 0, OF(ms_tc_allocator, avail), ADD, 8,
		  "no count of the 10 spans was found", MS_DOUBT_DISAGREES },
		{ "no span is missing in the map", "64:u L1 | 64:u n1", TC_ENTRY, 3, 0, 8, SET, 0,
		  "the page heap does not count", MS_DOUBT_DISAGREES },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, tcmalloc_lies, the_page_heap)
{
	check_only_when_damaged(row);
}

ParameterizedTestParameters(tcmalloc_lies, a_central_list)
{
	static struct row rows[] = {
		{ "it counts its spans", ALL, TC_CENTRAL, 0, OF(ms_tc_central, n_spans), ADD, 1,
		  "2 spans with 122 free ones are counted", MS_DOUBT_DISAGREES },
		{ "it counts the objects on their lists", ALL, TC_CENTRAL, 0,
		  OF(ms_tc_central, n_free), ADD, -1, "are counted, but 1 with 122",
		  MS_DOUBT_DISAGREES },
		{ "nobody holds its lock", ALL, TC_CENTRAL, 0, OF(ms_tc_central, lock), SET, 1,
		  "64 bytes is being changed", MS_DOUBT_CHANGES },
		{ "its slots are as many as there are", ALL, TC_CENTRAL, 0,
		  OF(ms_tc_central, used_slots), SET, 65, "65 transfer slots are in use",
		  MS_DOUBT_DAMAGED },
		{ "its slots are no fewer than none", ALL, TC_CENTRAL, 0,
		  OF(ms_tc_central, used_slots), SET, 0xffffffff, "-1 transfer slots are in use",
		  MS_DOUBT_DAMAGED },
		{ "a slot in use has objects", ALL, TC_CENTRAL, 0, OF(ms_tc_central, used_slots),
		  ADD, 1, "a transfer slot has 0 blocks of 64 bytes", MS_DOUBT_DISAGREES },
		{ "a slot begins with an object", ALL, TC_CENTRAL, 0,
		  OF(ms_tc_central, slots[0].head), ADD, 8, "which is none that could be free",
		  MS_DOUBT_DAMAGED },
		{ "a slot has no object that is free already", "64:ssf", TC_CENTRAL, 0,
		  OF(ms_tc_central, slots[0].head), OBJECT, 2, "which is none that could be free",
		  MS_DOUBT_DAMAGED },
		{ "a slot has no object of another class", "64:ss 32:u", TC_CENTRAL, 0,
		  OF(ms_tc_central, slots[0].head), OBJECT, 32, "a transfer slot has 1 blocks",
		  MS_DOUBT_DISAGREES },
		{ "a slot is not shorter than a batch", "64:ssuu", TC_OBJECT, 1, 0, 8, SET, 0,
		  "a transfer slot has 1 blocks", MS_DOUBT_DISAGREES },
		{ "a slot is not longer than a batch", "64:ssuu", TC_OBJECT, 0, 0, 8, OBJECT, 2,
		  "is longer than the 2 counted", MS_DOUBT_DISAGREES },
		{ "a slot ends with its tail", "64:ssuu", TC_CENTRAL, 0,
		  OF(ms_tc_central, slots[0].tail), OBJECT, 2, "a transfer slot has 2 blocks",
		  MS_DOUBT_DISAGREES },
		{ "a slot does not loop", "64:ssuu", TC_OBJECT, 0, 0, 8, OBJECT, 1,
		  "is longer than the 2 counted", MS_DOUBT_DISAGREES },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, tcmalloc_lies, a_central_list)
{
	check_only_when_damaged(row);
}

ParameterizedTestParameters(tcmalloc_lies, a_threads_cache)
{
	static struct row rows[] = {
		{ "it counts its bytes", ALL, TC_CACHE, 0, OF(ms_tc_raw_cache, bytes), ADD, 8,
		  "bytes, but has", MS_DOUBT_DISAGREES },
		{ "it counts the objects of a list", ALL, TC_CACHED, 0, OF(ms_tc_list, length), ADD,
		  1, "counts 2 blocks of 64 bytes, but has 1", MS_DOUBT_DISAGREES },
		{ "a list is not longer than it counts", ALL, TC_CACHED, 0, OF(ms_tc_list, length),
		  ADD, -1, "is longer than the 0 counted", MS_DOUBT_DISAGREES },
		{ "a list has objects", ALL, TC_CACHED, 0, OF(ms_tc_list, head), ADD, 16,
		  "which is none that could be free", MS_DOUBT_DAMAGED },
		{ "a list has no object twice", "64:0u00", TC_OBJECT, 3, 0, 8, OBJECT, 3,
		  "which is none that could be free", MS_DOUBT_DAMAGED },
		{ "a list has no object that is free already", "64:0uf", TC_CACHED, 0,
		  OF(ms_tc_list, head), OBJECT, 2, "which is none that could be free",
		  MS_DOUBT_DAMAGED },
		{ "a list has no object of another class that is free", "64:0 32:f", TC_CACHED, 0,
		  OF(ms_tc_list, head), OBJECT, 32, "which is none that could be free",
		  MS_DOUBT_DAMAGED },
		{ "a list has no large block", "64:0 L1", TC_CACHED, 0, OF(ms_tc_list, head),
		  OBJECT, 32, "which is none that could be free", MS_DOUBT_DAMAGED },
		{ "caches are as many as are counted", ALL, TC_HEAPS, 0, 8, 4, ADD, 1,
		  "the list of threads' caches was not found", MS_DOUBT_DISAGREES },
		{ "the list begins with its first one", "64:0123", TC_HEAPS, 0, 16, 8, ADD,
		  -(int64_t)sizeof(struct ms_tc_raw_cache),
		  "the list of threads' caches was not found", MS_DOUBT_DISAGREES },
		{ "the one to steal from is one", ALL, TC_HEAPS, 0, 0, 8, ADD, 64,
		  "the list of threads' caches was not found", MS_DOUBT_DISAGREES },
		{ "it has lists of all classes", ALL, TC_CACHED, 0, OF(ms_tc_list, object_bytes),
		  ADD, 16, "the list of threads' caches was not found", MS_DOUBT_DISAGREES },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, tcmalloc_lies, a_threads_cache)
{
	check_only_when_damaged(row);
}

/* ---- what is found by its content, and so is not found ---- */

ParameterizedTestParameters(tcmalloc_lies, without_it_nothing_is_claimed)
{
	static struct row rows[] = {
		{ "sizes rise", ALL, TC_SIZES, 20, 0, 4, SET, 16, "", 0 },
		{ "sizes begin with none", ALL, TC_SIZES, 0, 0, 4, SET, 4, "", 0 },
		{ "sizes end with 256 KiB", ALL, TC_SIZES, 73, 0, 4, ADD, 8, "", 0 },
		{ "spans of a class have an object", ALL, TC_PAGES, 70, 0, 8, SET, 0, "", 0 },
		{ "spans of a class are no giants", ALL, TC_PAGES, 70, 0, 8, SET, 1 << 10, "", 0 },
		{ "pages are powers of two", ALL, TC_PAGES, 73, 0, 8, SET, 33, "", 0 },
		{ "central lists have their numbers", ALL, TC_CENTRAL, 0, OF(ms_tc_central, class),
		  ADD, 1, "", 0 },
		{ "all of them have", "64:u 4096:u", TC_CENTRAL, 1, OF(ms_tc_central, class), ADD,
		  1, "", 0 },
		{ "some word leads to the span's leaf", "64:u", TC_ROOT, 0xaaaa, 0, 8, SET, 0, "",
		  0 },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, tcmalloc_lies, without_it_nothing_is_claimed)
{
	tcheap_init(&h);
	tcheap_draw(&h, "2.10", row->picture);
	cr_expect_str_empty(tcheap_try(&h, ""), "%s: %s", row->name, h.wrong);
	damage(row);
	for (uint32_t i = 0; row->place == TC_ROOT && i < 0x20000; i++)
		tcheap_set(&h, TC_ROOT, i, 0, 8, 0);
	cr_expect_eq(tcheap_decode(&h), MS_E_UNSUPPORTED, "%s", row->name);
	cr_expect_eq(h.found.n, 0, "%s", row->name);
	cr_expect_eq(h.decoding.owned.n, 0, "%s", row->name);
	tcheap_deinit(&h);
}

/* ---- what looks like it, and is not ---- */

Test(tcmalloc_lies, caches_are_linked_in_both_directions)
{
	static const char *const versions[] = { "2.10", "2.18" };

	for (size_t i = 0; i < 2; i++) {
		size_t link_at = offsetof(struct ms_tc_raw_cache, rest) + (i ? 0 : 16);

		tcheap_init(&h);
		tcheap_draw(&h, versions[i], "64:u012");
		tcheap_set(&h, TC_CACHE, 1, link_at + 8, 8, tcheap_at(&h, TC_CACHE, 0));
		cr_expect_str_empty(tcheap_try(&h, "list of threads' caches was not found"), "%s",
		                    h.wrong);
		tcheap_deinit(&h);
	}
}

Test(tcmalloc_lies, a_root_has_all_spans)
{
	const uint64_t entry = 8 * 0xaaaa; /* of the heap, in the root */
	ms_addr span;
	uint64_t index;

	tcheap_init(&h);
	h.data_before = 0x80000;
	tcheap_draw(&h, "2.10", "64:uf 512:uf");
	cr_expect_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	/* What is in a free object would be a leaf that has one of them. */
	span = tcheap_at(&h, TC_SPAN, 0);
	index = h.spans[0].page & 0x3ffff;
	ms_fake_put(&h.fake, h.objects[1].addr + 8, span);
	ms_fake_put(&h.fake, h.data - h.data_before + entry + 64,
	            h.objects[1].addr + 8 - 8 * index);
	cr_expect_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	tcheap_deinit(&h);
}

/* libtcmalloc_debug has a heap of its own in these blocks. */
Test(tcmalloc_lies, blocks_of_the_debugging_library_are_not_taken_for_the_programs)
{
	tcheap_init(&h);
	tcheap_draw(&h, "2.10", "64:uf 512:ffu 48:u 16:u");
	ms_fake_put(&h.fake, h.objects[0].addr + 16, 0xdeadbeef);
	cr_expect_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	ms_fake_put(&h.fake, h.objects[32 + 2].addr + 16, 0xdeadbeef);
	cr_expect_str_empty(tcheap_try(&h, "not proved: its blocks are those of the debugging"),
	                    "%s", h.wrong);
	tcheap_deinit(&h);
}

/* What lies in it may be another allocator's. */
Test(tcmalloc_lies, no_extent_has_what_lies_between_spans)
{
	tcheap_init(&h);
	tcheap_draw(&h, "2.10", "64:u | 64:u");
	cr_expect_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	cr_expect_null(ms_blocks_extent_of(&h.blocks, h.objects[32].addr - 8));
	tcheap_deinit(&h);
}

/* ---- what operator delete leaves that is given a wrong size ---- */

static bool is_warned(const char *text)
{
	const struct ms_note *note;

	ms_vec_for_each (note, &h.warnings)
		if (strstr(note->text, text))
			return true;
	return false;
}

Test(tcmalloc_lies, a_block_in_a_list_of_another_size_is_free)
{
	uint64_t next;
	size_t other = 0;

	tcheap_init(&h);
	tcheap_draw(&h, "2.10", "64:0 32:uuu 16:u");
	while (h.objects[other].usable != 32)
		other++;
	next = h.objects[other].addr;
	tcheap_set(&h, TC_OBJECT, 0, 0, 8, next);
	tcheap_set(&h, TC_CACHED, 0, OF(ms_tc_list, length), 2);
	tcheap_set(&h, TC_CACHE, 0, OF(ms_tc_raw_cache, bytes), 128);
	h.objects[other].kind = 'f';
	cr_expect_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	cr_expect(is_warned("1 free block in lists of another size"));
	cr_expect(is_warned("of 32 bytes in that of 64)"));
	/* Nor is it free twice. */
	tcheap_set(&h, TC_OBJECT, (uint32_t)other, 0, 8, next);
	tcheap_set(&h, TC_CACHED, 0, OF(ms_tc_list, length), 3);
	tcheap_set(&h, TC_CACHE, 0, OF(ms_tc_raw_cache, bytes), 192);
	h.objects[other].kind = 'u';
	cr_expect_str_empty(tcheap_try(&h, "none that could be free"), "%s", h.wrong);
	tcheap_deinit(&h);
}

Test(tcmalloc_lies, central_lists_may_count_each_others_blocks)
{
	uint64_t n_free;

	tcheap_init(&h);
	tcheap_draw(&h, "2.10", "64:uf 32:uf");
	cr_expect_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	cr_expect_eq(h.warnings.n, 0);
	n_free = tcheap_get(&h, TC_CENTRAL, 0, OF(ms_tc_central, n_free));
	tcheap_set(&h, TC_CENTRAL, 0, OF(ms_tc_central, n_free), n_free - 9);
	n_free = tcheap_get(&h, TC_CENTRAL, 1, OF(ms_tc_central, n_free));
	tcheap_set(&h, TC_CENTRAL, 1, OF(ms_tc_central, n_free), n_free + 9);
	cr_expect_str_empty(tcheap_try(&h, ""), "%s", h.wrong);
	cr_expect(is_warned("include those of other sizes"));
	tcheap_set(&h, TC_CENTRAL, 1, OF(ms_tc_central, n_free), n_free + 8);
	cr_expect_str_empty(tcheap_try(&h, "are counted, but"), "%s", h.wrong);
	tcheap_deinit(&h);
}
