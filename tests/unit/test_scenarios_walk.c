/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmemunreachable's HeapWalker scenarios, with its counts and bytes.
 *
 * Not here, because nothing of ours could express it: that a block which overlaps
 * another one, or lies outside of all mappings, or is empty and put twice, is refused.
 * There any caller may insert any range. Our table of blocks has decoders for its only
 * callers, and their contract (blocks.h) is address order and one block to a granule,
 * which it does not check. They cannot break it: a glibc chunk begins where the one
 * before it ends, is 32 bytes at least, and an arena whose chunks lead out of its memory
 * or do not add up is not proved (test_glibc_chunks.c, test_glibc_mmapped.c). What comes
 * nearest, that no block is taken for free twice, is in test_blocks.c.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "graph.h"

enum { WORD = 8, ROOT_WORDS = 4, NOT_MAPPED = 0x18000 };

struct walk_case {
	char title[48];
	char picture[48];
	int leaks;
	int bytes;
	int listed;
};

static struct walk_case walk_cases[] = {
	{ "nothing points to it", "r B:2", 1, 16, 1 },
	{ "one word before and one beyond", "r>B-8 r>B+16 B:2", 1, 16, 1 },
	{ "the same, and its first word", "r>B-8 r>B+16 r>B B:2", 0, 0, 0 },
	/* There it is two leaks; here one, the other referenced. Blocks and bytes are the same. */
	{ "a cycle of two", "A:1 B:1 A>B B>A", 2, 2 * WORD, 1 },
};

ParameterizedTestParameters(scenarios_walk, leaks_as_told)
{
	return cr_make_param_array(struct walk_case, walk_cases,
	                           sizeof(walk_cases) / sizeof(walk_cases[0]));
}

ParameterizedTest(struct walk_case *c, scenarios_walk, leaks_as_told)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct graph g = { .mode = mode };
		struct ms_report report;

		graph_draw(&g, c->picture);
		graph_scan(&g, graph_root(), &report);
		cr_expect_eq(report.totals.leaked_allocations, c->leaks, "%s, mode %d", c->title,
		             mode);
		cr_expect_eq(report.totals.leaked_bytes, c->bytes, "%s, mode %d", c->title, mode);
		cr_expect_eq(report.leaks.n, c->listed, "%s, mode %d", c->title, mode);
		graph_erase(&g);
	}
}

Test(scenarios_walk, a_pointer_to_any_of_16_bytes_from_any_root_word_keeps_a_block)
{
	struct ms_range root = { GRAPH_ROOT, GRAPH_ROOT + ROOT_WORDS * WORD };

	for (int i = 0; i < GRAPH_MODES * ROOT_WORDS * 16; i++) {
		struct graph g = { .mode = (enum graph_mode)(i % GRAPH_MODES) };
		ms_addr word = GRAPH_ROOT + (ms_addr)(i / GRAPH_MODES % ROOT_WORDS * WORD);
		struct ms_report report;

		graph_draw(&g, "B:2");
		ms_fake_put(&g.fake, word,
		            graph_addr('B') + (ms_addr)(i / GRAPH_MODES / ROOT_WORDS));
		graph_scan(&g, root, &report);
		cr_expect_eq(report.totals.leaked_allocations, 0, "case %d", i);
		graph_erase(&g);
	}
}

/* The pointer is in the second word, and the root begins and ends anywhere around it. */
Test(scenarios_walk, unaligned_bounds_of_a_root_lose_no_aligned_pointer_inside)
{
	for (int i = 0; i < GRAPH_MODES * WORD * WORD; i++) {
		struct graph g = { .mode = (enum graph_mode)(i % GRAPH_MODES) };
		ms_addr before = (ms_addr)(i / GRAPH_MODES % WORD);
		ms_addr behind = (ms_addr)(i / GRAPH_MODES / WORD);
		struct ms_report report;

		graph_draw(&g, "B:2");
		ms_fake_put(&g.fake, GRAPH_ROOT + WORD, graph_addr('B'));
		graph_scan(&g,
		           (struct ms_range){ GRAPH_ROOT + before, GRAPH_ROOT + 3 * WORD - behind },
		           &report);
		cr_expect_eq(report.totals.leaked_allocations, 0, "%d before, %d behind",
		             (int)before, (int)behind);
		graph_erase(&g);
	}
}

