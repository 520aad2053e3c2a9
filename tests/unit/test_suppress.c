/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "classes.h"
#include "engine/lost/leaks.h"
#include "engine/lost/signature.h"
#include "engine/lost/suppress.h"
#include "engine/mapping.h"
#include "graph.h"
#include "origins.h"

/*
 * Blocks of classes a to d, whose names are "a" to "d"; words count 8 bytes. What is
 * left is written as in test_fold.c: "A2/16" is a leak A that references 2 blocks of 16
 * bytes in all. The suppressed are counted in blocks.
 */
struct suppress_case {
	char title[64];
	char picture[80];
	char file[64];
	char leaks[64];
	unsigned int suppressed;
	char matched[32]; /* of each pattern, how many blocks did */
};

static struct suppress_case suppress_cases[] = {
	{ "nothing matches", "A=a B", "leak:^x$", "A0/0 B0/0", 0, "0" },
	{ "one block", "A=a B=b", "leak:^a$", "B0/0", 1, "1" },
	{ "by its module", "A=a B", "leak:libshop", "B0/0", 1, "1" },
	{ "with what it alone holds", "A=a A>B B>C D", "leak:^a$", "D0/0", 3, "1" },
	{ "with what another leak holds too", "A=a A>B C>B C>D", "leak:^a$", "C1/16", 2, "1" },
	{ "whichever comes first", "C=a C>B A>B A>D", "leak:^a$", "A1/16", 2, "1" },
	{ "one that is held by a leak", "A>B B=a B>C", "leak:^a$", "A0/0", 2, "1" },
	{ "a part in the middle of a leak", "A>B B=a B>C A>D C>D", "leak:^a$", "A0/0", 3, "1" },
	{ "a cycle by one of its blocks", "A>B B>C C=a C>A D", "leak:^a$", "D0/0", 3, "1" },
	{ "a cycle that leads to one", "A>B B>A B>C C=a C>D", "leak:^a$", "A1/16", 2, "1" },
	{ "a leak that leads to the cycle", "D>A A=a A>B B>A", "leak:^a$", "D0/0", 2, "1" },
	{ "one that holds another", "A=a A>B B=a B>C", "leak:^a$", "", 3, "2" },
	{ "one inside of another", "A=a A>B B=b B>C", "leak:^a$\nleak:^b$", "", 3, "1 1" },
	{ "the first that matches counts", "A=a B=b", "leak:shop\nleak:^a$\nleak:b", "", 2,
	  "2 0 0" },
	{ "patterns in order, not blocks", "A=b B=a", "leak:^a$\nleak:^b$", "", 2, "1 1" },
	{ "what is alive does not match", "r>A A=a A>B C=a", "leak:^a$", "", 1, "1" },
	{ "but may be led to", "r>B A=a A>B B>C", "leak:^a$", "", 1, "1" },
	{ "two extents", "A=a A>S S>T U=b U>T U>V", "leak:^a$", "U1/16", 3, "1" },
	{ "by an interior pointer", "A=a A>B+8 C", "leak:^a$", "C0/0", 2, "1" },
	{ "a leak falls apart without its head", "A=a B>A B>C D>B", "leak:^a$", "D2/32", 1, "1" },
	{ "all", "A=a B=b C=c C>D", "leak:shop", "", 4, "3" },
	{ "no name at all", "A B>A", "leak:*", "B1/16", 0, "0" },
};

static struct ms_report report;

static void parse(struct graph *g, const char *text, struct ms_suppressions *ret)
{
	const struct ms_suppression_file file = { "file", text, strlen(text) };

	cr_assert_eq(ms_suppressions_parse(&file, &g->fake.arena, ret, &g->err), MS_OK, "%s",
	             g->err.text);
}

static struct ms_types *classes(struct graph *g)
{
	struct ms_regions *regions = ms_arena_alloc(&g->fake.arena, sizeof(*regions));

