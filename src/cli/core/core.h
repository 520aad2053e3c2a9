/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_CORE_H
#define MS_CLI_CORE_H

/*
 * The scan of a core (target/core/core.h).
 *
 *	scan.c      the original: opens the core and its files, starts the sweeper, names
 *	sweep.c     the sweeper, and how its report comes
 *	unpack.c    a compressed core is unpacked to a file without a name
 *	packed.c    the worker that does that, which has no rights
 *	zstd.c, lz4.c, xz.c
 */

#include "cli/scan/naming.h"
#include "cli/scan/options.h"
#include "cli/scan/progress.h"
#include "target/core/core.h"

/* Scan options->core once. @ret: lives in @arena */
ms_must_check enum ms_status ms_core_scan(const struct ms_options *options, struct ms_arena *arena,
                                          struct ms_report *ret, struct ms_error *err);

/* ---- between these files ---- */

struct ms_core_sweep {
	const struct ms_scan_options *options;
	struct ms_source *src;
	struct ms_core_process *process;
	struct ms_arena *held;           /* the memory of these */
	const struct ms_notes *warnings; /* of opening it */
	const struct ms_naming *naming;
	struct ms_progress *progress;
	unsigned jobs;
	uint64_t deadline_ns; /* ms_now_ns() when all has to be over; 0: none */
};

/* Search in a process of its own. @ret: in @arena, which is emptied first */
ms_must_check enum ms_status ms_core_sweep(const struct ms_core_sweep *sweep,
                                           struct ms_arena *arena, struct ms_report *ret,
                                           struct ms_error *err);

struct ms_core_packed {
	int fd;           /* the core as it is */
	const char *path; /* its name, for messages */
	struct ms_progress *progress;
	struct ms_arena *arena;
	/* In @arena: the core ends early, or is damaged at some place; what is before counts. */
	struct ms_notes *warnings;
};

/*
 * Give a descriptor of what a core unpacks to, or packed->fd itself when it is not compressed;
 * otherwise that is closed, in every case.
 *
 * Returns MS_E_SYS when there is no room, MS_E_UNSUPPORTED for other compression, MS_E_CORRUPT.
 */
ms_must_check enum ms_status ms_core_unpack(const struct ms_core_packed *packed, int *ret_fd,
                                            struct ms_error *err);

#endif
