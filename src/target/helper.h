/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_HELPER_H
#define MS_TARGET_HELPER_H

/*
 * A process for work that may hang: whoever opens a file that the target has mapped, or reads
 * memory of the target, may wait for ever for a file system that does not answer, and some of these
 * waits end by no signal. Or the work takes long, as the target has made its tables so. The
 * original waits for the helper with a deadline and an ear for signals, and leaves it behind
 * where it cannot be killed.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/status.h"

struct ms_helper_call {
	const char *title; /* the process's name; at most 15 bytes */
	/* The work. Its answer is the exit status: 0 when it is done. What it prints is lost. */
	int (*work)(void *ctx);
	void *ctx;
	uint64_t deadline_ns;
	/*
	 * In memory that both share: set while the work is better not broken off, for which it gets
	 * a little more time. NULL: it can be at any time.
	 */
	const atomic_bool *changing;
};

enum ms_helper_end {
	MS_HELPER_DONE,
	MS_HELPER_FAILED, /* it could not be started, or ended otherwise */
	MS_HELPER_LATE,   /* it was not done at the deadline */
	MS_HELPER_ENDING, /* a signal came that is to end us: it waits, held back */
};

/*
 * Have the work done. The caller holds signals back (base/ending.h) if it is to be told of one;
 * in the helper they are held back, too. One that came before, for which work is to be done yet,
 * ends nothing.
 *
 * The helper may take 1 GiB of memory.
 *
 * Context: returns within 1 s after the deadline, or after a signal.
 */
enum ms_helper_end ms_helper_run(const struct ms_helper_call *call);

/*
 * Wait for child @pid to end; past @deadline_ns it is killed. Some waits in the kernel end with
 * nothing but their answer (a request that a FUSE server has taken): the child is left to end
 * later then, and the result is false.
 *
 * @ret_status, @usage: as wait4() gives them; NULL where not wanted
 */
bool ms_helper_reap(pid_t pid, uint64_t deadline_ns, int *ret_status, struct rusage *usage);

#endif
