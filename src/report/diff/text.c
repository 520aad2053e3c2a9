/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What grew, for people: first a line that answers, then what it is made of. Numbers in
 * tables are exact, in sentences they are short.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "report/diff/holders.h"
#include "report/diff/writers.h"
#include "report/print.h"
#include "report/version.h"

static void put_name(struct ms_text *t, const char *name)
{
	ms_text_name(t, name, strlen(name));
}

static void put_bytes(struct ms_text *t, uint64_t bytes)
{
	static const char *const units[] = { "KB", "MB", "GB", "TB", "PB" };
	double n = (double)bytes / 1024;
	size_t unit = 0;

	if (bytes < 10000) {
		ms_text_print(t, "%" PRIu64 " byte%s", bytes, ms_plural(bytes));
		return;
	}
	while (n >= 999.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		n /= 1024;
		unit++;
	}
	ms_text_print(t, "%.1f %s", n, units[unit]);
}

static uint64_t size_of(int64_t by)
{
	return by < 0 ? -(uint64_t)by : (uint64_t)by;
}

static void put_elapsed(struct ms_text *t, int64_t ns)
{
	double s = (double)ns / 1e9;

	if (s < 10)
		ms_text_print(t, "%.1f s", s);
	else if (s < 120)
		ms_text_print(t, "%.0f s", s);
	else if (s < 120 * 60)
		ms_text_print(t, "%.0f min", s / 60);
	else if (s < 48 * 3600)
		ms_text_print(t, "%.1f h", s / 3600);
	else
		ms_text_print(t, "%.1f days", s / 86400);
}

/* ---- the verdict ---- */

static void put_sizes(struct ms_text *t, const struct ms_diff_row *row)
{
	if (row->least_size != row->size)
		ms_text_print(t, "%" PRIu64 " to ", row->least_size);
	ms_text_print(t, "%" PRIu64 " bytes", row->size);
}

/* "g_cache+16 in server (data)", "serve (stack of worker)" */
static void put_root(struct ms_text *t, const struct ms_diff_root *root)
{
	if (root->symbol[0]) {
		put_name(t, root->symbol);
		if (root->symbol_offset)
			ms_text_print(t, "+%" PRIu64, root->symbol_offset);
		ms_text_print(t, root->module[0] ? " in " : " ");
	}
	if (root->module[0]) {
		put_name(t, ms_file_name(root->module));
		if (!root->symbol[0] && root->offset)
			ms_text_print(t, "+0x%" PRIx64, (uint64_t)root->offset);
		ms_text_print(t, " ");
	}
	ms_text_print(t, "(");
	put_name(t, root->kind);
	if (root->thread_name[0]) {
		ms_text_print(t, " of ");
		put_name(t, root->thread_name);
	}
	ms_text_print(t, ")");
}

static void put_blocks(struct ms_text *t, const struct ms_diff_row *row)
{
	if (row->type)
		ms_text_type(t, row->type);
	else if (!row->size)
		ms_text_print(t, "all others");
	if (row->type && row->size)
		ms_text_print(t, " (");
	if (row->size)
		put_sizes(t, row);
	if (row->type && row->size)
		ms_text_print(t, ")");
}

static void put_what(struct ms_text *t, const struct ms_diff_row *row)
{
	if (row->root)
		put_root(t, row->root);
	else
		put_blocks(t, row);
}

/* "5.0 MB more are held by g_cache in server (data)" */
static void put_held(struct ms_text *t, const struct ms_diff_row *row)
{
	ms_text_print(t, "; ");
	put_bytes(t, row->side[MS_DIFF_NEW].bytes - row->side[MS_DIFF_OLD].bytes);
	ms_text_print(t, " more are held by ");
	put_what(t, row);
}

