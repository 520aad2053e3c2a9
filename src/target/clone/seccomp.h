/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_SECCOMP_H
#define MS_TARGET_SECCOMP_H

/*
 * Whether a stopped thread may make system calls of ours.
 *
 * A seccomp filter answers some calls with an error, others with a signal or the
 * end of the process. So it is asked beforehand, without a call being made: the
 * kernel hands its program out to a tracer, and the program is classic BPF, which
 * is small enough to be run here. What it says of a call depends on the call's
 * number, arguments and place alone, so the answer holds until the thread runs.
 *
 * Strict mode and filters are all that is looked at: not what the call does once
 * it is let in.
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

struct ms_wanted_call {
	const char *name; /* for the refusal's text */

	/*
	 * As the filter sees it: the instruction pointer is that *behind* the system
	 * call instruction, and arch is AUDIT_ARCH_*. Arguments that are not known
	 * yet, such as addresses, are taken as they stand here.
	 */
	struct seccomp_data data;
};

/* What a check needs of memory; made before the target is stopped. 32 KiB. */
union ms_seccomp_room {
	struct sock_filter code[BPF_MAXINSNS];
	char status[BPF_MAXINSNS * sizeof(struct sock_filter)];
};

/*
 * Ask all filters of a thread about calls that it is to make.
 *
 * @tid:  a thread in a ptrace stop, traced by the caller
 * @room: overwritten
 *
 * Returns MS_OK when each call would be made; MS_E_DENIED when one would not, the
 * text says which and what the filter answers; MS_E_UNSUPPORTED when the filters
 * cannot be read; MS_E_GONE when the thread is.
 * Context: no malloc; not in a process that has a seccomp filter itself.
 * Cost:    one read of /proc, and for each filter one system call.
 * Source:  Linux 6.18 kernel/seccomp.c: __seccomp_filter(), seccomp_get_filter().
 */
ms_must_check enum ms_status ms_seccomp_check(pid_t tid, const struct ms_wanted_call *calls,
                                              size_t n, union ms_seccomp_room *room,
                                              struct ms_error *err);

/*
 * Run one filter program.
 *
 * @ret_action: what it returns, SECCOMP_RET_* with its data in the low 16 bits
 *
 * Returns false on a program that the kernel would not have taken.
 * Cost:    at most n steps, since jumps only lead forward.
 * Source:  Linux 6.18 seccomp_check_filter(), and net/core/filter.c for what each
 *          instruction does.
 */
bool ms_seccomp_runs(const struct sock_filter *code, size_t n, const struct seccomp_data *data,
                     uint32_t *ret_action);

#endif
