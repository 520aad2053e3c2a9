/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/run/tasks.h"

enum { READ, WRITE };

/*
 * Wait to be traced, then become the program. Every signal is blocked until just before,
 * for a stop that is no exec's is not expected of us.
 */
static _Noreturn void be_program(const struct ms_run *run, int go, int refusal)
{
	char byte;
	int problem;

	/* Yama: those that our parent starts may read this memory; it outlives the exec. */
	(void)prctl(PR_SET_PTRACER, (unsigned long)getppid());
	/* An end of file: our parent could not trace us, or is gone. */
	if (read(go, &byte, 1) != 1)
		_exit(1);
	ms_signals_give_back(run);
	(void)execvp(run->call->argv[0], run->call->argv);
	problem = errno;
	(void)!write(refusal, &problem, sizeof(problem));
	_exit(1);
}

static enum ms_status trace(const struct ms_run *run, pid_t pid, struct ms_error *err)
{
	long options = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE;
	enum ms_status st;

	if (run->call->follow)
		options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
	if (!ptrace(PTRACE_SEIZE, pid, NULL, (uintptr_t)options))
		return MS_OK;
	if (errno != EPERM)
		return ms_fail_sys(err, errno, "cannot trace a program");
	st = ms_fail(err, MS_E_DENIED,
	             "the kernel does not let memscan trace a program that it starts");
	ms_advise(err, "do not run it under a debugger or strace; in a container allow ptrace "
	               "(CAP_SYS_PTRACE)");
	return st;
}

static enum ms_status take(struct ms_run *run, pid_t pid, struct ms_error *err)
{
	struct ms_process *process;
	enum ms_status st = trace(run, pid, err);

	if (st)
		return st;
	process = ms_process_add(run, pid);
	if (!process || !ms_task_add(run, process, pid))
		return ms_fail(err, MS_E_NOMEM, "no memory to trace a program");
	process->fresh = true;
	run->main = pid;
	return MS_OK;
}

enum ms_status ms_launch(struct ms_run *run, int *ret_refusal, struct ms_error *err)
{
	int refusal[2];
	int go[2];
	enum ms_status st;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) || pipe2(refusal, O_CLOEXEC))
		return ms_fail_sys(err, errno, "no pipe to start a program");
	pid = fork();
	if (pid < 0)
		return ms_fail_sys(err, errno, "cannot start a process");
	if (!pid) {
		(void)close(go[WRITE]);
		be_program(run, go[READ], refusal[WRITE]);
	}
	(void)close(go[READ]);
	(void)close(refusal[WRITE]);
	/* Not before the fork: where it is ignored the program expects to find it so. */
	(void)signal(SIGCHLD, SIG_DFL);
	*ret_refusal = refusal[READ];
	st = take(run, pid, err);
	if (!st)
		(void)!write(go[WRITE], "", 1);
	(void)close(go[WRITE]);
	if (st)
		(void)waitpid(pid, NULL, __WALL);
	return st;
}
