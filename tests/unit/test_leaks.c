/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/lost/leaks.h"
#include "engine/lost/signature.h"
#include "graph.h"
#include "origins.h"

/*
 * Blocks count 16 bytes. A leak is written as its own size, what it references (count and
 * bytes), what is similar, what that references, and its stack: "A16 r1/16 s2/32 q0/0 x".
 */
struct leaks_case {
	char title[64];
	char picture[80];
	char origins[80];
	char leaks[200];
	unsigned int min_size;
	unsigned int total; /* entries without a limit */
};

static struct leaks_case leaks_cases[] = {
	{ "no stacks, one size", "A B", "", "A16 r0/0 s1/16 q0/0 -", 0, 1 },
	{ "no stacks, two sizes", "A B:5 C:3 D:5", "",
	  "B40 r0/0 s1/40 q0/0 -, C24 r0/0 s0/0 q0/0 -, A16 r0/0 s0/0 q0/0 -", 0, 3 },
	{ "the same stack", "A B", "A=c B=c", "A16 r0/0 s1/16 q0/0 c", 0, 1 },
	{ "two stacks", "A B", "A=c B=d", "A16 r0/0 s0/0 q0/0 c, B16 r0/0 s0/0 q0/0 d", 0, 2 },
	{ "stacks without frames", "A B", "A=- B=-", "A16 r0/0 s1/16 q0/0 -", 0, 1 },
	{ "some without", "A B C", "A=c C=c", "A16 r0/0 s1/16 q0/0 c, B16 r0/0 s0/0 q0/0 -", 0, 2 },
	{ "with what they reference", "A>B C>D C>E", "A=c C=c D=d E=d", "A16 r1/16 s1/16 q2/32 c",
	  0, 1 },
	{ "what is referenced does not merge", "A>B C>D", "A=c B=d C=e D=d",
	  "A16 r1/16 s0/0 q0/0 c, C16 r1/16 s0/0 q0/0 e", 0, 2 },
	{ "nor with its own head", "A>B C", "A=c B=c C=c", "A16 r1/16 s1/16 q0/0 c", 0, 1 },
	{ "the lowest address stands for all", "B A:9 C", "A=c B=c C=c", "A72 r0/0 s2/32 q0/0 c", 0,
	  1 },
	{ "also of two extents", "S A B", "A=d B=c S=c",
	  "B16 r0/0 s1/16 q0/0 c, A16 r0/0 s0/0 q0/0 d", 0, 2 },
	{ "sorted by all of it", "A:3 B C D:5", "B=c C=c",
	  "D40 r0/0 s0/0 q0/0 -, B16 r0/0 s1/16 q0/0 c, A24 r0/0 s0/0 q0/0 -", 0, 3 },
	{ "then by address", "A:4 B C", "B=c C=c", "A32 r0/0 s0/0 q0/0 -, B16 r0/0 s1/16 q0/0 c", 0,
	  2 },
	{ "no stacks, with what they reference", "A>B C>D C>E", "", "A16 r1/16 s1/16 q2/32 -", 0,
	  1 },
	{ "no stacks, many small ones", "A B C:3", "", "A16 r0/0 s1/16 q0/0 -", 32, 2 },
	{ "many small ones are large", "A B C D", "A=c B=c C=d", "A16 r0/0 s1/16 q0/0 c", 32, 3 },
	{ "what is alive does not count", "r>A A>B C D", "A=c B=c C=c D=c", "C16 r0/0 s1/16 q0/0 c",
	  0, 1 },
	{ "a cycle is its head's", "A>B B>A C>D D>C", "A=c B=d C=c D=e", "A16 r1/16 s1/16 q1/16 c",
	  0, 1 },
	{ "origins of blocks that are not there", "C", "A=c C=d E=c", "C16 r0/0 s0/0 q0/0 d", 0,
	  1 },
};

static struct ms_report report;
static struct ms_origins origins;

static void take(struct graph *g, const struct leaks_case *c, struct ms_scan_options options)
{
	const struct ms_regions none = { 0 };
	struct ms_leak_list list;
	struct ms_walk *walk;

	options.limit = UINT64_MAX;
	options.min_size = c->min_size;
	graph_draw(g, c->picture);
	origins_draw(&g->fake.arena, c->origins, &origins);
	memset(&report, 0, sizeof(report));
	list = (struct ms_leak_list){ .blocks = &g->blocks,
		                      .types = ms_types_new(&g->fake.base, &none, &g->fake.arena),
		                      .regions = &none,
		                      .options = &options,
		                      .arena = &g->fake.arena,
		                      .report = &report,
		                      .finder = { .origins = &origins } };
	list.signer = ms_signer_new(&list, &none);
	walk = graph_walk(g, (struct ms_walk_options){ 0 });
	ms_walk_range(walk, graph_root());
	cr_assert_eq(ms_walk_finish(walk, &g->err), MS_OK);
	list.edges = graph_edges(g, &(struct ms_walk_options){ 0 });
	cr_assert_eq(ms_leaks_take(&list, MS_REASON_NONE, &g->err), MS_OK);
	cr_assert_eq(ms_leaks_finish(&list, &g->err), MS_OK);
}

