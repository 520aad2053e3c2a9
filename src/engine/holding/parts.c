/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/holding/parts.h"

enum { PART_CELLS = 256 };

/* One after the other. */
struct parts {
	const struct ms_parts_run *run;
	struct ms_blocks_part next; /* extent NULL: there are no more */
	struct ms_blocks_part at[MS_PARTS_AT_ONCE];
	size_t n;
};

/* Make parts->next the first part of @extent, or of one behind it. */
static void go_to_extent(struct parts *parts, const struct ms_extent *extent)
{
	const struct ms_blocks *blocks = parts->run->blocks;
	const struct ms_extent *end = blocks->extents.at + blocks->extents.n;

	while (extent < end &&
	       (!extent->n_cells || (parts->run->heap_alone && extent->kind != MS_EXTENT_HEAP)))
		extent++;
	parts->next = (struct ms_blocks_part){ .extent = extent < end ? extent : NULL };
}

/* Fill parts->at with those that come next. */
static void fill(struct parts *parts)
{
	for (parts->n = 0; parts->n < MS_PARTS_AT_ONCE && parts->next.extent; parts->n++) {
		struct ms_blocks_part *next = &parts->next;
		size_t left = next->extent->n_cells - next->cell;

		next->n_cells = left < PART_CELLS ? left : (size_t)PART_CELLS;
		parts->at[parts->n] = *next;
		next->cell += next->n_cells;
		if (next->cell == next->extent->n_cells)
			go_to_extent(parts, next->extent + 1);
	}
}

static void look(void *ctx, unsigned int worker, size_t item)
{
	const struct parts *parts = ctx;

	parts->run->look(parts->run->ctx, worker, item, &parts->at[item]);
}

bool ms_parts_run(const struct ms_parts_run *run)
{
	struct parts parts = { .run = run };
	bool ok = true;

	if (run->blocks->extents.n)
		go_to_extent(&parts, run->blocks->extents.at);
	for (fill(&parts); ok && parts.n; fill(&parts)) {
		ms_workers_run(run->workers, parts.n, look, &parts);
		for (size_t i = 0; ok && i < parts.n; i++)
			ok = run->take(run->ctx, i);
	}
	return ok;
}
