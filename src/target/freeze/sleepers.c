/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel shows when a thread last ran ("se.exec_start" in /proc/TID/sched), which for
 * one that sleeps is when it fell asleep. That is by the clock of the processor that it ran
 * on; these clocks leave out what interrupts and other virtual machines take, each
 * for itself, and so are ever further apart. Our own exec_start, while we run on that
 * processor, relates it to the monotonic clock. What the clock left out since makes
 * the sleep seem shorter, never longer.
 *
 * To stop a thread is to wake it, which writes over exec_start. So it is read
 * before, and holds if the thread was given a processor just once since then, to stop:
 * the last number of /proc/TID/schedstat. Where that was taken away from it on its way, it
 * holds if it has waited just once, in the stop.
 *
 * Where the kernel has not these files (no CONFIG_SCHED_DEBUG before Linux 6.15, no
 * CONFIG_SCHED_INFO) nothing is known.
 */
#include "target/freeze/sleepers.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/proc.h"
#include "target/urgent.h"

enum { MAX_SLEEPERS = 1024, MAX_PROCESSORS = 1024, SCHED_BYTES = 1024, LIMIT_NS = 100000000 };

/* Where a thread that was not looked at sees EINTR. */
enum { LONG_LIMIT_NS = 1000000000 };

/* Processors' clocks, as far as they were asked for. */
struct clocks {
	cpu_set_t own; /* where we may run */
	struct {
		bool known;
		int64_t behind_ns; /* the monotonic clock, less this one */
	} at[MAX_PROCESSORS];
};

uint64_t ms_sleepers_runs(int schedstat)
{
	char text[128];
	ssize_t n = pread(schedstat, text, sizeof(text) - 1, 0);
	char *end;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	(void)strtoull(text, &end, 10);
	(void)strtoull(end, &end, 10);
	return strtoull(end, NULL, 10);
}

/* How often the thread was given a processor; 0: not known. */
static uint64_t runs_of(pid_t tid)
{
	int fd = ms_proc_open(tid, "schedstat", O_RDONLY | O_CLOEXEC);
	uint64_t runs = fd >= 0 ? ms_sleepers_runs(fd) : 0;

	if (fd >= 0)
		(void)close(fd);
	return runs;
}

/* What follows @key and a colon, or NULL. */
static const char *value_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	at = at ? strchr(at, ':') : NULL;
	return at ? at + 1 : NULL;
}

/* What /proc/TID/sched says. */
struct history {
	uint64_t ran_ns; /* when it last ran; 0: not known */
	uint64_t waits;  /* how often it left its processor of its own accord */
};

/* "se.exec_start     :       771833.444511", milliseconds; "nr_voluntary_switches    :     7" */
static struct history history_of(pid_t tid)
{
	const uint64_t ms_ns = 1000000;
	struct history ret = { 0 };
	char text[SCHED_BYTES];
	const char *ran;
	const char *waits;
	char *end;

	(void)ms_proc_read(tid, "sched", text, sizeof(text));
	ran = value_of(text, "se.exec_start");
	waits = value_of(text, "nr_voluntary_switches");
	if (!ran || !waits)
		return ret;
	ret.waits = strtoull(waits, NULL, 10);
	ret.ran_ns = strtoull(ran, &end, 10) * ms_ns;
	ret.ran_ns += *end == '.' ? strtoull(end + 1, NULL, 10) : 0;
	return ret;
}

/* The processor that it last ran on; -1: not known. Field 39 of /proc/TID/stat, behind ")". */
static int processor_of(pid_t tid)
{
	enum { PROCESSOR = 39, STATE = 3 };
	char text[1024];
	const char *at;

	(void)ms_proc_read(tid, "stat", text, sizeof(text));
	at = strrchr(text, ')');
	at = at ? strchr(at, ' ') : NULL;
	for (int field = STATE; at && field < PROCESSOR; field++)
		at = strchr(at + 1, ' ');
	return at ? (int)strtol(at, NULL, 10) : -1;
}

static void compare_clock(struct clocks *clocks, int processor)
{
	uint64_t ran_ns;

	(void)sched_yield(); /* the kernel notes when we ran */
	ran_ns = history_of(gettid()).ran_ns;
	clocks->at[processor].known = ran_ns && sched_getcpu() == processor;
	clocks->at[processor].behind_ns = (int64_t)(ms_now_ns() - ran_ns);
}

/*
 * Move to @processor and compare its clock. This runs urgently: pinned to one busy processor, an
 * ordinary process may wait for seconds.
 */
static bool ask_clock(struct clocks *clocks, int processor)
{
	cpu_set_t one;
	int urgency;

	if (!CPU_ISSET((size_t)processor, &clocks->own))
		return false;
	CPU_ZERO(&one);
	CPU_SET((size_t)processor, &one);
	urgency = ms_urgent_begin();
	if (!sched_setaffinity(0, sizeof(one), &one)) {
		compare_clock(clocks, processor);
		(void)sched_setaffinity(0, sizeof(clocks->own), &clocks->own);
	}
	ms_urgent_end(urgency);
	return clocks->at[processor].known;
}