	classes_map(&g->fake, GRAPH_CLASSES, "/opt/libshop.so");
	classes_add(&g->fake, GRAPH_CLASSES, 0, "1a");
	classes_add(&g->fake, GRAPH_CLASSES, 1, "1b");
	classes_add(&g->fake, GRAPH_CLASSES, 2, "1c");
	cr_assert_eq(ms_classify(&g->fake.base, &g->fake.arena, regions, &g->err), MS_OK);
	return ms_types_new(&g->fake.base, regions, &g->fake.arena);
}

static void mark_roots(struct graph *g)
{
	struct ms_walk *walk = graph_walk(g, (struct ms_walk_options){ 0 });

	ms_walk_range(walk, graph_root());
	cr_assert_eq(ms_walk_finish(walk, &g->err), MS_OK);
}

/* ---- a judge of stacks: whose name is that of a suppression matches it ---- */

static struct {
	const char *origins; /* NULL: nobody kept any */
	const struct ms_suppressions *suppressions;
	unsigned int asked; /* times */
	unsigned int stacks;
	bool fails;
	uint32_t beyond; /* added to each verdict */
} court;

static bool judge(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                  struct ms_error *err)
{
	cr_assert_eq(ctx, &court);
	court.asked++;
	court.stacks += (unsigned int)asked->stacks.n;
	if (court.fails) {
		(void)ms_fail(err, MS_E_DIED, "no names today");
		return false;
	}
	for (uint32_t i = 0; i < asked->stacks.n; i++) {
		char letter[] = { origins_letter(asked, i + 1), '\0' };
		const char *names[] = { letter };
		size_t found = ms_suppressions_find(court.suppressions, names, 1);

		verdicts[i] = found == court.suppressions->n ? 0 : (uint32_t)found + 1;
		verdicts[i] += court.beyond;
	}
	return true;
}

static const struct ms_origins *court_origins(struct graph *g)
{
	struct ms_origins *origins = ms_arena_alloc(&g->fake.arena, sizeof(*origins));

	if (court.origins)
		origins_draw(&g->fake.arena, court.origins, origins);
	return origins;
}

/* Draw, mark from the roots, and make the list of leaks. */
static void take(struct graph *g, const char *picture, const char *file, bool no_fold)
{
	struct ms_suppressions *suppressions;
	struct ms_walk_options like = { 0 };
	struct ms_scan_options options = { .limit = UINT64_MAX,
		                           .no_fold = no_fold,
		                           .no_merge = !court.origins };
	const struct ms_regions none = { 0 };
	struct ms_leak_list list;

	graph_draw(g, picture);
	memset(&report, 0, sizeof(report));
	suppressions = ms_arena_alloc(&g->fake.arena, sizeof(*suppressions));
	parse(g, file, suppressions);
	options.suppressions = suppressions;
	options.workers = g->workers;
	options.judge = judge;
	options.judge_ctx = &court;
	court.suppressions = suppressions;
	list = (struct ms_leak_list){ .blocks = &g->blocks,
		                      .types = classes(g),
		                      .options = &options,
		                      .arena = &g->fake.arena,
		                      .report = &report,
		                      .finder = { .origins = court_origins(g) } };
	list.regions = &none;
	list.signer = ms_signer_new(&list, &none);
	mark_roots(g);
	list.edges = graph_edges(g, &like);
	cr_assert(ms_suppress_prepare(&list));
	cr_assert_eq(ms_leaks_take(&list, MS_REASON_NONE, &g->err), MS_OK);
	cr_assert_eq(ms_leaks_finish(&list, &g->err), MS_OK);
	ms_suppress_warn(&list);
}

/* The leaks by address, as text. */
static const char *told(void)
{
	static char text[512];
	size_t used = 0;

	text[0] = '\0';
	for (char name = 'A'; name <= 'Z'; name++) {
		const struct ms_leak *leak;

		ms_vec_for_each (leak, &report.leaks)
			if (leak->address == graph_addr(name))
				used += (size_t)snprintf(text + used, sizeof(text) - used,
				                         "%s%c%d/%d", used ? " " : "", name,
				                         (int)leak->referenced_count,
				                         (int)leak->referenced_size);
	}
	return text;
}

static const char *matched(void)
{
	static char text[64];
	size_t used = 0;

	for (size_t i = 0; i < report.suppressed.n; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d", i ? " " : "",
		                         (int)report.suppressed.at[i].allocations);
	return text;
}

