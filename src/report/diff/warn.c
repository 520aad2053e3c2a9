/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "report/diff/holders.h"
#include "report/diff/rows.h"

#define WARN(diff, arena, ...) ms_note_add((arena), &(diff)->warnings, __VA_ARGS__)

/* A start is counted from the boot, and when that was is said by a clock that is set. */
static bool is_one_process(const struct ms_target_facts *a, const struct ms_target_facts *b)
{
	static const int64_t slack_ns = INT64_C(10000000000);
	int64_t apart = 0;

	if (a->pid != b->pid)
		return false;
	if (!a->start_time || !b->start_time)
		return true;
	return !__builtin_sub_overflow(a->start_time, b->start_time, &apart) && apart < slack_ns &&
	       apart > -slack_ns;
}

static void warn_of_programs(struct ms_diff *diff, struct ms_arena *arena)
{
	const struct ms_target_facts *old = &diff->reports[MS_DIFF_OLD]->target;
	const struct ms_target_facts *new = &diff->reports[MS_DIFF_NEW]->target;

	if (strcmp(old->exe, new->exe) != 0)
		WARN(diff, arena, "the reports are of different programs: %.70s and %.70s",
		     old->exe[0] ? old->exe : "an unknown one",
		     new->exe[0] ? new->exe : "an unknown one");
	else if (!is_one_process(old, new))
		WARN(diff, arena,
		     "the reports are of two runs of the program: process %" PRId32
		     " and process %" PRId32,
		     old->pid, new->pid);
	if (ms_diff_elapsed_ns(diff) < 0)
		WARN(diff, arena,
		     "the new report is older than the old one: were the files swapped?");
}

static void warn_of_lists(struct ms_diff *diff, struct ms_arena *arena, int side)
{
	const struct ms_report *report = diff->reports[side];
	struct ms_unlisted rest = ms_report_unlisted(report);
	uint64_t small = rest.small_leaks + rest.small_possible;
	const char *name = side == MS_DIFF_OLD ? "old" : "new";

	if (rest.leaks || rest.possible)
		WARN(diff, arena,
		     "%" PRIu64
		     " leaks are not listed in the %s report and not compared: scan with "
		     "--limit all",
		     rest.leaks + rest.possible, name);
	if (small)
		WARN(diff, arena,
		     "%" PRIu64 " smaller leaks are not listed in the %s report and not compared: "
		     "scan without --min-size",
		     small, name);
}

static bool has_indirect(const struct ms_report *report)
{
	const struct ms_leak *leak;

	ms_vec_for_each (leak, &report->leaks)
		if (leak->kind == MS_LEAK_INDIRECT)
			return true;
	return false;
}

static bool is_in_doubt(const struct ms_report *report)
{
	const struct ms_heap *heap;

	ms_vec_for_each (heap, &report->heaps)
		if (!heap->verified)
			return true;
	return false;
}

static void warn_of_options(struct ms_diff *diff, struct ms_arena *arena)
{
	const struct ms_report *old = diff->reports[MS_DIFF_OLD];
	const struct ms_report *new = diff->reports[MS_DIFF_NEW];

	if (has_indirect(old) != has_indirect(new) && old->leaks.n && new->leaks.n)
		WARN(diff, arena,
		     "only one report lists indirect leaks by themselves: scan both times with "
		     "--no-fold, or both times without");
	if (old->possible != new->possible)
		WARN(diff, arena,
		     "possible leaks are not compared: only the %s report was made with --possible",
		     old->possible ? "old" : "new");
	if (old->confirm != new->confirm)
		WARN(diff, arena, "only the leaks of the %s report were confirmed",
		     old->confirm ? "old" : "new");
	if (old->heap != new->heap)
		WARN(diff, arena,
		     "live blocks are not compared: only the %s report has a histogram; scan both "
		     "times with --heap",
		     old->heap ? "old" : "new");
	if (is_in_doubt(old) || is_in_doubt(new))
		WARN(diff, arena,
		     "a heap could not be verified: blocks may be missing in a report");
}

static void warn_of_holders(struct ms_diff *diff, struct ms_arena *arena, int side)
{
	const struct ms_holders *holders = diff->holders[side];

	if (holders->n_roots > holders->roots.n)
		WARN(diff, arena,
		     "%" PRIu64 " roots are not listed in the %s report and not compared: use "
		     "--limit all",
		     holders->n_roots - holders->roots.n, side == MS_DIFF_OLD ? "old" : "new");
}

void ms_diff_warn(struct ms_diff *diff, struct ms_arena *arena)
{
	warn_of_programs(diff, arena);
	for (int side = 0; side < MS_DIFF_SIDES && diff->holders[side]; side++)
		warn_of_holders(diff, arena, side);
	if (diff->holders[MS_DIFF_NEW])
		return;
	for (int side = 0; side < MS_DIFF_SIDES; side++)
		warn_of_lists(diff, arena, side);
	warn_of_options(diff, arena);
}