/* The monotonic time of what was @ran_ns by the clock of the thread's processor; 0: not known. */
static uint64_t since_ns(struct clocks *clocks, pid_t tid, uint64_t ran_ns)
{
	int processor = processor_of(tid);
	uint64_t since;

	if (!ran_ns || processor < 0 || processor >= MAX_PROCESSORS)
		return 0;
	if (!clocks->at[processor].known && !ask_clock(clocks, processor))
		return 0;
	since = (uint64_t)((int64_t)ran_ns + clocks->at[processor].behind_ns);
	return since <= ms_now_ns() ? since : 0;
}

/*
 * What @tid is asleep in, or that it is not; whether it is in a call that matters. Only where a
 * first argument is noted does it matter that all was read while it slept on: a thread that was in
 * two calls meanwhile would get the argument of the other.
 */
static bool look(const struct ms_arch *arch, pid_t tid, struct ms_sleeper *ret,
                 struct history *ret_history)
{
	char text[256];
	char *end;

	*ret = (struct ms_sleeper){ .tid = tid, .runs = runs_of(tid) };
	/* It says a number only while the thread is asleep in that call. */
	(void)ms_proc_read(tid, "syscall", text, sizeof(text));
	ret->call = strtol(text, &end, 10);
	ret->at_work = !strncmp(text, "running", strlen("running"));
	if (!ret->runs || end == text || ret->call < 0)
		return false;
	if (arch->timed(ret->call).how == MS_TIMEOUT_NONE && !arch->result_is_first)
		return false;
	ret->first = strtoull(end, NULL, 16);
	*ret_history = history_of(tid);
	ret->waits = ret_history->waits;
	return !arch->result_is_first || runs_of(tid) == ret->runs;
}

static void note(struct ms_freezer *freezer, struct clocks *clocks, pid_t tid)
{
	const struct ms_arch *arch = freezer->arch;
	struct ms_sleeper sleeper;
	struct history history;

	if (!look(arch, tid, &sleeper, &history)) {
		ms_tids_put(freezer->at_work, tid, sleeper.at_work);
		return;
	}
	if (arch->timed(sleeper.call).how != MS_TIMEOUT_NONE)
		sleeper.since_ns = since_ns(clocks, tid, history.ran_ns);
	if (sleeper.since_ns || arch->result_is_first)
		freezer->sleepers.at[freezer->sleepers.n++] = sleeper;
}

static void note_each(struct ms_freezer *freezer, struct clocks *clocks)
{
	uint64_t limit_ns = freezer->arch->result_is_first ? LONG_LIMIT_NS : LIMIT_NS;
	uint64_t until_ns = ms_now_ns() + limit_ns;
	struct ms_proc_list list;
	int32_t tid;

	if (ms_proc_list_open(&list, freezer->shared->pid, "task", freezer->list_buf) < 0)
		return;
	while (ms_proc_list_next(&list, &tid) && freezer->sleepers.n < MAX_SLEEPERS &&
	       ms_now_ns() < until_ns)
		if (tid > 0 && tid < MS_MAX_TIDS)
			note(freezer, clocks, tid);
	ms_proc_list_close(&list);
}

void ms_sleepers_find(struct ms_freezer *freezer, pid_t only)
{
	struct clocks *clocks = ms_arena_alloc(&freezer->arena, sizeof(*clocks));

	if (!clocks || !ms_vec_reserve(&freezer->arena, &freezer->sleepers, MAX_SLEEPERS))
		return;
	memset(clocks, 0, sizeof(*clocks));
	(void)sched_getaffinity(0, sizeof(clocks->own), &clocks->own);
	if (only)
		note(freezer, clocks, only);
	else
		note_each(freezer, clocks);
}

/* What was noted of the thread, or NULL. */
static struct ms_sleeper *noted(struct ms_freezer *freezer, pid_t tid)
{
	const struct ms_sleepers *sleepers = &freezer->sleepers;

	for (size_t i = 0; i < sleepers->n; i++) {
		size_t k = (freezer->next_sleeper + i) % sleepers->n;

		if (sleepers->at[k].tid != tid)
			continue;
		freezer->next_sleeper = k + 1;
		return &sleepers->at[k];
	}
	return NULL;
}

void ms_sleepers_look_again(struct ms_freezer *freezer, pid_t tid)
{
	struct ms_sleeper *known;
	struct ms_sleeper sleeper;
	struct history history;

	if (!freezer->arch->result_is_first)
		return;
	known = noted(freezer, tid);
	if (known && known->runs == runs_of(tid))
		return;
	if (!look(freezer->arch, tid, &sleeper, &history))
		return;
	if (!known && freezer->sleepers.n < MAX_SLEEPERS)
		known = &freezer->sleepers.at[freezer->sleepers.n++];
	if (known)
		*known = sleeper;
}

/* Whether the thread has done nothing since but stop. */
static bool has_only_stopped(const struct ms_sleeper *sleeper)
{
	return runs_of(sleeper->tid) == sleeper->runs + 1 ||
	       (sleeper->waits && history_of(sleeper->tid).waits == sleeper->waits + 1);
}

const struct ms_sleeper *ms_sleepers_of(struct ms_freezer *freezer, const struct ms_tracee *tracee)
{
	const struct ms_sleeper *sleeper = noted(freezer, tracee->tid);

	return sleeper && has_only_stopped(sleeper) ? sleeper : NULL;
}