ParameterizedTestParameters(suppress, leaves_what_is_left)
{
	return cr_make_param_array(struct suppress_case, suppress_cases,
	                           sizeof(suppress_cases) / sizeof(suppress_cases[0]));
}

ParameterizedTest(struct suppress_case *c, suppress, leaves_what_is_left)
{
	for (unsigned int mode = 0; mode < 2 * GRAPH_MODES; mode++) {
		struct graph g = { .mode = (enum graph_mode)(mode / 2) };
		struct ms_totals folded;

		take(&g, c->picture, c->file, false);
		folded = report.totals;
		cr_expect_str_eq(told(), c->leaks, "%s: %s", c->title, told());
		cr_expect_str_eq(matched(), c->matched, "%s: %s", c->title, matched());
		cr_expect_eq(report.totals.suppressed_allocations, c->suppressed, "%s: %d",
		             c->title, (int)report.totals.suppressed_allocations);
		graph_erase(&g);
		g = (struct graph){ .mode = (enum graph_mode)(mode / 2) };
		take(&g, c->picture, c->file, true);
		cr_expect_eq(report.leaks.n, folded.leaked_allocations, "%s", c->title);
		folded.leaks = report.totals.leaks;
		cr_expect_arr_eq(&folded, &report.totals, sizeof(folded), "%s", c->title);
		cr_expect_str_eq(matched(), c->matched, "%s: %s", c->title, matched());
		graph_erase(&g);
	}
}

Test(suppress, counts_bytes_of_what_matched_and_of_all)
{
	struct graph g = { 0 };

	take(&g, "A=a A:5 A>B B:7 C", "leak:^a$", false);
	cr_assert_eq(report.suppressed.at[0].bytes, 5 * 8);
	cr_assert_eq(report.totals.suppressed_bytes, 12 * 8);
	cr_assert_eq(report.totals.leaked_bytes, 2 * 8);
	cr_assert_eq(report.totals.direct_allocations, 1);
	cr_assert_eq(report.totals.indirect_allocations, 0);
	graph_erase(&g);
}

Test(suppress, warns_of_patterns_that_matched_nothing)
{
	struct graph g = { 0 };

	take(&g, "A=a", "# two\nleak:nowhere\nleak:^a$\n\nleak:^a$", false);
	cr_assert_eq(report.warnings.n, 2);
	cr_assert_str_eq(report.warnings.at[0].text,
	                 "file:2: the suppression leak:nowhere matched nothing");
	cr_assert_str_eq(report.warnings.at[1].text,
	                 "file:5: the suppression leak:^a$ matched nothing");
	graph_erase(&g);
}

Test(suppress, is_done_before_the_list_is_cut)
{
	struct graph g = { 0 };

	take(&g, "A=a A:20 B=a B:30 C D", "leak:^a$", false);
	cr_assert_eq(report.totals.leaks, 2);
	cr_assert_eq(report.leaks.at[0].address, graph_addr('C'));
	graph_erase(&g);
}

/* ---- by the calls that allocated them ---- */

/* Stacks are called by letters, as classes are. */
struct stack_case {
	char title[64];
	char picture[64];
	char origins[64];
	char file[64];
	char leaks[64];
	unsigned int suppressed;
	char matched[32];
	unsigned int stacks; /* that were asked about */
};

static struct stack_case stack_cases[] = {
	{ "by its stack", "A B", "A=x B=y", "leak:x", "B0/0", 1, "1", 2 },
	{ "with what it holds", "A>B B>C D", "A=x D=y", "leak:x", "D0/0", 3, "1", 2 },
	{ "one that is held by a leak", "A>B B>C", "A=x B=y", "leak:y", "A0/0", 2, "1", 2 },
	{ "all of one stack", "A B C", "A=x B=x C=y", "leak:x", "C0/0", 2, "2", 2 },
	{ "by type before stack", "A=a", "A=x", "leak:^a$\nleak:x", "", 1, "1 0", 1 },
	{ "by stack before type", "A=a", "A=x", "leak:x\nleak:^a$", "", 1, "1 0", 1 },
	{ "by both it counts once", "A=a B", "A=a B=y", "leak:^a$", "B0/0", 1, "1", 2 },
	{ "nothing matches", "A B", "A=x B=y", "leak:z", "A0/0 B0/0", 0, "0", 2 },
	{ "what is alive is not asked about", "r>A B", "A=x B=y", "leak:x", "B0/0", 0, "0", 1 },
	{ "without frames nothing is asked", "A B", "A=- B=-", "leak:x", "A0/0", 0, "0", 0 },
	{ "the same stack twice", "A S>T U", "A=x S=x T=y U=y", "leak:y", "A0/0", 2, "2", 2 },
};

