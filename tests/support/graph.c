/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "classes.h"
#include "engine/lost/leaks.h"
#include "engine/lost/signature.h"

ms_addr graph_addr(char name)
{
	switch (name) {
	case 'r':
		return GRAPH_ROOT;
	case 'm':
		return GRAPH_NODE_M;
	case 'n':
		return GRAPH_NODE_N;
	default:
		assert(name >= 'A' && name <= 'Z');
		return GRAPH_HEAP + (ms_addr)(name - 'A') * GRAPH_SLOT;
	}
}

char graph_name(ms_addr addr)
{
	return (char)('A' + (addr - GRAPH_HEAP) / GRAPH_SLOT);
}

struct ms_range graph_root(void)
{
	return (struct ms_range){ GRAPH_ROOT, GRAPH_ROOT + GRAPH_PAGE };
}

/* What the picture says of each name. */
struct drawing {
	bool drawn[128];
	unsigned int words[128];
	unsigned int pointers[128]; /* stored so far */
};

static void draw_arrow(struct graph *g, struct drawing *d, const char *arrow)
{
	unsigned char from = (unsigned char)arrow[0];
	ms_addr value = graph_addr(arrow[2]);

	if (arrow[3] == '+' || arrow[3] == '-')
		value += (ms_addr)strtol(arrow + 3, NULL, 10);
	assert(from >= 'a' || d->pointers[from] < GRAPH_FANOUT);
	ms_fake_put(&g->fake, graph_addr((char)from) + 8 * d->pointers[from]++, value);
	d->drawn[from] = true;
	d->drawn[(unsigned char)arrow[2]] = true;
}

static void draw_token(struct graph *g, struct drawing *d, const char *token)
{
	if (token[1] == '>') {
		draw_arrow(g, d, token);
		return;
	}
	d->drawn[(unsigned char)token[0]] = true;
	if (token[1] == '=') {
		assert(!d->pointers[(unsigned char)token[0]]++);
		ms_fake_put(&g->fake, graph_addr(token[0]),
		            classes_vtable(GRAPH_CLASSES, (unsigned int)(token[2] - 'a')));
	}
	if (token[1] == ':')
		d->words[(unsigned char)token[0]] = (unsigned int)strtol(token + 2, NULL, 10);
}

static void put_blocks(struct graph *g, const struct drawing *d)
{
	uint32_t extent = 0;

	for (char c = 'A'; c <= 'Z'; c++) {
		unsigned int pointers = d->pointers[(unsigned char)c];
		unsigned int words = d->words[(unsigned char)c];
		ms_addr begin = graph_addr(c);
		ms_addr end = c < 'S' ? graph_addr('S') : graph_addr('Z') + GRAPH_SLOT;

		if (c == 'A' || c == 'S')
			assert(!ms_blocks_open(&g->blocks, (struct ms_range){ begin, end }, 4,
			                       &extent));
		if (!d->drawn[(unsigned char)c])
			continue;
		words = words ? words : pointers > 2 ? pointers : 2;
		assert(!ms_blocks_put(&g->blocks, extent, graph_addr(c), 8 * words));
	}
	for (const char *c = "mn"; *c; c++)
		if (d->drawn[(unsigned char)*c])
			assert(!ms_blocks_open_single(
				&g->blocks,
				(struct ms_range){ graph_addr(*c), graph_addr(*c) + GRAPH_PAGE },
				MS_EXTENT_MAPPING, &extent));
}

