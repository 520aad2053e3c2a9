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
 * Calls which the kernel restarts by itself keep their deadline. Of those which it does
 * not, the time-out is shortened by what has passed (sleepers.c, remaining.c): in
 * the register that holds it, or in a copy of the struct timespec that the register points
 * to, in free room on the thread's stack (room.h). The kernel reads it when the call begins,
 * so what becomes of it later does not matter. C's calling convention gives these
 * registers up in a call, so no caller of a C library's function sees them changed; one
 * that has the call in its own code, and makes it again with registers that it believes
 * unchanged, goes on with what was left. The time-out of a socket is
 * the socket's, which others share, so it stays as it is: such a call begins its time-out
 * anew, but carries its deadline as a mark, and is ended with EAGAIN by the first scan
 * behind it. So it ends late by no more than the scans lie apart.
 *
 * Left out: connect(), for its EINPROGRESS would be another thing, and io_uring_enter().
 */
#include "target/freeze/rewind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/syscalls.h"
#include "target/freeze/remaining.h"
#include "target/proc.h"
#include "target/room.h"

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

/* ---- time-outs ---- */

static const uint64_t ms_ns = 1000000;

static uint64_t remaining(const struct ms_tracee *tracee, const struct ms_cpu *cpu,
                          uint64_t timeout_ns, struct ms_again *again)
{
	const struct ms_waiting waiting = { .timeout_ns = timeout_ns,
		                            .since_ns = tracee->asleep_since_ns,
		                            .mark = cpu->mark };

	return ms_remaining(&waiting, ms_now_ns(), &again->mark);
}

static void shorten_ms(const struct ms_tracee *tracee, const struct ms_cpu *cpu, uint8_t arg,
                       struct ms_again *again)
{
	int timeout_ms = (int)cpu->args[arg];

	if (timeout_ms < 0)
		return;
	again->changed = true;
	again->arg = arg;
	again->value =
		(remaining(tracee, cpu, (uint64_t)timeout_ms * ms_ns, again) + ms_ns - 1) / ms_ns;
}

/* A time-out as programs of 32 bits had it first. */
struct spec32 {
	int32_t seconds;
	int32_t ns;
};

union spec {
	struct timespec wide;
	struct spec32 narrow;
};

static const uint64_t second_ns = 1000000000;

/* False for one that the kernel refuses, or that lasts for ever. */
static bool read_spec(const struct ms_freezer *freezer, enum ms_timeout how, const union spec *spec,
                      uint64_t *ret_ns)
{
	int64_t seconds = spec->wide.tv_sec;
	int64_t ns = spec->wide.tv_nsec;

	if (how == MS_TIMEOUT_SPEC32) {
		seconds = spec->narrow.seconds;
		ns = spec->narrow.ns;
	} else if (freezer->arch->abi.word_bytes < sizeof(spec->wide.tv_nsec)) {
		ns = (uint32_t)ns; /* the rest is padding */
	}
	if (seconds < 0 || ns < 0 || (uint64_t)ns >= second_ns ||
	    (uint64_t)seconds >= UINT64_MAX / second_ns)
		return false;
	*ret_ns = (uint64_t)seconds * second_ns + (uint64_t)ns;
	return true;
}

static void write_spec(enum ms_timeout how, uint64_t left_ns, union spec *ret)
{
	if (how == MS_TIMEOUT_SPEC32)
		ret->narrow = (struct spec32){ (int32_t)(left_ns / second_ns),
			                       (int32_t)(left_ns % second_ns) };
	else
		ret->wide = (struct timespec){ (time_t)(left_ns / second_ns),
			                       (long)(left_ns % second_ns) };
}

