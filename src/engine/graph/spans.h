/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_SPANS_H
#define MS_ENGINE_GRAPH_SPANS_H

/* How all that the blocks hold is cut into pieces and parts, before edges are gathered. */

#include "engine/graph/edges.h"

static inline size_t ms_edges_pieces(const struct ms_blocks *blocks)
{
	return (blocks->cells.n + MS_EDGE_CELLS - 1) / MS_EDGE_CELLS;
}

/* Make room for pieces, spans and parts of edges->blocks. False without memory. */
bool ms_edges_plan(struct ms_edges *edges);

/* The span that has @cell. */
const struct ms_edge_span *ms_edges_span(const struct ms_edges *edges, size_t cell);

#endif
