/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "classes.h"
#include "engine/lost/confirm.h"
#include "engine/lost/leaks.h"
#include "engine/lost/signature.h"
#include "engine/lost/suppress.h"
#include "engine/mapping.h"
#include "graph.h"

/*
 * A heap as the first scan sees it, and as the second does. What is told is written as in
 * test_fold.c, "A2/16" for a leak A that references 2 blocks of 16 bytes in all, with a "?"
 * where it is possible only; unconfirmed counts blocks and bytes.
 */
struct confirm_case {
	char title[80];
	char before[64];
	char now[64];
	char leaks[64];
	unsigned int blocks;
	unsigned int bytes;
	char possible_before[8]; /* names of blocks */
	char possible_now[8];
};

static struct confirm_case confirm_cases[] = {
	{ "all as it was", "A>B C r>D", "A>B C r>D", "A1/16 C0/0", 0, 0, "", "" },
	{ "nothing at all", "r>A", "r>A", "", 0, 0, "", "" },
	{ "taken back", "A B", "r>A B", "B0/0", 1, 16, "", "" },
	{ "taken back by a leak that is none", "A B", "A>B r>A", "", 2, 32, "", "" },
	{ "freed since", "A:4 B", "B", "B0/0", 1, 32, "", "" },
	{ "all freed since", "A B", "", "", 2, 32, "", "" },
	{ "lost since", "r>A B", "A B", "B0/0", 1, 16, "", "" },
	{ "made since", "B", "A B C", "B0/0", 2, 32, "", "" },
	{ "lost since, with what it holds", "r>A A>B B>C D", "A>B B>C D", "D0/0", 3, 48, "", "" },
	{ "holds now what was lost before", "B r>A", "A>B B", "", 2, 32, "", "" },
	{ "holds a part of a leak", "A>B A>C r>D D>B", "A>B A>C D>B", "A1/16", 2, 32, "", "" },
	{ "holds the head of a leak", "A>B r>D D>A", "A>B D>A", "", 3, 48, "", "" },
	{ "holds a cycle", "A>B B>A r>D", "A>B B>A D>B", "", 3, 48, "", "" },
	{ "is held by a leak", "A r>B", "A>A B", "", 2, 32, "", "" },
	{ "a leak that got a hold on another", "A:2 B", "A>B B", "", 2, 32, "", "" },
	{ "changed", "A>B B C", "A>B+8 B C", "C0/0", 2, 32, "", "" },
	{ "changed in its last word", "A B:8 B>C B>C B>C B>C B>C B>C B>C B>C",
	  "A B:8 B>C B>C B>C B>C B>C B>C B>C B>C+8", "A0/0", 2, 80, "", "" },
	{ "another one, longer", "A:4 B", "A:5 B", "B0/0", 1, 40, "", "" },
	{ "another one, and both are long", "A:16 D", "A:15 D", "D0/0", 1, 120, "", "" },
	{ "another one, shorter", "A:4 B", "A:3 B", "B0/0", 1, 24, "", "" },
	{ "two extents", "A S>T U r>V V>W", "r>A S>T U V>W", "S1/16 U0/0", 3, 48, "", "" },
	{ "by an interior pointer", "A r>B", "A B>A+8", "", 2, 32, "", "" },
	{ "both times possible", "A r>B+8", "A r>B+8", "A0/0 B?0/0", 0, 0, "B", "B" },
	{ "possible first, then lost", "r>A+8 B", "A B", "B0/0", 1, 16, "A", "" },
	{ "lost first, then possible", "A B", "r>A+8 B", "A?0/0 B0/0", 0, 0, "", "A" },
	{ "reachable first, then possible", "r>A B", "r>A+8 B", "B0/0", 1, 16, "", "A" },
	{ "possible first, then reachable", "r>A+8 B", "r>A B", "B0/0", 1, 16, "A", "" },
	{ "possible and changed", "r>A+8 B", "r>A+8 A>A B", "B0/0", 1, 16, "A", "A" },
	{ "some possible, in front of and behind others", "B r>A+8 r>C+8", "B r>A+8 r>C+8",
	  "A?0/0 B0/0 C?0/0", 0, 0, "AC", "AC" },
};

static struct ms_report report;

/* Have all marks but those of the blocks called @names. */
static void mark_but(struct graph *g, const char *names)
{
	struct ms_cell *cell;

	ms_vec_for_each (cell, &g->blocks.cells)
		cell->marks = UINT64_MAX;
	for (; *names; names++) {
		const struct ms_extent *extent =
			ms_blocks_extent_of(&g->blocks, graph_addr(*names));
		uint64_t granule = ms_granule_of(extent, graph_addr(*names));

		ms_blocks_cell(&g->blocks, extent, granule)->marks &= ~ms_granule_bit(granule);
	}
}

