/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_RESTARTS_H
#define MS_TARGET_RESTARTS_H

/* Which calls the kernel does not restart: the same on all machines, by other numbers. */

#include "base/syscalls.h"
#include "target/arch/arch.h"

/* A call, by a number that says all of it, which the kernel does not restart. */
struct ms_restart_row {
	uint32_t call;
	uint8_t restart; /* enum ms_restart */
	uint8_t timeout; /* enum ms_timeout */
	uint8_t arg;     /* that has it */
};

/*
 * By the numbers of the machine that memscan is built for.
 *
 * Source: signal(7), "Interruption of system calls and library functions by
 * signal handlers" and "… by stop signals"; io_uring_enter(2). What that page
 * lists and is missing here (poll, select, nanosleep, pause, sigsuspend, futex)
 * the kernel restarts by itself when no handler runs: seen on 6.18. close() may
 * have closed in spite of EINTR and is never made again.
 */
static const struct ms_restart_row ms_native_restarts[] = {
#ifdef SYS_epoll_wait
	{ SYS_epoll_wait, MS_RESTART_ALWAYS, MS_TIMEOUT_MS, 3 },
#endif
	{ SYS_epoll_pwait, MS_RESTART_ALWAYS, MS_TIMEOUT_MS, 3 },
	{ SYS_epoll_pwait2, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC, 3 },
	{ SYS_semop, MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ SYS_semtimedop, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC, 3 },
	{ SYS_rt_sigtimedwait, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC, 2 },
	{ SYS_msgsnd, MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ SYS_msgrcv, MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ SYS_io_getevents, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC, 4 },
	{ SYS_io_pgetevents, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC, 4 },
	{ SYS_io_uring_enter, MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ SYS_accept, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SYS_accept4, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SYS_connect, MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ SYS_recvfrom, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SYS_recvmsg, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SYS_recvmmsg, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SYS_sendto, MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ SYS_sendmsg, MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ SYS_sendmmsg, MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ SYS_read, MS_RESTART_SOCKET, MS_TIMEOUT_RECEIVE, 0 },
	{ SYS_readv, MS_RESTART_SOCKET, MS_TIMEOUT_RECEIVE, 0 },
	{ SYS_write, MS_RESTART_SOCKET, MS_TIMEOUT_SEND, 0 },
	{ SYS_writev, MS_RESTART_SOCKET, MS_TIMEOUT_SEND, 0 },
};

enum { MS_NATIVE_RESTARTS = sizeof(ms_native_restarts) / sizeof(ms_native_restarts[0]) };

static inline const struct ms_restart_row *ms_restart_row_of(const struct ms_restart_row *rows,
                                                             size_t n, int64_t call)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i].call == call)
			return &rows[i];
	return NULL;
}

/* What ms_arch.restart and ms_arch.timed say by @n rows. */

static inline enum ms_restart ms_restart_in(const struct ms_restart_row *rows, size_t n,
                                            int64_t call)
{
	const struct ms_restart_row *row = ms_restart_row_of(rows, n, call);

	return row ? (enum ms_restart)row->restart : MS_RESTART_NEVER;
}

static inline struct ms_timed ms_timed_in(const struct ms_restart_row *rows, size_t n, int64_t call)
{
	const struct ms_restart_row *row = ms_restart_row_of(rows, n, call);

	return row ? (struct ms_timed){ (enum ms_timeout)row->timeout, row->arg }
	           : (struct ms_timed){ MS_TIMEOUT_NONE, 0 };
}

#endif
