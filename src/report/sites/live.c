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
	              ms_plural(report->totals.allocations));
	ms_sites_put_live(&t, report);
	return t.ok;
}

static bool write_folded(const struct ms_report *report, struct ms_sink *sink)
{
	return ms_amounts_write(report, ms_amounts_of_sites, ms_amounts_folded, sink);
}

static bool write_pprof(const struct ms_report *report, struct ms_sink *sink)
{
	return ms_amounts_write(report, ms_amounts_of_sites, ms_amounts_pprof, sink);
}

const struct ms_writer ms_live_text_writer = { .name = "text", .write = write_text };
const struct ms_writer ms_live_folded_writer = { .name = "folded",
	                                         .write = write_folded,
	                                         .whole = true };
const struct ms_writer ms_live_pprof_writer = {
	.name = "pprof", .write = write_pprof, .whole = true, .no_text = true
};
