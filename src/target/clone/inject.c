/* SPDX-License-Identifier: Apache-2.0 */
#include "target/clone/inject.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/clock.h"

enum {
	SPINS = 200,    /* looks before sleeping: being woken takes longer than a call */
	MAX_STOPS = 64, /* others than those asked for: the group's stops */
};

int ms_inject_next_stop(pid_t tid, uint64_t deadline_ns)
{
	for (int looks = 0;; looks++) {
		siginfo_t info = { 0 };
		int flags = WSTOPPED | WEXITED | __WALL | (looks < SPINS ? WNOHANG : 0);

		if (waitid(P_PID, (id_t)tid, &info, flags) && errno != EINTR)
			return MS_STOP_ENDED;
		if (info.si_pid)
			return info.si_code == CLD_TRAPPED ? info.si_status : MS_STOP_ENDED;
		if (looks > SPINS && ms_now_ns() > deadline_ns)
			return MS_STOP_ENDED;
	}
}

/*
 * Go on to the stop before or behind a system call, or to the one in which the call is handed to
 * the program; what is made on the way goes to in->child.
 */
static bool go_to_call(struct ms_injection *in)
{
	for (int i = 0; i < MAX_STOPS; i++) {
		unsigned long child;
		int status;

		if (ptrace(PTRACE_SYSCALL, in->tid, NULL, NULL))
			return false;
		status = ms_inject_next_stop(in->tid, in->deadline_ns);
		if (status == MS_STOP_CALL)
			return true;
		if (status == MS_STOP_ENDED)
			return false;
		in->dispatched = status == SIGSYS;
		if (in->dispatched)
			return true;
		if (status >> 8 == PTRACE_EVENT_CLONE &&
		    !ptrace(PTRACE_GETEVENTMSG, in->tid, NULL, &child))
			in->child = (pid_t)child;
	}
	return false;
}

static bool set_call(const struct ms_injection *in, const struct ms_call *call)
{
	struct ms_registers registers = in->registers;

	in->arch->calls->call(&registers, in->gadgets, call, in->sp);
	return in->arch->calls->restore(in->tid, &registers, NULL);
}

bool ms_inject(struct ms_injection *in, const struct ms_call *call, int64_t *ret)
{
	struct ms_cpu cpu = { .result = -ENOSYS };

	in->child = 0;
	if (!in->dispatched)
		in->lost = in->lost || !set_call(in, call) || !go_to_call(in);
	if (!in->dispatched)
		in->lost = in->lost || !go_to_call(in) || !in->arch->look(in->tid, &cpu);
	if (!in->lost)
		*ret = cpu.result;
	return !in->lost;
}

bool ms_inject_park(struct ms_injection *in)
{
	int status = 0;

	for (int i = 0; i < MAX_STOPS && !in->lost; i++) {
		(void)ptrace(PTRACE_INTERRUPT, in->tid, NULL, NULL);
		in->lost = ptrace(PTRACE_CONT, in->tid, NULL, NULL) != 0;
		if (!in->lost)
			status = ms_inject_next_stop(in->tid, in->deadline_ns);
		in->lost = in->lost || status == MS_STOP_ENDED;
		if (status >> 8 == PTRACE_EVENT_STOP)
			break;
	}
	return !in->lost;
}

void ms_inject_begin(struct ms_injection *in, const struct ms_call *call)
{
	in->lost = !set_call(in, call) || ptrace(PTRACE_SYSCALL, in->tid, NULL, NULL);
}

void ms_inject_go_on(struct ms_injection *in)
{
	int status = in->lost ? MS_STOP_ENDED : ms_inject_next_stop(in->tid, in->deadline_ns);

	in->dispatched = status == SIGSYS;
	if (in->dispatched)
		return;
	in->lost = status == MS_STOP_ENDED || (status != MS_STOP_CALL && !go_to_call(in));
	if (in->lost || in->dispatched)
		return;
	/* It stops behind the call, before it executes anything. */
	(void)ptrace(PTRACE_INTERRUPT, in->tid, NULL, NULL);
	in->lost = ptrace(PTRACE_CONT, in->tid, NULL, NULL) != 0;
}

void ms_inject_end(struct ms_injection *in)
{
	int status = MS_STOP_ENDED;

	if (in->dispatched)
		status = SIGSYS;
	else if (!in->lost)
		status = ms_inject_next_stop(in->tid, in->deadline_ns);
	in->lost = status == MS_STOP_ENDED;
	if (status >> 8 != PTRACE_EVENT_STOP)
		(void)ms_inject_park(in);
}

bool ms_inject_await(pid_t tid, uint64_t deadline_ns)
{
	return ms_inject_next_stop(tid, deadline_ns) != MS_STOP_ENDED;
}

bool ms_inject_last(struct ms_injection *in, const struct ms_call *call)
{
	if (in->lost || !set_call(in, call) || ptrace(PTRACE_CONT, in->tid, NULL, NULL))
		return false;
	in->lost = true;
	return ms_inject_next_stop(in->tid, in->deadline_ns) == MS_STOP_ENDED;
}

void ms_inject_frame(const struct ms_injection *in, const struct ms_call *call, ms_addr next,
                     uint8_t *ret)
{
	struct ms_registers registers = in->registers;

	in->arch->calls->call(&registers, in->gadgets, call, next);
	(void)in->arch->calls->frame(&registers, in->gadgets, UINT64_MAX, 0, ret);
}
