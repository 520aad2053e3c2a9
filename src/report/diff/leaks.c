/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/rows.h"

/* Reports of versions before there were signatures have none. */
static bool all_signed(const struct ms_report *report)
{
	const struct ms_leak *leak;

	ms_vec_for_each (leak, &report->leaks)
		if (!leak->signature[0])
			return false;
	return true;
}

/* The entry counts for all that it stands for, with what they hold. */
static struct ms_diff_row row_of(const struct ms_report *report, const struct ms_leak *leak,
                                 bool by_signature)
{
	return (struct ms_diff_row){ .type = leak->type ? &report->types.at[leak->type - 1] : NULL,
		                     .signature = by_signature ? leak->signature : NULL,
		                     .size = leak->size,
		                     .least_size = leak->size,
		                     .possible = leak->kind == MS_LEAK_POSSIBLE };
}

bool ms_diff_leaks(struct ms_diff *diff, struct ms_arena *arena)
{
	const struct ms_report *const *reports = diff->reports;
	bool by_signature = all_signed(reports[MS_DIFF_OLD]) && all_signed(reports[MS_DIFF_NEW]);
	bool possible = reports[MS_DIFF_OLD]->possible && reports[MS_DIFF_NEW]->possible;

	/* The new side first: a row is then what the newer report says. */
	for (int side = MS_DIFF_NEW; side >= MS_DIFF_OLD; side--) {
		const struct ms_leak *leak;

		ms_vec_for_each (leak, &reports[side]->leaks) {
			struct ms_diff_row *row;

			if (leak->kind == MS_LEAK_POSSIBLE && !possible)
				continue;
			row = ms_vec_push(arena, &diff->leaks);
			if (!row)
				return false;
			*row = row_of(reports[side], leak, by_signature);
			row->side[side].count =
				leak->similar_count + (leak->similar_count < UINT64_MAX);
			row->side[side].bytes = leak->total_size;
		}
	}
	return ms_diff_join(arena, &diff->leaks);
}