void graph_draw(struct graph *g, const char *picture)
{
	struct drawing d = { 0 };
	char copy[200];
	char *rest = copy;
	char *token;

	ms_fake_init(&g->fake);
	g->fake.no_view = g->mode != GRAPH_VIEW && g->mode != GRAPH_VIEW_SHARED;
	if (g->mode == GRAPH_VIEW_SHARED || g->mode == GRAPH_EDGES_SHARED)
		assert(!ms_workers_start(3, &g->workers, &g->err));
	ms_fake_map(&g->fake, GRAPH_HEAP, GRAPH_PAGE, MS_PROT_READ | MS_PROT_WRITE, "[heap]");
	ms_fake_map(&g->fake, GRAPH_ROOT, GRAPH_PAGE, MS_PROT_READ | MS_PROT_WRITE, "");
	ms_fake_map(&g->fake, GRAPH_NODE_M, GRAPH_PAGE, MS_PROT_READ | MS_PROT_WRITE, "m");
	ms_fake_map(&g->fake, GRAPH_NODE_N, GRAPH_PAGE, MS_PROT_READ | MS_PROT_WRITE, "n");
	ms_blocks_init(&g->blocks, &g->fake.base, &g->fake.arena);
	strncpy(copy, picture, sizeof(copy) - 1);
	copy[sizeof(copy) - 1] = '\0';
	while ((token = strsep(&rest, " ")) != NULL)
		if (*token)
			draw_token(g, &d, token);
	put_blocks(g, &d);
	assert(!ms_blocks_sort(&g->blocks) && !ms_blocks_seal(&g->blocks));
}

const struct ms_edges *graph_edges(struct graph *g, const struct ms_walk_options *options)
{
	struct ms_edge_options wanted = { options->unaligned, options->mangling };

	if (g->mode != GRAPH_EDGES && g->mode != GRAPH_EDGES_SHARED)
		return NULL;
	memset(&g->edges, 0, sizeof(g->edges));
	assert(!ms_edges_gather(&g->blocks, &wanted, g->workers, &g->edges, &g->err));
	return &g->edges;
}

struct ms_walk *graph_walk(struct graph *g, struct ms_walk_options options)
{
	struct ms_walk *walk;

	options.edges = graph_edges(g, &options);
	options.workers = g->workers;
	walk = ms_walk_new(&g->blocks, &options, &g->fake.arena);
	assert(walk);
	return walk;
}

void graph_scan(struct graph *g, struct ms_range root, struct ms_report *ret)
{
	struct ms_scan_options options = { .limit = UINT64_MAX, .no_merge = true };
	struct ms_walk *walk = graph_walk(g, (struct ms_walk_options){ 0 });
	const struct ms_regions none = { 0 };
	struct ms_leak_list list = { .blocks = &g->blocks,
		                     .types = ms_types_new(&g->fake.base, &none, &g->fake.arena),
		                     .options = &options,
		                     .arena = &g->fake.arena,
		                     .report = ret };

	memset(ret, 0, sizeof(*ret));
	ms_walk_range(walk, root);
	assert(!ms_walk_finish(walk, &g->err));
	list.edges = graph_edges(g, &(struct ms_walk_options){ 0 });
	list.regions = &none;
	list.signer = ms_signer_new(&list, &none);
	assert(!ms_leaks_take(&list, MS_REASON_NONE, &g->err));
	assert(!ms_leaks_finish(&list, &g->err));
}

void graph_erase(struct graph *g)
{
	if (g->workers)
		ms_workers_stop(g->workers);
	ms_fake_deinit(&g->fake);
}

const char *graph_marked(struct graph *g)
{
	const struct ms_extent *e;
	size_t n = 0;

	ms_vec_for_each (e, &g->blocks.extents) {
		for (size_t i = 0; i < e->n_cells * MS_CELL_GRANULES; i++) {
			const struct ms_cell *cell = ms_blocks_cell(&g->blocks, e, i);

			if (!(cell->starts & cell->marks & ms_granule_bit(i)))
				continue;
			g->marked[n++] = e->kind == MS_EXTENT_HEAP
			                         ? graph_name(ms_block_begin(e, i))
			                 : e->range.begin == GRAPH_NODE_M ? 'm'
			                                                  : 'n';
		}
	}
	g->marked[n] = '\0';
	return g->marked;
}
