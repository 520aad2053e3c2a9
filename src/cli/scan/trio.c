/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/trio.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/file.h"
#include "base/follow.h"
#include "base/libc.h"
#include "cli/book/book.h"
#include "cli/scan/naming.h"
#include "cli/scan/sweeper.h"
#include "cli/tell.h"
#include "report/wire.h"
#include "target/helper.h"
#include "target/proc.h"
#include "target/target.h"
#include "target/transit/transit.h"

enum {
	TICK_MS = 100,
	STANDING_TICKS = 20,   /* that the target may stand for a sweeper which does not go on */
	SEARCHING_TICKS = 100, /* the same while it runs */
	TICKS_PER_GIB = 5,     /* to be cloned, in which the sweeper waits */
	DUMP_TEXT = 32,
};

static const uint64_t ms_in_ns = 1000000;
/* What the collection process gets beyond its time limit before the original steps in. */
static const uint64_t grace_ns = UINT64_C(2000000000);
/* The same where time is up, or a signal is to end us. */
static const uint64_t late_grace_ns = UINT64_C(500000000);
static const uint64_t ending_grace_ns = UINT64_C(400000000);
/* The same while it has the target reap its clone (target/clone/reap.c). */
static const uint64_t reaping_grace_ns = UINT64_C(8000000000);

enum { OURS, THEIRS };   /* the ends of the channel: sweeper, collection */
enum { READER, WRITER }; /* those of the report: original, sweeper */

/* For what the collection process was too late, upon which it was killed. */
enum overdue {
	NOT_OVERDUE,
	OVERDUE_BEGIN,   /* no thread was asked to stop yet */
	OVERDUE_STOP,    /* of all threads */
	OVERDUE_RELEASE, /* of all threads */
	OVERDUE_COPY,    /* the target runs; threads of its clone are led out of malloc */
};

struct trio {
	const struct ms_trio_call *call;
	struct ms_collection *shared;
	struct ms_watch *watch;
	int channel[2];
	int report[2]; /* both ways: the sweeper may ask, too */
	pid_t original;
	pid_t collection; /* 0 while there is none */
	pid_t sweeper;
	struct ms_transit *transit; /* beside the sweeper */
	uint32_t stage;             /* of the sweeper when it was last looked at */
	uint64_t cpu_ticks;         /* that it had run */
	unsigned still;             /* looks since either changed */
	bool stuck;                 /* the sweeper was killed because it went on no more */
	uint64_t killed_ns;         /* when the sweeper was; 0: it was not */
	enum overdue overdue;
	bool late;       /* the sweeper was killed at the deadline */
	bool unsearched; /* it was killed for it had not found malloc in time */
	bool ending;     /* it was killed because we are to end */
	struct ms_ending endings;
	int collection_status;
	int sweeper_status;
	uint64_t sweeper_peak_bytes;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* The time for a child to end: @usual_ns, less where there is a hurry. */
static uint64_t grace_of(const struct trio *t, uint64_t usual_ns)
{
	if (t->ending)
		return ending_grace_ns;
	return t->late || t->unsearched ? late_grace_ns : usual_ns;
}

/* ---- the children ---- */

static int be_collection(struct trio *t)
{
	close_fd(&t->channel[OURS]);
	close_fd(&t->report[READER]);
	close_fd(&t->report[WRITER]);
	return ms_collection_serve(t->shared, t->channel[THEIRS]);
}

static int be_sweeper(struct trio *t)
{
	const struct ms_sweep sweep = {
		.shared = t->shared,
		.options = t->call->scan,
		.jobs = t->call->jobs,
		.how = t->call->how,
		.refusal = t->call->refusal->status ? t->call->refusal->text : NULL,
		.watch = t->watch,
		.dump = t->call->dump,
		.parent = t->original,
		.channel = t->channel[OURS],
		.report = t->report[WRITER],
		.transit = t->transit,
		.judge = t->call->scan->suppressions ? t->report[WRITER] : -1,
		.book = ms_sweep_wants_types(t->call->scan) ? t->report[WRITER] : -1,
	};

	close_fd(&t->channel[THEIRS]);
	close_fd(&t->report[READER]);
	ms_proc_write(getpid(), "oom_score_adj", MS_SCORE_FIRST);
	ms_ending_allow(&t->endings);
	return ms_sweep_serve(&sweep);
}

static int be_reaper(struct trio *t)
{
	return ms_collection_reap(t->shared);
}

static enum ms_status spawn(struct trio *t, const char *title, int (*body)(struct trio *t),
                            pid_t *ret, struct ms_error *err)
{
	pid_t pid = fork();

	if (pid < 0)
		return ms_fail_sys(err, errno, "cannot start %s", title);
	if (pid > 0) {
		*ret = pid;
		return MS_OK;
	}
	if (!ms_follow_parent(t->original))
		_exit(0);
	(void)prctl(PR_SET_NAME, title);
	ms_follow_unseen();
	_exit(body(t));
}

/* ---- starting ---- */

static enum ms_status open_trio(struct trio *t, struct ms_error *err)
{
	enum ms_status st;
	void *page;

