/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>

#include "decoded.h"
#include "jeheap.h"

/* The decoder of jemalloc, on drawn heaps. Pictures: jeheap.h. */

#define PARAMS(rows) cr_make_param_array(struct row, rows, sizeof(rows) / sizeof((rows)[0]))

static const char *const versions[] = { "5.2.1", "5.3.0", "5.3.1" };
static const char *const wide[] = { "5.2.1 wide", "5.3.0 wide", "5.3.1 wide" };
static struct jeheap h;

struct row {
	char name[64];
	char picture[96];
	char damage[96];
	char says[64];
};

ParameterizedTestParameters(jemalloc, tells_what_is_drawn)
{
	static struct row rows[] = {
		{ "nothing", "", "", "2 extents agree" },
		{ "one region", "s16:u", "", "3 blocks in" },
		{ "regions that are free", "s16:u..u.u", "", "" },
		{ "the longest bitmap", "s8:u.........................u", "", "" },
		{ "slabs of several pages", "s320:uu.u s80:u.u s14336:uu", "", "" },
		{ "cached ones", "s320:ucuc s48:cccc", "", "6 of them are in threads' caches" },
		{ "the program's own cache", "s320:umum", "", "2 of them are in threads' caches" },
		{ "large ones", "l16384 l20480 l1048576", "", "" },
		{ "a large one in a cache", "k20480 l20480", "", "1 of them are in" },
		{ "free extents", "d1 s16:u d7 l16384 d3", "", "" },
		{ "extents of huge pages", "h3 s16:u h1", "", "" },
		{ "several arenas", "s16:u ; s16:uc l16384 ; s48:u", "", "3 arenas" },
		{ "two slabs of a class", "s64:u s64:.u s64:c", "", "" },
	};

	return PARAMS(rows);
}

static void tells(const struct row *row, const char *drawn, const char *version)
{
	jeheap_draw(&h, drawn, row->picture);
	cr_expect_str_empty(jeheap_try(&h), "%s, %s: %s", row->name, drawn, h.wrong);
	cr_expect(jeheap_says(&h, row->says), "%s, %s: %s", row->name, drawn, row->says);
	cr_assert_eq(h.found.n, 1);
	cr_expect_str_eq(h.found.at[0].version, version);
	jeheap_deinit(&h);
}

ParameterizedTest(struct row *row, jemalloc, tells_what_is_drawn, .timeout = 60)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		tells(row, versions[i], versions[i]);
		tells(row, wide[i], versions[i]);
	}
}

ParameterizedTestParameters(jemalloc, doubts_what_contradicts_itself)
{
	static struct row rows[] = {
		{ "a free region more", "s320:uu", "edata2.bitmap ^= 1", "not as many free" },
		{ "a region that is none", "s14336:uu", "edata2.bitmap ^= 0x80", "not as many" },
		{ "its own size not told", "l16384", "edata2.size -= 0x1000", "" },
		{ "another page in the tree", "s16:u", "word2.0 += 0x80", "contradict" },
		{ "no page in the tree", "s320:u", "word2.0 = 0", "contradict" },
		{ "an extent too long", "s16:u d1", "edata2.size += 0x1000", "" },
		{ "an extent elsewhere", "s16:u", "edata2.addr += 0x1000", "contradict" },
		{ "a class in one place", "s16:u", "word2.0 ^= 0x3000000000000", "contradict" },
		{ "a leaf elsewhere", "s16:u", "root2 += 0x40", "" },
		{ "pages counted", "s16:u", "arena0.nactive += 1", "pages in use" },
		{ "own bytes counted", "s16:u", "arena0.internal -= 8", "of jemalloc's own" },
		{ "regions counted", "s16:u", "bin0.1.curregs += 1", "the bin counts 2" },
		{ "regions and calls counted", "s16:u", "bin0.1.curregs += 1, bin0.1.nmalloc += 1",
		  "the bin counts 2" },
		{ "a slab's page without a name", "s320:u", "word2.2 = 0", "names 4 of 5 pages" },
		{ "a slab's page of another", "s320:u", "word2.2 += 0x80", "contradict" },
		{ "the last page without a name", "l16384", "word2.4 = 0", "names 1 of 2 pages" },
		{ "the last page of another", "l16384", "word2.4 += 0x80", "contradict" },
		{ "a page too many", "l16384", "word2.2 ^= 0x7f1000000080", "contradict" },
		{ "a ring not linked back", "s16:u", "ring0.prev += 64", "contradicts itself" },
		{ "slabs counted", "s16:u", "bin0.1.curslabs += 1", "regions of 16 bytes" },
		{ "calls counted", "s16:u", "bin0.1.nmalloc += 1", "regions of 16 bytes" },
		{ "large ones counted", "l16384", "large0.36 += 1", "blocks of 16384 bytes" },
		{ "a bin locked", "s16:u", "bin0.1.lock = 1", "locked the bin of 16" },
		{ "an arena locked", "s16:u", "arena0.lock1 = 1", "locked part" },
		{ "no arena", "s16:u", "base0.ind = 7", "not proved" },
		{ "a base without blocks", "s16:u", "base0.blocks = 0", "in no version" },
		{ "a ring that is none", "s16:u", "ring1.next = 0", "contradicts itself" },
		{ "a ring of another", "s16:u", "ring1.arena += 64", "contradicts itself" },
		{ "no ring", "s16:u", "arena0.tcaches = 0", "of jemalloc's own" },
		{ "a stack too long", "s16:c", "cache0.1.2 ^= 0x2000000000", "contradicts" },
		{ "hooks in the heap", "s16:u", "base0.hooks = 0x7f2004000000", "extent hooks" },
	};

	return PARAMS(rows);
}

