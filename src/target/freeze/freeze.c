/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping every thread.
 *
 * All threads are seized and interrupted first and waited for afterwards, so
 * that they stop in parallel. Those that were at work are interrupted when the others stand,
 * and let go before them: the others would sleep meanwhile, and with thousands of them
 * stopping takes longer than all that is done with the program afterwards. Then the list is
 * read again, because a thread that still ran may have made another. It is complete when
 * everything in it is stopped and as long as the kernel says (the link count of the folder
 * "task").
 *
 * Stops are looked at with WNOWAIT and never consumed. A thread may answer the
 * interrupt by a signal-delivery stop instead; its signal is then in the thread's
 * exit_code, from where wait_task_stopped() would take it away, and ptrace_stop()
 * returns to ptrace_signal() what is still there. So, if we are killed,
 * exit_ptrace() wakes the thread and the signal is delivered as if we had never
 * been. In good order PTRACE_DETACH hands the same signal over, its siginfo
 * untouched.
 *
 * A thread may also be on its way to a stop that an earlier tracer asked for (at a
 * system call; at a clone) and has not seen: where its group has used up its share
 * of the processors (cgroups' cpu.max), it sleeps in ptrace_notify() before it
 * stops. Nobody waits for that stop, and its SIGTRAP is no signal of the thread's.
 *
 * A thread in uninterruptible sleep (the parent of a vfork) answers when it
 * wakes, and cannot run user code before. When only such threads are left, they
 * are taken as they are.
 */
#include "target/freeze/freeze.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/follow.h"
#include "target/freeze/capture.h"
#include "target/freeze/roll.h"
#include "target/freeze/sleepers.h"
#include "target/proc.h"
#include "target/target.h"

enum {
	QUICK_LISTINGS = 50, /* then the rest is given time: threads take long to end */
	PAUSE_US = 200,
	FIRST_TICKS = 2,      /* for each thread while others are still to be asked */
	ASLEEP_NS = 10000000, /* in uninterruptible sleep for so long: will not answer soon */
	SEIZE_TRIES = 8,      /* with tracers that come and go */
};

enum ms_status ms_freezer_init(struct ms_freezer *freezer, struct ms_collection *shared, pid_t only,
                               struct ms_error *err)
{
	memset(freezer, 0, sizeof(*freezer));
	freezer->shared = shared;
	freezer->arch = shared->arch;
	freezer->seen = ms_arena_alloc(&freezer->arena, MS_MAX_TIDS / 8);
	freezer->at_work = ms_arena_alloc(&freezer->arena, MS_MAX_TIDS / 8);
	freezer->list_buf = ms_arena_alloc(&freezer->arena, MS_PROC_LIST_BYTES);
	if (!freezer->seen || !freezer->at_work || !freezer->list_buf ||
	    !ms_vec_reserve(&freezer->arena, &freezer->tracees, shared->max_threads))
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of threads");
	freezer->takes_marks = freezer->arch->takes_marks();
	ms_sleepers_find(freezer, only);
	return ms_stack_places_find(shared->pid, &freezer->arena, &freezer->places, err);
}

/* Whether a stop is neither of a signal nor by PTRACE_INTERRUPT. */
static bool is_of_earlier_tracer(int status)
{
	return status >> 8 ? status >> 8 != PTRACE_EVENT_STOP : (status & 0x80) != 0;
}

/* Let a thread go on from a stop that nobody waits for to the one that is asked for. */
static bool pass_stop(const struct ms_tracee *tracee, const siginfo_t *info)
{
	if (info->si_code != CLD_TRAPPED || !is_of_earlier_tracer(info->si_status))
		return false;
	/* Each stop takes back what was asked for before. */
	(void)ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL);
	(void)ptrace(PTRACE_CONT, tracee->tid, NULL, NULL);
	return true;
}

static void record_stop(struct ms_tracee *tracee, int status)
{
	int signal = status & 0x7f;

	tracee->state = MS_TRACEE_STOPPED;
	tracee->known = false;
	tracee->signal = 0;
	tracee->group_stop = false;
	if (status >> 8 == PTRACE_EVENT_STOP)
		tracee->group_stop = signal != SIGTRAP;
	else
		tracee->signal = (uint8_t)signal;
}

/* Take the end of a thread from the kernel, as the parent of a process would. */
static void record_end(struct ms_tracee *tracee)
{
	siginfo_t info;

	tracee->state = MS_TRACEE_GONE;
	(void)waitid(P_PID, (id_t)tracee->tid, &info, WEXITED | __WALL | WNOHANG);
}