	st = ms_collection_create(t->call->pid, t->call->timeout_ns, &t->shared, err);
	if (st)
		return st;
	t->shared->start_ticks = t->call->start_ticks;
	t->shared->wanted = t->call->scan->anchors;
	t->shared->captured = t->call->dump ? MS_CAPTURED_WHOLE : MS_CAPTURED_ROOTS;
	page = mmap(NULL, sizeof(*t->watch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
	            0);
	if (page == MAP_FAILED)
		return ms_fail_sys(err, errno, "no shared memory for a scan");
	t->watch = page;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, t->channel) != 0)
		return ms_fail_sys(err, errno, "no socket for a scan");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, t->report) != 0)
		return ms_fail_sys(err, errno, "no socket for a scan's report");
	return MS_OK;
}

static enum ms_status start(struct trio *t, struct ms_error *err)
{
	enum ms_status st = spawn(t, "memscan-collect", be_collection, &t->collection, err);

	if (st == MS_OK)
		t->transit = ms_transit_start(t->call->pid);
	if (st == MS_OK)
		st = spawn(t, "memscan-sweep", be_sweeper, &t->sweeper, err);
	/* What is shared by the three is nothing for processes that read files. */
	(void)madvise(t->watch, sizeof(*t->watch), MADV_DONTFORK);
	(void)madvise(t->shared, t->shared->map_bytes, MADV_DONTFORK);
	ms_transit_leave(t->transit);
	close_fd(&t->channel[OURS]);
	close_fd(&t->channel[THEIRS]);
	close_fd(&t->report[WRITER]);
	return st;
}

static void close_trio(struct trio *t)
{
	close_fd(&t->channel[OURS]);
	close_fd(&t->channel[THEIRS]);
	close_fd(&t->report[READER]);
	close_fd(&t->report[WRITER]);
	if (t->watch)
		(void)munmap(t->watch, sizeof(*t->watch));
	if (t->shared)
		ms_collection_destroy(t->shared);
}

/* ---- waiting for the report ---- */

/* The first phase of the search that has taken no time yet is the one going on. */
static const char *search_text(const struct ms_scan_facts *scan)
{
	enum ms_phase phase = MS_PHASE_CLASSIFY;

	while (phase < MS_PHASE_FOLD && scan->phase_ns[phase])
		phase++;
	return ms_phase_name(phase);
}

static const char *stage_text(const struct ms_watch *watch)
{
	static const char *const texts[] = {
		[MS_STAGE_PREPARE] = "looking for malloc",
		[MS_STAGE_FREEZE] = "freeze",
		[MS_STAGE_HOLD] = "hold",
		[MS_STAGE_RELEASE] = "release",
		[MS_STAGE_LAYOUT] = "layout",
		[MS_STAGE_SEARCH] = "search",
		[MS_STAGE_SEND] = "report",
	};
	uint32_t stage = atomic_load(&watch->stage);

	static_assert(sizeof(texts) / sizeof(texts[0]) == MS_STAGES, "a stage without text");
	if (stage == MS_STAGE_SEARCH)
		return search_text(&watch->report.scan);
	return stage < MS_STAGES ? texts[stage] : "scan";
}

static const char *dump_text(const struct ms_dump_done *done, char *text)
{
	uint64_t total = done->total;

	(void)snprintf(text, DUMP_TEXT, "writing, %.0f %%",
	               total ? (double)done->written * 100 / (double)total : 0.0);
	return text;
}

/* Whether the deadline is no more than @ahead_ns away. */
static bool is_late(const struct ms_trio_call *call, uint64_t ahead_ns)
{
	return call->deadline_ns && ms_now_ns() + ahead_ns >= call->deadline_ns;
}

static void end_sweeper(struct trio *t)
{
	if (!t->killed_ns)
		t->killed_ns = ms_now_ns();
	(void)kill(t->sweeper, SIGKILL);
}

