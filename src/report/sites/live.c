/* SPDX-License-Identifier: Apache-2.0 */

/* What lives, by the calls that allocated it: an allocation profile by samples. */
#include <inttypes.h>
#include <string.h>

#include "report/amounts/amounts.h"
#include "report/sites/sites.h"
#include "report/version.h"

static bool write_text(const struct ms_report *report, struct ms_sink *sink)
{
	const struct ms_scan_facts *scan = &report->scan;
	struct ms_text t = { sink, true };

	ms_text_print(&t, "memscan %s: process %" PRId32 " ", MS_VERSION, report->target.pid);
	ms_text_name(&t, report->target.exe, strlen(report->target.exe));
	if (report->target.ns_pid)
		ms_text_print(&t, "\n  in its pid namespace: process %" PRId32,
		              report->target.ns_pid);
	ms_text_print(&t, "\n  scan: paused %.3f ms, source ", (double)scan->pause_ns / 1e6);
	ms_text_name(&t, scan->source, strlen(scan->source));
	ms_text_print(&t, "\n");
	ms_sites_put_header(&t, &report->sampling);
	ms_text_print(&t, "  all: %" PRIu64 " bytes in %" PRIu64 " allocation%s\n\n",
	              report->totals.allocation_bytes, report->totals.allocations,
	              ms_text_plural(report->totals.allocations));
	ms_sites_put_live(&t, report);
	return t.ok;
}

static bool write_tree(const struct ms_report *report, struct ms_sink *sink,
                       bool (*write)(const struct ms_amount_tree *tree, struct ms_sink *sink))
{
	struct ms_arena arena = { 0 };
	struct ms_amounts amounts = { 0 };
	struct ms_amount_tree tree = { .amounts = &amounts };
	struct ms_error err;
	bool ok = ms_amounts_of_sites(report, &arena, &amounts, &err) == MS_OK &&
	          ms_amounts_grow(&tree, &arena, &err) == MS_OK && write(&tree, sink);

	ms_arena_deinit(&arena);
	return ok;
}

static bool write_folded(const struct ms_report *report, struct ms_sink *sink)
{
	return write_tree(report, sink, ms_amounts_folded);
}

static bool write_pprof(const struct ms_report *report, struct ms_sink *sink)
{
	return write_tree(report, sink, ms_amounts_pprof);
}

const struct ms_writer ms_live_text_writer = { .name = "text", .write = write_text };
const struct ms_writer ms_live_folded_writer = { .name = "folded",
	                                         .write = write_folded,
	                                         .whole = true };
const struct ms_writer ms_live_pprof_writer = {
	.name = "pprof", .write = write_pprof, .whole = true, .no_text = true
};
