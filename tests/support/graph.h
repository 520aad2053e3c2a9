/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_GRAPH_H
#define MS_TESTS_GRAPH_H

/*
 * A heap drawn as text, for engine tests:
 *
 *	"r>A A>B+8 C>C m>D A:4"
 *
 * A to Z are blocks, S to Z in an extent of their own; r is a root range; m and n
 * are mappings that are nodes of the graph. An arrow is a pointer to the beginning,
 * or so many bytes behind it. `A:4` makes A four words long; others are two. `A=c`,
 * before its arrows, makes A an object of class c of a module that the test maps
 * (classes.h). The picture is the test; nothing else in an engine test builds a heap
 * by hand.
 */

#include "base/workers.h"
#include "engine/blocks.h"
#include "engine/graph/edges.h"
#include "engine/graph/walk.h"
#include "engine/report.h"
#include "fake.h"

enum {
	GRAPH_BLOCKS = 26,
	GRAPH_SLOT = 64, /* bytes from one block to the next */
	GRAPH_FANOUT = 8,
	GRAPH_HEAP = 0x10000,
	GRAPH_ROOT = 0x20000,
	GRAPH_NODE_M = 0x30000,
	GRAPH_NODE_N = 0x40000,
	GRAPH_CLASSES = 0x50000,
	GRAPH_PAGE = 4096,
};

/* How a walk gets at the words of blocks; all must find the same. */
enum graph_mode {
	GRAPH_VIEW,
	GRAPH_READ,  /* the source has no view */
	GRAPH_EDGES, /* nor that, and edges were gathered */
	GRAPH_VIEW_SHARED,
	GRAPH_EDGES_SHARED, /* by several workers */
	GRAPH_MODES,
};

struct graph {
	struct ms_fake fake;
	struct ms_blocks blocks; /* sealed */
	struct ms_error err;
	char marked[GRAPH_BLOCKS + 3];
	enum graph_mode mode; /* set before graph_draw() */
	struct ms_workers *workers;
	struct ms_edges edges;
};

/* Draw @picture; a graph is zeroed before. */
void graph_draw(struct graph *g, const char *picture);
void graph_erase(struct graph *g);

/* A walk as the mode wants it; edges are gathered now. */
struct ms_walk *graph_walk(struct graph *g, struct ms_walk_options options);

/* The edges of the mode, gathered now; or NULL. */
const struct ms_edges *graph_edges(struct graph *g, const struct ms_walk_options *options);

struct ms_range graph_root(void);

/* Mark from @root and take what is left for leaks, all listed. */
void graph_scan(struct graph *g, struct ms_range root, struct ms_report *ret);

/* "ABm": names of the blocks and nodes that are marked, in order. Valid until the next call. */
const char *graph_marked(struct graph *g);

/* Where block @name is. */
ms_addr graph_addr(char name);

/* The name of the block at @addr. */
char graph_name(ms_addr addr);

#endif