/* The list as text. */
static const char *told(void)
{
	static char text[512];
	const struct ms_leak *leak;
	size_t used = 0;

	text[0] = '\0';
	ms_vec_for_each (leak, &report.leaks) {
		cr_assert_eq(leak->total_size, leak->size + leak->referenced_size +
		                                       leak->similar_size +
		                                       leak->similar_referenced_size);
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s%c%d r%d/%d s%d/%d q%d/%d %c",
			used ? ", " : "", graph_name(leak->address), (int)leak->size,
			(int)leak->referenced_count, (int)leak->referenced_size,
			(int)leak->similar_count, (int)leak->similar_size,
			(int)leak->similar_referenced_count, (int)leak->similar_referenced_size,
			origins_letter(&report, leak->stack));
	}
	return text;
}

ParameterizedTestParameters(leaks, of_the_same_stack_are_one)
{
	return cr_make_param_array(struct leaks_case, leaks_cases,
	                           sizeof(leaks_cases) / sizeof(leaks_cases[0]));
}

ParameterizedTest(struct leaks_case *c, leaks, of_the_same_stack_are_one)
{
	for (unsigned int mode = 0; mode < GRAPH_MODES; mode++) {
		struct graph g = { .mode = (enum graph_mode)mode };

		take(&g, c, (struct ms_scan_options){ 0 });
		cr_expect_str_eq(told(), c->leaks, "%s: %s", c->title, told());
		cr_expect_eq(report.totals.leaks, c->total, "%s: %d", c->title,
		             (int)report.totals.leaks);
		graph_erase(&g);
	}
}

Test(leaks, are_apart_when_every_block_is_listed)
{
	static const struct leaks_case c = { .picture = "A>B C", .origins = "A=c B=d C=c" };
	struct graph g = { 0 };

	take(&g, &c, (struct ms_scan_options){ .no_fold = true });
	cr_assert_str_eq(told(), "A16 r0/0 s0/0 q0/0 c, B16 r0/0 s0/0 q0/0 d, "
	                         "C16 r0/0 s0/0 q0/0 c");
	cr_assert_eq(report.stacks.n, 2);
	graph_erase(&g);
}

Test(leaks, are_apart_but_folded_when_they_are_not_to_be_merged)
{
	static const struct leaks_case c = { .picture = "A>B C D E",
		                             .origins = "A=c B=c C=c",
		                             .total = 4 };
	struct graph g = { 0 };

	take(&g, &c, (struct ms_scan_options){ .no_merge = true });
	cr_assert_str_eq(told(), "A16 r1/16 s0/0 q0/0 c, C16 r0/0 s0/0 q0/0 c, "
	                         "D16 r0/0 s0/0 q0/0 -, E16 r0/0 s0/0 q0/0 -");
	cr_assert_eq(report.totals.leaks, c.total);
	cr_assert_str_eq(report.leaks.at[2].signature, report.leaks.at[3].signature);
	cr_assert_str_neq(report.leaks.at[1].signature, report.leaks.at[2].signature);
	graph_erase(&g);
}

Test(leaks, without_a_stack_are_apart_where_stacks_alone_count)
{
	static const struct leaks_case c = { .picture = "A B C D",
		                             .origins = "A=c B=c",
		                             .min_size = 20 };
	struct graph g = { 0 };

	take(&g, &c, (struct ms_scan_options){ .stacks_only = true });
	cr_assert_str_eq(told(), "A16 r0/0 s1/16 q0/0 c");
	cr_assert_eq(report.totals.leaks, 3);
	cr_assert_eq(report.totals.small_leaks, 2);
	graph_erase(&g);
}

/* The lowest address is another one in the next run. */
Test(leaks, of_one_stack_have_the_same_signature_whichever_comes_first)
{
	static const struct leaks_case cases[] = {
		{ .picture = "A B:5 C:7", .origins = "A=c B=c C=c" },
		{ .picture = "A:5 B:7 C", .origins = "A=c B=c C=c" },
		{ .picture = "A:7 B C:5", .origins = "A=c B=c C=c" }
	};
	char first[MS_SIGNATURE_TEXT] = "";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct graph g = { 0 };

		take(&g, &cases[i], (struct ms_scan_options){ 0 });
		cr_assert_eq(report.leaks.n, 1);
		if (!i)
			strcpy(first, report.leaks.at[0].signature);
		cr_assert_str_eq(report.leaks.at[0].signature, first);
		graph_erase(&g);
	}
}

