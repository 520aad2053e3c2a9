/* SPDX-License-Identifier: Apache-2.0 */
#include "target/freeze/breaks.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where the breakpoint is; its address is the same in the child. */
__attribute__((noinline, noclone)) static void be_passed(void)
{
	__asm__ volatile("");
}

/* It stops for a tracer that may be killed just then, and would stay so for good. */
static _Noreturn void run_child(pid_t parent)
{
	if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent &&
	    !ptrace(PTRACE_TRACEME, 0, NULL, NULL) && !kill(getpid(), SIGSTOP))
		be_passed();
	_exit(0);
}

/* Wait for the child's next stop. Returns its signal, or 0: it ended. */
static int next_stop(pid_t child)
{
	pid_t done;
	int status;

	do
		done = waitpid(child, &status, 0);
	while (done < 0 && errno == EINTR);
	return done == child && WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

/* Whether the child, which is stopped, stops again at @at. It has ended when it does not. */
static bool stops_at(pid_t child, const struct ms_arch_stepping *stepping, ms_addr at)
{
	(void)stepping->set_breaks(child, &at, 1);
	(void)ptrace(PTRACE_CONT, child, NULL, NULL);
	if (!next_stop(child))
		return false;
	(void)kill(child, SIGKILL);
	(void)next_stop(child);
	return true;
}

enum ms_breaks ms_breaks_try(const struct ms_arch_stepping *stepping)
{
	pid_t parent = getpid();
	/* Inside a frozen program: no handler of fork() is to run, and no lock to be taken. */
	pid_t child = (pid_t)syscall(SYS_clone, (long)SIGCHLD, NULL, NULL, NULL, NULL);

	if (!child)
		run_child(parent);
	if (child < 0 || next_stop(child) != SIGSTOP ||
	    !stops_at(child, stepping, (uintptr_t)be_passed))
		return MS_BREAKS_FAIL;
	return MS_BREAKS_WORK;
}