void ms_tracee_wait(struct ms_tracee *tracee, int ticks)
{
	int flags = WSTOPPED | WEXITED | __WALL | WNOWAIT | (ticks ? 0 : WNOHANG);

	for (;;) {
		siginfo_t info = { 0 };

		if (!waitid(P_PID, (id_t)tracee->tid, &info, flags)) {
			if (pass_stop(tracee, &info))
				continue;
			if (info.si_pid && info.si_code == CLD_TRAPPED)
				record_stop(tracee, info.si_status);
			else if (info.si_pid)
				record_end(tracee);
			return;
		}
		if (errno != EINTR) {
			tracee->state = MS_TRACEE_GONE;
			return;
		}
		if (--ticks <= 0)
			return;
	}
}

bool ms_tracee_look(const struct ms_freezer *freezer, const struct ms_tracee *tracee,
                    struct ms_cpu *ret)
{
	if (!tracee->known)
		return freezer->arch->look(tracee->tid, ret);
	*ret = tracee->cpu;
	return true;
}

/* PF_EXITING (0x4) is set a moment before the state shows it. */
static bool is_ending(pid_t tid)
{
	char state = ms_proc_state(tid);
	struct ms_proc_stat stat;

	return state == 'Z' || state == 'X' || (ms_proc_stat(tid, &stat) && stat.flags & 4);
}

/*
 * Returns 0, or why the kernel refused. A tracer that let go before it could be seen is no reason:
 * EPERM without one (@ret_tracer is 0) has another.
 */
static int try_to_seize(pid_t tid, pid_t *ret_tracer)
{
	int error = EPERM;

	*ret_tracer = 0;
	for (int i = 0; i < SEIZE_TRIES && error == EPERM && !*ret_tracer; i++) {
		error = ptrace(PTRACE_SEIZE, tid, NULL, NULL) ? errno : 0;
		if (error == EPERM && is_ending(tid))
			error = ESRCH;
		if (error == EPERM)
			*ret_tracer = ms_proc_tracer(tid);
	}
	return error;
}

static void interrupt(struct ms_tracee *tracee)
{
	tracee->state = MS_TRACEE_RUNNING;
	(void)ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL);
}

static enum ms_status seize(struct ms_freezer *freezer, pid_t tid, struct ms_error *err)
{
	struct ms_tracee *tracee;
	pid_t tracer;
	int error;

	if (freezer->tracees.n == freezer->shared->max_threads)
		return ms_fail(err, MS_E_BUSY,
		               "process %d makes threads faster than they can be "
		               "stopped (%zu so far)",
		               freezer->shared->pid, freezer->tracees.n);
	error = try_to_seize(tid, &tracer);
	if (error == ESRCH)
		return MS_OK;
	if (tracer)
		return ms_target_refuse_traced(freezer->shared->pid, tracer, err);
	if (error == EPERM)
		return ms_target_explain_denied(freezer->shared->pid, err);
	if (error)
		return ms_fail_sys(err, error, "seizing thread %d", tid);
	tracee = ms_vec_push(&freezer->arena, &freezer->tracees);
	assert(tracee); /* reserved by ms_freezer_init() */
	*tracee = (struct ms_tracee){ .tid = tid,
		                      .state = MS_TRACEE_SEIZED,
		                      .at_work = ms_tids_have(freezer->at_work, tid) };
	ms_tids_put(freezer->seen, tid, true);
	ms_sleepers_look_again(freezer, tid);
	if (!tracee->at_work)
		interrupt(tracee);
	return MS_OK;
}

/* How many threads the kernel counts, zombies too. */
static size_t count_threads(const struct ms_proc_list *list)
{
	struct stat folder;

	return fstat(list->fd, &folder) || folder.st_nlink < 2 ? 0 : folder.st_nlink - 2;
}

/* Seize every thread that is new. @ret_complete: there was none, and the list was whole. */
static enum ms_status seize_new(struct ms_freezer *freezer, struct ms_proc_list *list,
                                bool *ret_complete, struct ms_error *err)
{
	size_t before = freezer->tracees.n;
	size_t listed = 0;
	int32_t tid;

	ms_proc_list_rewind(list);
	while (ms_proc_list_next(list, &tid)) {
		enum ms_status st = MS_OK;

		listed++;
		if (tid > 0 && tid < MS_MAX_TIDS && !ms_tids_have(freezer->seen, tid))
			st = seize(freezer, tid, err);
		if (st)
			return st;
	}
	*ret_complete = freezer->tracees.n == before && listed == count_threads(list);
	return MS_OK;
}

