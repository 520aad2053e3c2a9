/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_QUEUED_H
#define MS_TARGET_QUEUED_H

/* The signals that wait for a thread that stands. */

#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>

enum { MS_QUEUED_PIECE = 16 };

/*
 * The next ones of the queue of @tid that @args chooses, which goes on behind them; @args begins
 * with its flags alone. Fewer than a piece are not the end: the kernel gives fewer when a signal
 * waits for us, too.
 *
 * Returns how many, 0 or less at the end.
 */
static inline long ms_queued_next(pid_t tid, struct __ptrace_peeksiginfo_args *args,
                                  siginfo_t infos[MS_QUEUED_PIECE])
{
	long n;

	args->nr = MS_QUEUED_PIECE;
	n = ptrace(PTRACE_PEEKSIGINFO, tid, args, infos);
	args->off += n > 0 ? (uint64_t)n : 0;
	return n;
}

#endif
