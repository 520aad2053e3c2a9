/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A report's leaks by their stacks: for flame graphs, and as a page. What is not listed is not
 * in there, so all is listed unless --limit says otherwise.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/file.h"
#include "report/amounts/amounts.h"

enum { LINE = MS_PATH_TEXT + 64 };

bool ms_amounts_write(const struct ms_report *report, ms_amounts_take *take,
                      bool (*write)(const struct ms_amount_tree *tree, struct ms_sink *sink),
                      struct ms_sink *sink)
{
	struct ms_arena arena = { 0 };
	struct ms_amounts amounts = { 0 };
	struct ms_amount_tree tree = { .amounts = &amounts };
	struct ms_error err;
	bool ok = take(report, &arena, &amounts, &err) == MS_OK &&
	          ms_amounts_grow(&tree, &arena, &err) == MS_OK && write(&tree, sink);

	ms_arena_deinit(&arena);
	return ok;
}

static enum ms_status take_leaks(const struct ms_report *report, struct ms_arena *arena,
                                 struct ms_amounts *ret, struct ms_error *err)
{
	return ms_amounts_of_leaks(report, MS_AMOUNTS_BY_STACK, arena, ret, err);
}

static bool write_folded(const struct ms_report *report, struct ms_sink *sink)
{
	return ms_amounts_write(report, take_leaks, ms_amounts_folded, sink);
}

static bool write_pprof(const struct ms_report *report, struct ms_sink *sink)
{
	return ms_amounts_write(report, take_leaks, ms_amounts_pprof, sink);
}

static uint64_t unlisted(const struct ms_report *report)
{
	const struct ms_unlisted rest = ms_report_unlisted(report);

	return rest.leaks + rest.possible + rest.small_leaks + rest.small_possible;
}

static bool is_estimated(const struct ms_report *report)
{
	return report->sampling.on && report->sampling.interval;
}

static bool write_html(const struct ms_report *report, struct ms_sink *sink)
{
	char process[LINE], total[LINE], rest[LINE], sampled[LINE];
	const char *lines[4] = { process, total };
	const uint64_t n = unlisted(report);
	struct ms_amount_page page = { .title = "Leaked memory", .lines = lines, .n_lines = 2 };
	struct ms_arena arena = { 0 };
	struct ms_amounts amounts = { 0 };
	struct ms_amount_tree tree = { .amounts = &amounts };
	struct ms_error err;
	bool ok;

	(void)snprintf(process, sizeof(process), "process %d (%s)", (int)report->target.pid,
	               ms_file_name(report->target.exe));
	(void)snprintf(total, sizeof(total), "%" PRIu64 " bytes in %" PRIu64 " leaked allocations",
	               report->totals.leaked_bytes, report->totals.leaked_allocations);
	(void)snprintf(rest, sizeof(rest), "%" PRIu64 " entries are not listed", n);
	(void)snprintf(sampled, sizeof(sampled),
	               "amounts under stacks are estimated from %" PRIu64 " samples",
	               report->sampling.live);
	if (is_estimated(report))
		lines[page.n_lines++] = sampled;
	if (n)
		lines[page.n_lines++] = rest;
	ok = take_leaks(report, &arena, &amounts, &err) == MS_OK &&
	     ms_amounts_grow(&tree, &arena, &err) == MS_OK && ms_amounts_html(&tree, &page, sink);
	ms_arena_deinit(&arena);
	return ok;
}

const struct ms_writer ms_html_writer = { .name = "html", .write = write_html, .whole = true };
const struct ms_writer ms_folded_writer = { .name = "folded",
	                                    .write = write_folded,
	                                    .whole = true };
const struct ms_writer ms_pprof_writer = {
	.name = "pprof", .write = write_pprof, .whole = true, .no_text = true
};
