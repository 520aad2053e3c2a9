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
 * or so many bytes behind it. `A:4` makes A four words long; others are two. The
 * picture is the test; nothing else in an engine test builds a heap by hand.
 */

#include "engine/blocks.h"
#include "engine/walk.h"
#include "fake.h"

enum {
	GRAPH_BLOCKS = 26,
	GRAPH_SLOT = 64, /* bytes from one block to the next */
	GRAPH_FANOUT = 8,
	GRAPH_HEAP = 0x10000,
	GRAPH_ROOT = 0x20000,
	GRAPH_NODE_M = 0x30000,
	GRAPH_NODE_N = 0x40000,
	GRAPH_PAGE = 4096,
};

struct graph {
	struct ms_fake fake;
	struct ms_blocks blocks; /* sealed */
	struct ms_error err;
	char marked[GRAPH_BLOCKS + 3];
	bool no_view; /* set before graph_draw() to have blocks without host bytes */
};

/* Draw @picture; a graph is zeroed before. */
void graph_draw(struct graph *g, const char *picture);
void graph_erase(struct graph *g);

struct ms_range graph_root(void);

/* "ABm": names of the blocks and nodes that are marked, in order. Valid until the next call. */
const char *graph_marked(struct graph *g);

/* Where block @name is. */
ms_addr graph_addr(char name);

/* The name of the block at @addr. */
char graph_name(ms_addr addr);

#endif
