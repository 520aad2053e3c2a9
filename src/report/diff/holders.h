/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_DIFF_HOLDERS_H
#define MS_REPORT_DIFF_HOLDERS_H

/* What memscan retained --json wrote (memscan.retained/1), read back as far as it is compared. */

#include "report/diff/diff.h"
#include "report/json/reader.h"

/*
 * A root without what differs from run to run: addresses, threads' ids, places on stacks.
 * What is not known, or has no part in the key, is "" or 0.
 */
struct ms_diff_root {
	char kind[16];
	char module[MS_PATH_TEXT];
	char symbol[MS_TYPE_TEXT];
	char thread_name[MS_THREAD_TEXT];
	uint64_t symbol_offset;
	int64_t offset;
};

struct ms_holders {
	struct ms_diff_rows roots; /* amounts stand on the new side */
	struct ms_diff_rows types; /* blocks that are reachable */
	uint64_t n_roots;          /* that there were, listed or not */
};

/*
 * Read @file. Of @report the process, the time and the totals are filled; all is in @arena.
 *
 * Returns as ms_json_read_report() does.
 */
ms_must_check enum ms_status ms_holders_read(const struct ms_json_file *file,
                                             struct ms_arena *arena, struct ms_report *report,
                                             struct ms_holders *ret, struct ms_error *err);

/* Below, at or above 0. */
int ms_diff_compare_roots(const struct ms_diff_root *a, const struct ms_diff_root *b);

#endif
