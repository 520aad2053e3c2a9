/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

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
	struct ms_walk *walk = ms_walk_new(&g->blocks, options, &g->fake.arena);

	cr_assert_not_null(walk);
	ms_walk_range(walk, graph_root());
	cr_assert_eq(ms_walk_finish(walk, &g->err), MS_OK);
}

ParameterizedTest(struct walk_case *c, walk, marks_what_roots_reach)
{
	struct ms_walk_options options = { .starts_only = c->starts_only };

	for (int no_view = 0; no_view < 2; no_view++) {
		struct graph g = { .no_view = no_view };

		graph_draw(&g, c->picture);
		walk_from_root(&g, &options);
		cr_expect_str_eq(graph_marked(&g), c->marked, "%s: drew \"%s\", marked %s",
		                 c->title, c->picture, graph_marked(&g));
		graph_erase(&g);
	}
}

Test(walk, finds_pointers_at_odd_offsets_only_when_asked)
{
	for (int unaligned = 0; unaligned < 2; unaligned++) {
		struct ms_walk_options options = { .unaligned = unaligned };
		struct graph g = { 0 };

		graph_draw(&g, "A");
		ms_fake_put(&g.fake, GRAPH_ROOT + 5, graph_addr('A'));
		walk_from_root(&g, &options);
		cr_expect_str_eq(graph_marked(&g), unaligned ? "A" : "");
		graph_erase(&g);
	}
}

Test(walk, reads_a_root_up_to_where_memory_ends)
{
	struct ms_walk_options options = { 0 };
	struct graph g = { 0 };
	struct ms_walk *walk;

	graph_draw(&g, "A>B");
	ms_fake_put(&g.fake, GRAPH_ROOT + GRAPH_PAGE - 8, graph_addr('A'));
	walk = ms_walk_new(&g.blocks, &options, &g.fake.arena);
	ms_walk_range(walk, (struct ms_range){ GRAPH_ROOT + GRAPH_PAGE - 16,
	                                       GRAPH_ROOT + 3 * GRAPH_PAGE });
	cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
	cr_assert_str_eq(graph_marked(&g), "AB");
	graph_erase(&g);
}

Test(walk, undoes_the_mangling_of_saved_frame_pointers)
{
	uint64_t guard = 0x9d1f3a5b7c2e4f60;
	struct ms_walk_options options = { .guard = guard };
	struct graph g = { 0 };
	uint64_t mangled;

	graph_draw(&g, "A");
	mangled = graph_addr('A') ^ guard;
	ms_fake_put(&g.fake, GRAPH_ROOT, mangled << 17 | mangled >> 47);
	walk_from_root(&g, &options);
	cr_assert_str_eq(graph_marked(&g), "A");
	graph_erase(&g);
}

Test(walk, claims_a_block_without_following_it)
{
	struct ms_walk_options options = { 0 };
	struct graph g = { 0 };
	struct ms_walk *walk;
	struct ms_range claimed;

	graph_draw(&g, "A>B A:4");
	walk = ms_walk_new(&g.blocks, &options, &g.fake.arena);
	claimed = ms_walk_claim(walk, graph_addr('A') + 9);
	cr_assert_eq(claimed.begin, graph_addr('A'));
	cr_assert_eq(claimed.end, graph_addr('A') + 32);
	cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
	cr_assert_str_eq(graph_marked(&g), "A");
	cr_assert_eq(ms_walk_claim(walk, graph_addr('A')).end, graph_addr('A'));
	graph_erase(&g);
}

Test(walk, counts_heap_blocks_and_their_bytes)
{
	struct ms_walk_options options = { .fold_heads = true };
	struct graph g = { 0 };
	struct ms_walk *walk;

	graph_draw(&g, "r>A A>B A>m B:5");
	walk = ms_walk_new(&g.blocks, &options, &g.fake.arena);
	ms_walk_range(walk, graph_root());
	cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
	cr_assert_eq(ms_walk_count(walk).blocks, 2);
	cr_assert_eq(ms_walk_count(walk).bytes, 16 + 40);
	graph_erase(&g);
}
