/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_DIFF_DIFF_H
#define MS_REPORT_DIFF_DIFF_H

/*
 * The model "what leaked or grew between two reports", and how it is made.
 *
 * Both reports stay with the caller, and rows point into them. Entries are compared by a key
 * that is the same in another run: leaks by signature, live blocks by type and size. All
 * entries of one key are one row; a row that did not change is omitted.
 */

#include "base/status.h"
#include "engine/report.h"

enum { MS_DIFF_OLD, MS_DIFF_NEW, MS_DIFF_SIDES };

struct ms_diff_amount {
	uint64_t count;
	uint64_t bytes;
};

enum ms_change { MS_CHANGE_NEW, MS_CHANGE_GROWN, MS_CHANGE_SHRUNK, MS_CHANGE_GONE, MS_CHANGES };

struct ms_diff_root;
struct ms_holders;

/* Entries of one key. What is NULL, "" or 0 is not known, or has no part in the key. */
struct ms_diff_row {
	struct ms_diff_amount side[MS_DIFF_SIDES];
	const struct ms_type *type;
	const char *signature;           /* of leaks */
	const struct ms_diff_root *root; /* of what roots hold */
	uint64_t size; /* of a leak's own block, or of live ones; of a class the largest */
	uint64_t least_size;
	uint8_t change;   /* enum ms_change */
	uint8_t possible; /* they are possible leaks */
};

struct ms_diff_rows MS_VEC(struct ms_diff_row);

/* An allocator's heap. */
struct ms_diff_heap {
	const char *allocator;
	struct ms_diff_amount side[MS_DIFF_SIDES];
	uint64_t mapped_bytes[MS_DIFF_SIDES];
};

struct ms_diff_heaps MS_VEC(struct ms_diff_heap);

struct ms_diff {
	const struct ms_report *reports[MS_DIFF_SIDES];
	const char *files[MS_DIFF_SIDES]; /* as they were given */
	uint64_t limit;                   /* rows of each list */
	struct ms_diff_rows leaks; /* those that grew most first, then those that shrank most */
	struct ms_diff_rows live;  /* likewise */
	bool has_live;             /* both reports have a histogram */
	struct ms_diff_rows roots; /* what they hold; likewise */
	/* Those of two reports of memscan retained, which have no leaks; else NULL. */
	const struct ms_holders *holders[MS_DIFF_SIDES];
	struct ms_diff_heaps heaps; /* in the order of the new report */
	struct ms_notes warnings;
};

/*
 * Compare the two reports that @diff has, and fill the rest.
 *
 * Returns MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_diff_make(struct ms_diff *diff, struct ms_arena *arena,
                                          struct ms_error *err);

/* More bytes are live or leaked than before, or more of any leak. */
bool ms_diff_grew(const struct ms_diff *diff);

/* By how much an amount grew; below 0 when it shrank. */
int64_t ms_diff_by(uint64_t old, uint64_t new);

/* By how many bytes a row grew. */
int64_t ms_diff_growth(const struct ms_diff_row *row);

/* In bytes or, where these are the same, in blocks. */
static inline bool ms_diff_row_grew(const struct ms_diff_row *row)
{
	return row->change == MS_CHANGE_NEW || row->change == MS_CHANGE_GROWN;
}

/* How many rows of leaks, possible ones not included, grew. */
size_t ms_diff_leaks_grown(const struct ms_diff *diff);

/* Nanoseconds from one scan to the other; below 0 when the new report is the older one. */
int64_t ms_diff_elapsed_ns(const struct ms_diff *diff);

#endif
