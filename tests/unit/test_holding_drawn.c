/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/holding/chains.h"
#include "graph.h"

/* Rows and chains of heaps that are drawn in one line (graph.h). */

static char name_of(const struct ms_blocks *blocks, struct ms_block block)
{
	const struct ms_extent *e = &blocks->extents.at[block.extent];

	if (e->kind == MS_EXTENT_MAPPING)
		return e->range.begin == GRAPH_NODE_M ? 'm' : 'n';
	return graph_name(ms_block_begin(e, block.granule));
}

static struct ms_block block_named(const struct ms_blocks *blocks, char name)
{
	const struct ms_extent *e = ms_blocks_extent_of(blocks, graph_addr(name));

	return (struct ms_block){ (uint32_t)(e - blocks->extents.at),
		                  ms_granule_of(e, graph_addr(name)) };
}

/* The root range of a graph as a library's data, which is the second mapping. */
static void root_of(struct graph *g, struct ms_roots *ret)
{
	static struct ms_region region = { .mapping = 1, .kind = MS_REGION_GLOBALS };
	static const struct ms_regions regions = { &region, 1, 1 };

	region.range = graph_root();
	*ret = (struct ms_roots){ .unproved0 = 1, .regions = &regions, .src = &g->fake.base };
	cr_assert(
		ms_ranges_add(&g->fake.arena, &ret->ranges, region.range.begin, region.range.end));
}

/* ---- rows ---- */

struct rows_case {
	char title[48];
	char picture[48];
	char rows[48];
	bool starts_only;
};

static struct rows_case rows_cases[] = {
	{ "each pointer has an entry", "A>B B>C", "A>B B>C", false },
	{ "what no root leads to has, too", "B>C C>B", "B>C C>B", false },
	{ "in the order of words", "A>C A>B A>D", "A>CBD", false },
	{ "once", "A>C A>B A>C A>B", "A>CB", false },
	{ "in every row", "A>C B>C", "A>C B>C", false },
	{ "not to itself", "A>A A>B", "A>B", false },
	{ "the middle counts", "A>B+8", "A>B", false },
	{ "the last byte counts", "A>B+31 B:4", "A>B", false },
	{ "one past the end does not", "A>B+32 B:4", "", false },
	{ "between blocks is none", "A>B+40 B:4 C", "", false },
	{ "the middle does not count with starts_only", "A>B+8 A>C", "A>C", true },
	{ "words behind a block are not read", "A>B A>C A>D A:2", "A>BC", false },
	{ "from one extent to the other", "A>Z Z>B", "A>Z Z>B", false },
	{ "nodes have rows and are entries", "A>m+1000 m>n n>B", "A>m m>n n>B", false },
	{ "roots have none", "r>A A B", "", false },
};

ParameterizedTestParameters(rows, say_which_blocks_each_points_to)
{
	return cr_make_param_array(struct rows_case, rows_cases,
	                           sizeof(rows_cases) / sizeof(rows_cases[0]));
}

static const char *rows_as_drawn(const struct ms_rows *rows)
{
	static char text[200];
	size_t n = 0;

	for (uint32_t i = 0; i < rows->n; i++) {
		size_t n_row;
		const uint32_t *row = ms_rows_of(rows, i, &n_row);

		if (!n_row)
			continue;
		n += (size_t)sprintf(text + n, "%s%c>", n ? " " : "",
		                     name_of(rows->blocks, ms_block_numbered(rows->blocks, i)));
		for (size_t k = 0; k < n_row; k++)
			text[n++] = name_of(rows->blocks, ms_block_numbered(rows->blocks, row[k]));
	}
	text[n] = '\0';
	return text;
}

ParameterizedTest(struct rows_case *c, rows, say_which_blocks_each_points_to)
{
	struct ms_walk_options like = { .starts_only = c->starts_only };

	for (enum graph_mode mode = GRAPH_VIEW; mode <= GRAPH_READ; mode++) {
		struct graph g = { .mode = mode };
		struct ms_rows rows;

		graph_draw(&g, c->picture);
		cr_assert_eq(ms_rows_gather(&g.blocks, &like, &g.fake.arena, &rows, &g.err), MS_OK);
		cr_expect_str_eq(rows_as_drawn(&rows), c->rows, "%s: drew \"%s\", mode %d",
		                 c->title, c->picture, mode);
		graph_erase(&g);
	}
}

/* ---- chains ---- */