static void doubts(const struct row *row, const char *drawn)
{
	jeheap_draw(&h, drawn, row->picture);
	jeheap_break(&h, row->damage);
	cr_expect_str_empty(jeheap_doubt(&h), "%s, %s: %s", row->name, drawn, h.wrong);
	/* what is no tree any more has no evidence */
	cr_expect(!*row->says || jeheap_says(&h, row->says), "%s, %s: %s", row->name, drawn,
	          row->says);
	jeheap_deinit(&h);
}

ParameterizedTest(struct row *row, jemalloc, doubts_what_contradicts_itself, .timeout = 60)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		doubts(row, versions[i]);
		doubts(row, wide[i]);
	}
}

/* Where an address can have 57 bits, two words say what one does elsewhere. */
ParameterizedTestParameters(jemalloc, doubts_a_wide_tree)
{
	static struct row rows[] = {
		{ "a state", "s16:u", "said2.0 ^= 8", "contradict" },
		{ "a class", "s16:u", "said2.0 ^= 0x60", "contradict" },
		{ "a class that there is not", "s16:u", "said2.0 += 0x40000000", "contradict" },
		{ "no slab", "s16:u", "said2.0 ^= 1", "contradict" },
		{ "an extent that is not aligned", "s16:u", "word2.0 += 1", "contradict" },
		{ "an extent beyond all memory", "s16:u", "word2.0 += 0x1000000000000",
		  "contradict" },
		{ "a leaf elsewhere", "s16:u", "leaves2 += 0x40", "" },
		{ "no leaf", "s16:u", "leaves2 = 0", "" },
		{ "a table elsewhere", "s16:u", "root2 -= 8", "" },
	};

	return PARAMS(rows);
}

ParameterizedTest(struct row *row, jemalloc, doubts_a_wide_tree, .timeout = 60)
{
	doubts(row, wide[1]);
	doubts(row, wide[2]);
}

/* Before 5.3 the class is one half of the second word, the slab the other. */
Test(jemalloc, doubts_an_older_wide_tree)
{
	static const struct row rows[] = {
		{ "a class", "s16:u", "said2.0 ^= 3", "contradict" },
		{ "a class that there is not", "s16:u", "said2.0 += 0x10000000", "contradict" },
		{ "no slab", "s16:u", "said2.0 ^= 0x100000000", "contradict" },
		{ "neither a slab nor none", "s16:u", "said2.0 += 0x8000000000", "contradict" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		doubts(&rows[i], wide[0]);
}

/* Rust builds it so by default: no bin counts, and caches are found in threads' storage. */
Test(jemalloc, a_build_that_does_not_count)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		bool is_read = strcmp(versions[i], "5.2.1") != 0;

		jeheap_draw(&h, i % 2 ? wide[i] : versions[i],
		            "s320:uu.c l20480 k20480 ; s16:uu.u");
		jeheap_uncount(&h, false);
		cr_expect_str_empty(is_read ? jeheap_try(&h) : jeheap_doubt(&h), "%s: %s",
		                    versions[i], h.wrong);
		cr_expect(jeheap_says(&h, is_read ? "--disable-stats" : "is not known"), "%s",
		          versions[i]);
		jeheap_deinit(&h);
	}
}

