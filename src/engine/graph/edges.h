/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_EDGES_H
#define MS_ENGINE_GRAPH_EDGES_H

/*
 * For sources that cannot be viewed: every pointer from a block to a block, kept.
 *
 * A small read of such a source costs as much as looking at a thousand words, and
 * the walk would need one for every block. So all blocks are read once, in the
 * order of addresses, and the walk then follows edges instead of bytes.
 *
 * A place is a cell's index * 64 + a granule in it, and so a block of the table
 * without its extent. The edges out of a cell stand together, by source granule;
 * the cells of a piece, and its edges, are one thread's work:
 *
 *	pieces   ├─ 4096 cells ─┤─ 4096 cells ─┤ …
 *	first    one number for each cell: where its edges begin in its piece's
 *	edge     47 ─────── 42 ┬── 41 ───┬── 40 ──┬ 39 ───────────── 0
 *	         source granule│ mangled │ exact  │ place of the target
 *
 * An exact edge is from a pointer to a granule's first byte, and has the place of that
 * granule, whether a block begins there or not. Others have that of a block.
 *
 * Memory, for a tree of blocks of 64 bytes: 8 % of the heap. Where a block of 2 KiB
 * or more is full of pointers, its cell is kept as "read again" instead of its edges.
 *
 * An extent that is one block has parts of 4 MiB with edges of their own.
 */

#include "base/workers.h"
#include "engine/blocks.h"

enum {
	MS_EDGE_BYTES = 6,
	MS_EDGE_CELLS = 4096, /* of a piece */
	MS_EDGE_SOURCE = 42,  /* bit where the source's granule begins */
	MS_LARGE_BYTES = 2048,
};

#define MS_EDGE_PLACE   ((UINT64_C(1) << 40) - 1)
#define MS_EDGE_EXACT   (UINT64_C(1) << 40) /* may count under starts_only */
#define MS_EDGE_MANGLED (UINT64_C(1) << 41) /* the word was mangled */

/* Of an entry of ms_edges.first; the rest is a number of edges. */
#define MS_FIRST_AGAIN                                                                            \
	(UINT32_C(1) << 31)                 /* large blocks have no edges in this cell: read them \
	                                     */
#define MS_FIRST_SINGLE (UINT32_C(1) << 30) /* an extent's only cell: see its parts */
#define MS_FIRST_COUNT  (MS_FIRST_SINGLE - 1)

struct ms_edge_piece {
	const uint8_t *at;
	uint64_t carried; /* place of the block that begins before the piece; UINT64_MAX: none */
};

/* A stretch of an extent that is one block. */
struct ms_edge_part {
	struct ms_range range; /* where its words begin */
	ms_addr limit;         /* and end */
	const uint8_t *at;
	uint32_t extent;
	uint32_t n;
	bool again; /* its edges were too many: read it */
};

/* An extent by its first cell. */
struct ms_edge_span {
	size_t cell0;
	uint32_t extent;
	uint32_t part0; /* of one that is one block: its parts */
	uint32_t n_parts;
};

struct ms_edges {
	struct ms_blocks *blocks;
	uint32_t *first;              /* a piece has an entry more than cells: its end */
	struct ms_edge_piece *pieces; /* NULL: nothing was gathered */
	struct MS_VEC(struct ms_edge_span) spans; /* by first cell */
	struct MS_VEC(struct ms_edge_part) parts;
	bool unaligned;
};

struct ms_edge_options {
	bool unaligned;
	uint64_t guard; /* 0: no word is mangled */
};

/* True when no extent can be viewed. */
bool ms_edges_wanted(const struct ms_blocks *blocks);

/*
 * Read all blocks of sealed @blocks, and keep what they point to in blocks' arena.
 *
 * @workers: NULL: alone
 * @ret:     zeroed
 *
 * Returns MS_E_NOMEM.
 * Cost: one read of all that the blocks hold, shared by the workers.
 */
ms_must_check enum ms_status ms_edges_gather(struct ms_blocks *blocks,
                                             const struct ms_edge_options *options,
                                             struct ms_workers *workers, struct ms_edges *ret,
                                             struct ms_error *err);

/* The span that has @cell. */
const struct ms_edge_span *ms_edges_span(const struct ms_edges *edges, size_t cell);

static inline const uint32_t *ms_edges_first(const struct ms_edges *edges, size_t cell)
{
	return &edges->first[cell + cell / MS_EDGE_CELLS];
}

/* The edge at @at; two bytes behind it are readable. */
static inline uint64_t ms_edge_load(const uint8_t *at)
{
	uint64_t edge;

	__builtin_memcpy(&edge, at, sizeof(edge));
	return edge & ((UINT64_C(1) << 48) - 1);
}

#endif
