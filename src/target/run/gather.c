/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting every thread of a process to stand.
 *
 * When a process exits the kernel sends all its threads into their exits, one by one
 * and soon; each is held where it begins. Before a fatal signal nothing sends them:
 * they are interrupted. In the first case a thread may fail to come because it was not
 * sent at all: another is in execve(), for which all others must end, and it waits for
 * those that we hold. So who is missing is looked at each time.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "target/freeze/capture.h"
#include "target/freeze/freeze.h"
#include "target/proc.h"
#include "target/run/tasks.h"
#include "target/target.h"

static const uint64_t ASLEEP_NS = 10000000;      /* in state D for so long: stays there */
static const uint64_t PATIENCE_NS = 5000000000U; /* with a thread that does not come */

/*
 * PF_IO_WORKER and PF_USER_WORKER: a thread of the kernel, listed among those of the process
 * that uses io_uring or vhost. It runs no code of the program, stops for nobody and ends late.
 */
static const uint32_t KERNEL_WORKER = 0x10 | 0x4000;

/* Threads of a process, as /proc counts them now. */
struct roll_call {
	unsigned n_missing;
	unsigned n_asleep; /* of the missing */
	bool in_exec;      /* one of them is in execve() */
};

static void resume_with(const struct ms_task *task, int signal)
{
	/* A failure says that it was killed, which wait() will tell. */
	(void)ptrace(PTRACE_CONT, task->tid, NULL, (uintptr_t)(unsigned)signal);
}

void ms_task_resume(struct ms_task *task)
{
	int event = task->status >> 16;
	int signal = WSTOPSIG(task->status);

	task->state = MS_TASK_RUNNING;
	if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
		task->state = MS_TASK_LISTENING;
		(void)ptrace(PTRACE_LISTEN, task->tid, NULL, NULL);
		return;
	}
	if (event == PTRACE_EVENT_EXIT)
		task->state = MS_TASK_ENDING;
	resume_with(task, event ? 0 : signal);
}

/* ---- who is there ---- */

/* Whether @tid has ended but for its entry in /proc, or never was a thread of the program's. */
static bool is_nobody(pid_t tid)
{
	struct ms_proc_stat stat;

	return !ms_proc_stat(tid, &stat) || stat.state == 'Z' || stat.state == 'X' ||
	       stat.flags & KERNEL_WORKER;
}

/* The number of the system call that a sleeping thread is in; -1 when it runs. */
static long call_of(pid_t tid)
{
	char text[256];

	if (ms_proc_read(tid, "syscall", text, sizeof(text)) <= 0 || text[0] == 'r')
		return -1;
	return strtol(text, NULL, 10);
}

static void note_tracee(struct ms_freezer *everyone, pid_t tid, const struct ms_task *task)
{
	struct ms_tracee tracee = { .tid = tid, .state = MS_TRACEE_ASLEEP };
	struct ms_tracee *to = NULL;

	if (task) {
		tracee.state = MS_TRACEE_STOPPED;
		tracee.signal = task->status >> 16 ? 0 : (uint8_t)WSTOPSIG(task->status);
	}
	if (everyone->tracees.n < everyone->shared->max_threads)
		to = ms_vec_push(&everyone->arena, &everyone->tracees);
	if (to)
		*to = tracee;
}

static void note_thread(const struct ms_run *run, pid_t tid, struct ms_freezer *everyone,
                        struct roll_call *roll)
{
	struct ms_task *task = ms_task_find(run, tid);
	bool stands = task && task->state == MS_TASK_STANDING;
	int64_t call;

	if ((task && task->state == MS_TASK_ENDING) || (!stands && is_nobody(tid)))
		return;
	if (everyone)
		note_tracee(everyone, tid, stands ? task : NULL);
	if (stands)
		return;
	call = ms_arch_own_call(ms_target_arch(tid), call_of(tid));
	roll->n_missing++;
	roll->n_asleep += ms_proc_state(tid) == 'D';
	roll->in_exec |= call == SYS_execve || call == SYS_execveat;
}

/* See who is there. @everyone: takes them for the capture; NULL: not wanted */
static bool call_roll(const struct ms_run *run, const struct ms_process *process,
                      struct ms_freezer *everyone, struct roll_call *ret)
{
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list;
	int32_t tid;

	memset(ret, 0, sizeof(*ret));
	if (ms_proc_list_open(&list, process->pid, "task", buf))
		return false;
	while (ms_proc_list_next(&list, &tid))
		note_thread(run, tid, everyone, ret);
	ms_proc_list_close(&list);
	return true;
}

