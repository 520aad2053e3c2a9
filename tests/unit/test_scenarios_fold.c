/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmemunreachable's LeakFolding scenarios, all eleven, with its counts and bytes.
 *
 * One difference is wanted: there, every member of a cycle that nothing outside
 * explains is a leak of its own; here such a cycle is one leak, the lowest address
 * its head and the other members referenced. `there` says what the original lists.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/lost/leaks.h"
#include "graph.h"

enum { WORD = 8, RING = 1000, RING_SLOT = 16, RING_BYTES = (RING + 1) * RING_SLOT };

/* "A2/3": a listed leak A that references 2 blocks with 3 words in all. */
struct fold_case {
	char title[32];
	char picture[96];
	int blocks; /* unreachable ones */
	int words;  /* in them */
	char told[16];
	char there[32];
};

static struct fold_case fold_cases[] = {
	{ "one", "A:1", 1, 1, "A0/0", "A0/0" },
	{ "two", "A:1 B:1", 2, 2, "A0/0 B0/0", "A0/0 B0/0" },
	{ "dominator", "A:1 B:1 A>B", 2, 2, "A1/1", "A1/1" },
	{ "cycle", "A:1 B:1 C:1 A>B B>C C>B", 3, 3, "A2/2", "A2/2" },
	{ "dominator cycle", "A:2 B:2 C:1 A>B B>A B>C", 3, 5, "A2/3", "A2/3 B2/3" },
	{ "two cycles", "A:1 B:1 C:1 D:1 E:1 F:1 A>C C>D D>C B>E E>F F>E", 6, 6, "A2/2 B2/2",
	  "A2/2 B2/2" },
	{ "two dominator cycles", "A:1 B:1 C:1 D:1 A>B B>A C>D D>C", 4, 4, "A1/1 C1/1",
	  "A1/1 B1/1 C1/1 D1/1" },
	{ "multipath", "A:2 B:1 C:1 D:1 A>B A>C B>D C>D", 4, 5, "A3/3", "A3/3" },
	{ "multicycle", "A:2 B:2 C:2 D:2 A>B B>C B>D D>C C>A", 4, 8, "A3/6",
	  "A3/6 B3/6 C3/6 D3/6" },
	/* The same with the head, or a cycle's first member, at the highest address. */
	{ "dominator, backwards", "A:1 B:1 B>A", 2, 2, "B1/1", "B1/1" },
	{ "cycle, backwards", "A:1 B:1 C:1 C>B B>A A>B", 3, 3, "C2/2", "C2/2" },
	{ "dominator cycle, backwards", "A:1 B:2 C:2 C>B B>C B>A", 3, 5, "B2/3", "B2/3 C2/3" },
	{ "two cycles, backwards", "A:1 B:1 C:1 D:1 E:1 F:1 F>D D>C C>D E>B B>A A>B", 6, 6,
	  "E2/2 F2/2", "E2/2 F2/2" },
	{ "multipath, backwards", "A:1 B:1 C:1 D:2 D>C D>B C>A B>A", 4, 5, "D3/3", "D3/3" },
	{ "multicycle, backwards", "A:2 B:2 C:2 D:2 D>C C>B C>A A>B B>D", 4, 8, "A3/6",
	  "A3/6 B3/6 C3/6 D3/6" },
};

ParameterizedTestParameters(scenarios_fold, folds_as_told)
{
	return cr_make_param_array(struct fold_case, fold_cases,
	                           sizeof(fold_cases) / sizeof(fold_cases[0]));
}

/* The listed leaks by address; the list itself is by size. */
static void describe(const struct ms_report *report, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (char name = 'A'; name <= 'Z'; name++)
		for (size_t i = 0; i < report->leaks.n; i++) {
			const struct ms_leak *leak = &report->leaks.at[i];

			if (leak->address != graph_addr(name))
				continue;
			used += (size_t)snprintf(text + used, size - used, "%s%c%d/%d",
			                         used ? " " : "", name, (int)leak->referenced_count,
			                         (int)(leak->referenced_size / WORD));
		}
}