static void doubts_uncounted(const char *what, bool own, const char *damage, const char *says)
{
	jeheap_draw(&h, "5.3.0", "s320:uu.c l20480 ; s16:uu.u");
	jeheap_uncount(&h, own);
	if (damage)
		jeheap_break(&h, damage);
	else
		h.fake.base.threads.at[0].tp = 0;
	cr_expect_str_empty(jeheap_doubt(&h), "%s: %s", what, h.wrong);
	cr_expect(jeheap_says(&h, says), "%s: %s", what, says);
	jeheap_deinit(&h);
}

/* What is cached looks used, and is no leak. */
Test(jemalloc, a_cache_that_is_not_found_where_nothing_counts)
{
	doubts_uncounted("a thread without storage", false, NULL, "was not found");
	doubts_uncounted("a cache of the program's own", true, "ring1.next += 0", "was not found");
	doubts_uncounted("a cache of no arena", false, "ring0.arena += 64", "was not found");
	doubts_uncounted("a bin of no stack", false, "cache0.1.2 ^= 0x2000000000", "contradicts");
	doubts_uncounted("pages", false, "arena0.nactive += 1", "pages in use");
	doubts_uncounted("a lock", false, "bin0.1.lock = 1", "locked the bin of 16");
}

/* Have the word of @place in a slot beside it, too, or in that alone. */
static void draw_beside(const char *place, int64_t distance, bool keep)
{
	ms_addr at = jeheap_place(&h, place);
	uint64_t word = 0;

	cr_assert(ms_source_word(&h.fake.base, at, &word));
	ms_fake_put(&h.fake, at + (uint64_t)distance, word);
	if (!keep)
		ms_fake_put(&h.fake, at, 0);
}

Test(jemalloc, a_wide_tree_leads_to_each_leaf_once)
{
	jeheap_draw(&h, wide[1], "s16:u");
	draw_beside("leaves2", 8, true);
	cr_expect_str_empty(jeheap_doubt(&h), "%s", h.wrong);
	cr_expect(jeheap_says(&h, "overlap"));
	jeheap_deinit(&h);
}

/* The root is found by the first of its tables, and this by its first leaf. */
Test(jemalloc, tables_are_at_their_place)
{
	static const struct {
		const char *place;
		bool keep;
	} cases[] = { { "root2", true }, { "leaves2", true }, { "leaves2", false } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		jeheap_draw(&h, wide[1], "s16:u");
		draw_beside(cases[i].place, -8, cases[i].keep);
		cr_expect_eq(jeheap_decode(&h), MS_OK);
		cr_expect_eq(h.found.n, 0, "%s, %zu", cases[i].place, i);
		jeheap_deinit(&h);
	}
}

/* As a core of gdb's shows them, which has all zeros. */
Test(jemalloc, zeros_in_front_of_a_leafs_entries_may_be_there)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		jeheap_draw(&h, i % 2 ? wide[i] : versions[i], "s320:uu.c l20480");
		h.fake.hides_zeros = false;
		cr_expect_str_empty(jeheap_try(&h), "%s: %s", versions[i], h.wrong);
		jeheap_deinit(&h);
	}
}

Test(jemalloc, a_leaf_without_extents_is_none)
{
	jeheap_draw(&h, "5.3.0", "s16:u");
	ms_fake_put(&h.fake, jeheap_place(&h, "root2"), 0);
	ms_fake_put(&h.fake, h.root, h.bases[0] + 0x400000);
	cr_expect_eq(jeheap_decode(&h), MS_OK);
	cr_expect_eq(h.found.n, 0);
	jeheap_deinit(&h);
}

/* A leaf that two places share would be read again and again. */
Test(jemalloc, leaves_do_not_overlap)
{
	jeheap_draw(&h, "5.3.0", "s16:u");
	ms_fake_put(&h.fake, jeheap_place(&h, "root2") + 8,
	            (h.extents[2].word & ~UINT64_C(0x1fffff)) | 0x1000c0);
	cr_expect_str_empty(jeheap_doubt(&h), "%s", h.wrong);
	jeheap_deinit(&h);
}

