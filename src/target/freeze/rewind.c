/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving broken-off system calls back.
 *
 * A thread that sleeps in a system call has to leave it in order to stop. Most
 * calls then return one of the kernel's own -ERESTART… codes, upon which the
 * kernel makes the call once more by itself. A few return EINTR, which the
 * program would see though no signal ever came (epoll_wait, semop, sigtimedwait,
 * sockets with a time-out; on 6.18 as on all before). Such a thread is set back
 * to the system call instruction, with the call's number in the result register,
 * directly before it is detached: the program sees one uninterrupted call.
 *
 * EINTR stays when it means something: when a signal with a handler is being
 * delivered or waits to be, or when the process had been stopped by SIGSTOP. A
 * signal without a handler (SIGCHLD, mostly, which reaches a traced thread even
 * though it is ignored) would not have interrupted an untraced thread.
 *
 * What cannot be given back is the part of a relative time-out that had passed:
 * epoll_wait(…, 5000) broken off after 3 s waits for 5 s more. Calls which the
 * kernel restarts by itself keep their deadline.
 */
#include "target/freeze/rewind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>

#include "target/proc.h"

bool ms_rewind_wanted(const struct ms_broken_call *broken)
{
	if (broken->call < 0 || broken->result != -EINTR || broken->group_stop)
		return false;
	if (broken->signals & broken->caught)
		return false;
	switch (broken->restart) {
	case MS_RESTART_NEVER:
		return false;
	case MS_RESTART_ALWAYS:
		return true;
	case MS_RESTART_SOCKET:
		return broken->on_socket;
	}
	return false;
}

static bool is_socket(pid_t tid, uint64_t fd)
{
	char name[32];
	char link[32];

	if (fd > INT32_MAX)
		return false;
	(void)snprintf(name, sizeof(name), "fd/%d", (int)fd);
	ms_proc_link(tid, name, link, sizeof(link));
	return !strncmp(link, "socket:", strlen("socket:"));
}

static bool has_queued(pid_t tid, uint32_t flags)
{
	struct __ptrace_peeksiginfo_args args = { .flags = flags, .nr = 1 };
	siginfo_t info;

	return ptrace(PTRACE_PEEKSIGINFO, tid, &args, &info) != 0;
}

static uint64_t signal_bit(int signal)
{
	return signal ? (uint64_t)1 << (signal - 1) : 0;
}

/* Which signals may act upon the thread as soon as it runs, and which of all have handlers. */
static void read_signals(const struct ms_tracee *tracee, struct ms_broken_call *broken)
{
	char status[MS_PROC_STATUS_BYTES];

	broken->signals = signal_bit(tracee->signal);
	/* Nearly always nothing waits; asking that costs a hundredth of reading the file. */
	if (!broken->signals && !has_queued(tracee->tid, 0) &&
	    !has_queued(tracee->tid, PTRACE_PEEKSIGINFO_SHARED))
		return;
	/* /proc/TID/status, though TID is no leader, is that thread's own. */
	(void)ms_proc_read(tracee->tid, "status", status, sizeof(status));
	broken->caught = ms_proc_field(status, "SigCgt", 16);
	broken->signals |=
		(ms_proc_field(status, "SigPnd", 16) | ms_proc_field(status, "ShdPnd", 16)) &
		~ms_proc_field(status, "SigBlk", 16);
}

void ms_rewind(const struct ms_freezer *freezer, const struct ms_tracee *tracee)
{
	struct ms_broken_call broken = { .group_stop = tracee->group_stop };
	struct ms_cpu cpu;

	if (!ms_tracee_look(freezer, tracee, &cpu) || cpu.result != -EINTR || cpu.call < 0)
		return;
	broken.result = cpu.result;
	broken.call = cpu.call;
	broken.restart = freezer->arch->restart(cpu.call);
	if (broken.restart == MS_RESTART_NEVER)
		return;
	if (broken.restart == MS_RESTART_SOCKET)
		broken.on_socket = is_socket(tracee->tid, cpu.args[0]);
	read_signals(tracee, &broken);
	if (ms_rewind_wanted(&broken))
		(void)freezer->arch->rewind(tracee->tid);
}
