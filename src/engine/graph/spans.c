/* SPDX-License-Identifier: Apache-2.0 */
/* How all that the blocks hold is cut into pieces and parts, before edges are gathered. */
#include "engine/graph/edges.h"

#include "base/search.h"
#include "base/sort.h"
#include "engine/graph/lookup.h"

enum { PART_BYTES = 1 << 22 };

static bool span_before(const void *a, const void *b)
{
	const struct ms_edge_span *x = a;
	const struct ms_edge_span *y = b;

	return x->cell0 < y->cell0;
}

/* Cut the present memory of an extent that is one block. */
static bool add_parts(struct ms_edges *edges, struct ms_edge_span *span)
{
	const struct ms_blocks *blocks = edges->blocks;
	const struct ms_extent *extent = &blocks->extents.at[span->extent];
	struct ms_range rest = { extent->range.begin, ms_block_words_end(blocks, extent, 0) };
	const uint8_t word = blocks->src->abi.word_bytes;
	struct ms_range run;

	span->part0 = (uint32_t)edges->parts.n;
	rest.begin = ms_align_up(rest.begin, word);
	while (rest.begin < rest.end && ms_source_present(blocks->src, rest, &run)) {
		struct ms_edge_part *part = ms_vec_push(blocks->arena, &edges->parts);
		ms_addr end = rest.end;

		if (!part)
			return false;
		if (end - run.begin > PART_BYTES)
			end = run.begin + PART_BYTES;
		*part = (struct ms_edge_part){ .range = { run.begin, end },
			                       .limit = rest.end - end < word ? rest.end
			                                                      : end + word - 1,
			                       .extent = span->extent };
		rest.begin = end;
	}
	span->n_parts = (uint32_t)edges->parts.n - span->part0;
	return true;
}

static bool add_spans(struct ms_edges *edges)
{
	const struct ms_blocks *blocks = edges->blocks;
	struct ms_edge_span *span;

	for (uint32_t i = 0; i < blocks->extents.n; i++) {
		span = ms_vec_push(blocks->arena, &edges->spans);
		if (!span)
			return false;
		*span = (struct ms_edge_span){ .cell0 = blocks->extents.at[i].cell0, .extent = i };
	}
	if (!ms_sort(blocks->arena, edges->spans.at, edges->spans.n, sizeof(*span), span_before))
		return false;
	ms_vec_for_each (span, &edges->spans)
		if (blocks->extents.at[span->extent].shift == MS_SINGLE_SHIFT &&
		    !add_parts(edges, span))
			return false;
	return true;
}

/*
 * Note for each piece the block that begins before it and goes on in it. A block of
 * many pieces is followed once: what was seen for one piece goes for the next.
 */
static void find_carried(struct ms_edges *edges, const struct ms_extent *extent)
{
	const struct ms_blocks *blocks = edges->blocks;
	size_t seen_from = SIZE_MAX; /* no block ends between this cell and the last piece */
	size_t end = extent->cell0 + extent->n_cells;

	for (size_t at = (extent->cell0 / MS_EDGE_CELLS + 1) * MS_EDGE_CELLS; at < end;
	     at += MS_EDGE_CELLS) {
		uint64_t start =
			ms_block_start(blocks, extent, (at - extent->cell0) * MS_CELL_GRANULES - 1);
		size_t cell = extent->cell0 + (size_t)(start / MS_CELL_GRANULES);
		uint64_t ends;
		size_t i;

		if (start == UINT64_MAX)
			continue;
		ends = blocks->cells.at[cell].ends & ~(ms_granule_bit(start) - 1);
		i = seen_from == cell && !ends ? at - MS_EDGE_CELLS - 1 : cell;
		while (!ends && ++i < at)
			ends = blocks->cells.at[i].ends;
		seen_from = ends ? SIZE_MAX : cell;
		if (!ends)
			edges->pieces[at / MS_EDGE_CELLS].carried =
				extent->cell0 * MS_CELL_GRANULES + start;
	}
}

bool ms_edges_plan(struct ms_edges *edges)
{
	const struct ms_blocks *blocks = edges->blocks;
	const struct ms_extent *extent;
	size_t n = ms_edges_pieces(blocks);

	edges->first =
		ms_arena_alloc(blocks->arena, (blocks->cells.n + n + 1) * sizeof(*edges->first));
	edges->pieces = ms_arena_alloc(blocks->arena, n * sizeof(*edges->pieces));
	if (!edges->first || !edges->pieces || !add_spans(edges))
		return false;
	for (size_t i = 0; i < n; i++)
		edges->pieces[i].carried = UINT64_MAX;
	ms_vec_for_each (extent, &blocks->extents)
		if (extent->shift != MS_SINGLE_SHIFT)
			find_carried(edges, extent);
	return true;
}

size_t ms_edges_span(const struct ms_edges *edges, size_t cell)
{
	return ms_lower_bound(1, edges->spans.n, i, edges->spans.at[i].cell0 <= cell) - 1;
}
