/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/retained/answer.h"
#include "graph.h"
#include "random_heap.h"

/* What holds memory, in heaps that are drawn in one line (graph.h). */

enum { LIBRARY = 1 };

struct asked {
	struct graph g;
	struct ms_regions regions;
	struct ms_roots roots;
	struct ms_report report;
	struct ms_decoding decoding;
	struct ms_question question;
	struct ms_why why;
};

static struct ms_region data = { .mapping = LIBRARY, .kind = MS_REGION_GLOBALS };

/* With the root range of the graph as a library's data, which is the second mapping. */
static void draw(struct asked *a, const char *picture)
{
	*a = (struct asked){ .question = { .kind = MS_ASKED_RETAINED, .limit = 20 } };
	graph_draw(&a->g, picture);
	data.range = graph_root();
	a->regions = (struct ms_regions){ &data, 1, 1 };
	a->roots =
		(struct ms_roots){ .unproved0 = 1, .regions = &a->regions, .src = &a->g.fake.base };
	cr_assert(ms_ranges_add(&a->g.fake.arena, &a->roots.ranges, data.range.begin,
	                        data.range.end));
}

static void ask(struct asked *a)
{
	struct ms_arena *arena = &a->g.fake.arena;

	a->decoding = (struct ms_decoding){ .src = &a->g.fake.base,
		                            .regions = &a->regions,
		                            .arena = arena,
		                            .blocks = &a->g.blocks };
	a->report.totals.allocations = a->g.blocks.n;
	a->report.totals.allocation_bytes = a->g.blocks.bytes;
	a->why = (struct ms_why){ .question = &a->question,
		                  .decoding = &a->decoding,
		                  .roots = &a->roots,
		                  .types = ms_types_new(&a->g.fake.base, &a->regions, arena),
		                  .report = &a->report };
	cr_assert_eq(ms_retained_answer(&a->why, &a->g.err), MS_OK, "%s", a->g.err.text);
}

static char name_at(ms_addr address)
{
	if (address == GRAPH_NODE_M)
		return 'm';
	return address == GRAPH_NODE_N ? 'n' : graph_name(address);
}

static size_t put_chain(char *to, const struct ms_report *report,
                        const struct ms_retained_chain *chain)
{
	for (uint32_t i = 0; i < chain->n; i++)
		to[i] = name_at(report->retained.steps.at[chain->first + i].block.address);
	to[chain->n] = '\0';
	return chain->n;
}

/* "r+8:2 AB": words of the root from +8 on, or of a thread, retain 2 blocks, by the chain AB. */
static const char *roots_as_drawn(const struct ms_report *report)
{
	static const char *const kinds[] = { "r", "b", "u", "s", "t", "g", "k" };
	static char text[800];
	const struct ms_retained_root *root;
	size_t n = 0;

	text[0] = '\0';
	ms_vec_for_each (root, &report->retained.roots) {
		n += (size_t)sprintf(text + n, "%s%s", n ? ", " : "", kinds[root->spot.kind]);
		if (root->spot.kind == MS_ROOT_GLOBALS)
			n += (size_t)sprintf(text + n, "+%d", (int)(root->spot.at - GRAPH_ROOT));
		if (root->words > 1)
			n += (size_t)sprintf(text + n, "*%d", (int)root->words);
		n += (size_t)sprintf(text + n, ":%d ", (int)root->retained.count);
		n += put_chain(text + n, report, &root->below);
	}
	return text;
}

/* "C:2 CD": block C is shared and retains 2, by the chain CD. */
static const char *shared_as_drawn(const struct ms_report *report)
{
	static char text[400];
	const struct ms_retained_block *block;
	size_t n = 0;

	text[0] = '\0';
	ms_vec_for_each (block, &report->retained.shared) {
		const struct ms_retained_step *step =
			&report->retained.steps.at[block->chain.first];

		n += (size_t)sprintf(text + n, "%s%c/%d:%d ", n ? ", " : "",
		                     name_at(step->block.address), (int)block->places,
		                     (int)step->retained.count);
		n += put_chain(text + n, report, &block->chain);
	}
	return text;
}