/* How often the sweeper may be found where it was. */
static unsigned most_still(const struct trio *t, uint32_t stage)
{
	if (stage != MS_STAGE_HOLD)
		return SEARCHING_TICKS;
	return STANDING_TICKS + (unsigned)(ms_fork_saves(t->call->pid) >> 30) * TICKS_PER_GIB;
}

/*
 * Whether the sweeper has not gone on for long: what it reads comes from a file system
 * that does not answer, or from a user's handler of page faults. It can be killed there.
 */
static bool is_stuck(struct trio *t, uint32_t stage)
{
	struct ms_proc_stat stat = { 0 };

	if (stage != MS_STAGE_PREPARE && stage != MS_STAGE_HOLD && stage != MS_STAGE_LAYOUT &&
	    stage != MS_STAGE_SEARCH)
		return false;
	/* A disk may be slow, and nobody waits for it but us. */
	if (t->call->dump && stage == MS_STAGE_SEARCH)
		return false;
	if (!ms_proc_stat(t->sweeper, &stat) || stat.cpu_ticks != t->cpu_ticks ||
	    stage != t->stage) {
		t->cpu_ticks = stat.cpu_ticks;
		t->stage = stage;
		t->still = 0;
		return false;
	}
	return ++t->still > most_still(t, stage);
}

static enum overdue overdue_for(const struct ms_collection *shared, uint32_t stage)
{
	if (stage == MS_STAGE_FREEZE)
		return shared->begun_ns ? OVERDUE_STOP : OVERDUE_BEGIN;
	return shared->pause_ns ? OVERDUE_COPY : OVERDUE_RELEASE;
}

/*
 * The collection process keeps its own time limit; should it hang nevertheless, its
 * death is what frees the target. At the deadline of all, or when a signal is to end us,
 * it is enough to end the sweeper, for then the target is let go in order.
 */
static void watch(struct trio *t)
{
	uint32_t stage = atomic_load(&t->watch->stage);
	uint64_t since_ns = atomic_load(&t->watch->since_ns);
	uint64_t now_ns = ms_now_ns();
	char text[DUMP_TEXT];

	ms_progress_tick(t->call->progress, t->call->dump && stage == MS_STAGE_SEARCH
	                                            ? dump_text(t->call->dump->done, text)
	                                            : stage_text(t->watch));
	if (is_late(t->call, 0) && !t->late) {
		t->late = true;
		end_sweeper(t);
	}
	if (!t->ending && ms_ending_came(&t->endings)) {
		t->ending = true;
		end_sweeper(t);
	}
	if (!t->stuck && is_stuck(t, stage)) {
		t->stuck = true;
		end_sweeper(t);
	}
	/* It follows tables that are the target's to forge. */
	if (stage == MS_STAGE_PREPARE && since_ns && now_ns > since_ns + t->call->timeout_ns &&
	    !t->unsearched) {
		t->unsearched = true;
		end_sweeper(t);
	}
	if (stage != MS_STAGE_FREEZE && stage != MS_STAGE_RELEASE)
		return;
	if (now_ns > since_ns && now_ns - since_ns > t->call->timeout_ns + grace_ns &&
	    !t->overdue) {
		t->overdue = overdue_for(t->shared, stage);
		(void)kill(t->collection, SIGKILL);
	}
}

/* Milliseconds to the next look at the children. */
static int tick_ms(const struct trio *t)
{
	uint64_t now_ns = ms_now_ns();
	uint64_t left_ms;

	if (!t->call->deadline_ns || t->late)
		return TICK_MS;
	left_ms =
		now_ns < t->call->deadline_ns ? (t->call->deadline_ns - now_ns) / ms_in_ns + 1 : 0;
	return left_ms < TICK_MS ? (int)left_ms : TICK_MS;
}

/*
 * Until the report's channel is ready, watch the children; when we are to end, also if it
 * is. False when the sweeper neither answers nor dies.
 */
static bool await(void *ctx, short events)
{
	struct trio *t = ctx;
	struct pollfd ready = { t->report[READER], events, 0 };

	while (poll(&ready, 1, tick_ms(t)) <= 0) {
		watch(t);
		if (t->killed_ns && ms_now_ns() - t->killed_ns > grace_of(t, grace_ns))
			return false;
	}
	if (is_late(t->call, 0) || ms_ending_came(&t->endings))
		watch(t);
	return true;
}

static bool get_bytes(void *ctx, void *bytes, size_t len)
{
	const struct trio *t = ctx;

	return ms_fd_await_read(&(struct ms_fd_awaited){ t->report[READER], await, ctx }, bytes,
	                        len);
}