/* "334 x Session (152 bytes) more are leaked" */
static void put_grown(struct ms_text *t, const struct ms_diff_row *row, const char *how)
{
	const struct ms_diff_amount *old = &row->side[MS_DIFF_OLD];
	const struct ms_diff_amount *new = &row->side[MS_DIFF_NEW];

	ms_text_print(t, "; ");
	if (new->count > old->count) {
		ms_text_print(t, "%" PRIu64 " x ", new->count - old->count);
		put_what(t, row);
		ms_text_print(t, " more %s %s", new->count - old->count == 1 ? "is" : "are", how);
		return;
	}
	put_bytes(t, new->bytes - old->bytes);
	ms_text_print(t, " more are %s of ", how);
	put_what(t, row);
}

static const struct ms_diff_row *grown_most(const struct ms_diff_rows *rows)
{
	const struct ms_diff_row *row;

	ms_vec_for_each (row, rows)
		if (!row->possible && ms_diff_row_grew(row))
			return row;
	return NULL;
}

static void put_leaked(struct ms_text *t, const struct ms_diff *diff)
{
	uint64_t old = diff->reports[MS_DIFF_OLD]->totals.leaked_bytes;
	uint64_t new = diff->reports[MS_DIFF_NEW]->totals.leaked_bytes;
	size_t others = ms_diff_leaks_grown(diff);
	const struct ms_diff_row *most = grown_most(&diff->leaks);

	if (others && most) {
		put_grown(t, most, "leaked");
		if (others > 1)
			ms_text_print(t, ", and more of %zu other leak%s", others - 1,
			              ms_plural(others - 1));
	} else if (new > old) {
		ms_text_print(t, "; ");
		put_bytes(t, new - old);
		ms_text_print(t, " more are leaked");
	} else {
		ms_text_print(t, "; nothing more is leaked");
	}
}

static void put_verdict(struct ms_text *t, const struct ms_diff *diff)
{
	uint64_t old = diff->reports[MS_DIFF_OLD]->totals.allocation_bytes;
	uint64_t new = diff->reports[MS_DIFF_NEW]->totals.allocation_bytes;
	const struct ms_diff_row *holder = grown_most(&diff->roots);
	const struct ms_diff_row *row = grown_most(&diff->live);
	int64_t elapsed_ns = ms_diff_elapsed_ns(diff);
	int64_t by = ms_diff_by(old, new);

	ms_text_print(t, "Live heap ");
	if (by) {
		ms_text_print(t, by > 0 ? "grew by " : "shrank by ");
		put_bytes(t, size_of(by));
	} else {
		ms_text_print(t, "did not grow");
	}
	if (elapsed_ns > 0) {
		ms_text_print(t, " in ");
		put_elapsed(t, elapsed_ns);
	}
	if (holder)
		put_held(t, holder);
	if (row)
		put_grown(t, row, "live");
	put_leaked(t, diff);
	ms_text_print(t, "\n\n");
}

/* ---- what was compared ---- */

static void put_side(struct ms_text *t, const struct ms_diff *diff, int side)
{
	const struct ms_report *report = diff->reports[side];
	const struct ms_totals *totals = &report->totals;

	ms_text_print(t, "  %s: ", side == MS_DIFF_OLD ? "old" : "new");
	put_name(t, diff->files[side]);
	ms_text_print(t, ", process %" PRId32, report->target.pid);
	if (report->target.exe[0]) {
		ms_text_print(t, " ");
		put_name(t, report->target.exe);
	}
	ms_text_print(t,
	              ", %" PRIu64 " bytes in %" PRIu64 " allocation%s live, %" PRIu64
	              " bytes in %" PRIu64 " allocation%s leaked\n",
	              totals->allocation_bytes, totals->allocations, ms_plural(totals->allocations),
	              totals->leaked_bytes, totals->leaked_allocations,
	              ms_plural(totals->leaked_allocations));
}

static void put_heap(struct ms_text *t, const struct ms_diff_heap *heap)
{
	const struct ms_diff_amount *side = heap->side;

	ms_text_print(t, "  heap of ");
	put_name(t, heap->allocator);
	ms_text_print(t,
	              ": %+" PRId64 " live bytes, %+" PRId64 " allocations, %+" PRId64
	              " mapped bytes\n",
	              ms_diff_by(side[MS_DIFF_OLD].bytes, side[MS_DIFF_NEW].bytes),
	              ms_diff_by(side[MS_DIFF_OLD].count, side[MS_DIFF_NEW].count),
	              ms_diff_by(heap->mapped_bytes[MS_DIFF_OLD], heap->mapped_bytes[MS_DIFF_NEW]));
}