/* All that is reachable is either of one root or shared. */
static void check_totals(const struct asked *a)
{
	const struct ms_retained_facts *facts = &a->report.retained.facts;
	const struct ms_retained_root *root;
	uint64_t bytes = 0;

	cr_expect_eq(facts->by_root.bytes + facts->shared.bytes, facts->reachable.bytes);
	cr_expect_eq(facts->by_root.count + facts->shared.count, facts->reachable.count);
	cr_expect_eq(facts->reachable.count + facts->unreachable.count, a->g.blocks.n);
	cr_expect_eq(facts->reachable.bytes + facts->unreachable.bytes, a->g.blocks.bytes);
	ms_vec_for_each (root, &a->report.retained.roots)
		bytes += root->retained.bytes;
	if (facts->n_roots == a->report.retained.roots.n)
		cr_expect_eq(bytes, facts->by_root.bytes);
}

/* ---- by root ---- */

/* "r>A+40" draws a word that points to no block. */
#define GAP "r>A+40 r>A+40 r>A+40 "

struct root_case {
	char title[48];
	char picture[160];
	char roots[96];
	char shared[48];
};

static struct root_case root_cases[] = {
	{ "a block", "r>A", "r+0:1 A", "" },
	{ "a list", "r>A A>B B>C", "r+0:3 ABC", "" },
	{ "a ring", "r>A A>B B>C C>A", "r+0:3 ABC", "" },
	{ "what is not reachable is of none", "r>A B>C C>B", "r+0:1 A", "" },
	{ "two globals side by side", "r>A A>B r>C", "r+0:2 AB, r+8:1 C", "" },
	{ "of two that share little, too", "r>A A>B B>D D>E E>F F>G r>H H>I I>J J>K K>L A>M H>M",
	  "r+0:6 ABDEFG, r+8:5 HIJKL", "M/2:1 M" },
	{ "the header of a tree is one", "r>A r>B r>C A>B A>C B>A C>A", "r+0*3:3 A", "" },
	{ "one in the middle shares nothing", "r>A r>D r>B A>B B>A", "r+0*2:2 A, r+8:1 D", "" },
	{ "with two words between", "r>A r>A+40 r>A+40 r>B A>C B>C", "r+0*2:3 A", "" },
	{ "not with three", "r>A " GAP "r>B A>C B>C", "r+0:1 A, r+32:1 B", "C/2:1 C" },
	{ "what is shared holds more", "r>A " GAP "r>B A>C B>C C>D D>C", "r+0:1 A, r+32:1 B",
	  "C/3:2 CD" },
	{ "what two shared ones share", "r>A " GAP "r>A " GAP "r>B A>C B>C", "r+64:1 B",
	  "A/2:1 A, C/2:1 C" },
	{ "a diamond has no chain to its end", "r>A A>B A>C B>D C>D", "r+0:4 A", "" },
	{ "two words to one block", "r>A r>A A>B", "r+0*2:2 AB", "" },
	{ "mappings pass on and weigh nothing", "r>m m>A m>n n>B", "r+0:2 mnB", "" },
	{ "the chain ends where nothing is most", "r>A A>B A>C A>D A>E B>F", "r+0:6 A", "" },
	{ "the chain follows the heavier", "r>A A>B A>C C>D D>E", "r+0:5 ACDE", "" },
	{ "the larger of two", "r>A A>B A>C C:8", "r+0:3 AC", "" },
	{ "the heavier root is first", "r>A " GAP "r>B B:8", "r+32:1 B, r+0:1 A", "" },
};

ParameterizedTestParameters(retained, names_what_holds)
{
	return cr_make_param_array(struct root_case, root_cases,
	                           sizeof(root_cases) / sizeof(root_cases[0]));
}

ParameterizedTest(struct root_case *c, retained, names_what_holds)
{
	static struct asked a;

	draw(&a, c->picture);
	ask(&a);
	cr_expect_str_eq(roots_as_drawn(&a.report), c->roots, "%s: drew \"%s\", got \"%s\"",
	                 c->title, c->picture, roots_as_drawn(&a.report));
	cr_expect_str_eq(shared_as_drawn(&a.report), c->shared, "%s: drew \"%s\", got \"%s\"",
	                 c->title, c->picture, shared_as_drawn(&a.report));
	check_totals(&a);
	graph_erase(&a.g);
}