static bool put_bytes(void *ctx, const void *bytes, size_t len)
{
	const struct trio *t = ctx;

	return ms_fd_await_write(&(struct ms_fd_awaited){ t->report[READER], await, ctx }, bytes,
	                         len);
}

static bool judge(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                  struct ms_error *err)
{
	struct trio *t = ctx;
	bool ok;

	ms_progress_tick(t->call->progress, "naming functions");
	/* The target runs again, so there is nothing to wait for. */
	ms_ending_allow(&t->endings);
	ok = ms_naming_judge(t->call->naming, asked, t->call->scan->suppressions, verdicts, err);
	ms_ending_hold(&t->endings);
	return ok;
}

static bool book(void *ctx, const struct ms_report *asked, struct ms_arena *arena,
                 struct ms_book *ret, struct ms_error *err)
{
	struct trio *t = ctx;
	bool ok;

	ms_progress_tick(t->call->progress, "reading debug information");
	ms_ending_allow(&t->endings);
	ok = ms_book_ask(t->call->naming, asked, arena, ret, err);
	ms_ending_hold(&t->endings);
	return ok;
}

static enum ms_status receive(struct trio *t, struct ms_arena *arena, struct ms_report *ret,
                              struct ms_error *err)
{
	const struct ms_wire_link link = {
		.get = get_bytes,
		.put = put_bytes,
		.ctx = t,
		.judge = t->call->scan->suppressions ? judge : NULL,
		.judge_ctx = t,
		.book = ms_sweep_wants_types(t->call->scan) ? book : NULL,
		.book_ctx = t,
	};

	return ms_wire_serve(&link, arena, ret, err);
}

/* ---- ending ---- */

/*
 * The sweeper first: its end closes the channel, on which the collection process
 * releases the target in order. Killing that one comes last, but at once if the sweeper keeps the
 * channel open because it cannot be killed.
 */
static void reap_both(struct trio *t, enum ms_status st)
{
	const uint64_t since_ns = t->killed_ns ? t->killed_ns : ms_now_ns();
	struct rusage usage;
	bool gone = true;

	memset(&usage, 0, sizeof(usage));
	close_fd(&t->report[READER]);
	if (t->sweeper) {
		if (st == MS_E_CORRUPT || st == MS_E_NOMEM)
			(void)kill(t->sweeper, SIGKILL);
		gone = ms_helper_reap(t->sweeper, since_ns + grace_of(t, grace_ns),
		                      &t->sweeper_status, &usage);
		t->sweeper_peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
	}
	if (t->collection)
		(void)ms_helper_reap(t->collection,
		                     ms_now_ns() + (gone ? grace_of(t, reaping_grace_ns) : 0),
		                     &t->collection_status, &usage);
}

/* What the collection process would have done, had it not been killed. */
static void reap_clone(struct trio *t)
{
	struct rusage usage;
	struct ms_error ignored;
	pid_t pid = 0;
	int status;

	if (!t->collection || !WIFSIGNALED(t->collection_status) || !t->shared->child)
		return;
	(void)madvise(t->shared, t->shared->map_bytes, MADV_DOFORK);
	if (!spawn(t, "memscan-collect", be_reaper, &pid, &ignored))
		(void)ms_helper_reap(pid, ms_now_ns() + grace_of(t, reaping_grace_ns), &status,
		                     &usage);
}

static enum ms_status tell_death(const struct trio *t, const char *who, int status,
                                 struct ms_error *err)
{
	(void)ms_fail(err, MS_E_DIED,
	              "memscan's %s process was ended by signal %d (%s); process %d runs on", who,
	              WTERMSIG(status), ms_signal_text(WTERMSIG(status)), (int)t->call->pid);
	ms_advise(err, "try again; if it happens again, see dmesg for what killed it");
	return MS_E_DIED;
}

static enum ms_status tell_overdue(const struct trio *t, struct ms_error *err)
{
	const int pid = (int)t->call->pid;
	const double limit_s = (double)t->call->timeout_ns / 1e9;

