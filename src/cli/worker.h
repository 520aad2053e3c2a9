/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_WORKER_H
#define MS_CLI_WORKER_H

/*
 * A process for work on what is the target's to forge, by libraries that others wrote:
 * it may hang or die of it. What it has to tell comes through a pipe.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

struct ms_worker_call {
	const char *title; /* the process's name; at most 15 bytes */
	/* The work; @fd is closed by it. Its answer is the exit status: 0 when all is told. */
	int (*work)(void *ctx, int fd);
	void *ctx;
	uint64_t limit_ns; /* it may take so long */
};

struct ms_worker {
	pid_t pid;
	int fd;
	uint64_t deadline_ns;
};

ms_must_check enum ms_status ms_worker_start(const struct ms_worker_call *call,
                                             struct ms_worker *ret, struct ms_error *err);

/* Read what it told: as read(), 0 when no more comes; -1 when its time is over. */
ssize_t ms_worker_read(const struct ms_worker *worker, void *buf, size_t len);

/*
 * End it. @heard: all that it said was read, and it may end by itself
 *
 * Returns whether it came to an end of its own, with its work done.
 */
bool ms_worker_end(const struct ms_worker *worker, bool heard);

#endif
