/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_SWEEPS_H
#define MS_CLI_SWEEPS_H

/*
 * The scans that memscan run makes, several at once when it follows children: each by
 * a sweeper process of its own (cli/sweeper.h), which leaves its report in a file
 * without a name. So the process that traces never waits for one.
 */

#include <sys/resource.h>

#include "cli/scan/options.h"
#include "engine/report.h"
#include "target/collection.h"

struct ms_standing_sweep;

/* What came of a sweep. */
struct ms_swept {
	pid_t pid;               /* what was scanned */
	bool followed;           /* it was made by the program */
	enum ms_status status;   /* of the scan */
	struct ms_error err;     /* why it failed */
	struct ms_report report; /* else; in the arena given */
};

/* Start to scan a process that stands. NULL with the reason in @err. */
struct ms_standing_sweep *ms_sweep_start(const struct ms_options *options,
                                         struct ms_collection *standing, bool followed,
                                         struct ms_error *err);

/* The process that searches. */
pid_t ms_sweep_pid(const struct ms_standing_sweep *sweep);

/*
 * Take the result of a sweep whose process has ended; its target was let go just before.
 *
 * @usage: of that process; NULL: the target was killed meanwhile
 */
void ms_sweep_take(struct ms_standing_sweep *sweep, const struct rusage *usage,
                   struct ms_arena *arena, struct ms_swept *ret);

void ms_sweep_list(struct ms_standing_sweep **list, struct ms_standing_sweep *sweep);

/* Take the one whose process is @pid out of @list; NULL when there is none. */
struct ms_standing_sweep *ms_sweep_unlist(struct ms_standing_sweep **list, pid_t pid);

void ms_sweep_free(struct ms_standing_sweep *sweep);

#endif
