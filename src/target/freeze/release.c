/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting go. Threads that did not stop cannot be detached one by one; the
 * kernel does it when the collection process exits, which it does directly
 * afterwards.
 */
#include <sys/ptrace.h>

#include "base/clock.h"
#include "target/freeze/freeze.h"
#include "target/freeze/rewind.h"

static void release(const struct ms_freezer *freezer, struct ms_tracee *tracee)
{
	/* It may have woken, and trapped, since. */
	if (tracee->state == MS_TRACEE_RUNNING || tracee->state == MS_TRACEE_ASLEEP)
		ms_tracee_wait(tracee, 0);
	if (tracee->state != MS_TRACEE_STOPPED)
		return;
	ms_rewind(freezer, tracee);
	(void)ptrace(PTRACE_DETACH, tracee->tid, NULL, (uintptr_t)tracee->signal);
	tracee->state = MS_TRACEE_GONE;
}

void ms_freezer_release(struct ms_freezer *freezer)
{
	for (size_t i = 0; i < freezer->tracees.n; i++)
		release(freezer, &freezer->tracees.at[i]);
	if (freezer->begun_ns)
		freezer->shared->pause_ns = ms_now_ns() - freezer->begun_ns;
}