struct chain_case {
	char title[48];
	char picture[64];
	char wanted;
	char chain[40];
	bool more;
};

static struct chain_case chain_cases[] = {
	{ "a root's own block", "r>A", 'A', "r+0 A", false },
	{ "along a list", "r>A A>B B>C", 'C', "r+0 A+0 B+0 C", false },
	{ "words that lead to it have offsets", "r>Z r>A A>Z A>B", 'B', "r+8 A+8 B", false },
	{ "to the middle of blocks", "r>A+8 A>B+9", 'B', "r+0 A+0 B", false },
	{ "through a node", "r>m+100 m>n m>A", 'A', "r+0 m+8 A", false },
	{ "to a node", "r>A A>m", 'm', "r+0 A+0 m", false },
	{ "nothing holds it", "r>A B>C C>B", 'C', "", false },
	{ "nothing but itself does", "r>A B>B", 'B', "", false },
	{ "the shortest", "r>A A>B B>C A>C", 'C', "r+0 A+8 C", true },
	{ "the shortest comes last", "r>A A>B B>D r>D", 'D', "r+8 D", true },
	{ "two words of the root", "r>A r>A", 'A', "r+0 A", true },
	{ "two words of a block", "r>A A>B A>B", 'B', "r+0 A+0 B", true },
	{ "two words of a block before", "r>A A>B A>B+8 B>C", 'C', "r+0 A+0 B+0 C", true },
	{ "two words of the root, farther away", "r>A r>A A>B", 'B', "r+0 A+0 B", true },
	{ "two roots, two blocks", "r>A r>B A>C B>C", 'C', "r+0 A+0 C", true },
	{ "two ways, then one", "r>A r>B A>C B>C C>D", 'D', "r+0 A+0 C+0 D", true },
	{ "one way, then two", "r>A A>B A>C B>D C>D", 'D', "r+0 A+0 B+0 D", true },
	{ "one way, two, and one", "r>A A>B B>D A>C C>D D>E", 'E', "r+0 A+0 B+0 D+0 E", true },
	{ "a longer way past some", "r>A A>B B>C C>D A>X X>Y Y>Z Z>D", 'D', "r+0 A+0 B+0 C+0 D",
	  true },
	{ "a way into the middle", "r>A A>B B>C r>X X>Y Y>Z Z>B", 'C', "r+0 A+0 B+0 C", true },
	{ "a way back is none", "r>A A>B B>C C>A C>B", 'C', "r+0 A+0 B+0 C", false },
	{ "nor is one that goes round", "r>A A>B B>C B>X X>A X>B", 'C', "r+0 A+0 B+0 C", false },
	{ "nor one from what it holds itself", "r>A A>B B>X X>B", 'B', "r+0 A+0 B", false },
	{ "nor one from what nothing holds", "r>A A>B X>B", 'B', "r+0 A+0 B", false },
	{ "a way over a node", "r>A A>B r>m m>B", 'B', "r+0 A+0 B", true },
};

ParameterizedTestParameters(chains, lead_from_a_root_to_a_block)
{
	return cr_make_param_array(struct chain_case, chain_cases,
	                           sizeof(chain_cases) / sizeof(chain_cases[0]));
}

static const char *chain_as_drawn(const struct ms_blocks *blocks, const struct ms_chain *chain)
{
	static char text[400];
	const struct ms_chain_step *step;
	size_t n = 0;

	text[0] = '\0';
	ms_vec_for_each (step, &chain->steps) {
		if (!n)
			n += (size_t)sprintf(text, "r+%d", (int)chain->root.offset);
		n += (size_t)sprintf(text + n, " %c", name_of(blocks, step->block));
		if (step + 1 < chain->steps.at + chain->steps.n)
			n += (size_t)sprintf(text + n, "+%d", (int)step->offset);
	}
	return text;
}

/* What rows, roots and chains of a graph need to stay. */
struct holding {
	struct ms_rows rows;
	struct ms_roots roots;
	struct ms_chains chains;
};

static void hold(struct graph *g, const struct ms_walk_options *like, struct holding *ret)
{
	root_of(g, &ret->roots);
	cr_assert(!ms_rows_gather(&g->blocks, like, &g->fake.arena, &ret->rows, &g->err));
	cr_assert(!ms_chains_walk(&ret->rows, &ret->roots, &g->fake.arena, &ret->chains, &g->err));
}

