/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop. A traced thread stops for us at few occasions, and each stop is answered by
 * letting it go on unless its process is leaving:
 *
 *	begin of a thread or, with follow, of a process    it is new to us: noted
 *	its parent's stop for that                         nothing to do
 *	a signal                                           delivered as it is, siginfo and all;
 *	                                                   one that ends the process: gather.c
 *	group stop                                         left in it (PTRACE_LISTEN)
 *	exec                                               a new program, in the same process
 *	begin of an exit                                   gather.c
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/proc.h"
#include "target/run/tasks.h"

static const uint64_t TICK_NS = 1000000;

/* ---- what is new ---- */

/* Whether two processes live in one memory. */
static bool share_memory(pid_t a, pid_t b)
{
	return syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0) == 0;
}

/* The process that the new thread @tid belongs to; NULL when it is none of ours. */
static struct ms_process *owner(struct ms_run *run, pid_t tid)
{
	char status[MS_PROC_STATUS_BYTES];
	struct ms_process *process;
	pid_t pid;

	if (ms_proc_read(tid, "status", status, sizeof(status)) <= 0)
		return NULL;
	pid = (pid_t)ms_proc_field(status, "Tgid", 10);
	process = ms_process_find(run, pid);
	if (process || !run->call->follow || pid != tid)
		return process;
	process = ms_process_add(run, pid);
	if (process)
		process->borrowed = share_memory(pid, (pid_t)ms_proc_field(status, "PPid", 10));
	return process;
}

/* A first stop. Without follow, clone() may still make a process that we then trace. */
static struct ms_task *adopt(struct ms_run *run, pid_t tid)
{
	struct ms_process *process = owner(run, tid);
	struct ms_task *task = process ? ms_task_add(run, process, tid) : NULL;

	if (!task)
		(void)ptrace(PTRACE_DETACH, tid, NULL, NULL);
	return task;
}

/* ---- what stops ---- */

