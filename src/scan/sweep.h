/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SCAN_SWEEP_H
#define MS_SCAN_SWEEP_H

/*
 * What every sweeper does with what it holds, be it a clone, a copy or itself: give up its
 * rights, search, send the report. It does not search with rights that it could not give up:
 * that is a failure of the scan.
 */

#include "engine/report.h"
#include "engine/scan.h"
#include "target/jail/jail.h"
#include "target/snapshot.h"

struct ms_sweep_call {
	const struct ms_collection *shared;
	const struct ms_snapshot *snapshot;
	uint64_t held_bytes;                   /* of a snapshot that is no process's: its size */
	const struct ms_jail *jail;            /* what is kept */
	const struct ms_scan_options *options; /* all but decoders, annotators, workers */
	unsigned jobs;                         /* threads to search with; 0: this one, alone */
};

/*
 * Search. Threads inherit what is given up, so they come after that; nothing foreign was
 * looked at yet when something cannot be given up.
 */
ms_must_check enum ms_status ms_sweep_search(const struct ms_sweep_call *call,
                                             struct ms_arena *arena, struct ms_report *report,
                                             struct ms_error *err);

/*
 * The two halves of that, for a sweeper that reads without rights what it is to search: give up
 * rights, of @call by jail and jobs; search, with these workers (NULL: alone).
 */
ms_must_check enum ms_status ms_sweep_confine(const struct ms_sweep_call *call,
                                              struct ms_workers **ret_workers,
                                              struct ms_arena *arena, struct ms_report *report,
                                              struct ms_error *err);
ms_must_check enum ms_status ms_sweep_confined(const struct ms_sweep_call *call,
                                               struct ms_workers *workers, struct ms_arena *arena,
                                               struct ms_report *report, struct ms_error *err);

/* Send to @fd the report, or the failure that err->status is. The sweeper's exit status. */
int ms_sweep_send(int fd, const struct ms_error *err, const struct ms_report *report);

/* The wire's bytes (report/wire.h) through the descriptor that @fd, an int, points to. */
bool ms_sweep_put(void *fd, const void *bytes, size_t len);
bool ms_sweep_get(void *fd, void *bytes, size_t len);

#endif
