/* SPDX-License-Identifier: Apache-2.0 */
#include "target/freeze/capture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>

#include "target/freeze/queued.h"
#include "target/freeze/sleepers.h"
#include "target/proc.h"

/* "NUMBER ARG1 … ARG6 SP PC" or "-1 SP PC": all that is known of a thread asleep. */
static void capture_asleep(pid_t tid, struct ms_frozen_thread *ret)
{
	unsigned long long v[8] = { 0 };
	long long call = -1;
	char text[256];
	int n;

	(void)ms_proc_read(tid, "syscall", text, sizeof(text));
	n = sscanf(text, "%lld %llx %llx %llx %llx %llx %llx %llx %llx", &call, &v[0], &v[1], &v[2],
	           &v[3], &v[4], &v[5], &v[6], &v[7]) -
	    1;
	if (n < 2)
		return;
	ret->call = call;
	ret->sp = v[n - 2];
	ret->pc = v[n - 1];
	for (int i = 0; i < n - 2; i++)
		ret->words[ret->n_words++] = v[i];
}

static bool capture(const struct ms_freezer *freezer, struct ms_tracee *tracee,
                    struct ms_frozen_thread *ret)
{
	ret->tid = tracee->tid;
	ret->n_words = ret->vector_bytes = 0;
	ret->call = -1;
	ret->stopped = tracee->state == MS_TRACEE_STOPPED;
	if (tracee->state == MS_TRACEE_ASLEEP)
		capture_asleep(tracee->tid, ret);
	else if (tracee->state == MS_TRACEE_STOPPED)
		tracee->known = freezer->arch->capture(tracee->tid, freezer->shared->captured, ret,
		                                       &tracee->cpu);
	return tracee->known || tracee->state == MS_TRACEE_ASLEEP;
}

/* Whether it matters what the thread did before it was stopped. */
static bool is_sleep_wanted(const struct ms_arch *arch, const struct ms_cpu *cpu)
{
	if (arch->resumes && arch->resumes(cpu))
		return true;
	return cpu->call >= 0 && cpu->result == -EINTR &&
	       (arch->result_is_first || arch->timed(cpu->call).how != MS_TIMEOUT_NONE);
}

/* Before a call of ours makes the thread run: see sleepers.c. */
static void take_sleep(struct ms_freezer *freezer, struct ms_tracee *tracee)
{
	const struct ms_arch *arch = freezer->arch;
	struct ms_cpu *cpu = &tracee->cpu;
	const struct ms_sleeper *sleeper;

	tracee->asleep_since_ns = 0;
	tracee->was_in_call = false;
	if (!tracee->known || cpu->mark || !is_sleep_wanted(arch, cpu))
		return;
	sleeper = ms_sleepers_of(freezer, tracee);
	if (!sleeper)
		return;
	tracee->asleep_since_ns = sleeper->since_ns;
	tracee->was_in_call = arch->result_is_first && sleeper->call == cpu->call;
	if (tracee->was_in_call)
		cpu->args[0] = sleeper->first;
}

/* Keep the value that a signal carries: a pointer, often the only one. */
static void take_value(struct ms_collection *shared, const siginfo_t *info)
{
	bool carries = info->si_code == SI_QUEUE || info->si_code == SI_TIMER ||
	               info->si_code == SI_MESGQ || info->si_code == SI_ASYNCIO;

	if (carries && shared->n_signal_words < MS_SIGNAL_WORDS)
		shared->signal_words[shared->n_signal_words++] =
			(uintptr_t)info->si_value.sival_ptr;
}

/* The signals in the thread's queue, or with PTRACE_PEEKSIGINFO_SHARED in the process's. */
static void take_queued(struct ms_collection *shared, const struct ms_tracee *tracee,
                        uint32_t flags)
{
	struct __ptrace_peeksiginfo_args args = { .flags = flags };
	siginfo_t infos[MS_QUEUED_PIECE];
	long n;

	do {
		n = ms_queued_next(tracee->tid, &args, infos);
		for (long i = 0; i < n; i++)
			take_value(shared, &infos[i]);
	} while (n > 0 && shared->n_signal_words < MS_SIGNAL_WORDS);
}

/* The one that the thread is stopped at. */
static void take_delivered(struct ms_collection *shared, const struct ms_tracee *tracee)
{
	siginfo_t info;

	if (tracee->signal && !ptrace(PTRACE_GETSIGINFO, tracee->tid, NULL, &info))
		take_value(shared, &info);
}

/* What signals carry that no thread has seen yet. */
static void take_values(const struct ms_freezer *freezer)
{
	const struct ms_tracee *stopped = NULL;
	const struct ms_tracee *tracee;

	ms_vec_for_each (tracee, &freezer->tracees) {
		if (tracee->state != MS_TRACEE_STOPPED)
			continue;
		take_queued(freezer->shared, tracee, 0);
		take_delivered(freezer->shared, tracee);
		stopped = tracee;
	}
	if (stopped)
		take_queued(freezer->shared, stopped, PTRACE_PEEKSIGINFO_SHARED);
}

enum ms_status ms_capture(struct ms_freezer *freezer, struct ms_error *err)
{
	struct ms_collection *shared = freezer->shared;

	for (size_t i = 0; i < freezer->tracees.n; i++) {
		struct ms_tracee *tracee = &freezer->tracees.at[i];

		if (!capture(freezer, tracee, &shared->threads[shared->n_threads]))
			continue;
		take_sleep(freezer, tracee);
		shared->n_unstopped += tracee->state == MS_TRACEE_ASLEEP;
		shared->n_threads++;
		if (!shared->live_tid || tracee->tid == shared->pid)
			shared->live_tid = tracee->tid;
	}
	if (shared->captured != MS_CAPTURED_GENERAL)
		take_values(freezer);
	if (!shared->n_threads)
		return ms_fail(err, MS_E_GONE, "process %d ended", shared->pid);
	return MS_OK;
}