static bool is_group_stop(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* Whether @signal, about to be delivered to a thread of @pid, ends the process. */
static bool is_fatal(pid_t tid, int signal)
{
	char status[MS_PROC_STATUS_BYTES];
	uint64_t bit = (uint64_t)1 << (signal - 1);

	if (is_group_stop(signal) || signal == SIGCHLD || signal == SIGCONT || signal == SIGURG ||
	    signal == SIGWINCH)
		return false;
	if (ms_proc_read(tid, "status", status, sizeof(status)) <= 0)
		return false;
	return !((ms_proc_field(status, "SigCgt", 16) | ms_proc_field(status, "SigIgn", 16)) & bit);
}

static void on_signal(struct ms_task *task, int status)
{
	struct ms_process *process = task->process;

	if (process->stage == MS_LIVING && !process->fresh && !process->borrowed &&
	    is_fatal(task->tid, WSTOPSIG(status)))
		ms_gather_begin(task, status);
	else
		ms_task_resume(task);
}

static void on_exec(struct ms_run *run, struct ms_task *task)
{
	struct ms_process *process = task->process;

	/* The others are gone; one of them may have taken the leader's place and id. */
	for (struct ms_task *other = process->tasks, *next; other; other = next) {
		next = other->next;
		if (other != task)
			ms_task_drop(run, other);
	}
	process->fresh = false;
	process->borrowed = false;
	process->replacing = false;
	process->doomed = NULL;
	if (process->stage == MS_GATHERING)
		process->stage = MS_LIVING;
	ms_task_resume(task);
}

/*
 * Whether SIGKILL ends @task's process. Who sends it wants it gone at once; if it was the
 * kernel for want of memory, that is being taken away already.
 */
static bool is_killed(const struct ms_task *task)
{
	unsigned long status = 0;

	return !ptrace(PTRACE_GETEVENTMSG, task->tid, NULL, &status) && WIFSIGNALED((int)status) &&
	       WTERMSIG((int)status) == SIGKILL;
}

static void on_leave(struct ms_run *run, struct ms_task *task, int status)
{
	struct ms_process *process = task->process;

	if (process->stage != MS_LIVING || process->fresh || process->borrowed ||
	    process->replacing || !ms_task_ends_process(run, task)) {
		ms_task_resume(task);
	} else if (is_killed(task)) {
		ms_task_resume(task);
		ms_gather_miss(run, process, "SIGKILL ended it", "end it by SIGTERM instead");
	} else {
		ms_gather_begin(task, status);
	}
}

static void on_stop(struct ms_run *run, struct ms_task *task, int status)
{
	struct ms_process *process = task->process;
	int event = status >> 16;

	if (task->state == MS_TASK_STANDING) {
		task->state = MS_TASK_RUNNING;
		ms_gather_spoil(run, process);
	}
	task->status = status;
	if (process->stage == MS_GATHERING && event != PTRACE_EVENT_EXEC &&
	    (process->doomed || event == PTRACE_EVENT_EXIT)) {
		ms_gather_add(task, status);
		return;
	}
	switch (event) {
	case 0:
		on_signal(task, status);
		break;
	case PTRACE_EVENT_EXEC:
		on_exec(run, task);
		break;
	case PTRACE_EVENT_EXIT:
		on_leave(run, task, status);
		break;
	default:
		ms_task_resume(task);
	}
	ms_signals_stop_along(run);
}

/* ---- what ends ---- */

static void on_end(struct ms_run *run, struct ms_task *task, int status)
{
	struct ms_process *process = task->process;

	if (task->state == MS_TASK_STANDING) {
		task->state = MS_TASK_ENDING;
		ms_gather_spoil(run, process);
	}
	if (task->tid == run->main) {
		run->ended = true;
		run->status = status;
	}
	ms_task_drop(run, task);
	ms_process_drop(run, process);
}

/* Whether @pid was the sweeper of a process. */
static bool on_swept(struct ms_run *run, pid_t pid, const struct rusage *usage)
{
	struct ms_process *process = run->processes;

	while (process && process->sweeper != pid)
		process = process->next;
	if (!process)
		return false;
	process->sweeper = 0;
	ms_gather_release(process);
	run->call->ops->swept(run->call->ctx, pid, usage, process->whole);
	ms_collection_destroy(process->frozen);
	process->frozen = NULL;
	ms_process_drop(run, process);
	return true;
}

static void dispatch(struct ms_run *run, pid_t pid, int status, const struct rusage *usage)
{
	struct ms_task *task = ms_task_find(run, pid);

	if (WIFSTOPPED(status)) {
		if (!task)
			task = adopt(run, pid);
		if (task)
			on_stop(run, task, status);
	} else if (task) {
		on_end(run, task, status);
	} else {
		(void)on_swept(run, pid, usage);
	}
}

/* ---- the whole ---- */

static bool is_busy(const struct ms_run *run, enum ms_process_stage stage)
{
	const struct ms_process *process = run->processes;

	while (process && process->stage != stage)
		process = process->next;
	return process;
}

static bool is_sweeping(const struct ms_run *run)
{
	const struct ms_process *process = run->processes;

	while (process && !process->sweeper)
		process = process->next;
	return process;
}

static void check_gatherings(struct ms_run *run)
{
	for (struct ms_process *process = run->processes; process; process = process->next)
		if (process->stage == MS_GATHERING)
			ms_gather_check(run, process);
}

/* Until the program has ended, and with it every scan that has begun. */
static void follow(struct ms_run *run)
{
	while (!run->ended || is_sweeping(run)) {
		struct rusage usage;
		int status;
		pid_t pid;

		while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0)
			dispatch(run, pid, status, &usage);
		check_gatherings(run);
		if (!run->ended || is_sweeping(run))
			ms_signals_wait(run, is_busy(run, MS_GATHERING) ? TICK_NS : 0);
	}
}

/* What is left runs on by itself, as soon as we are gone or have let it go. */
static void leave(struct ms_run *run, struct ms_run_end *ret)
{
	while (run->processes) {
		struct ms_process *process = run->processes;

		ret->n_alive++;
		while (process->tasks)
			ms_task_drop(run, process->tasks);
		ms_process_drop(run, process);
	}
}

enum ms_status ms_run(const struct ms_run_call *call, struct ms_run_end *ret, struct ms_error *err)
{
	struct ms_run run = { .call = call };
	struct ms_run_end end = { 0 };
	enum ms_status st;
	int refusal = -1;

	ms_signals_take(&run);
	st = ms_launch(&run, &refusal, err);
	if (!st) {
		follow(&run);
		if (read(refusal, &end.exec_errno, sizeof(end.exec_errno)) <= 0)
			end.status = run.status;
		leave(&run, &end);
		*ret = end;
	}
	if (refusal >= 0)
		(void)close(refusal);
	return st;
}
