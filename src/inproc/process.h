/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_PROCESS_H
#define MS_INPROC_PROCESS_H

/*
 * A process beside the program that shares its memory and nothing else: descriptors,
 * signal handlers, errno and stack are its own. So it can trace the program's threads,
 * and works when the program has no descriptor left, holds the lock of its malloc, or
 * was interrupted by a signal at any instruction.
 *
 * It is a child that makes no SIGCHLD and that only wait4(__WALL) sees.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/range.h"
#include "base/status.h"

struct ms_process {
	void (*body)(void *ctx);
	void *ctx;
	bool orphan; /* outlives the thread that starts it, and is nobody's to wait for */

	struct ms_range memory; /* all of it, this struct included */
	pid_t program;
	pid_t pid;
	uint32_t lives; /* futex: its number; the kernel writes 0 when it has left the memory */
	uint32_t go;    /* futex: it may begin */
};

/*
 * Make the memory for a process whose @body gets @ctx, @bytes that come zeroed. Returns
 * NULL without memory.
 */
struct ms_process *ms_process_new(size_t bytes, void (*body)(void *ctx));
void ms_process_free(struct ms_process *process);

/*
 * Start it. Under Yama the program allows it, and those that it starts, to trace it.
 *
 * Returns MS_E_SYS when the program may have no more processes.
 * Context: any, also a signal handler: nothing but system calls on the caller's stack.
 */
ms_must_check enum ms_status ms_process_start(struct ms_process *process, struct ms_error *err);

/* Wait until it has ended, and take its end from the kernel. It is no orphan. */
void ms_process_join(struct ms_process *process);

/* True while it has not left the program's memory. */
bool ms_process_lives(const struct ms_process *process);

#endif
