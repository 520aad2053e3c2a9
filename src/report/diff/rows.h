/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_DIFF_ROWS_H
#define MS_REPORT_DIFF_ROWS_H

/*
 * Entries of two reports put together by their keys, for all lists that are compared. They
 * are sorted for that: reports are foreign, and a hash of ours is no secret.
 */

#include "report/diff/diff.h"

/*
 * Make one row of all entries of one key, which is what the first of them says; leave out
 * those that did not change, and put the others in order. False without memory.
 *
 * @rows: in/out; each entry has an amount on one side
 */
bool ms_diff_join(struct ms_arena *arena, struct ms_diff_rows *rows);

/* Below, at or above 0, by name and module without its folders: builds and hosts differ there. */
int ms_diff_compare_types(const struct ms_type *a, const struct ms_type *b);

/* Fill the list of leaks, and that of live blocks; false without memory. */
bool ms_diff_leaks(struct ms_diff *diff, struct ms_arena *arena);
bool ms_diff_live(struct ms_diff *diff, struct ms_arena *arena);

/* The same of what two reports of memscan retained have: what roots hold, and types. */
bool ms_diff_holders(struct ms_diff *diff, struct ms_arena *arena);

/* Say what makes the reports unlike each other, or the comparison incomplete. */
void ms_diff_warn(struct ms_diff *diff, struct ms_arena *arena);

#endif