ParameterizedTest(struct chain_case *c, chains, lead_from_a_root_to_a_block)
{
	struct ms_walk_options like = { 0 };

	for (enum graph_mode mode = GRAPH_VIEW; mode <= GRAPH_READ; mode++) {
		struct graph g = { .mode = mode };
		struct ms_chain chain;
		struct ms_block block;
		struct holding h;

		graph_draw(&g, c->picture);
		hold(&g, &like, &h);
		block = block_named(&g.blocks, c->wanted);
		cr_expect_eq(ms_chains_held(&h.chains, block), c->chain[0] != '\0', "%s", c->title);
		for (int again = 0; again < 2; again++) {
			cr_assert_eq(ms_chains_find(&h.chains, block, &chain, &g.err), MS_OK);
			cr_expect_str_eq(chain_as_drawn(&g.blocks, &chain), c->chain, "%s: \"%s\"",
			                 c->title, c->picture);
			cr_expect_eq(ms_chains_more(&h.chains, &chain), c->more, "%s: \"%s\"",
			             c->title, c->picture);
		}
		graph_erase(&g);
	}
}

/* What was asked before does not matter. */
Test(chains, are_found_one_after_the_other)
{
	static const struct {
		char wanted;
		const char *chain;
		bool more;
	} cases[] = {
		{ 'D', "r+0 A+0 B+0 D", true },
		{ 'C', "r+0 A+8 C", false },
		{ 'E', "r+8 E", false },
		{ 'D', "r+0 A+0 B+0 D", true },
		{ 'F', "", false },
		{ 'B', "r+0 A+0 B", false },
	};
	struct ms_walk_options like = { 0 };
	struct graph g = { .mode = GRAPH_READ };
	struct ms_chain chain;
	struct holding h;

	graph_draw(&g, "r>A r>E A>B A>C B>D C>D F>B");
	hold(&g, &like, &h);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_block block = block_named(&g.blocks, cases[i].wanted);

		cr_assert(!ms_chains_find(&h.chains, block, &chain, &g.err));
		cr_expect_str_eq(chain_as_drawn(&g.blocks, &chain), cases[i].chain, "case %zu", i);
		cr_expect_eq(ms_chains_more(&h.chains, &chain), cases[i].more, "case %zu", i);
	}
	graph_erase(&g);
}

/* ---- what a drawn line cannot say ---- */

/* A stack in block A, of which the upper half lives; in the lower, a pointer to B. */
static void draw_stack(struct graph *g, struct ms_roots *roots, const char *picture)
{
	struct ms_stack_part *part;

	graph_draw(g, picture);
	root_of(g, roots);
	cr_assert(ms_ranges_add(&g->fake.arena, &roots->stacks.live, graph_addr('A') + 16,
	                        graph_addr('A') + 32));
	part = ms_vec_push(&g->fake.arena, &roots->stacks.parts);
	*part = (struct ms_stack_part){ roots->stacks.live.at[0], 7, false };
	(void)ms_fake_thread(&g->fake, 7, graph_addr('A') + 24, 0);
}

Test(chains, do_not_follow_a_block_that_a_stack_lies_in)
{
	static const struct {
		const char *picture;
		bool more; /* of block A */
	} cases[] = { { "A>B A>B A>C A>D", false },
		      { "r>A A>B A>B A>C A>D", true },
		      { "A>B A>B A>C A>D D>A", true } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ms_walk_options like = { 0 };
		struct graph g = { .mode = GRAPH_VIEW };
		struct ms_chain chain;
		struct ms_walk *walk;
		struct holding h;

		draw_stack(&g, &h.roots, cases[i].picture);
		walk = graph_walk(&g, like);
		ms_roots_walk(&h.roots, walk);
		cr_assert(!ms_walk_finish(walk, &g.err));
		cr_expect_str_eq(graph_marked(&g), "ACD", "the quick walk");
		cr_assert(!ms_rows_gather(&g.blocks, &like, &g.fake.arena, &h.rows, &g.err));
		cr_assert(!ms_chains_walk(&h.rows, &h.roots, &g.fake.arena, &h.chains, &g.err));
		for (const char *c = "ABCD"; *c; c++)
			cr_expect_eq(ms_chains_held(&h.chains, block_named(&g.blocks, *c)),
			             *c != 'B');
		cr_assert(!ms_chains_find(&h.chains, block_named(&g.blocks, 'A'), &chain, &g.err));
		cr_expect_eq(chain.steps.n, 1);
		cr_expect_eq(chain.root.kind, MS_ROOT_STACK);
		cr_expect_eq(chain.root.tid, 7);
		cr_expect_eq(chain.root.offset, -8, "where its live part begins");
		cr_expect_eq(ms_chains_more(&h.chains, &chain), cases[i].more, "case %zu", i);
		cr_assert(!ms_chains_find(&h.chains, block_named(&g.blocks, 'D'), &chain, &g.err));
		cr_expect_eq(chain.steps.n, 1);
		cr_expect_eq(chain.root.at, graph_addr('A') + 24);
		cr_expect_not(ms_chains_more(&h.chains, &chain));
		graph_erase(&g);
	}
}