static bool all_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	(void)src;
	*ret = within;
	return true;
}

/*
 * An extent in which no memory can be read, as behind PROT_NONE. Its block is
 * reached, as there; and leads nowhere.
 */
Test(scenarios_walk, a_block_that_cannot_be_read_is_reached_and_followed_nowhere)
{
	for (int i = 0; i < 2 * GRAPH_MODES; i++) {
		struct ms_range range = { NOT_MAPPED, NOT_MAPPED + GRAPH_PAGE };
		struct graph g = { .mode = (enum graph_mode)(i / 2) };
		bool reached = i % 2;
		struct ms_source_ops ops;
		struct ms_report report;
		uint32_t extent;

		graph_draw(&g, "");
		ops = *g.fake.base.ops;
		ops.present = all_present;
		g.fake.base.ops = &ops;
		ms_blocks_init(&g.blocks, &g.fake.base, &g.fake.arena);
		cr_assert(!ms_blocks_open(&g.blocks, range, 4, &extent));
		cr_assert(!ms_blocks_put(&g.blocks, extent, NOT_MAPPED + 16, GRAPH_PAGE - 16));
		cr_assert(!ms_blocks_sort(&g.blocks) && !ms_blocks_seal(&g.blocks));
		ms_fake_put(&g.fake, GRAPH_ROOT, reached ? NOT_MAPPED + 16 : 0);
		graph_scan(&g, graph_root(), &report);
		cr_expect_eq(report.totals.leaked_allocations, !reached);
		cr_expect_eq(report.totals.leaked_bytes, reached ? 0 : GRAPH_PAGE - 16);
		graph_erase(&g);
	}
}

/* Granules of one byte: no decoder has them so fine. */
Test(scenarios_walk, blocks_of_one_byte_may_touch)
{
	struct ms_range range = { GRAPH_HEAP, GRAPH_HEAP + 8 };
	struct graph g = { .mode = GRAPH_VIEW };
	struct ms_report report;
	uint32_t extent;

	graph_draw(&g, "r>A");
	ms_blocks_init(&g.blocks, &g.fake.base, &g.fake.arena);
	cr_assert(!ms_blocks_open(&g.blocks, range, 0, &extent));
	for (ms_addr i = 1; i <= 4; i++)
		if (i != 3)
			cr_assert(!ms_blocks_put(&g.blocks, extent, GRAPH_HEAP + i, 1));
	cr_assert(!ms_blocks_sort(&g.blocks) && !ms_blocks_seal(&g.blocks));
	ms_fake_put(&g.fake, GRAPH_ROOT, GRAPH_HEAP + 2);
	graph_scan(&g, graph_root(), &report);
	cr_expect_eq(g.blocks.n, 3);
	cr_expect_eq(report.leaks.n, 2);
	cr_expect_eq(report.leaks.at[0].address, GRAPH_HEAP + 1);
	cr_expect_eq(report.leaks.at[1].address, GRAPH_HEAP + 4);
	cr_expect_eq(report.totals.leaked_bytes, 2);
	graph_erase(&g);
}

/* Blocks before and behind a gap in the maps, and pointers into the gap. */
Test(scenarios_walk, mappings_may_have_gaps_between_them)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct graph g = { .mode = mode };
		struct ms_report report;

		graph_draw(&g, "A:2 A>m");
		ms_fake_put(&g.fake, GRAPH_ROOT, GRAPH_HEAP + 2 * GRAPH_PAGE);
		ms_fake_put(&g.fake, GRAPH_ROOT + WORD, graph_addr('A'));
		graph_scan(&g, graph_root(), &report);
		cr_expect_str_eq(graph_marked(&g), "Am", "mode %d", mode);
		cr_expect_eq(report.leaks.n, 0);
		graph_erase(&g);
	}
}
