/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "report/diff/holders.h"
#include "report/diff/rows.h"

int64_t ms_diff_by(uint64_t old, uint64_t new)
{
	uint64_t by = old < new ? new - old : old - new;
	int64_t most = by < INT64_MAX ? (int64_t)by : INT64_MAX;

	return old < new ? most : -most;
}

int64_t ms_diff_elapsed_ns(const struct ms_diff *diff)
{
	int64_t ret;

	if (__builtin_sub_overflow(diff->reports[MS_DIFF_NEW]->scan.time,
	                           diff->reports[MS_DIFF_OLD]->scan.time, &ret))
		return 0;
	return ret;
}

/* ---- heaps: of several of one allocator one row ---- */

static struct ms_diff_heap *heap_of(struct ms_diff *diff, struct ms_arena *arena,
                                    const char *allocator)
{
	struct ms_diff_heap *heap;

	ms_vec_for_each (heap, &diff->heaps)
		if (strcmp(heap->allocator, allocator) == 0)
			return heap;
	heap = ms_vec_push(arena, &diff->heaps);
	if (heap)
		heap->allocator = allocator;
	return heap;
}

enum { MOST_HEAPS = 64 }; /* a process has three at most; a report may say anything */

static bool compare_heaps(struct ms_diff *diff, struct ms_arena *arena)
{
	for (int side = MS_DIFF_NEW; side >= MS_DIFF_OLD; side--) {
		const struct ms_heaps *heaps = &diff->reports[side]->heaps;

		for (size_t i = 0; i < heaps->n && i < MOST_HEAPS; i++) {
			const struct ms_heap *from = &heaps->at[i];
			struct ms_diff_heap *heap = heap_of(diff, arena, from->allocator);

			if (!heap)
				return false;
			heap->side[side].count += from->allocations;
			heap->side[side].bytes += from->allocation_bytes;
			heap->mapped_bytes[side] += from->mapped_bytes;
		}
	}
	return true;
}

/* ---- what holds memory ---- */

static bool add_side(struct ms_arena *arena, const struct ms_diff_rows *from, int side,
                     struct ms_diff_rows *to)
{
	const struct ms_diff_row *entry;

	ms_vec_for_each (entry, from) {
		struct ms_diff_row *row = ms_vec_push(arena, to);

		if (!row)
			return false;
		*row = *entry;
		row->side[MS_DIFF_NEW] = (struct ms_diff_amount){ 0 };
		row->side[side] = entry->side[MS_DIFF_NEW];
	}
	return true;
}

bool ms_diff_holders(struct ms_diff *diff, struct ms_arena *arena)
{
	diff->has_live = true;
	for (int side = MS_DIFF_NEW; side >= MS_DIFF_OLD; side--)
		if (!add_side(arena, &diff->holders[side]->roots, side, &diff->roots) ||
		    !add_side(arena, &diff->holders[side]->types, side, &diff->live))
			return false;
	return ms_diff_join(arena, &diff->roots) && ms_diff_join(arena, &diff->live);
}

enum ms_status ms_diff_make(struct ms_diff *diff, struct ms_arena *arena, struct ms_error *err)
{
	enum ms_status st;
	bool ok = diff->holders[MS_DIFF_NEW]
	                  ? ms_diff_holders(diff, arena)
	                  : ms_diff_leaks(diff, arena) && ms_diff_live(diff, arena) &&
	                            compare_heaps(diff, arena);

	if (ok) {
		ms_diff_warn(diff, arena);
		return MS_OK;
	}
	st = ms_fail(err, MS_E_NOMEM, "no memory for comparing the reports");
	ms_advise(err, "comparing takes about as much memory as both reports have bytes");
	return st;
}

bool ms_diff_grew(const struct ms_diff *diff)
{
	const struct ms_totals *old = &diff->reports[MS_DIFF_OLD]->totals;
	const struct ms_totals *new = &diff->reports[MS_DIFF_NEW]->totals;

	if (new->allocation_bytes > old->allocation_bytes || new->leaked_bytes > old->leaked_bytes)
		return true;
	return ms_diff_leaks_grown(diff) > 0;
}

size_t ms_diff_leaks_grown(const struct ms_diff *diff)
{
	const struct ms_diff_row *row;
	size_t n = 0;

	ms_vec_for_each (row, &diff->leaks)
		n += !row->possible && ms_diff_row_grew(row);
	return n;
}
