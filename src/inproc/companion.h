/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_COMPANION_H
#define MS_INPROC_COMPANION_H

/*
 * A companion is a process beside the program that shares its memory and nothing else:
 * descriptors, signal handlers, errno and stack are its own. So it can trace the
 * program's threads, and works when the program has no descriptor left, holds the lock of
 * its malloc, or was interrupted by a signal at any instruction.
 *
 * It is a child that makes no SIGCHLD and that only wait4(__WALL) sees. An orphan is init's
 * child; where the program itself adopts orphans, as the first process of a pid namespace
 * or by PR_SET_CHILD_SUBREAPER, the program is sent SIGCHLD for it, and has to wait for it
 * like for any orphan.
 *
 * What a seccomp filter of the program forbids is forbidden here, too. Where it returns an
 * error (clone, futex, ptrace, prctl) there is no answer, or one that says why, and nothing
 * more; where it kills, it kills.
 *
 * A shadow stack (CET) is the kernel's to make for a process that shares memory, and the
 * short-lived parent of an orphan borrows its starter's, which it never returns above.
 * Neither restartable sequences nor a list of robust locks is registered in there.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/range.h"
#include "base/status.h"

struct ms_companion {
	void (*body)(void *ctx);
	void *ctx;
	bool orphan; /* outlives the thread that starts it, which does not wait for it */

	struct ms_range memory; /* all of it, this struct included */
	pid_t program;
	pid_t pid;
	uint32_t lives; /* futex: its number; the kernel writes 0 when it has left the memory */
	uint32_t go;    /* futex: it may begin */
};

/*
 * How far from the thread pointer the TLS of the modules reaches that were loaded when this one
 * was: bytes.
 */
size_t ms_companion_tls_reach(void);

/*
 * Make the memory for a process whose @body gets @ctx, @bytes that come zeroed. Returns
 * NULL without memory.
 */
struct ms_companion *ms_companion_new(size_t bytes, void (*body)(void *ctx));
void ms_companion_free(struct ms_companion *process);

/*
 * Start it. Under Yama the program allows it, and those that it starts, to trace it; that
 * takes the place of what the program may have allowed before, which cannot be asked for.
 *
 * Returns MS_E_SYS when the program may have no more processes.
 */
ms_must_check enum ms_status ms_companion_start(struct ms_companion *process, struct ms_error *err);

/*
 * The same; returns 0, or errno.
 *
 * Context: any, also a signal handler on a small stack: nothing but system calls.
 */
int ms_companion_begin(struct ms_companion *process);

/* Block every signal, those of the C library itself too; returns what was blocked. */
uint64_t ms_companion_block_signals(void);
void ms_companion_restore_signals(uint64_t before);

/* Wait a second at most for its end; true when it has left the program's memory. */
bool ms_companion_wait(struct ms_companion *process);

/* Wait until it has ended, and take its end from the kernel. It is no orphan. */
void ms_companion_join(struct ms_companion *process);

/* True while it has not left the program's memory. */
bool ms_companion_lives(const struct ms_companion *process);

#endif
