/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which kinds of blocks a histogram groups depends on which it met first. So where one of
 * the reports groups a class of sizes, both are taken by that class.
 */

#include "base/sort.h"
#include "report/diff/rows.h"

static const struct ms_type *type_of(const struct ms_report *report, const struct ms_live *live)
{
	return live->type ? &report->types.at[live->type - 1] : NULL;
}

/* By type, then by their largest size. */
static int compare_classes(const struct ms_diff_row *a, const struct ms_diff_row *b)
{
	int types = ms_diff_compare_types(a->type, b->type);

	return types ? types : (a->size > b->size) - (a->size < b->size);
}

static bool class_before(const void *a, const void *b)
{
	return compare_classes(a, b) < 0;
}

static bool add_side(struct ms_diff *diff, int side, struct ms_arena *arena,
                     struct ms_diff_rows *classes)
{
	const struct ms_report *report = diff->reports[side];
	const struct ms_live *live;

	ms_vec_for_each (live, &report->live) {
		struct ms_diff_row *row = ms_vec_push(arena, &diff->live);
		struct ms_diff_row *class;

		if (!row)
			return false;
		*row = (struct ms_diff_row){ .type = type_of(report, live),
			                     .size = live->size,
			                     .least_size = live->least_size };
		row->side[side] = (struct ms_diff_amount){ live->allocations, live->bytes };
		if (live->least_size == live->size)
			continue;
		class = ms_vec_push(arena, classes);
		if (!class)
			return false;
		*class = *row;
	}
	return true;
}

/* Of the same type the first class that does not end below the row's sizes; NULL: there is none. */
static const struct ms_diff_row *class_of(const struct ms_diff_rows *classes,
                                          const struct ms_diff_row *row)
{
	size_t low = 0;
	size_t high = classes->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_classes(&classes->at[middle], row) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == classes->n || ms_diff_compare_types(classes->at[low].type, row->type) != 0 ||
	    classes->at[low].least_size > row->least_size)
		return NULL;
	return &classes->at[low];
}

bool ms_diff_live(struct ms_diff *diff, struct ms_arena *arena)
{
	struct ms_diff_rows classes = { 0 };
	struct ms_diff_row *row;

	diff->has_live = diff->reports[MS_DIFF_OLD]->heap && diff->reports[MS_DIFF_NEW]->heap;
	if (!diff->has_live)
		return true;
	if (!add_side(diff, MS_DIFF_NEW, arena, &classes) ||
	    !add_side(diff, MS_DIFF_OLD, arena, &classes) ||
	    !ms_sort(arena, classes.at, classes.n, sizeof(*classes.at), class_before))
		return false;
	ms_vec_for_each (row, &diff->live) {
		const struct ms_diff_row *class = class_of(&classes, row);

		if (!class)
			continue;
		row->size = class->size;
		row->least_size = class->least_size;
	}
	return ms_diff_join(arena, &diff->live);
}
