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
 * without its extent. The edges out of a cell stand together, by source granule: first
 * all places, then all sources, so that eight of these can be looked at in one go. The
 * cells of a piece, and its edges, are one thread's work:
 *
 *	pieces   ├─ 4096 cells ─┤─ 4096 cells ─┤ …
 *	first    one number for each cell: where its edges begin in its piece's
 *	cell     place place place … (5 bytes each)   source source source … (1 byte each)
 *	source   7 ─────── 2 ┬── 1 ───┬── 0 ──┐
 *	             granule │ mangled │ exact │
 *
 * While they are gathered an edge is one number, its place below its source.
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
#include "engine/libc/mangling.h"

enum {
	MS_EDGE_BYTES = 6, /* of these one is for source and flags */
	MS_EDGE_PLACE_BYTES = 5,
	MS_EDGE_BEHIND = 16,  /* bytes behind the last that are readable */
	MS_EDGE_CELLS = 4096, /* of a piece */
	MS_EDGE_FLAGS = 40,
	MS_EDGE_SOURCE = 42, /* bit where the source's granule begins */
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
};

struct ms_edge_options {
	bool unaligned;
	struct ms_mangling mangling;
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

static inline size_t ms_edges_pieces(const struct ms_blocks *blocks)
{
	return (blocks->cells.n + MS_EDGE_CELLS - 1) / MS_EDGE_CELLS;
}

/* Before gathering: make room for pieces, spans and parts. False without memory. */
bool ms_edges_plan(struct ms_edges *edges);

/* The number of the span that has @cell; 0 where there are none. */
size_t ms_edges_span(const struct ms_edges *edges, size_t cell);

static inline const uint32_t *ms_edges_first(const struct ms_edges *edges, size_t cell)
{
	return &edges->first[cell + cell / MS_EDGE_CELLS];
}

/* Place of edge @i of those at @at. */
static inline uint64_t ms_edge_place(const uint8_t *at, size_t i)
{
	uint64_t place;

	__builtin_memcpy(&place, at + i * MS_EDGE_PLACE_BYTES, sizeof(place));
	return place & MS_EDGE_PLACE;
}

#endif
