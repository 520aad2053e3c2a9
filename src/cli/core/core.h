/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_CORE_H
#define MS_CLI_CORE_H

/*
 * The scan of a core (target/core/core.h).
 *
 *	scan.c      the original: opens the core, starts the others, names; reads nothing of it
 *	sweep.c     the sweeper, which reads the core without rights, and how its report comes
 *	files.c     a process that opens the files that the core names, for the sweeper
 *	unpack.c    a compressed core is unpacked to a file without a name
 *	packed.c    the worker that does that, which has no rights
 *	zstd.c, lz4.c, xz.c
 */

#include <limits.h>

#include "cli/scan/naming.h"
#include "cli/scan/options.h"
#include "cli/scan/progress.h"
#include "target/core/core.h"

/* Scan options->core once. @ret: lives in @arena */
ms_must_check enum ms_status ms_core_scan(const struct ms_options *options, struct ms_arena *arena,
                                          struct ms_report *ret, struct ms_error *err);

/* ---- between these files ---- */

/*
 * What the sweeper says of the core before it searches. It may have been taken over: the original
 * believes nothing but that strings end and fit.
 */
struct ms_core_told {
	uint32_t opened;      /* 0: it was refused, and the reason follows */
	uint32_t exe_refused; /* --exe is another build than the core's program */
	uint64_t missing_bytes;
	struct ms_target_facts facts;
	char program[PATH_MAX]; /* as the process had it; "": not known */
};

struct ms_core_sweep {
	const struct ms_scan_options *options;
	int fd;                          /* the core, unpacked */
	const char *path;                /* its name, for messages */
	const struct ms_notes *warnings; /* of opening it */
	struct ms_naming_core *core;     /* where its files are; the program is filled in */
	struct ms_core_told *told;       /* out */
	const struct ms_naming *naming;
	struct ms_progress *progress;
	unsigned jobs;
	uint64_t deadline_ns; /* ms_now_ns() when all has to be over; 0: none */
};

/* Search in a process of its own. @ret: in @arena, which is emptied first */
ms_must_check enum ms_status ms_core_sweep(const struct ms_core_sweep *sweep,
                                           struct ms_arena *arena, struct ms_report *ret,
                                           struct ms_error *err);

/* Fail: the time limit is over. */
enum ms_status ms_core_late(struct ms_error *err);

/* Open the files that are asked for over @channel, until it ends. To be _exit()ed with. */
int ms_core_files_serve(const struct ms_naming_core *core, int channel);

/* The other side: as ms_core_call.open. */
int ms_core_files_ask(int channel, const struct ms_core_wanted *wanted, uint32_t *place);

struct ms_core_packed {
	int fd;           /* the core as it is */
	const char *path; /* its name, for messages */
	struct ms_progress *progress;
	uint64_t deadline_ns; /* ms_now_ns() when all has to be over; 0: none */
	struct ms_arena *arena;
	/* In @arena: the core ends early, or is damaged at some place; what is before counts. */
	struct ms_notes *warnings;
};

/*
 * Give a descriptor of what a core unpacks to, or packed->fd itself when it is not compressed;
 * otherwise that is closed, in every case.
 *
 * Returns MS_E_SYS when there is no room, MS_E_TIMEOUT, MS_E_UNSUPPORTED for other compression,
 * for another file than a core and for one that grows too much, MS_E_CORRUPT.
 */
ms_must_check enum ms_status ms_core_unpack(const struct ms_core_packed *packed, int *ret_fd,
                                            struct ms_error *err);

#endif
