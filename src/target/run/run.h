/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_RUN_H
#define MS_TARGET_RUN_H

/*
 * Start a program and hold it still for a scan at the moment it leaves.
 *
 *	launch.c    start it, traced from before its first instruction
 *	signals.c   what is sent to memscan meanwhile; the dispositions it inherited
 *	tasks.c     the threads and processes that are traced
 *	events.c    the loop: each stop is answered at once, so that it runs at full speed
 *	gather.c    wait until every thread stands, capture, let go
 *
 * The kernel stops a thread for its tracer at the beginning of its exit
 * (PTRACE_EVENT_EXIT) while memory, files and registers are all still there. When
 * every thread of a process is in that stop nothing can change any more, and the memory
 * is read where it is. A signal that will end the process stops its thread before;
 * the others are interrupted then, so that the scan sees them where they were, and
 * the signal is delivered afterwards, core and all.
 *
 * No system call is traced, and PTRACE_O_EXITKILL is not set: should memscan be killed,
 * the program runs on, or ends as it was about to.
 */

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/status.h"
#include "target/collection.h"

/* What the caller does with a process that stands. Several may at the same time. */
struct ms_run_ops {
	/*
	 * All threads of frozen->pid stand: start to scan it in a process of its own, forked
	 * from this one. Reading by that process is allowed until swept() is called.
	 *
	 * @followed: it is not the program itself, but made by it
	 *
	 * Returns its pid; 0 when there is nothing to scan, and swept() is not called.
	 */
	pid_t (*sweep)(void *ctx, struct ms_collection *frozen, bool followed);

	/*
	 * The process that sweep() answered with has ended, and what it scanned is let go.
	 *
	 * @whole: what it scanned stood all the time; else the report is worth nothing
	 * Context: frozen is still there, and is destroyed afterwards.
	 */
	void (*swept)(void *ctx, pid_t sweeper, const struct rusage *usage, bool whole);

	/* Process @pid could not be held, and leaves unscanned. */
	void (*missed)(void *ctx, pid_t pid, const struct ms_error *why);
};

struct ms_run_call {
	char **argv; /* ended by NULL */
	bool follow; /* scan what it forks, too */
	const struct ms_run_ops *ops;
	void *ctx;
};

/* How it ended. */
struct ms_run_end {
	int exec_errno;   /* it could not be started for that; the rest is 0 then */
	int status;       /* as from wait() */
	unsigned n_alive; /* processes of it that live on and were followed */
};

/*
 * Run a program to its end. SIGCHLD and the like are put back in the program as they
 * were when memscan was started: call from its only thread, in the dispositions inherited.
 *
 * Returns MS_E_DENIED when it may not be traced; it was not started then.
 */
ms_must_check enum ms_status ms_run(const struct ms_run_call *call, struct ms_run_end *ret,
                                    struct ms_error *err);

#endif