/* A table of lists, of which none stands out, is one; else each list is. */
Test(retained, takes_a_table_for_one)
{
	static struct asked a;

	draw(&a, "r>A r>B r>C r>D r>E r>F r>G r>H r>I r>J r>K r>L r>M r>N r>O r>P A>Z");
	ask(&a);
	cr_expect_str_eq(roots_as_drawn(&a.report), "r+0*16:17 AZ");
	check_totals(&a);
	graph_erase(&a.g);
	draw(&a, "r>A r>B r>C r>D r>E r>F r>G r>H r>I r>J r>K r>L r>M r>N r>O");
	ask(&a);
	cr_expect_eq(a.report.retained.roots.n, 15, "of 15 none is a table");
	graph_erase(&a.g);
	draw(&a, "r>A r>B r>C r>D r>E r>F r>G r>H r>I r>J r>K r>L r>M r>N r>O r>P P>Z Z>Y Y>X");
	ask(&a);
	cr_expect_eq(a.report.retained.roots.n, 16, "one stands out");
	cr_expect_eq(a.report.retained.roots.at[0].retained.count, 4);
	check_totals(&a);
	graph_erase(&a.g);
}

/* ---- threads ---- */

static struct ms_thread threads[2];
static struct ms_stack_part parts[2];

/* The range of the root is the stacks of two threads, side by side; TLS is in the upper half. */
static void make_stacks(struct asked *a)
{
	for (int i = 0; i < 2; i++) {
		ms_addr begin = GRAPH_ROOT + (ms_addr)i * 64;

		threads[i] = (struct ms_thread){ .tid = 70 + i, .sp = begin, .tp = begin + 32 };
		parts[i] = (struct ms_stack_part){ { begin, begin + 64 }, 70 + i, false };
	}
	a->g.fake.base.threads = (struct ms_threads){ threads, 2, 2 };
	a->roots.stacks.live = a->roots.ranges;
	a->roots.stacks.parts.at = parts;
	a->roots.stacks.parts.n = 2;
	a->roots.ranges = (struct ms_ranges){ 0 };
}

Test(retained, takes_a_stack_and_its_registers_for_one)
{
	static struct asked a;
	static uint64_t word;

	draw(&a, "r>A r>A+40 r>A+40 r>A+40 r>B r>A+40 r>A+40 r>A+40 r>C A>D C>E X>D");
	make_stacks(&a);
	word = graph_addr('X');
	threads[0].words = &word;
	threads[0].n_words = 1;
	ask(&a);
	cr_expect_str_eq(roots_as_drawn(&a.report), "s*2:3 A, s:2 CE, t:1 B");
	cr_expect_eq(a.report.retained.roots.at[0].spot.tid, 70);
	cr_expect_eq(a.report.retained.roots.at[1].spot.tid, 71);
	cr_expect_eq(a.report.retained.roots.at[2].spot.tid, 70);
	check_totals(&a);
	graph_erase(&a.g);
}

/* What a stack points to for the moment is of what holds it else: here of TLS, B and C. */
Test(retained, counts_what_a_stack_holds_too_as_of_the_other)
{
	static struct asked a;

	draw(&a, "r>C r>A r>A+40 r>A+40 r>B r>A+40 r>A+40 r>A+40 r>D B>C C>B A>C D>E E>B");
	make_stacks(&a);
	ask(&a);
	cr_expect_str_eq(roots_as_drawn(&a.report), "t:2 BC, s:2 DE, s:1 A");
	cr_expect_str_eq(shared_as_drawn(&a.report), "");
	check_totals(&a);
	graph_erase(&a.g);
}

Test(retained, knows_the_kernel)
{
	static struct asked a;
	uint64_t words[2] = { graph_addr('A'), graph_addr('B') };

	draw(&a, "A>C B>D D>B");
	a.g.fake.base.kernel_words = (struct ms_words){ words, 2, 2 };
	ask(&a);
	cr_expect_str_eq(roots_as_drawn(&a.report), "k:2 AC, k:2 BD");
	graph_erase(&a.g);
}

