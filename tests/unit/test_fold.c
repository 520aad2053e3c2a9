/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/graph/fold.h"
#include "graph.h"

/* Words count 8 bytes; "A2/16" is a leak A that references 2 blocks of 16 bytes in all. */
struct fold_case {
	char title[64];
	char picture[80];
	char leaks[80];
};

/* The first eleven are libmemunreachable's LeakFolding scenarios; its cycles fold here. */
static struct fold_case fold_cases[] = {
	{ "one block", "A", "A0/0" },
	{ "two unrelated", "A B", "A0/0 B0/0" },
	{ "a dominator", "A>B", "A1/16" },
	{ "a cycle behind a head", "A>B B>C C>B", "A2/32" },
	{ "a dominating cycle is one leak", "A>B B>A B>C", "A2/32" },
	{ "two cycles", "A>C B>E C>D D>C E>F F>E", "A2/32 B2/32" },
	{ "two dominating cycles", "A>B B>A C>D D>C", "A1/16 C1/16" },
	{ "many ways to one block", "A>B A>C B>D C>D", "A3/48" },
	{ "cycles through each other", "A>B B>C B>D D>C C>A", "A3/48" },
	{ "a head with the highest address", "C>A A>B", "C2/32" },
	{ "a cycle and its head behind it", "A>B B>A C>A", "C2/32" },
	{ "a shared block is told once", "A>C B>C", "A1/16 B0/0" },
	{ "heads absorb heads", "B>A C>B D>C", "D3/48" },
	{ "a head absorbs what it shares", "A>B C>A C>B", "C2/32" },
	{ "a block that points to itself", "A>A", "A0/0" },
	{ "two heads of one chain", "B>A A>C D>A", "B2/32 D0/0" },
	{ "three cycles in a row", "A>B B>A B>C C>D D>C D>E E>F F>E", "A5/80" },
	{ "the same, told from the end", "E>F F>E F>C C>D D>C D>A A>B B>A", "E5/80" },
	{ "two pointers to one head", "B>A B>A", "B1/16" },
	{ "heads farther up", "Q R>Q", "R1/16" },
	{ "heads in two extents", "A B S T U>S U>A", "B0/0 T0/0 U2/32" },
	{ "interior pointers fold as well", "A>B+8", "A1/16" },
};

ParameterizedTestParameters(fold, puts_each_block_under_one_leak)
{
	return cr_make_param_array(struct fold_case, fold_cases,
	                           sizeof(fold_cases) / sizeof(fold_cases[0]));
}

/* The heads as text; adds up what they explain. */
static uint64_t describe(struct graph *g, const struct ms_heads *heads, char *text, size_t size)
{
	const struct ms_head *head;
	uint64_t blocks = 0;
	size_t used = 0;

	text[0] = '\0';
	ms_vec_for_each (head, heads) {
		const struct ms_extent *e = &g->blocks.extents.at[head->extent];
		uint64_t own = ms_block_size(&g->blocks, e, head->granule);

		if (head->absorbed)
			continue;
		blocks += head->count;
		used += (size_t)snprintf(text + used, size - used, "%s%c%d/%d", used ? " " : "",
		                         graph_name(ms_block_begin(e, head->granule)),
		                         (int)head->count - 1, (int)(head->bytes - own));
	}
	return blocks;
}

static void fold(struct graph *g, struct ms_heads *ret)
{
	struct ms_walk_options like = { 0 };

	like.edges = graph_edges(g, &like);
	cr_assert_eq(ms_fold(&g->blocks, &like, &g->fake.arena, ret, &g->err), MS_OK);
}

static void check(const struct fold_case *c, enum graph_mode mode)
{
	struct graph g = { .mode = mode };
	struct ms_heads heads = { 0 };
	char text[100];

	graph_draw(&g, c->picture);
	fold(&g, &heads);
	cr_expect_eq(describe(&g, &heads, text, sizeof(text)), g.blocks.n, "%s: blocks are missing",
	             c->title);
	cr_expect_str_eq(text, c->leaks, "%s: drew \"%s\", mode %d", c->title, c->picture, mode);
	cr_expect_eq(strlen(graph_marked(&g)), g.blocks.n);
	graph_erase(&g);
}

ParameterizedTest(struct fold_case *c, fold, puts_each_block_under_one_leak)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++)
		check(c, mode);
}

/* ---- any graph, against the definition ---- */

enum { MOST_BLOCKS = 9, MOST_ARROWS = 16, GRAPHS = 3000 };

static unsigned random_below(unsigned n)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (unsigned)((uint64_t)state * n >> 32);
}

/* Draw any blocks and arrows, and note in @reaches what can be reached from what. */
static void draw_any(char *picture, unsigned n, bool reaches[MOST_BLOCKS][MOST_BLOCKS])
{
	for (unsigned i = 0; i < n; i++)
		picture += sprintf(picture, "%c:8 ", (char)('A' + i));
	for (unsigned left = random_below(MOST_ARROWS); left; left--) {
		unsigned from = random_below(n);
		unsigned to = random_below(n);

		if (!reaches[from][to])
			picture += sprintf(picture, "%c>%c ", (char)('A' + from), (char)('A' + to));
		reaches[from][to] = true;
	}
	for (unsigned k = 0; k < n; k++)
		for (unsigned i = 0; i < n; i++)
			for (unsigned j = 0; j < n; j++)
				reaches[i][j] |= reaches[i][k] && reaches[k][j];
}

/* All that lead to it, it leads to as well, and it is the lowest of them. */
static bool is_head(unsigned i, unsigned n, bool reaches[MOST_BLOCKS][MOST_BLOCKS])
{
	for (unsigned j = 0; j < n; j++)
		if (j != i && reaches[j][i] && (!reaches[i][j] || j < i))
			return false;
	return true;
}

Test(fold, finds_the_heads_of_any_graph)
{
	for (int round = 0; round < GRAPHS; round++) {
		bool reaches[MOST_BLOCKS][MOST_BLOCKS] = { 0 };
		struct graph g = { .mode = GRAPH_VIEW };
		unsigned n = 1 + random_below(MOST_BLOCKS);
		struct ms_heads heads = { 0 };
		char picture[200], text[100];

		draw_any(picture, n, reaches);
		graph_draw(&g, picture);
		fold(&g, &heads);
		cr_expect_eq(describe(&g, &heads, text, sizeof(text)), n, "%s", picture);
		for (unsigned i = 0; i < n; i++)
			cr_expect_eq(strchr(text, (char)('A' + i)) != NULL, is_head(i, n, reaches),
			             "\"%s\": %s", picture, text);
		graph_erase(&g);
	}
}

Test(fold, leaves_marked_blocks_alone)
{
	struct ms_heads heads = { 0 };
	struct graph g = { 0 };
	char text[100];

	graph_draw(&g, "A>B B>C C>D");
	ms_blocks_cell(&g.blocks, &g.blocks.extents.at[0], 8)->marks |= ms_granule_bit(8); /* C */
	fold(&g, &heads);
	cr_assert_eq(describe(&g, &heads, text, sizeof(text)), 3);
	cr_assert_str_eq(text, "A1/16 D0/0");
	graph_erase(&g);
}

Test(fold, tags_the_heads_that_are_left)
{
	struct ms_heads heads = { 0 };
	struct graph g = { 0 };

	graph_draw(&g, "A C>A B>C");
	fold(&g, &heads);
	cr_assert_eq(g.blocks.cells.at[0].tags, ms_granule_bit(4)); /* B, 64 bytes in */
	graph_erase(&g);
}