ParameterizedTestParameters(suppress, asks_whose_stacks_match)
{
	return cr_make_param_array(struct stack_case, stack_cases,
	                           sizeof(stack_cases) / sizeof(stack_cases[0]));
}

ParameterizedTest(struct stack_case *c, suppress, asks_whose_stacks_match)
{
	for (unsigned int mode = 0; mode < 2 * GRAPH_MODES; mode++) {
		struct graph g = { .mode = (enum graph_mode)(mode / 2) };
		bool no_fold = mode % 2;

		memset(&court, 0, sizeof(court));
		court.origins = c->origins;
		take(&g, c->picture, c->file, no_fold);
		cr_expect_eq(report.totals.suppressed_allocations, c->suppressed, "%s: %d",
		             c->title, (int)report.totals.suppressed_allocations);
		cr_expect_str_eq(matched(), c->matched, "%s: %s", c->title, matched());
		if (!no_fold)
			cr_expect_str_eq(told(), c->leaks, "%s: %s", c->title, told());
		cr_expect_eq(court.stacks, c->stacks, "%s: %u", c->title, court.stacks);
		cr_expect_eq(court.asked, c->stacks ? 1 : 0, "%s: %u", c->title, court.asked);
		graph_erase(&g);
	}
}

Test(suppress, says_that_stacks_could_not_be_named)
{
	struct graph g = { 0 };

	court.fails = true;
	court.origins = "A=x B=x";
	take(&g, "A=a B", "leak:x\nleak:^a$", false);
	cr_assert_str_eq(told(), "B0/0");
	cr_assert_str_eq(report.warnings.at[0].text,
	                 "leaks were not suppressed by the functions that allocated them: no "
	                 "names today");
	graph_erase(&g);
}

Test(suppress, takes_a_verdict_that_is_none_for_none)
{
	struct graph g = { 0 };

	court.beyond = 7;
	court.origins = "A=x B=y";
	take(&g, "A B", "leak:x", false);
	cr_assert_str_eq(told(), "A0/0 B0/0");
	graph_erase(&g);
}

Test(suppress, asks_about_a_stack_once)
{
	static const struct ms_regions none = { 0 };
	const struct ms_suppressions *suppressions;
	struct ms_scan_options options = { .judge = judge, .judge_ctx = &court };
	struct graph g = { 0 };
	struct ms_leak_list list;

	court.origins = "A=x B=y C=x D=z";
	take(&g, "A B C D", "leak:x", false);
	suppressions = court.suppressions;
	options.suppressions = suppressions;
	memset(&report, 0, sizeof(report));
	court.asked = court.stacks = 0;
	list = (struct ms_leak_list){ .blocks = &g.blocks,
		                      .types = ms_types_new(&g.fake.base, &none, &g.fake.arena),
		                      .options = &options,
		                      .arena = &g.fake.arena,
		                      .report = &report,
		                      .finder = { .origins = court_origins(&g) } };
	list.regions = &none;
	list.signer = ms_signer_new(&list, &none);
	cr_assert(ms_suppress_prepare(&list));
	ms_blocks_unmark(&g.blocks);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(ms_leaks_take(&list, MS_REASON_NONE, &g.err), MS_OK);
		ms_blocks_unmark(&g.blocks);
	}
	cr_assert_eq(court.asked, 1);
	cr_assert_eq(court.stacks, 3);
	cr_assert_eq(report.suppressed.at[0].allocations, 4);
	graph_erase(&g);
}