static void take_possible(struct graph *g, struct ms_leak_list *list, const char *possible)
{
	mark_but(g, possible);
	cr_assert_eq(ms_leaks_take(list, MS_REASON_INTERIOR, &g->err), MS_OK);
	ms_blocks_unmark(&g->blocks);
}

/* Scan a graph that is drawn, as @options say. */
static void scan(struct graph *g, struct ms_scan_options *options, const char *possible)
{
	struct ms_walk_options like = { 0 };
	const struct ms_regions none = { 0 };
	struct ms_leak_list list = { .blocks = &g->blocks,
		                     .types = ms_types_new(&g->fake.base, &none, &g->fake.arena),
		                     .regions = &none,
		                     .options = options,
		                     .arena = &g->fake.arena,
		                     .report = &report };
	struct ms_walk *walk;

	memset(&report, 0, sizeof(report));
	list.signer = ms_signer_new(&list, &none);
	list.edges = graph_edges(g, &like);
	options->workers = g->workers;
	options->no_merge = true;
	if (options->suppressions)
		cr_assert(ms_suppress_prepare(&list));
	take_possible(g, &list, possible);
	walk = graph_walk(g, like);
	ms_walk_range(walk, graph_root());
	cr_assert_eq(ms_walk_finish(walk, &g->err), MS_OK);
	cr_assert_eq(ms_leaks_take(&list, MS_REASON_NONE, &g->err), MS_OK);
	cr_assert_eq(ms_leaks_finish(&list, &g->err), MS_OK);
}

/* What of the first scan lives on in the second. */
struct first {
	struct graph graph;
	struct ms_lost_blocks lost;
};

static void scan_first(struct first *first, enum graph_mode mode, const char *picture,
                       const char *possible)
{
	struct ms_scan_options options = { .limit = UINT64_MAX, .keep_lost = true };

	memset(first, 0, sizeof(*first));
	first->graph.mode = mode;
	graph_draw(&first->graph, picture);
	scan(&first->graph, &options, possible);
	first->lost = report.lost;
	cr_assert_eq(report.leaks.n, 0);
	cr_assert_eq(report.totals.leaked_allocations, 0);
	for (size_t i = 1; i < first->lost.n; i++)
		cr_assert_lt(first->lost.at[i - 1].address, first->lost.at[i].address);
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
				                         "%s%c%s%d/%d", used ? " " : "", name,
				                         leak->kind == MS_LEAK_POSSIBLE ? "?" : "",
				                         (int)leak->referenced_count,
				                         (int)leak->referenced_size);
	}
	return text;
}

ParameterizedTestParameters(confirm, leaves_what_was_lost_both_times)
{
	return cr_make_param_array(struct confirm_case, confirm_cases,
	                           sizeof(confirm_cases) / sizeof(confirm_cases[0]));
}

ParameterizedTest(struct confirm_case *c, confirm, leaves_what_was_lost_both_times)
{
	for (unsigned int mode = 0; mode < GRAPH_MODES; mode++) {
		struct graph g = { .mode = (enum graph_mode)mode };
		struct ms_scan_options options = { .limit = UINT64_MAX };
		const struct ms_totals *totals = &report.totals;
		struct first first;

		/* the two need not hold memory in one way */
		scan_first(&first, (enum graph_mode)(GRAPH_MODES - 1 - mode), c->before,
		           c->possible_before);
		options.lost = &first.lost;
		graph_draw(&g, c->now);
		scan(&g, &options, c->possible_now);
		cr_expect_str_eq(told(), c->leaks, "%s: %s", c->title, told());
		cr_expect_eq(totals->unconfirmed_allocations, c->blocks, "%s: %d blocks", c->title,
		             (int)totals->unconfirmed_allocations);
		cr_expect_eq(totals->unconfirmed_bytes, c->bytes, "%s: %d bytes", c->title,
		             (int)totals->unconfirmed_bytes);
		graph_erase(&g);
		graph_erase(&first.graph);
	}
}

/* Scan @picture twice; between, the word at @offset of block A is written to. */
static void scan_written(struct graph *g, const char *picture, ms_addr offset,
                         struct ms_scan_options options)
{
	struct first first;

	scan_first(&first, GRAPH_VIEW, picture, "");
	options.lost = &first.lost;
	memset(g, 0, sizeof(*g));
	graph_draw(g, picture);
	ms_fake_put(&g->fake, graph_addr('A') + offset, 1);
	scan(g, &options, "");
	graph_erase(&first.graph);
}