/* What else is in the block of a stack leads nowhere. */
Test(retained, a_stack_in_a_block_keeps_it_alone)
{
	static struct asked a;
	static struct ms_thread thread = { .tid = 70 };

	draw(&a, "A>B A>C A:4 D");
	a.roots.ranges = (struct ms_ranges){ 0 };
	thread.sp = graph_addr('A') + 8;
	parts[0] =
		(struct ms_stack_part){ { graph_addr('A') + 8, graph_addr('A') + 16 }, 70, false };
	a.g.fake.base.threads = (struct ms_threads){ &thread, 1, 1 };
	cr_assert(ms_ranges_add(&a.g.fake.arena, &a.roots.stacks.live, parts[0].range.begin,
	                        parts[0].range.end));
	a.roots.stacks.parts.at = parts;
	a.roots.stacks.parts.n = 1;
	ask(&a);
	cr_expect_str_eq(roots_as_drawn(&a.report), "s:1 A, s:1 C");
	cr_expect_eq(a.report.retained.facts.unreachable.count, 2);
	graph_erase(&a.g);
}

/* ---- by type, by block ---- */

/* Blocks of one size, each below the other, are counted once. */
Test(retained, counts_no_block_of_a_type_twice)
{
	const struct ms_retained_type *type;
	static struct asked a;

	draw(&a, "r>A A>B B>C C>D B:4 D:4 Z");
	ask(&a);
	cr_assert_eq(a.report.retained.types.n, 2);
	type = a.report.retained.types.at;
	cr_expect_eq(type->size, 16);
	cr_expect_eq(type->own.count, 2);
	cr_expect_eq(type->own.bytes, 32);
	cr_expect_eq(type->retained.count, 4);
	cr_expect_eq(type->retained.bytes, 96);
	type++;
	cr_expect_eq(type->size, 32);
	cr_expect_eq(type->own.count, 2);
	cr_expect_eq(type->retained.count, 3);
	cr_expect_eq(type->retained.bytes, 80);
	graph_erase(&a.g);
}

Test(retained, adds_up_those_of_a_type_side_by_side)
{
	const struct ms_retained_type *type;
	static struct asked a;

	draw(&a, "r>A A>B A>C B>D C>E A:8 D:4 E:4");
	ask(&a);
	ms_vec_for_each (type, &a.report.retained.types)
		if (type->size == 16)
			cr_expect_eq(type->retained.count, 4);
		else if (type->size == 32)
			cr_expect_eq(type->retained.count, 2);
	cr_expect_eq(a.report.retained.facts.n_types, 3);
	graph_erase(&a.g);
}

/* Blocks of a random heap, weighed by @workers: the classes as they were numbered. */
static struct ms_retained_type *weigh_random(struct asked *a, struct ms_workers *workers,
                                             struct random_heap *h)
{
	struct ms_arena *arena = &h->fake.arena;

	*a = (struct asked){ .question = { .kind = MS_ASKED_RETAINED, .limit = 1000 } };
	random_heap_draw(h, 3, true);
	a->roots =
		(struct ms_roots){ .unproved0 = 1, .regions = &a->regions, .src = &h->fake.base };
	cr_assert(ms_ranges_add(arena, &a->roots.ranges, RH_ROOT, RH_ROOT + RH_ROOT_BYTES));
	a->decoding = (struct ms_decoding){
		.src = &h->fake.base, .regions = &a->regions, .arena = arena, .blocks = &h->blocks
	};
	a->why = (struct ms_why){ .question = &a->question,
		                  .decoding = &a->decoding,
		                  .roots = &a->roots,
		                  .like = { .mangling = rh_mangling, .workers = workers },
		                  .types = ms_types_new(&h->fake.base, &a->regions, arena),
		                  .report = &a->report };
	ms_types_keep(a->why.types, &h->blocks, ms_arena_alloc(arena, h->n * 2 * sizeof(uint32_t)),
	              true);
	cr_assert_eq(ms_retained_answer(&a->why, &h->err), MS_OK, "%s", h->err.text);
	return a->report.retained.types.at;
}