	switch (t->overdue) {
	case OVERDUE_BEGIN:
		(void)ms_fail(err, MS_E_TIMEOUT,
		              "memscan was not ready to stop process %d within %g s; it runs on",
		              pid, limit_s);
		ms_advise(err, "try again when this machine is less busy");
		break;
	case OVERDUE_STOP:
	case NOT_OVERDUE:
		(void)ms_fail(err, MS_E_TIMEOUT, "process %d did not stop within %g s; it runs on",
		              pid, limit_s);
		ms_advise(err, "try again when it is less busy, or with a longer --timeout");
		break;
	case OVERDUE_RELEASE:
		(void)ms_fail(err, MS_E_TIMEOUT,
		              "process %d was not released within %g s; it runs on", pid, limit_s);
		ms_advise(err, "try again when this machine is less busy");
		break;
	case OVERDUE_COPY:
		(void)ms_fail(err, MS_E_TIMEOUT,
		              "the clone of process %d was not ready within %g s; the process "
		              "paused for %.3f s and runs on",
		              pid, limit_s, (double)t->shared->pause_ns / 1e9);
		ms_advise(err, "try again when it is less busy, or with --snapshot copy");
		break;
	}
	return MS_E_TIMEOUT;
}

/* Put what became of the children in place of what it looked like from outside. */
static enum ms_status explain(const struct trio *t, enum ms_status st, struct ms_error *err)
{
	if (st == MS_OK)
		return st;
	if (t->late) {
		(void)ms_fail(err, MS_E_TIMEOUT,
		              "process %d was not scanned within the time limit; it runs on",
		              (int)t->call->pid);
		ms_advise(err, "give more time with --timeout, or omit that option");
		return MS_E_TIMEOUT;
	}
	if (t->unsearched && !t->stuck) {
		(void)ms_fail(err, MS_E_TIMEOUT,
		              "malloc was not found in process %d within %g s; it runs on",
		              (int)t->call->pid, (double)t->call->timeout_ns / 1e9);
		ms_advise(err,
		          "look in /proc/%d/maps for a file on a file system that does not "
		          "answer, or give a longer --timeout",
		          (int)t->call->pid);
		return MS_E_TIMEOUT;
	}
	if (t->stuck) {
		(void)ms_fail(err, MS_E_TIMEOUT,
		              "memory of process %d could not be read for %u s (%s); it runs on",
		              (int)t->call->pid, t->still * TICK_MS / 1000, stage_text(t->watch));
		ms_advise(err,
		          "look in /proc/%d/maps for a file on a file system that does not "
		          "answer",
		          (int)t->call->pid);
		return MS_E_TIMEOUT;
	}
	if (t->overdue)
		return tell_overdue(t, err);
	/* Its end looks like much else; and whoever met it may know of one thread only. */
	if (st == MS_E_GONE || ms_proc_is_over(t->call->pid)) {
		(void)ms_fail(err, MS_E_GONE, "process %d ended while it was scanned",
		              (int)t->call->pid);
		ms_advise(err, "scan it earlier, or start it with memscan run, which scans it "
		               "just before it exits");
		return MS_E_GONE;
	}
	if (WIFSIGNALED(t->collection_status))
		return tell_death(t, "collection", t->collection_status, err);
	if (st == MS_E_DIED && WIFSIGNALED(t->sweeper_status))
		return tell_death(t, "sweeper", t->sweeper_status, err);
	return st;
}

static enum ms_status attempt(const struct ms_trio_call *call, struct ms_arena *arena,
                              struct ms_report *ret, struct ms_error *err)
{
	struct trio t = {
		.call = call, .original = getpid(), .channel = { -1, -1 }, .report = { -1, -1 }
	};
	enum ms_status st;

	ms_arena_deinit(arena);
	*call->naming->book = (struct ms_names_book){ .arena = arena };
	st = open_trio(&t, err);
	ms_ending_hold(&t.endings);
	if (st == MS_OK)
		st = start(&t, err);
	if (st == MS_OK)
		st = receive(&t, arena, ret, err);
	reap_both(&t, st);
	ms_transit_reap(t.transit);
	reap_clone(&t);
	ms_ending_allow(&t.endings);
	st = explain(&t, st, err);
	if (st == MS_OK)
		ret->scan.peak_rss_bytes = t.sweeper_peak_bytes;
	else if (t.shared && !call->refusal->status)
		ms_error_take(call->refusal, &t.shared->clone_error);
	close_trio(&t);
	return st;
}

enum ms_status ms_trio_scan(const struct ms_trio_call *call, struct ms_arena *arena,
                            struct ms_report *ret, struct ms_error *err)
{
	bool refused = call->refusal->status;
	enum ms_status st = attempt(call, arena, ret, err);

	if (!st || refused || !call->refusal->status)
		return st;
	if (call->verbose)
		ms_tell("cannot clone: %s; copying", call->refusal->text);
	return attempt(call, arena, ret, err);
}