static void put_header(struct ms_text *t, const struct ms_diff *diff)
{
	const struct ms_diff_heap *heap;
	const struct ms_note *warning;

	ms_text_print(t, "memscan %s: from the old report to the new one\n", MS_VERSION);
	for (int side = 0; side < MS_DIFF_SIDES; side++)
		put_side(t, diff, side);
	ms_vec_for_each (heap, &diff->heaps)
		put_heap(t, heap);
	ms_vec_for_each (warning, &diff->warnings) {
		ms_text_print(t, "  warning: ");
		put_name(t, warning->text);
		ms_text_print(t, "\n");
	}
	ms_text_print(t, "\n");
}

/* ---- tables ---- */

static void put_row(struct ms_text *t, const struct ms_diff_row *row)
{
	static const char *const changes[MS_CHANGES] = {
		[MS_CHANGE_NEW] = "new",
		[MS_CHANGE_GROWN] = "grown",
		[MS_CHANGE_SHRUNK] = "shrunk",
		[MS_CHANGE_GONE] = "gone",
	};
	const struct ms_diff_amount *new = &row->side[MS_DIFF_NEW];

	ms_text_print(t, "%+14" PRId64 " %14" PRIu64 " %+10" PRId64 " %10" PRIu64 "  %-6s  ",
	              ms_diff_growth(row), new->bytes,
	              ms_diff_by(row->side[MS_DIFF_OLD].count, new->count), new->count,
	              changes[row->change]);
	put_what(t, row);
	ms_text_print(t, row->possible ? ", possible leak\n" : "\n");
}

static void put_rows(struct ms_text *t, const struct ms_diff_rows *rows, uint64_t limit,
                     const char *title)
{
	size_t n = limit < rows->n ? (size_t)limit : rows->n;

	ms_text_print(t, "%s, most growth first:\n\n%14s %14s %10s %10s  %-6s  %s\n", title,
	              "growth", "bytes now", "more", "blocks now", "", "what");
	for (size_t i = 0; i < n && t->ok; i++)
		put_row(t, &rows->at[i]);
	ms_text_print(t, "\n");
	if (n < rows->n)
		ms_text_print(t, "%zu more row%s not listed: --limit all lists them\n\n",
		              rows->n - n, rows->n - n == 1 ? " is" : "s are");
}

static void put_live(struct ms_text *t, const struct ms_diff *diff)
{
	bool any = diff->reports[MS_DIFF_OLD]->heap || diff->reports[MS_DIFF_NEW]->heap;

	if (diff->live.n)
		put_rows(t, &diff->live, diff->limit, "Live blocks by type and size");
	else if (diff->has_live)
		ms_text_print(t, "Live blocks by type and size: no change\n\n");
	else if (!any) /* else a warning says so */
		ms_text_print(
			t,
			"To see what is live by type and size, scan with --heap both times.\n\n");
}

static bool write_text(const struct ms_diff *diff, struct ms_sink *sink)
{
	struct ms_text t = { sink, true };

	put_verdict(&t, diff);
	put_header(&t, diff);
	if (diff->holders[MS_DIFF_NEW] && diff->roots.n)
		put_rows(&t, &diff->roots, diff->limit, "What roots hold");
	else if (diff->holders[MS_DIFF_NEW])
		ms_text_print(&t, "What roots hold: no change\n\n");
	else if (diff->leaks.n)
		put_rows(&t, &diff->leaks, diff->limit, "Leaks, with what they hold");
	else
		ms_text_print(&t, "Leaks: no change\n\n");
	put_live(&t, diff);
	return t.ok;
}

const struct ms_diff_writer ms_diff_text_writer = { "text", write_text };