Test(confirm, looks_at_the_first_64_bytes)
{
	struct graph g;
	struct ms_scan_options options = { .limit = UINT64_MAX };

	for (ms_addr offset = 0; offset < 128; offset += 8) {
		scan_written(&g, "A:16 D", offset, options);
		cr_expect_eq(report.totals.leaked_allocations, offset < 64 ? 1 : 2, "%d",
		             (int)offset);
		graph_erase(&g);
	}
}

Test(confirm, does_not_look_behind_a_block)
{
	struct graph g;
	struct ms_scan_options options = { .limit = UINT64_MAX };

	scan_written(&g, "A:3", 16, options);
	cr_assert_eq(report.totals.leaked_allocations, 0);
	graph_erase(&g);
	scan_written(&g, "A:3", 24, options);
	cr_assert_eq(report.totals.leaked_allocations, 1);
	graph_erase(&g);
}

Test(confirm, comes_before_the_list_is_cut)
{
	struct ms_scan_options options = { .limit = 2, .min_size = 17 };
	struct graph g;

	scan_written(&g, "A:7 B C D:4 E:5 F:6", 0, options);
	cr_assert_eq(report.totals.leaked_allocations, 5);
	cr_assert_eq(report.totals.leaked_bytes, 2 * 16 + 8 * (4 + 5 + 6));
	cr_assert_eq(report.totals.unconfirmed_allocations, 1);
	cr_assert_eq(report.totals.unconfirmed_bytes, 7 * 8);
	cr_assert_str_eq(told(), "E0/0 F0/0");
	graph_erase(&g);
}

Test(confirm, works_without_folding)
{
	struct ms_scan_options options = { .limit = UINT64_MAX, .no_fold = true };
	struct graph g;

	scan_written(&g, "A:2 B C>B", 0, options);
	cr_assert_eq(report.leaks.n, 2);
	cr_assert_eq(report.totals.direct_allocations, 1);
	cr_assert_eq(report.totals.indirect_allocations, 1);
	graph_erase(&g);
}

/* ---- with suppressions ---- */

static void parse(struct graph *g, const char *text, struct ms_suppressions *ret)
{
	const struct ms_suppression_file file = { "file", text, strlen(text) };

	cr_assert_eq(ms_suppressions_parse(&file, &g->fake.arena, ret, &g->err), MS_OK, "%s",
	             g->err.text);
}

static void map_classes(struct graph *g, struct ms_leak_list *list)
{
	struct ms_regions *regions = ms_arena_alloc(&g->fake.arena, sizeof(*regions));

	classes_map(&g->fake, GRAPH_CLASSES, "/opt/libshop.so");
	classes_add(&g->fake, GRAPH_CLASSES, 0, "1a");
	cr_assert_eq(ms_classify(&g->fake.base, &g->fake.arena, regions, &g->err), MS_OK);
	list->types = ms_types_new(&g->fake.base, regions, &g->fake.arena);
	list->regions = regions;
	list->signer = ms_signer_new(list, regions);
}

struct suppressed_case {
	char title[64];
	char before[64];
	char now[64];
	char leaks[64];
	unsigned int suppressed;
	unsigned int matched;
	unsigned int unconfirmed;
};

static struct suppressed_case suppressed_cases[] = {
	{ "confirmed, and suppressed", "A=a A>B C", "A=a A>B C", "C0/0", 2, 1, 0 },
	{ "not confirmed, so not suppressed", "r>A A=a A>B C", "A=a A>B C", "C0/0", 0, 0, 2 },
	{ "its part is not confirmed", "A=a A>B r>D D>B C", "A=a A>B D>B C", "C0/0", 1, 1, 2 },
	{ "suppressed first, then gone", "A=a C", "C", "C0/0", 0, 0, 1 },
};

ParameterizedTestParameters(confirm, comes_before_suppressions)
{
	return cr_make_param_array(struct suppressed_case, suppressed_cases,
	                           sizeof(suppressed_cases) / sizeof(suppressed_cases[0]));
}

ParameterizedTest(struct suppressed_case *c, confirm, comes_before_suppressions)
{
	struct graph g = { 0 };
	struct ms_suppressions suppressions = { 0 };
	struct ms_scan_options options = { .limit = UINT64_MAX, .suppressions = &suppressions };
	struct ms_leak_list list;
	struct first first;
	struct ms_walk *walk;

	scan_first(&first, GRAPH_VIEW, c->before, "");
	options.lost = &first.lost;
	graph_draw(&g, c->now);
	parse(&g, "leak:^a$", &suppressions);
	memset(&report, 0, sizeof(report));
	list = (struct ms_leak_list){
		.blocks = &g.blocks, .options = &options, .arena = &g.fake.arena, .report = &report
	};
	map_classes(&g, &list);
	cr_assert(ms_suppress_prepare(&list));
	walk = graph_walk(&g, (struct ms_walk_options){ 0 });
	ms_walk_range(walk, graph_root());
	cr_assert_eq(ms_walk_finish(walk, &g.err), MS_OK);
	cr_assert_eq(ms_leaks_take(&list, MS_REASON_NONE, &g.err), MS_OK);
	cr_assert_eq(ms_leaks_finish(&list, &g.err), MS_OK);
	cr_expect_str_eq(told(), c->leaks, "%s: %s", c->title, told());
	cr_expect_eq(report.totals.suppressed_allocations, c->suppressed, "%s", c->title);
	cr_expect_eq(report.suppressed.at[0].allocations, c->matched, "%s", c->title);
	cr_expect_eq(report.totals.unconfirmed_allocations, c->unconfirmed, "%s", c->title);
	graph_erase(&first.graph);
	graph_erase(&g);
}