Test(jemalloc, a_thread_inside_makes_all_doubtful)
{
	jeheap_draw(&h, "5.3.0", "s16:u");
	ms_fake_thread(&h.fake, 7, 0x1000, 0x1000)->in_malloc = MS_MALLOC_WAITS;
	cr_expect_str_empty(jeheap_try(&h), "%s", h.wrong);
	h.fake.base.threads.at[0].in_malloc = MS_MALLOC_WORKS;
	cr_expect_str_empty(jeheap_doubt(&h), "%s", h.wrong);
	cr_expect(jeheap_says(&h, "thread 7 is inside malloc"));
	cr_expect_eq(h.found.at[0].doubt, MS_DOUBT_CHANGES);
	jeheap_deinit(&h);
}

/* What one arena counts is no doubt about another; its memory is handed over. */
Test(jemalloc, one_arena_in_doubt_leaves_the_others)
{
	jeheap_draw(&h, "5.3.0", "s16:uu ; s48:u");
	jeheap_break(&h, "arena1.nactive += 1");
	cr_expect_str_empty(jeheap_doubt(&h), "%s", h.wrong);
	cr_expect_eq(h.blocks.n, 2);
	cr_assert_eq(h.decoding.unproved.n, 1);
	cr_expect_eq(h.decoding.unproved.at[0].begin, h.extents[3].begin);
	jeheap_deinit(&h);
}

/* By it the code is found where jemalloc is linked into a program. */
Test(jemalloc, tells_what_its_code_refers_to)
{
	jeheap_draw(&h, "5.3.0", "s16:u");
	cr_expect_str_empty(jeheap_try(&h), "%s", h.wrong);
	cr_assert_eq(h.decoding.anchors.n, 2);
	cr_expect(ms_range_has(h.decoding.anchors.at[0], h.root));
	cr_expect_not(ms_range_has(h.decoding.anchors.at[0], h.root + 8));
	cr_expect_eq(h.decoding.anchors.at[1].begin, h.table);
	jeheap_deinit(&h);
}

/* Nothing of a cache, its stacks, or metadata is a root. */
Test(jemalloc, its_own_memory_is_owned)
{
	jeheap_draw(&h, "5.3.0", "s16:u d3");
	cr_expect_str_empty(jeheap_try(&h), "%s", h.wrong);
	cr_assert(ms_ranges_tidy(&h.arena, &h.decoding.owned));
	cr_expect(ms_range_find(&h.decoding.owned, h.arenas[0]));
	cr_expect(ms_range_find(&h.decoding.owned, h.stacks[0]));
	cr_expect(ms_range_find(&h.decoding.owned, h.extents[3].begin));
	cr_assert_eq(h.decoding.own_words.n, 1);
	jeheap_deinit(&h);
}

Test(jemalloc, a_root_without_leaves_is_none)
{
	jeheap_draw(&h, "5.3.0", "s16:u");
	ms_fake_put(&h.fake, jeheap_place(&h, "root2"), 0);
	cr_expect_eq(jeheap_decode(&h), MS_OK);
	cr_expect_eq(h.found.n, 0);
	jeheap_deinit(&h);
}

/* From 5.3 on the stacks of a cache are between two words of junk, without a gap. */
Test(jemalloc, stacks_follow_each_other)
{
	static const char *const damages[] = { "stack0 ^= 1", "cache0.1.2 ^= 0x80000",
		                               "cache0.40.2 ^= 0x80000000000" };

	for (size_t v = 1; v < 3; v++)
		for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
			jeheap_draw(&h, versions[v], "s16:uc");
			jeheap_break(&h, damages[i]);
			cr_expect_str_empty(jeheap_doubt(&h), "%s: %s", damages[i], h.wrong);
			cr_expect(jeheap_says(&h, "cache of arena 0 contradicts itself"));
			jeheap_deinit(&h);
		}
}

/* Where the first pointer is that the cache's bin of class @index has. */
static ms_addr first_cached(uint32_t index)
{
	uint64_t at = 0;
	char name[32];

	(void)snprintf(name, sizeof(name), "cache0.%u.%u", index, h.layout->counted ? 2 : 0);
	(void)ms_source_word(&h.fake.base, jeheap_place(&h, name), &at);
	return h.layout->counted ? at - 8 : at;
}