ParameterizedTest(struct fold_case *c, scenarios_fold, folds_as_told)
{
	for (enum graph_mode mode = 0; mode < GRAPH_MODES; mode++) {
		struct graph g = { .mode = mode };
		struct ms_report report;
		char text[80];

		graph_draw(&g, c->picture);
		graph_scan(&g, graph_root(), &report);
		describe(&report, text, sizeof(text));
		cr_expect_str_eq(text, c->told, "%s, mode %d: %s", c->title, mode, text);
		cr_expect_eq(report.totals.leaked_allocations, c->blocks, "%s", c->title);
		cr_expect_eq(report.totals.leaked_bytes, WORD * c->words, "%s", c->title);
		graph_erase(&g);
	}
}

/* ---- more blocks than a picture can have ---- */

static ms_addr ring_block(uint64_t i)
{
	return GRAPH_HEAP + i * RING_SLOT;
}

enum { NO_HEAD = -1 };

/*
 * Blocks of one word, each pointing to the next and the last to the first; but block
 * @head, when there is one, points into the middle of the ring of the others.
 */
static void draw_ring(struct graph *g, int head)
{
	uint64_t n = RING + (head != NO_HEAD);
	uint64_t first = head == 0;
	uint64_t last = first + RING - 1;
	uint32_t extent;

	ms_fake_init(&g->fake);
	g->fake.no_view = g->mode != GRAPH_VIEW;
	ms_fake_map(&g->fake, GRAPH_HEAP, RING_BYTES, MS_PROT_READ | MS_PROT_WRITE, "[heap]");
	ms_fake_map(&g->fake, GRAPH_ROOT, GRAPH_PAGE, MS_PROT_READ | MS_PROT_WRITE, "");
	ms_blocks_init(&g->blocks, &g->fake.base, &g->fake.arena);
	cr_assert(!ms_blocks_open(
		&g->blocks, (struct ms_range){ GRAPH_HEAP, GRAPH_HEAP + RING_BYTES }, 4, &extent));
	for (uint64_t i = 0; i < n; i++) {
		cr_assert(!ms_blocks_put(&g->blocks, extent, ring_block(i), WORD));
		ms_fake_put(&g->fake, ring_block(i), ring_block(i == last ? first : i + 1));
	}
	if (head != NO_HEAD)
		ms_fake_put(&g->fake, ring_block((uint64_t)head), ring_block(RING / 2));
	cr_assert(!ms_blocks_sort(&g->blocks) && !ms_blocks_seal(&g->blocks));
}

/* A ring of 1000 is listed there as 1000 leaks with 999/999w each; one with a head as here. */
Test(scenarios_fold, giant_rings_are_one_leak_with_a_head_and_without)
{
	static const enum graph_mode modes[] = { GRAPH_VIEW, GRAPH_READ, GRAPH_EDGES };
	static const int heads[] = { NO_HEAD, 0, RING };

	for (int i = 0; i < 9; i++) {
		struct graph g = { .mode = modes[i / 3] };
		int head = heads[i % 3];
		uint64_t n = RING + (head != NO_HEAD);
		struct ms_report report;

		draw_ring(&g, head);
		graph_scan(&g, graph_root(), &report);
		cr_expect_eq(report.totals.leaked_allocations, n);
		cr_expect_eq(report.totals.leaked_bytes, WORD * n);
		cr_assert_eq(report.leaks.n, 1, "head %d", head);
		cr_expect_eq(report.leaks.at[0].address, ring_block(head > 0 ? RING : 0));
		cr_expect_eq(report.leaks.at[0].referenced_count, n - 1);
		cr_expect_eq(report.leaks.at[0].referenced_size, WORD * (n - 1));
		graph_erase(&g);
	}
}
