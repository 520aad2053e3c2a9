/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "graph.h"

struct walk_case {
	char title[56];
	char picture[48];
	char marked[12];
	bool starts_only;
};

/* Arrays, not pointers: Criterion hands parameters to a worker process by value. */
static struct walk_case walk_cases[] = {
	{ "no roots: nothing is reachable", "A>B", "", false },
	{ "a chain is reachable to its end", "r>A A>B B>C", "ABC", false },
	{ "a block reached twice is marked once", "r>A r>B A>C B>C", "ABC", false },
	{ "an unrooted cycle stays unreachable", "r>A B>C C>B", "A", false },
	{ "a self-pointer does not root a block", "A>A", "", false },
	{ "the middle of a block counts", "r>A+8", "A", false },
	{ "an unaligned pointer value counts", "r>A+3", "A", false },
	{ "the last byte counts", "r>A+31 A:4", "A", false },
	{ "one past the end does not", "r>A+32 A:4", "", false },
	{ "between blocks is nobody's", "r>A+40 A:4 B", "", false },
	{ "before the first block is nobody's", "r>A-8 A", "", false },
	{ "behind a short block neither", "r>A+16 A", "", false },
	{ "below the first block is nobody's", "r>B-8 B", "", false },
	{ "far into the heap", "r>Z Z>R R>A", "ARZ", false },
	{ "the middle does not count with starts_only", "r>A+8 r>B", "B", true },
	{ "the first byte but one neither", "r>A+1", "", true },
	{ "a pointer from the last word counts", "r>A A>C A>C A>C A>D", "ACD", false },
	{ "words behind a block are not read", "r>A A>B A>C A>D A:2", "ABC", false },
	{ "a node is read once it is reached", "r>m m>A", "Am", false },
	{ "a node that is not reached holds nothing", "m>A", "", false },
	{ "a node counts from any address within", "r>m+1000 m>A", "Am", true },
	{ "nodes and blocks chain", "r>A A>m m>n n>B", "ABmn", false },
};

ParameterizedTestParameters(walk, marks_what_roots_reach)
{
	return cr_make_param_array(struct walk_case, walk_cases,
	                           sizeof(walk_cases) / sizeof(walk_cases[0]));
}

static void walk_from_root(struct graph *g, const struct ms_walk_options *options)
{
	struct ms_walk *walk = graph_walk(g, *options);

	ms_walk_range(walk, graph_root());
	cr_assert_eq(ms_walk_finish(walk, &g->err), MS_OK);
}

ParameterizedTest(struct walk_case *c, walk, marks_what_roots_reach)
{
	struct ms_walk_options options = { .starts_only = c->starts_only };

	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct graph g = { .mode = mode };

		graph_draw(&g, c->picture);
		walk_from_root(&g, &options);
		cr_expect_str_eq(graph_marked(&g), c->marked, "%s: drew \"%s\", mode %d", c->title,
		                 c->picture, mode);
		graph_erase(&g);
	}
}

/* CPython's objects, say: what stands in front of them is theirs, and never pointed to. */
Test(walk, the_middle_counts_with_starts_only_in_an_extent_that_says_so)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct ms_walk_options options = { .starts_only = true };
		struct graph g = { .mode = mode };

		graph_draw(&g, "r>S+8 r>B S>T+8 T>A+8 T>U+16 U:4 S>V+24 V:3");
		ms_blocks_extent_of(&g.blocks, graph_addr('S'))->inner = true;
		walk_from_root(&g, &options);
		cr_expect_str_eq(graph_marked(&g), "BSTU", "mode %d", mode);
		graph_erase(&g);
	}
}

static uint64_t *bits_of(const struct graph *g, const struct ms_marks *marks, char name)
{
	const struct ms_extent *extent = ms_blocks_extent_of(&g->blocks, graph_addr(name));
	uint64_t granule = ms_granule_of(extent, graph_addr(name));

	return &marks->at[ms_blocks_cell(&g->blocks, extent, granule) - g->blocks.cells.at];
}