/* Registers, and what the kernel holds. */
Test(chains, begin_with_single_words)
{
	const uint64_t registers[] = { 0, graph_addr('A') + 8 };
	struct ms_walk_options like = { 0 };
	struct graph g = { .mode = GRAPH_VIEW };
	struct ms_chain chain;
	struct ms_thread *t;
	struct holding h;

	graph_draw(&g, "r>B A>B C");
	t = ms_fake_thread(&g.fake, 7, 0, 0);
	t->words = registers;
	t->n_words = 2;
	*ms_vec_push(&g.fake.arena, &g.fake.base.kernel_words) = graph_addr('C');
	hold(&g, &like, &h);
	cr_assert(!ms_chains_find(&h.chains, block_named(&g.blocks, 'A'), &chain, &g.err));
	cr_expect_eq(chain.root.kind, MS_ROOT_REGISTER);
	cr_expect_eq(chain.root.tid, 7);
	cr_expect_eq(chain.root.offset, 1);
	cr_expect_eq(chain.root.at, 0);
	cr_assert(!ms_chains_find(&h.chains, block_named(&g.blocks, 'C'), &chain, &g.err));
	cr_expect_eq(chain.root.kind, MS_ROOT_KERNEL);
	cr_assert(!ms_chains_find(&h.chains, block_named(&g.blocks, 'B'), &chain, &g.err));
	cr_expect_eq(chain.root.kind, MS_ROOT_GLOBALS);
	cr_expect(ms_chains_more(&h.chains, &chain));
	graph_erase(&g);
}

/* Words of four bytes in the other order, with a tag; two of them are one of eight. */
Test(rows, are_of_the_words_of_the_source)
{
	static const struct ms_abi abi = {
		.page_bytes = 16384, .word_bytes = 4, .big_endian = true, .tag_bits = 0xf0000000
	};
	struct ms_walk_options like = { 0 };

	for (enum graph_mode mode = GRAPH_VIEW; mode <= GRAPH_READ; mode++) {
		struct graph g = { .mode = mode };
		struct ms_rows rows;

		graph_draw(&g, "A B C");
		g.fake.base.abi = abi;
		ms_fake_put(&g.fake, graph_addr('A') + 4, graph_addr('B') | 0x50000000);
		ms_fake_put(&g.fake, graph_addr('A') + 8, graph_addr('C'));
		ms_fake_put(&g.fake, graph_addr('B') + 2, graph_addr('C'));
		cr_assert(!ms_rows_gather(&g.blocks, &like, &g.fake.arena, &rows, &g.err));
		cr_expect_str_eq(rows_as_drawn(&rows), "A>BC", "mode %d", mode);
		graph_erase(&g);
	}
}

/* ---- drawn by chance, and asked of the quick walk ---- */

enum { N_NAMES = GRAPH_BLOCKS + 2, BLOCK_WORDS = 4, ROOT_WORDS = 3, ROUNDS = 3000 };