/* ---- how bytes are read ---- */

enum { HEAP = 0x10000, HEAP_PAGES = 3, BLOCK_BYTES = 48, STRIDE = 112 };

/* Blocks all over three pages, across their borders and up to the last byte. */
static void draw_pages(struct ms_fake *fake, struct ms_blocks *blocks, bool no_view)
{
	ms_addr end = HEAP + HEAP_PAGES * GRAPH_PAGE;
	uint32_t extent = 0;

	ms_fake_init(fake);
	fake->no_view = no_view;
	ms_fake_map(fake, HEAP, HEAP_PAGES * GRAPH_PAGE, MS_PROT_READ, "[heap]");
	for (ms_addr at = HEAP; at < end; at += 8)
		ms_fake_put(fake, at, at * at);
	ms_blocks_init(blocks, &fake->base, &fake->arena);
	cr_assert_eq(ms_blocks_open(blocks, (struct ms_range){ HEAP, end }, 4, &extent), MS_OK);
	for (ms_addr at = HEAP; at + BLOCK_BYTES < end; at += STRIDE)
		cr_assert_eq(ms_blocks_put(blocks, extent, at, BLOCK_BYTES), MS_OK);
	cr_assert_eq(ms_blocks_put(blocks, extent, end - 16, 16), MS_OK);
	cr_assert(!ms_blocks_sort(blocks) && !ms_blocks_seal(blocks));
}

static void list_pages(struct ms_fake *fake, struct ms_blocks *blocks)
{
	struct ms_scan_options options = { .keep_lost = true };
	struct ms_leak_list list = {
		.blocks = blocks, .options = &options, .arena = &fake->arena, .report = &report
	};
	struct ms_error err;

	memset(&report, 0, sizeof(report));
	cr_assert_eq(ms_leaks_take(&list, MS_REASON_NONE, &err), MS_OK);
}

Test(confirm, prints_are_the_same_however_bytes_are_read)
{
	struct ms_lost_blocks seen;
	struct ms_blocks blocks[2] = { 0 };
	struct ms_fake fakes[2];

	draw_pages(&fakes[0], &blocks[0], false);
	list_pages(&fakes[0], &blocks[0]);
	seen = report.lost;
	draw_pages(&fakes[1], &blocks[1], true);
	list_pages(&fakes[1], &blocks[1]);
	cr_assert_gt(seen.n, HEAP_PAGES * GRAPH_PAGE / STRIDE);
	cr_assert_eq(report.lost.n, seen.n);
	cr_assert_arr_eq(report.lost.at, seen.at, seen.n * sizeof(*seen.at));
	for (size_t i = 1; i < seen.n; i++)
		cr_assert_neq(seen.at[i].print, seen.at[i - 1].print);
	/* a page at a time, not a block */
	cr_assert_leq(fakes[1].reads, 2 * HEAP_PAGES);
	ms_fake_deinit(&fakes[0]);
	ms_fake_deinit(&fakes[1]);
}

/* The print of a last block that cannot be read, behind others with @word in them. */
static uint64_t print_of_unreadable(uint64_t word)
{
	ms_addr end = HEAP + HEAP_PAGES * GRAPH_PAGE;
	struct ms_blocks blocks = { 0 };
	struct ms_fake fake;
	uint64_t print;

	draw_pages(&fake, &blocks, true);
	for (ms_addr at = HEAP; at < end; at += 8)
		ms_fake_put(&fake, at, word);
	/* the map says less than was decoded */
	fake.base.mappings.at[0].range.end -= 16;
	list_pages(&fake, &blocks);
	cr_assert_eq(report.lost.at[report.lost.n - 1].address, end - 16);
	print = report.lost.at[report.lost.n - 1].print;
	ms_fake_deinit(&fake);
	return print;
}

Test(confirm, takes_what_cannot_be_read_for_nothing)
{
	cr_assert_eq(print_of_unreadable(1), print_of_unreadable(2));
}