static uint64_t bit_of(const struct graph *g, char name)
{
	return ms_granule_bit(
		ms_granule_of(ms_blocks_extent_of(&g->blocks, graph_addr(name)), graph_addr(name)));
}

/* @wide: what pointers into the middle count of, too */
static void assert_notes(const char *picture, const char *wide, const char *marked,
                         const char *noted)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct ms_marks inner = { 0 };
		struct ms_marks counts = { 0 };
		struct ms_walk_options options = { .starts_only = true,
			                           .inner = &inner,
			                           .wide = *wide ? &counts : NULL };
		struct graph g = { .mode = mode };
		char found[GRAPH_BLOCKS + 1] = "";
		size_t n = 0;

		graph_draw(&g, picture);
		cr_assert(ms_marks_none(&g.blocks, &inner) && ms_marks_none(&g.blocks, &counts));
		for (const char *name = wide; *name; name++)
			*bits_of(&g, &counts, *name) |= bit_of(&g, *name);
		walk_from_root(&g, &options);
		for (char name = 'A'; name <= 'G'; name++)
			if (*bits_of(&g, &inner, name) & bit_of(&g, name))
				found[n++] = name;
		cr_expect_str_eq(graph_marked(&g), marked, "%s, mode %d", picture, mode);
		cr_expect_str_eq(found, noted, "%s, mode %d", picture, mode);
		graph_erase(&g);
	}
}

/* But for what others lead to as well. */
Test(walk, notes_what_the_middle_of_is_pointed_to)
{
	const char *picture = "r>A+8 r>B B>C+16 C:4 B>D D>B+8 C>E+8 F>G";

	assert_notes(picture, "", "BD", "ABC");
	assert_notes(picture, "A", "ABD", "BC");
	assert_notes(picture, "BC", "BCD", "AE");
	assert_notes(picture, "CE", "BCDE", "AB");
}

/* In a root and in a block; the second word of the block begins behind its end. */
Test(walk, finds_pointers_at_odd_offsets_only_when_asked)
{
	for (int i = 0; i < 2 * GRAPH_MODES; i++) {
		struct ms_walk_options options = { .unaligned = i % 2 };
		struct graph g = { .mode = (enum graph_mode)(i / 2) };

		graph_draw(&g, "A B C");
		ms_fake_put(&g.fake, GRAPH_ROOT + 5, graph_addr('A'));
		ms_fake_put(&g.fake, graph_addr('A') + 1, graph_addr('B'));
		ms_fake_put(&g.fake, graph_addr('A') + 9, graph_addr('C'));
		walk_from_root(&g, &options);
		cr_expect_str_eq(graph_marked(&g), options.unaligned ? "AB" : "", "mode %d", i / 2);
		graph_erase(&g);
	}
}

Test(walk, reads_a_root_up_to_where_memory_ends)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct ms_walk_options options = { 0 };
		struct graph g = { .mode = mode };
		struct ms_walk *walk;

		graph_draw(&g, "A>B");
		ms_fake_put(&g.fake, GRAPH_ROOT + GRAPH_PAGE - 8, graph_addr('A'));
		walk = graph_walk(&g, options);
		ms_walk_range(walk, (struct ms_range){ GRAPH_ROOT + GRAPH_PAGE - 16,
		                                       GRAPH_ROOT + 3 * GRAPH_PAGE });
		cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
		cr_assert_str_eq(graph_marked(&g), "AB");
		graph_erase(&g);
	}
}

Test(walk, undoes_the_mangling_of_saved_frame_pointers)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		uint64_t guard = 0x9d1f3a5b7c2e4f60;
		struct ms_walk_options options = { .mangling = { guard, 17 } };
		struct graph g = { .mode = mode };
		uint64_t mangled;

		graph_draw(&g, "A");
		mangled = graph_addr('A') ^ guard;
		ms_fake_put(&g.fake, GRAPH_ROOT, mangled << 17 | mangled >> 47);
		walk_from_root(&g, &options);
		cr_assert_str_eq(graph_marked(&g), "A");
		graph_erase(&g);
	}
}

