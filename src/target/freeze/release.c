/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting go. Threads that did not stop cannot be detached one by one; the
 * kernel does it when the collection process exits, which it does directly
 * afterwards. Their calls are broken off by it: only of a thread that stands can
 * they be restored. So those that were asked to stop are given some time to do it,
 * when the others have been let go.
 */
#include <sys/ptrace.h>

#include "base/clock.h"
#include "target/freeze/freeze.h"
#include "target/freeze/rewind.h"
#include "target/freeze/roll.h"
#include "target/proc.h"

enum { ARMED_TICKS = 1000, ASKED_NS = 1000000000 };

static void release(const struct ms_freezer *freezer, struct ms_tracee *tracee)
{
	/* It may have woken, and trapped, since. */
	if (tracee->state == MS_TRACEE_RUNNING || tracee->state == MS_TRACEE_ASLEEP)
		ms_tracee_wait(tracee, 0);
	ms_roll_disarm(freezer, tracee);
	if (tracee->state != MS_TRACEE_STOPPED)
		return;
	ms_rewind(freezer, tracee);
	(void)ptrace(PTRACE_DETACH, tracee->tid, NULL, (uintptr_t)tracee->signal);
	tracee->state = MS_TRACEE_GONE;
}

/* Neither in uninterruptible sleep, where no call is broken off, nor an ended leader. */
static bool may_stop(pid_t tid)
{
	char state = ms_proc_state(tid);

	return state != 'D' && state != 'Z' && state != 'X';
}

static void release_late(const struct ms_freezer *freezer, struct ms_tracee *tracee,
                         uint64_t until_ns)
{
	if (tracee->state != MS_TRACEE_RUNNING)
		return;
	while (tracee->state == MS_TRACEE_RUNNING && may_stop(tracee->tid) &&
	       ms_now_ns() < until_ns)
		ms_tracee_wait(tracee, 1);
	release(freezer, tracee);
}

/* To leave a thread armed is to kill it, so it is worth some more patience. */
static void release_armed(const struct ms_freezer *freezer, struct ms_tracee *tracee)
{
	if (!tracee->armed || tracee->state == MS_TRACEE_GONE)
		return;
	tracee->state = MS_TRACEE_RUNNING;
	ms_tracee_wait(tracee, ARMED_TICKS);
	release(freezer, tracee);
}

void ms_freezer_release(struct ms_freezer *freezer)
{
	struct ms_tracee *tracee;
	uint64_t until_ns;

	ms_vec_for_each (tracee, &freezer->tracees)
		if (tracee->at_work)
			release(freezer, tracee);
	ms_vec_for_each (tracee, &freezer->tracees)
		if (!tracee->at_work)
			release(freezer, tracee);
	until_ns = ms_now_ns() + ASKED_NS;
	ms_vec_for_each (tracee, &freezer->tracees)
		release_late(freezer, tracee, until_ns);
	ms_vec_for_each (tracee, &freezer->tracees)
		release_armed(freezer, tracee);
	if (freezer->begun_ns)
		freezer->shared->pause_ns = ms_now_ns() - freezer->begun_ns;
}