Test(retained, weighs_the_same_by_however_many)
{
	static struct random_heap h[2];
	static struct asked a[2];
	struct ms_retained_type *types[2];
	struct ms_workers *workers;

	cr_assert(!ms_workers_start(3, &workers, &h[0].err));
	types[0] = weigh_random(&a[0], NULL, &h[0]);
	types[1] = weigh_random(&a[1], workers, &h[1]);
	ms_workers_stop(workers);
	cr_assert_gt(a[0].report.retained.types.n, 10);
	cr_assert_eq(a[0].report.retained.types.n, a[1].report.retained.types.n);
	cr_assert_arr_eq(types[0], types[1], a[0].report.retained.types.n * sizeof(*types[0]));
	ms_fake_deinit(&h[0].fake);
	ms_fake_deinit(&h[1].fake);
}

/* B and C are links of A's chain; D is none of B's, which holds E, as heavy, too. */
Test(retained, lists_no_block_that_is_a_link)
{
	static struct asked a;
	char text[40] = "";
	size_t n = 0;
	const struct ms_retained_block *block;

	draw(&a, "r>A A>B B>C C>D C>E D>F E>G C>H H>I");
	ask(&a);
	ms_vec_for_each (block, &a.report.retained.blocks) {
		n += put_chain(text + n, &a.report, &block->chain);
		text[n++] = ' ';
	}
	cr_expect_str_eq(text, "ABC DF EG HI ");
	graph_erase(&a.g);
}

Test(retained, lists_as_many_as_wanted)
{
	static struct asked a;

	draw(&a, "r>A " GAP "r>B " GAP "r>C " GAP "r>D B:4 D:3");
	a.question.limit = 2;
	ask(&a);
	cr_expect_str_eq(roots_as_drawn(&a.report), "r+32:1 B, r+96:1 D");
	cr_expect_eq(a.report.retained.facts.n_roots, 4);
	cr_expect_eq(a.report.retained.types.n, 2);
	cr_expect_eq(a.report.retained.facts.n_types, 3);
	cr_expect_eq(a.report.retained.blocks.n, 2);
	check_totals(&a);
	graph_erase(&a.g);
}

/* A chain of 26 is shown in part. */
Test(retained, omits_the_middle_of_a_long_chain)
{
	static struct asked a;
	const struct ms_retained_chain *chain;
	const struct ms_retained_step *steps;

	draw(&a, "r>A A>B B>C C>D D>E E>F F>G G>H H>I I>J J>K K>L L>M M>N N>O O>P P>Q Q>R R>S S>T "
	         "T>U U>V V>W W>X X>Y Y>Z");
	ask(&a);
	chain = &a.report.retained.roots.at[0].below;
	steps = &a.report.retained.steps.at[chain->first];
	cr_assert_eq(chain->n, MS_RETAINED_STEPS);
	cr_expect_eq(chain->length, 26);
	cr_expect_eq(name_at(steps[9].block.address), 'J');
	cr_expect_eq(name_at(steps[10].block.address), 'Q');
	cr_expect_eq(steps[10].block.omitted, 6);
	cr_expect_eq(steps[11].block.omitted, 0);
	cr_expect_eq(name_at(steps[19].block.address), 'Z');
	cr_expect(steps[0].direct && !steps[19].direct);
	graph_erase(&a.g);
}

Test(retained, says_where_the_pointer_of_a_step_is)
{
	static struct asked a;
	const struct ms_retained_step *steps;

	draw(&a, "r>A A>Z A>Y A>B A:4 B>C B>D C>E D>E E:8");
	ask(&a);
	steps = &a.report.retained.steps.at[a.report.retained.roots.at[0].below.first];
	cr_expect(steps[0].direct && steps[0].block.offset == 16);
	cr_expect(!steps[1].direct, "E is reached by two ways");
	cr_expect_eq(steps[1].retained.bytes, 4 * 16 + 48);
	graph_erase(&a.g);
}