static const char names[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZmn";

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Blocks of four words, of which one in @sparse points somewhere near the begin of one. */
static void draw_by_chance(struct graph *g, uint64_t *state, uint64_t sparse)
{
	char picture[200] = "m>m n>n";

	for (char c = 'A'; c <= 'Z'; c++)
		sprintf(picture + strlen(picture), " %c:%d", c, BLOCK_WORDS);
	graph_draw(g, picture);
	for (int i = -1; i < N_NAMES; i++) {
		ms_addr at = i < 0 ? GRAPH_ROOT : graph_addr(names[i]);

		for (int k = 0; k < (i < 0 ? ROOT_WORDS : BLOCK_WORDS); k++) {
			ms_addr to = graph_addr(names[next_random(state) % N_NAMES]);

			to += next_random(state) % 44 - 4;
			if (next_random(state) % sparse == 0)
				ms_fake_put(&g->fake, at + 8 * (ms_addr)k, to);
		}
	}
}

/* The index of the block in names that the word @value points into, or -1. */
static int pointed_to(uint64_t value)
{
	for (int i = 0; i < N_NAMES; i++)
		if (value - graph_addr(names[i]) <
		    (i < GRAPH_BLOCKS ? 8 * BLOCK_WORDS : (uint64_t)GRAPH_PAGE))
			return i;
	return -1;
}

static uint64_t word_at(struct graph *g, ms_addr at)
{
	uint64_t word = 0;

	cr_assert(ms_source_word(&g->fake.base, at, &word));
	return word;
}

/* How many steps each block is from the root, 1 for what it points to; 0: it is not held. */
static void measure(struct graph *g, size_t *steps)
{
	memset(steps, 0, N_NAMES * sizeof(*steps));
	for (int k = 0; k < ROOT_WORDS; k++) {
		int to = pointed_to(word_at(g, GRAPH_ROOT + 8 * (ms_addr)k));

		if (to >= 0)
			steps[to] = 1;
	}
	for (size_t step = 1; step < N_NAMES; step++)
		for (int i = 0; i < N_NAMES; i++)
			for (ms_addr k = 0; steps[i] == step && k < BLOCK_WORDS; k++) {
				int to = pointed_to(word_at(g, graph_addr(names[i]) + 8 * k));

				if (to >= 0 && !steps[to])
					steps[to] = step + 1;
			}
}

static bool is_marked(struct graph *g, char name)
{
	struct ms_walk *walk = graph_walk(g, (struct ms_walk_options){ 0 });

	ms_blocks_unmark(&g->blocks);
	ms_walk_range(walk, graph_root());
	cr_assert(!ms_walk_finish(walk, &g->err));
	return strchr(graph_marked(g), name);
}

/* Whether the block is held without some word of its chain. */
static bool is_held_otherwise(struct graph *g, const struct ms_chain *chain, char name)
{
	ms_addr at = chain->root.at;
	bool held = false;

	for (size_t i = 0; i < chain->steps.n; i++) {
		uint64_t word = word_at(g, at);

		cr_expect_eq(names[pointed_to(word)],
		             name_of(&g->blocks, chain->steps.at[i].block));
		ms_fake_put(&g->fake, at, 0);
		held |= is_marked(g, name);
		ms_fake_put(&g->fake, at, word);
		at = graph_addr(name_of(&g->blocks, chain->steps.at[i].block)) +
		     chain->steps.at[i].offset;
	}
	return held;
}

/* Returns 0 when nothing holds it, 1 when one chain does, 2 when several do. */
static int check(struct graph *g, struct holding *h, char name, size_t steps)
{
	struct ms_block block = block_named(&g->blocks, name);
	struct ms_chain chain;
	bool more;

	cr_expect_eq(ms_chains_held(&h->chains, block), is_marked(g, name));
	cr_assert(!ms_chains_find(&h->chains, block, &chain, &g->err));
	cr_expect_eq(chain.steps.n, steps, "%zu steps, not %zu", chain.steps.n, steps);
	if (!chain.steps.n)
		return 0;
	more = ms_chains_more(&h->chains, &chain);
	cr_expect_eq(more, is_held_otherwise(g, &chain, name));
	return 1 + more;
}

Test(chains, are_those_of_the_quick_walk)
{
	struct ms_walk_options like = { 0 };
	uint64_t state = 88172645463325252;
	int seen[3] = { 0 };
	size_t longest = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct graph g = { .mode = round % 2 ? GRAPH_VIEW : GRAPH_READ };
		int i = (int)(next_random(&state) % N_NAMES);
		size_t steps[N_NAMES];
		struct holding h;

		draw_by_chance(&g, &state, 2 + (uint64_t)round % 4);
		hold(&g, &like, &h);
		measure(&g, steps);
		seen[check(&g, &h, names[i], steps[i])]++;
		longest = steps[i] > longest ? steps[i] : longest;
		graph_erase(&g);
	}
	for (int i = 0; i < 3; i++)
		cr_expect_gt(seen[i], ROUNDS / 20, "%d of %d", seen[i], i);
	cr_expect_gt(longest, 6);
}
