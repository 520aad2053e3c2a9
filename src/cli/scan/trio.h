/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_TRIO_H
#define MS_CLI_TRIO_H

/*
 * The three processes of a scan.
 *
 *	original    this one: starts the others, waits for the report, says what happened
 *	collection  traces the target and nothing else (target/collection.h)
 *	sweeper     holds the target's memory, searches it, sends the report (sweeper.h)
 *
 * The ends of the channel and of the report's pipe are closed wherever they are not
 * used, so that the death of any process is an end of file for the others. If the
 * original dies the kernel kills both children; if the collection process dies the
 * kernel lets the target go; if the sweeper dies the collection process does.
 */

#include <sys/types.h>

#include "cli/scan/naming.h"
#include "cli/scan/progress.h"
#include "engine/scan.h"
#include "target/dump/dump.h"
#include "target/snapshot.h"

struct ms_trio_call {
	pid_t pid;
	uint64_t start_ticks; /* of the process, after boot: its id can be another's soon */
	uint64_t timeout_ns;  /* for freezing */
	uint64_t deadline_ns; /* ms_now_ns() when all has to be over; 0: none */
	const struct ms_scan_options *scan;
	enum ms_snapshot_how how;
	unsigned jobs;                  /* threads to search with */
	const struct ms_naming *naming; /* of stacks, which suppressions need; with a book */
	struct ms_error *refusal; /* in/out: why the target was not cloned; MS_OK: it may be */
	struct ms_progress *progress;
	bool verbose;                     /* tell on stderr what is tried again */
	const struct ms_dump_order *dump; /* a core is written, and nothing searched; or NULL */
};

/*
 * Scan call->pid once. One that refused to be cloned is copied, now and in later calls with
 * the same call->refusal.
 *
 * @ret: all but host, target and names; its vectors are in @arena, which is emptied first
 */
ms_must_check enum ms_status ms_trio_scan(const struct ms_trio_call *call, struct ms_arena *arena,
                                          struct ms_report *ret, struct ms_error *err);

#endif