static enum ms_status give_up(const struct ms_freezer *freezer, const struct ms_tracee *tracee,
                              struct ms_error *err)
{
	enum ms_status st = ms_fail(err, MS_E_TIMEOUT,
	                            "thread %d of process %d (state %c) did not stop within %.1f s",
	                            tracee->tid, freezer->shared->pid, ms_proc_state(tracee->tid),
	                            (double)freezer->shared->timeout_ns / 1e9);

	ms_advise(err, "try again, or allow more time by --timeout");
	return st;
}

/* A thread that has not answered, or NULL. */
static struct ms_tracee *next_running(struct ms_freezer *freezer)
{
	struct ms_tracee *tracee;

	ms_vec_for_each (tracee, &freezer->tracees)
		if (tracee->state == MS_TRACEE_RUNNING)
			return tracee;
	return NULL;
}

/* Ask every running thread once more. Returns whether all that still run sleep in state D. */
static bool ask_again(struct ms_freezer *freezer)
{
	bool all_asleep = true;

	for (size_t i = 0; i < freezer->tracees.n; i++) {
		struct ms_tracee *tracee = &freezer->tracees.at[i];
		char state;

		if (tracee->state != MS_TRACEE_RUNNING)
			continue;
		ms_tracee_wait(tracee, 0);
		if (tracee->state != MS_TRACEE_RUNNING)
			continue;
		state = ms_proc_state(tracee->tid);
		/* A leader that ends while others live is never reported by wait. */
		if (state == 'Z' || state == 'X')
			tracee->state = MS_TRACEE_GONE;
		else
			all_asleep &= state == 'D';
	}
	return all_asleep;
}

static void leave_asleep(struct ms_freezer *freezer)
{
	for (size_t i = 0; i < freezer->tracees.n; i++)
		if (freezer->tracees.at[i].state == MS_TRACEE_RUNNING)
			freezer->tracees.at[i].state = MS_TRACEE_ASLEEP;
}

/* Wait for those that did not answer at once. */
static enum ms_status wait_late(struct ms_freezer *freezer, struct ms_error *err)
{
	uint64_t asleep_since = 0;
	struct ms_tracee *late;

	while ((late = next_running(freezer))) {
		uint64_t now = ms_now_ns();

		if (now > freezer->deadline_ns || (freezer->follows && ms_follow_is_over()))
			return give_up(freezer, late, err);
		if (!ask_again(freezer))
			asleep_since = 0;
		else if (!asleep_since)
			asleep_since = now;
		else if (now - asleep_since > ASLEEP_NS)
			leave_asleep(freezer);
		late = next_running(freezer);
		if (late)
			ms_tracee_wait(late, 1);
	}
	return MS_OK;
}

/* Forget threads that ended: their ids may come again, and others want their places. */
static void drop_gone(struct ms_freezer *freezer)
{
	size_t kept = 0;

	for (size_t i = 0; i < freezer->tracees.n; i++) {
		const struct ms_tracee *tracee = &freezer->tracees.at[i];

		if (tracee->state == MS_TRACEE_GONE)
			ms_tids_put(freezer->seen, tracee->tid, false);
		else
			freezer->tracees.at[kept++] = *tracee;
	}
	freezer->tracees.n = kept;
}

static enum ms_status wait_interrupted(struct ms_freezer *freezer, struct ms_error *err)
{
	struct ms_tracee *tracee;

	ms_vec_for_each (tracee, &freezer->tracees)
		if (tracee->state == MS_TRACEE_RUNNING)
			ms_tracee_wait(tracee, FIRST_TICKS);
	return wait_late(freezer, err);
}

/* Wait for those that slept, then for those that were at work. */
static enum ms_status wait_all(struct ms_freezer *freezer, struct ms_error *err)
{
	enum ms_status st = wait_interrupted(freezer, err);
	struct ms_tracee *tracee;
	bool more = false;

	ms_vec_for_each (tracee, &freezer->tracees) {
		if (st || tracee->state != MS_TRACEE_SEIZED)
			continue;
		interrupt(tracee);
		more = true;
	}
	if (more)
		st = wait_interrupted(freezer, err);
	drop_gone(freezer);
	return st;
}