/* A cached block must be one that is in use. */
Test(jemalloc, what_is_cached_is_a_block)
{
	for (size_t v = 0; v < 3; v++) {
		jeheap_draw(&h, versions[v], "s16:uc.u s48:cu");
		for (ms_addr at = h.extents[2].begin; at < h.extents[2].begin + 64; at += 8) {
			bool right = at == h.extents[2].begin + 16;

			ms_fake_put(&h.fake, first_cached(1), at);
			cr_expect_eq(!*jeheap_try(&h), right, "%s: %llx: %s", versions[v],
			             (unsigned long long)at, h.wrong);
		}
		jeheap_deinit(&h);
	}
}

/* Where the thread's cache has its bin of class @index. */
static ms_addr bin_of(uint32_t index)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "cache0.%u.0", index);
	return jeheap_place(&h, name);
}

/* Who fills a bin and waits for a lock has blocks in hand that the bin does not count yet. */
Test(jemalloc, what_a_thread_that_waits_may_have_in_hand_is_a_root)
{
	for (size_t v = 0; v < 3; v++) {
		struct ms_thread *t;
		ms_addr end;
		ms_addr sp;

		jeheap_draw(&h, versions[v], "s16:uc.u s48:u l20480");
		sp = h.caches[0] - 0x1000;
		end = first_cached(3) + (h.layout->counted ? 8 : 0);
		ms_fake_put(&h.fake, end - 8, h.extents[3].begin);
		t = ms_fake_thread(&h.fake, 7, sp, sp);
		t->in_malloc = MS_MALLOC_OUT;
		ms_fake_put(&h.fake, sp + 0x100, bin_of(3));
		cr_expect_str_empty(jeheap_try(&h), "%s: %s", versions[v], h.wrong);
		cr_expect_eq(h.decoding.in_hand.n, 0, "%s: it is outside", versions[v]);

		t->in_malloc = MS_MALLOC_WAITS;
		cr_expect_str_empty(jeheap_try(&h), "%s: %s", versions[v], h.wrong);
		cr_assert_eq(h.decoding.in_hand.n, 1, "%s", versions[v]);
		cr_expect(ms_range_has(h.decoding.in_hand.at[0], end - 8));
		cr_expect_eq(h.decoding.in_hand.at[0].end, end);
		cr_expect(jeheap_says(&h, "may have blocks in hand"));

		ms_fake_put(&h.fake, sp + 0x100, bin_of(1));
		cr_expect_str_empty(jeheap_try(&h), "%s: %s", versions[v], h.wrong);
		cr_expect_eq(h.decoding.in_hand.n, 0, "%s: a bin with blocks", versions[v]);

		ms_fake_put(&h.fake, sp + 0x100, h.extents[4].edata);
		cr_expect_str_empty(jeheap_try(&h), "%s: %s", versions[v], h.wrong);
		cr_assert_eq(h.decoding.in_hand.n, 1, "%s: a large block", versions[v]);
		cr_expect_eq(h.decoding.in_hand.at[0].begin, h.extents[4].edata + 8);

		ms_fake_put(&h.fake, sp + 0x100, h.extents[3].edata);
		cr_expect_str_empty(jeheap_try(&h), "%s: %s", versions[v], h.wrong);
		cr_expect_eq(h.decoding.in_hand.n, 0, "%s: a slab", versions[v]);

		jeheap_break(&h, "bin0.3.curregs -= 1");
		cr_expect_str_empty(jeheap_doubt(&h), "%s: %s", versions[v], h.wrong);
		cr_expect_eq(h.found.at[0].doubt, MS_DOUBT_CHANGES);
		jeheap_deinit(&h);
	}
}

/* By a delete with the wrong size; but not in most bins: then they are no bins. */
Test(jemalloc, what_is_cached_may_be_of_another_size)
{
	for (size_t v = 0; v < 3; v++) {
		jeheap_draw(&h, versions[v], "s16:uc.u s48:cu");
		ms_fake_put(&h.fake, first_cached(1), h.extents[3].begin + 48);
		(void)jeheap_try(&h);
		cr_expect(jeheap_is_verified(&h), "%s: %s", versions[v], h.wrong);
		cr_expect(notes_say(&h.warnings, "1 free block in lists of another size"));
		ms_fake_put(&h.fake, first_cached(3), h.extents[2].begin);
		(void)jeheap_try(&h);
		cr_expect_not(jeheap_is_verified(&h), "%s: %s", versions[v], h.wrong);
		cr_expect(jeheap_says(&h, "2 have others, 0 have not"));
		jeheap_deinit(&h);
	}
}