Test(walk, claims_a_block_without_following_it)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct ms_walk_options options = { 0 };
		struct graph g = { .mode = mode };
		struct ms_walk *walk;
		struct ms_range claimed;

		graph_draw(&g, "A>B A:4");
		walk = graph_walk(&g, options);
		claimed = ms_walk_claim(walk, graph_addr('A') + 9);
		cr_assert_eq(claimed.begin, graph_addr('A'));
		cr_assert_eq(claimed.end, graph_addr('A') + 32);
		cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
		cr_assert_str_eq(graph_marked(&g), "A");
		cr_assert_eq(ms_walk_claim(walk, graph_addr('A')).end, graph_addr('A'));
		graph_erase(&g);
	}
}

Test(walk, counts_heap_blocks_and_their_bytes)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct ms_walk_options options = { .count_bytes = true };
		struct graph g = { .mode = mode };
		struct ms_walk *walk;

		graph_draw(&g, "r>A A>B A>m B:5");
		walk = graph_walk(&g, options);
		ms_walk_range(walk, graph_root());
		cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
		cr_assert_eq(ms_walk_count(walk).blocks, 2);
		cr_assert_eq(ms_walk_count(walk).bytes, 16 + 40);
		graph_erase(&g);
	}
}

Test(walk, reads_whole_aligned_words_of_a_range_only)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct ms_walk_options options = { 0 };
		struct graph g = { .mode = mode };
		struct ms_walk *walk;

		graph_draw(&g, "A B");
		ms_fake_put(&g.fake, GRAPH_ROOT + 8, graph_addr('A'));
		ms_fake_put(&g.fake, GRAPH_ROOT + 16, graph_addr('B'));
		walk = graph_walk(&g, options);
		ms_walk_range(walk, (struct ms_range){ GRAPH_ROOT + 4, GRAPH_ROOT + 20 });
		cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
		cr_assert_str_eq(graph_marked(&g), "A");
		graph_erase(&g);
	}
}

static bool all_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	(void)src;
	*ret = within;
	return true;
}

/* Two pages with a hole between them, told by present(), or met while reading. */
Test(walk, goes_on_behind_a_hole)
{
	for (int met = 0; met < 2; met++) {
		struct ms_walk_options options = { 0 };
		struct graph g = { .mode = met ? GRAPH_READ : GRAPH_VIEW };
		struct ms_source_ops ops;
		struct ms_walk *walk;

		graph_draw(&g, "A B");
		ms_fake_put(&g.fake, GRAPH_ROOT + 8, graph_addr('A'));
		ms_fake_put(&g.fake, GRAPH_NODE_M, graph_addr('B'));
		ops = *g.fake.base.ops;
		if (met)
			ops.present = all_present;
		g.fake.base.ops = &ops;
		walk = graph_walk(&g, options);
		ms_walk_range(walk, (struct ms_range){ GRAPH_ROOT + 8, GRAPH_NODE_M + 16 });
		cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
		cr_expect_str_eq(graph_marked(&g), "AB", "met %d", met);
		graph_erase(&g);
	}
}

Test(walk, claims_nothing_where_no_block_of_the_heap_is)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct ms_walk_options options = { 0 };
		struct graph g = { .mode = mode };
		struct ms_walk *walk;

		graph_draw(&g, "B m");
		walk = graph_walk(&g, options);
		for (const ms_addr *at = (ms_addr[]){ GRAPH_HEAP, graph_addr('B') + 16, GRAPH_ROOT,
		                                      GRAPH_NODE_M, 8, 0 };
		     *at; at++)
			cr_expect_eq(ms_range_len(ms_walk_claim(walk, *at)), 0, "0x%lx", (long)*at);
		cr_expect_str_eq(graph_marked(&g), "");
		cr_expect_eq(ms_walk_count(walk).blocks, 0);
		(void)ms_walk_claim(walk, graph_addr('B'));
		cr_expect_eq(ms_walk_count(walk).blocks, 1);
		graph_erase(&g);
	}
}