bool ms_task_ends_process(const struct ms_run *run, const struct ms_task *task)
{
	const struct ms_arch *arch = ms_target_arch(task->tid);
	struct roll_call roll;
	struct ms_cpu cpu;

	if (!arch->look(task->tid, &cpu))
		return false;
	if (ms_arch_own_call(arch, cpu.call) != SYS_exit ||
	    !call_roll(run, task->process, NULL, &roll))
		return true;
	/*
	 * exit(2) ends the thread alone; the roll counts @task as well. For another's exec
	 * it may have been killed out of its stop since, and be no more: then its
	 * registers cannot be read again, and the roll means nothing.
	 */
	return roll.n_missing <= 1 && arch->look(task->tid, &cpu);
}

/* ---- to stand ---- */

void ms_gather_add(struct ms_task *task, int status)
{
	task->state = MS_TASK_STANDING;
	task->status = status;
}

void ms_gather_begin(struct ms_task *task, int status)
{
	struct ms_process *process = task->process;

	process->stage = MS_GATHERING;
	process->since_ns = ms_now_ns();
	process->whole = true;
	ms_gather_add(task, status);
	if (status >> 16)
		return;
	process->doomed = task;
	for (struct ms_task *other = process->tasks; other; other = other->next)
		if (other->state != MS_TASK_STANDING)
			(void)ptrace(PTRACE_INTERRUPT, other->tid, NULL, NULL);
}

void ms_gather_release(struct ms_process *process)
{
	if (process->frozen)
		process->frozen->pause_ns = ms_now_ns() - process->since_ns;
	process->stage = MS_LEAVING;
	/* The signal that ends it first: the others are not to run before. */
	if (process->doomed && process->doomed->state == MS_TASK_STANDING)
		ms_task_resume(process->doomed);
	process->doomed = NULL;
	for (struct ms_task *task = process->tasks; task; task = task->next)
		if (task->state == MS_TASK_STANDING)
			ms_task_resume(task);
}

static void miss(struct ms_run *run, struct ms_process *process, const struct ms_error *why)
{
	ms_gather_release(process);
	run->call->ops->missed(run->call->ctx, process->pid, why);
}

void ms_gather_miss(struct ms_run *run, struct ms_process *process, const char *why,
                    const char *advice)
{
	struct ms_error err;

	(void)ms_fail(&err, MS_E_GONE, "%s", why);
	ms_advise(&err, "%s", advice);
	miss(run, process, &err);
}

void ms_gather_spoil(struct ms_run *run, struct ms_process *process)
{
	process->whole = false;
	if (process->stage == MS_GATHERING)
		ms_gather_miss(run, process, "it was killed before all of its threads stood",
		               "end it by SIGTERM instead");
	if (process->sweeper)
		(void)kill(process->sweeper, SIGKILL);
}

/* ---- all stand ---- */

/* Copy what every thread holds to @shared. */
static enum ms_status capture(const struct ms_run *run, struct ms_process *process,
                              struct ms_collection *shared, struct ms_error *err)
{
	struct ms_freezer freezer = { .shared = shared, .arch = shared->arch };
	struct roll_call roll;
	enum ms_status st;

	if (!ms_vec_reserve(&freezer.arena, &freezer.tracees, shared->max_threads))
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of threads");
	(void)call_roll(run, process, &freezer, &roll);
	st = ms_capture(&freezer, err);
	ms_arena_deinit(&freezer.arena);
	shared->frozen_at = (int64_t)ms_clock_ns(CLOCK_REALTIME);
	shared->freeze_ns = ms_now_ns() - process->since_ns;
	return st;
}

static void sweep(struct ms_run *run, struct ms_process *process)
{
	struct ms_error err;
	enum ms_status st = ms_collection_create(process->pid, 0, &process->frozen, &err);

	if (!st)
		st = capture(run, process, process->frozen, &err);
	process->stage = MS_SWEEPING;
	if (!st)
		process->sweeper = run->call->ops->sweep(run->call->ctx, process->frozen,
		                                         process->pid != run->main);
	if (process->sweeper)
		return;
	if (st)
		miss(run, process, &err);
	else
		ms_gather_release(process);
	if (process->frozen)
		ms_collection_destroy(process->frozen);
	process->frozen = NULL;
}

void ms_gather_check(struct ms_run *run, struct ms_process *process)
{
	uint64_t passed_ns = ms_now_ns() - process->since_ns;
	struct roll_call roll;

	if (!call_roll(run, process, NULL, &roll)) {
		ms_gather_miss(run, process, "it is gone", "run it again");
	} else if (!roll.n_missing || (roll.n_missing == roll.n_asleep && passed_ns > ASLEEP_NS)) {
		sweep(run, process);
	} else if (roll.in_exec && !process->doomed) {
		ms_gather_release(process);
		process->stage = MS_LIVING;
		process->replacing = true;
	} else if (passed_ns > PATIENCE_NS) {
		ms_gather_miss(run, process, "one of its threads does not stop",
		               "run it again; such a thread waits in the kernel (state D)");
		process->stage = MS_LIVING;
	}
}