static void shorten_spec(const struct ms_freezer *freezer, const struct ms_tracee *tracee,
                         const struct ms_cpu *cpu, struct ms_timed timed, struct ms_again *again)
{
	const struct ms_room_of thread = { &freezer->arch->abi, tracee->tid,
		                           tracee->tid == freezer->shared->pid, cpu->sp, cpu->tp };
	const size_t bytes =
		timed.how == MS_TIMEOUT_SPEC32 ? sizeof(struct spec32) : sizeof(struct timespec);
	union spec timeout;
	struct ms_range room;
	uint64_t timeout_ns;

	if (!cpu->args[timed.arg] || !ms_room_for_timeout(&freezer->places, &thread, &room) ||
	    ms_room_read(tracee->tid, cpu->args[timed.arg], &timeout, bytes) != bytes ||
	    !read_spec(freezer, timed.how, &timeout, &timeout_ns))
		return;
	write_spec(timed.how, remaining(tracee, cpu, timeout_ns, again), &timeout);
	if (ms_room_write(tracee->tid, room.begin, &timeout, bytes) == bytes)
		*again =
			(struct ms_again){ true, timed.arg, room.begin, again->mark, again->first };
	else
		again->mark = 0;
}

/* The time-out of the target's socket @fd; 0: it has none, or is not to be seen. */
static uint64_t socket_timeout_ns(pid_t pid, uint64_t fd, int option)
{
	struct timeval timeout = { 0 };
	socklen_t len = sizeof(timeout);
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int own = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, (int)fd, 0);

	if (own >= 0) {
		if (getsockopt(own, SOL_SOCKET, option, &timeout, &len))
			timeout = (struct timeval){ 0 };
		(void)close(own);
	}
	if (pidfd >= 0)
		(void)close(pidfd);
	return (uint64_t)timeout.tv_sec * 1000 * ms_ns + (uint64_t)timeout.tv_usec * 1000;
}

/* Whether the socket's time is over. */
static bool is_over(const struct ms_freezer *freezer, const struct ms_tracee *tracee,
                    const struct ms_cpu *cpu, int option, struct ms_again *again)
{
	uint64_t timeout_ns = socket_timeout_ns(freezer->shared->pid, cpu->args[0], option);

	return timeout_ns && !remaining(tracee, cpu, timeout_ns, again);
}

/* Make the call once more, with what is left of its time-out. */
static void give_back(const struct ms_freezer *freezer, const struct ms_tracee *tracee,
                      const struct ms_cpu *cpu)
{
	struct ms_timed timed = freezer->arch->timed(cpu->call);
	struct ms_again again = { .first = cpu->args[0] };
	bool over = false;

	switch (timed.how) {
	case MS_TIMEOUT_NONE:
		break;
	case MS_TIMEOUT_MS:
		shorten_ms(tracee, cpu, timed.arg, &again);
		break;
	case MS_TIMEOUT_SPEC:
	case MS_TIMEOUT_SPEC32:
		shorten_spec(freezer, tracee, cpu, timed, &again);
		break;
	case MS_TIMEOUT_RECEIVE:
		over = is_over(freezer, tracee, cpu, SO_RCVTIMEO, &again);
		break;
	case MS_TIMEOUT_SEND:
		over = is_over(freezer, tracee, cpu, SO_SNDTIMEO, &again);
		break;
	}
	if (!freezer->takes_marks)
		again.mark = 0;
	if (over)
		(void)freezer->arch->answer(tracee->tid, EAGAIN);
	else
		(void)freezer->arch->rewind(tracee->tid, &again);
}

/*
 * Whether all is known of the thread that it takes to make its call again. Where a call's first
 * argument was lost, its -EINTR is left.
 */
static bool is_known(const struct ms_freezer *freezer, const struct ms_tracee *tracee)
{
	return !freezer->arch->result_is_first || tracee->was_in_call;
}

/* The kernel goes on by itself with what it has noted, unless a call of ours came in between. */
static void resume(const struct ms_freezer *freezer, const struct ms_tracee *tracee)
{
	if (tracee->was_in_call && !tracee->signal && !tracee->group_stop)
		(void)freezer->arch->resume(tracee->tid);
}

void ms_rewind(const struct ms_freezer *freezer, const struct ms_tracee *tracee)
{
	struct ms_broken_call broken = { .group_stop = tracee->group_stop };
	struct ms_cpu cpu;

	if (!ms_tracee_look(freezer, tracee, &cpu) || cpu.call < 0)
		return;
	if (freezer->arch->resumes && freezer->arch->resumes(&cpu))
		resume(freezer, tracee);
	if (cpu.result != -EINTR || !is_known(freezer, tracee))
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
		give_back(freezer, tracee, &cpu);
}