/* More than its queues hold: 26 blocks, of which the first 16 are shorter. */
Test(walk, loses_nothing_when_much_is_found_at_once)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct ms_walk_options options = { .count_bytes = true };
		struct graph g = { .mode = mode };
		struct ms_walk *walk;
		char picture[200] = "";

		for (char c = 'A'; c <= 'Z'; c++)
			snprintf(picture + strlen(picture), 8, "%c:%d ", c, c <= 'P' ? 2 : 4);
		graph_draw(&g, picture);
		walk = graph_walk(&g, options);
		for (int i = 0; i < 2 * 26; i++)
			ms_walk_word(walk, graph_addr((char)('A' + i % 26)));
		cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
		cr_assert_str_eq(graph_marked(&g), "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		cr_assert_eq(ms_walk_count(walk).blocks, 26);
		cr_assert_eq(ms_walk_count(walk).bytes, 16 * 16 + 10 * 32);
		graph_erase(&g);
	}
}

Test(walk, says_when_the_list_cannot_grow)
{
	struct ms_walk_options options = { 0 };
	struct graph g = { 0 };
	struct rlimit old, none;
	struct ms_walk *walk;
	enum ms_status st;

	graph_draw(&g, "A>B");
	walk = graph_walk(&g, options);
	cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
	none = old;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_AS, &none);
	ms_walk_word(walk, graph_addr('A'));
	st = ms_walk_finish(walk, &g.err);
	setrlimit(RLIMIT_AS, &old);
	cr_assert_eq(st, MS_E_NOMEM);
	graph_erase(&g);
}

/* Extents that are one block each: neighbours, over a border of 2 MiB, and 8 GiB farther. */
static const struct ms_range singles[] = {
	{ 0x100000, 0x101000 }, { 0x101000, 0x102000 }, { 0x103000, 0x104000 },
	{ 0x3ff000, 0x401000 }, { 0x402000, 0x403000 }, { 0x200100000, 0x200101000 },
};

enum { N_SINGLES = sizeof(singles) / sizeof(singles[0]) };

Test(walk, finds_the_extent_among_many)
{
	/* An address, and the block that has it; asked for by one walk, one after the other. */
	static const struct {
		ms_addr addr;
		int block;
	} cases[] = {
		{ 0x100000, 0 },    { 0x101000, 1 },     { 0x100fff, 0 },
		{ 0x102000, -1 },   { 0x102fff, -1 },    { 0x103000, 2 },
		{ 0x104000, -1 },   { 0x3ff000, 3 },     { 0x400fff, 3 },
		{ 0x401000, -1 },   { 0x402800, 4 },     { 0x600000, -1 },
		{ 0x200100000, 5 }, { 0x100000, 0 },     { 0x200100fff, 5 },
		{ 0x0fffff, -1 },   { 0x200101000, -1 }, { 0x200100000 << 17, -1 },
	};
	struct ms_walk_options options = { 0 };
	struct ms_blocks blocks;
	struct ms_fake fake;
	struct ms_error err;
	struct ms_walk *walk;
	uint32_t extent;

	ms_fake_init(&fake);
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	for (int i = 0; i < N_SINGLES; i++)
		cr_assert(!ms_blocks_open_single(&blocks, singles[i], MS_EXTENT_MAPPING, &extent));
	cr_assert(!ms_blocks_seal(&blocks));
	walk = ms_walk_new(&blocks, &options, &fake.arena);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ms_walk_word(walk, cases[i].addr);
		cr_assert(!ms_walk_finish(walk, &err));
		for (int k = 0; k < N_SINGLES; k++)
			cr_expect_eq(blocks.cells.at[k].marks, cases[i].block == k,
			             "0x%lx: block %d", (long)cases[i].addr, k);
		ms_blocks_unmark(&blocks);
	}
	ms_fake_deinit(&fake);
}
