/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_WORKER_H
#define MS_CLI_WORKER_H

/*
 * A process for work on what is the target's to forge, by libraries that others wrote: it
 * may hang or die of it, or be taken over. So it has no rights (target/jail/jail.h), a limit
 * of time and one of memory, and what it has to say comes through a pipe. Files it asks
 * for, of a process beside it (broker.h).
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/range.h"
#include "base/status.h"
#include "sym/opener.h"

/* What the worker has. */
struct ms_worker_side {
	int fd; /* what it says is written there; closed by it */
	const struct ms_finder *finder;
};

enum { MS_WORKER_HELD = 2 };

struct ms_worker_call {
	const char *title; /* the process's name; at most 15 bytes */
	/* The work. Its answer is the exit status: 0 when all is written. */
	int (*work)(void *ctx, const struct ms_worker_side *side);
	void *ctx;
	uint64_t limit_ns;        /* it may take so long */
	struct ms_opener *opener; /* of the files that it asks for; NULL: it gets none */
	uid_t uid;                /* of the process that it works on; root's are not taken */
	gid_t gid;
	int keep; /* a descriptor that it needs; -1: none */
	/* Memory of ours that it is to read only; the rest of it has to be small. NULL: none */
	const struct ms_arena *held[MS_WORKER_HELD];
	struct ms_range shared; /* the same */
};

struct ms_worker {
	pid_t pid;
	pid_t broker; /* 0: none */
	int fd;
	uint64_t deadline_ns;
};

/* Find the user and group of the process or thread @id for a call, root's when it is gone. */
void ms_worker_take_ids(pid_t id, struct ms_worker_call *call);

/*
 * Start it. Returns MS_E_SYS, with advice, when it cannot be, and when its rights cannot be
 * given up.
 */
ms_must_check enum ms_status ms_worker_start(const struct ms_worker_call *call,
                                             struct ms_worker *ret, struct ms_error *err);

/* Read what it wrote: as read(), 0 when no more comes; -1 when its time is over. */
ssize_t ms_worker_read(const struct ms_worker *worker, void *buf, size_t len);

/*
 * End it. @heard: all that it said was read, and it may end by itself
 *
 * Returns whether it came to an end of its own, with its work done.
 */
bool ms_worker_end(const struct ms_worker *worker, bool heard);

#endif