/* Stop threads until a complete list shows no new one. */
static enum ms_status stop_all(struct ms_freezer *freezer, struct ms_proc_list *list,
                               struct ms_error *err)
{
	for (int i = 0; i < QUICK_LISTINGS || ms_now_ns() < freezer->deadline_ns; i++) {
		enum ms_status st;
		bool complete;

		if (i >= QUICK_LISTINGS)
			(void)usleep(PAUSE_US);
		st = seize_new(freezer, list, &complete, err);
		if (!st && complete && !next_running(freezer))
			return MS_OK;
		if (!st)
			st = wait_all(freezer, err);
		if (st)
			return st;
	}
	return ms_fail(err, MS_E_BUSY,
	               "threads of process %d come and go faster than they can be listed",
	               freezer->shared->pid);
}

/*
 * Whether it still is the process and the program that was looked at before: nothing known
 * of another's code and stacks is true, and to have a thread run code that is not there
 * kills it. One that ends has neither, and will be found to have ended.
 */
static enum ms_status check_program(const struct ms_freezer *freezer, struct ms_error *err)
{
	const struct ms_collection *shared = freezer->shared;
	const struct ms_proc_program *before = &shared->program;
	struct ms_proc_stat now;

	if (!ms_proc_stat(shared->pid, &now))
		return MS_OK;
	if (now.start_ticks != shared->start_ticks)
		return ms_fail(err, MS_E_GONE, "process %d ended, and another has its id now",
		               shared->pid);
	/* its first thread may have ended */
	if (!before->code ||
	    (!now.program.code && !ms_proc_stat(ms_proc_thread_of(shared->pid), &now)))
		return MS_OK;
	if (!now.program.code ||
	    (now.program.code == before->code && now.program.stack == before->stack))
		return MS_OK;
	return ms_fail(err, MS_E_BUSY, "process %d executed another program while it was looked at",
	               shared->pid);
}

static enum ms_status freeze_listed(struct ms_freezer *freezer, struct ms_proc_list *list,
                                    struct ms_error *err)
{
	enum ms_status st = stop_all(freezer, list, err);

	if (!st)
		st = check_program(freezer, err);
	if (st)
		return st;
	/* A thread on its way out of malloc may have made another one. */
	if (!freezer->shared->clone_wanted && ms_roll_all(freezer)) {
		struct ms_tracee *tracee;

		st = stop_all(freezer, list, err);
		ms_vec_for_each (tracee, &freezer->tracees)
			ms_roll_disarm(freezer, tracee);
	}
	return st ? st : ms_capture(freezer, err);
}

enum ms_status ms_freeze(struct ms_freezer *freezer, struct ms_error *err)
{
	struct ms_collection *shared = freezer->shared;
	struct ms_proc_list list;
	struct timespec wall;
	enum ms_status st;

	shared->begun_ns = freezer->begun_ns = ms_now_ns();
	freezer->deadline_ns = freezer->begun_ns + shared->timeout_ns;
	freezer->follows = true;
	if (ms_proc_list_open(&list, shared->pid, "task", freezer->list_buf) < 0)
		return ms_fail(err, MS_E_GONE, "process %d ended", shared->pid);
	st = freeze_listed(freezer, &list, err);
	ms_proc_list_close(&list);
	(void)clock_gettime(CLOCK_REALTIME, &wall);
	shared->frozen_at = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec;
	shared->freeze_ns = ms_now_ns() - freezer->begun_ns;
	return st;
}

static enum ms_status freeze_one(struct ms_freezer *freezer, pid_t tid, struct ms_error *err)
{
	enum ms_status st = seize(freezer, tid, err);

	if (!st)
		st = wait_all(freezer, err);
	if (st)
		return st;
	if (!freezer->tracees.n)
		return ms_fail(err, MS_E_GONE, "thread %d ended", tid);
	if (freezer->tracees.at[0].state == MS_TRACEE_ASLEEP)
		return ms_fail(err, MS_E_BUSY, "thread %d sleeps in the kernel and did not stop",
		               tid);
	st = check_program(freezer, err);
	return st ? st : ms_capture(freezer, err);
}

enum ms_status ms_freeze_thread(struct ms_freezer *freezer, pid_t tid, struct ms_error *err)
{
	enum ms_status st;

	freezer->begun_ns = ms_now_ns();
	freezer->deadline_ns = freezer->begun_ns + freezer->shared->timeout_ns;
	st = freeze_one(freezer, tid, err);
	freezer->shared->freeze_ns = ms_now_ns() - freezer->begun_ns;
	return st;
}