Test(leaks, bring_their_stacks_along_once)
{
	static const struct leaks_case c = { .picture = "A B:9 C D", .origins = "A=b B=d C=b D=-" };
	struct graph g = { 0 };

	take(&g, &c, (struct ms_scan_options){ 0 });
	cr_assert_eq(report.leaks.n, 3);
	cr_assert_eq(report.stacks.n, 2);
	cr_assert_eq(report.leaks.at[0].stack, 1);
	cr_assert_eq(report.stacks.at[0].n, 4);
	cr_assert_eq(report.stacks.at[1].first, 4);
	cr_assert_eq(report.stacks.at[1].n, 2);
	cr_assert_eq(report.pcs.n, 6);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(report.pcs.at[i], origins_pc('d', i));
	cr_assert_eq(report.pcs.at[5], origins_pc('b', 1));
	graph_erase(&g);
}

/* ---- many ---- */

enum { MANY = 2000000, STACKS = 1000, STEP = 32 };

static struct ms_fake many;

static void put_many(struct ms_blocks *blocks, struct ms_arena *arena)
{
	const struct ms_range range = { GRAPH_HEAP, GRAPH_HEAP + (ms_addr)MANY * STEP };
	uint32_t extent;

	cr_assert_eq(ms_blocks_open(blocks, range, 4, &extent), MS_OK);
	cr_assert(ms_vec_reserve(arena, &origins.blocks, MANY));
	for (uint32_t i = 0; i < MANY; i++) {
		ms_addr begin = GRAPH_HEAP + (ms_addr)i * STEP;

		cr_assert_eq(ms_blocks_put(blocks, extent, begin, STEP - 8), MS_OK);
		origins.blocks.at[origins.blocks.n++] =
			(struct ms_origin){ .begin = begin, .stack = i % STACKS };
	}
	cr_assert_eq(ms_blocks_sort(blocks), MS_OK);
	cr_assert_eq(ms_blocks_seal(blocks), MS_OK);
}

/* With their stacks, or with a signature: then all are one. */
static void take_many(bool stacks)
{
	struct ms_scan_options options = { .limit = UINT64_MAX };
	const struct ms_regions none = { 0 };
	struct ms_leak_list list;
	struct ms_blocks blocks;
	struct ms_error err;

	ms_fake_init(&many);
	memset(&origins, 0, sizeof(origins));
	memset(&report, 0, sizeof(report));
	ms_fake_map(&many, GRAPH_HEAP, (size_t)MANY * STEP, MS_PROT_READ | MS_PROT_WRITE, "");
	ms_blocks_init(&blocks, &many.base, &many.arena);
	for (uint32_t i = 0; i < STACKS; i++) {
		*(struct ms_stack *)ms_vec_push(&many.arena, &origins.stacks) =
			(struct ms_stack){ i, 1, 0 };
		*(ms_addr *)ms_vec_push(&many.arena, &origins.pcs) = ORIGINS_CODE + i;
	}
	put_many(&blocks, &many.arena);
	list = (struct ms_leak_list){ .blocks = &blocks,
		                      .types = ms_types_new(&many.base, &none, &many.arena),
		                      .regions = &none,
		                      .options = &options,
		                      .arena = &many.arena,
		                      .report = &report,
		                      .finder = { .origins = stacks ? &origins : NULL } };
	list.signer = ms_signer_new(&list, &none);
	cr_assert_eq(ms_leaks_take(&list, MS_REASON_NONE, &err), MS_OK);
	cr_assert_eq(ms_leaks_finish(&list, &err), MS_OK);
}

Test(leaks, in_millions_are_as_many_as_their_stacks)
{
	take_many(true);
	cr_assert_eq(report.leaks.n, STACKS);
	cr_assert_eq(report.stacks.n, STACKS);
	for (uint32_t i = 0; i < STACKS; i++) {
		cr_assert_eq(report.leaks.at[i].address, GRAPH_HEAP + (ms_addr)i * STEP);
		cr_assert_eq(report.leaks.at[i].similar_count, MANY / STACKS - 1);
	}
	ms_fake_deinit(&many);
}

Test(leaks, in_millions_are_as_many_as_their_signatures)
{
	take_many(false);
	cr_assert_eq(report.leaks.n, 1);
	cr_assert_eq(report.leaks.at[0].address, GRAPH_HEAP);
	cr_assert_eq(report.leaks.at[0].similar_count, MANY - 1);
	ms_fake_deinit(&many);
}
