/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/sweep.h"

#include "alloc/decoders.h"
#include "base/file.h"
#include "base/workers.h"
#include "report/wire.h"

enum ms_status ms_sweep_confine(const struct ms_sweep_call *call, struct ms_workers **ret_workers,
                                struct ms_arena *arena, struct ms_report *report,
                                struct ms_error *err)
{
	enum ms_status st = ms_jail_drop(call->jail, err);

	*ret_workers = NULL;
	if (st)
		return st;
	if (call->jobs && ms_workers_start(call->jobs, ret_workers, err)) {
		*ret_workers = NULL;
		ms_note_add(arena, &report->warnings, "the search ran alone: %s", err->text);
	}
	return MS_OK;
}

enum ms_status ms_sweep_confined(const struct ms_sweep_call *call, struct ms_workers *workers,
                                 struct ms_arena *arena, struct ms_report *report,
                                 struct ms_error *err)
{
	struct ms_scan_options options = *call->options;
	enum ms_status st = ms_jail_seal(MS_JAIL_SWEEP, err);

	if (st)
		return st;
	ms_snapshot_describe(call->snapshot, call->shared, arena, report);
	options.workers = workers;
	options.decoders = ms_decoders;
	options.annotators = ms_annotators;
	st = ms_scan(call->snapshot->src, &options, arena, report, err);
	report->scan.bytes_read =
		call->held_bytes ? call->held_bytes : ms_snapshot_bytes(call->snapshot);
	return st;
}

enum ms_status ms_sweep_search(const struct ms_sweep_call *call, struct ms_arena *arena,
                               struct ms_report *report, struct ms_error *err)
{
	struct ms_workers *workers;
	enum ms_status st = ms_sweep_confine(call, &workers, arena, report, err);

	return st ? st : ms_sweep_confined(call, workers, arena, report, err);
}

bool ms_sweep_put(void *fd, const void *bytes, size_t len)
{
	return ms_fd_write_all(*(const int *)fd, bytes, len);
}

bool ms_sweep_get(void *fd, void *bytes, size_t len)
{
	return ms_fd_read_all(*(const int *)fd, bytes, len);
}

int ms_sweep_send(int fd, const struct ms_error *err, const struct ms_report *report)
{
	return ms_wire_send(ms_sweep_put, &fd, err, report) ? 0 : 1;
}
