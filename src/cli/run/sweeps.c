/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/sweeps.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/follow.h"
#include "base/workers.h"
#include "cli/scan/naming.h"
#include "cli/scan/sweeper.h"
#include "report/wire.h"
#include "scan/service.h"
#include "scan/sweep.h"
#include "target/jail/jail.h"
#include "target/target.h"
#include "target/transit/transit.h"

/* More than any report; a sweeper that went wild does not fill the memory. */
static const rlim_t MAX_REPORT_BYTES = (rlim_t)4 << 30;

static const uint64_t SMALL_BYTES = (uint64_t)16 << 20;

struct ms_standing_sweep {
	struct ms_collection *standing;
	struct ms_service service;
	struct ms_naming naming;
	uint64_t peak_rss_bytes; /* of the sweeper */
	bool followed;
	int report; /* the file */
	pid_t pid;
	pid_t judge; /* 0: there is none */
	struct ms_transit *transit;
	struct ms_standing_sweep *next;
};

/*
 * To search a small process with several threads takes longer than with one, all the
 * more when other processors are at work for the program.
 */
static unsigned jobs_for(const struct ms_options *options, pid_t pid)
{
	if (options->jobs)
		return options->jobs;
	return ms_fork_saves(pid) < SMALL_BYTES ? 1 : ms_workers_wanted();
}

/* ---- who says which stacks to suppress: the tracer does not wait for the sweeper ---- */

struct judging {
	struct ms_naming naming;
	const struct ms_suppressions *suppressions;
};

static bool judge(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                  struct ms_error *err)
{
	const struct judging *judging = ctx;

	return ms_naming_judge(&judging->naming, asked, judging->suppressions, verdicts, err);
}

/*
 * Answer until there is no sweeper at the other end any more. The names come from a reader, which
 * it starts and which is confined; for that, and for the opener, it keeps the caller's rights.
 */
static _Noreturn void be_judge(struct judging *judging, int fd)
{
	struct ms_arena arena = { 0 };
	const struct ms_wire_link link = {
		.get = ms_sweep_get,
		.put = ms_sweep_put,
		.ctx = &fd,
		.judge = judge,
		.judge_ctx = judging,
	};
	/* Libraries of the opener's write to standard error. */
	const int keep[] = { fd, STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
	const struct ms_jail jail = { .keep = keep, .n_keep = sizeof(keep) / sizeof(keep[0]) };
	struct ms_report *report = ms_arena_alloc(&arena, sizeof(*report));
	struct ms_error err = { 0 };

	(void)prctl(PR_SET_NAME, "memscan-judge");
	if (!report || ms_jail_close(&jail, &err) || ms_wire_serve(&link, &arena, report, &err))
		_exit(1);
	_exit(0);
}

/* Start a process for that. Returns where it is asked; -1 when there is none. */
static int start_judge(struct ms_standing_sweep *run, const struct ms_options *options)
{
	struct judging judging = { run->naming, options->scan.suppressions };
	pid_t parent = getpid();
	int ends[2];
	pid_t pid;

	if (!options->scan.suppressions ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	pid = fork();
	if (!pid) {
		if (!ms_follow_parent(parent))
			_exit(0);
		(void)close(ends[0]);
		be_judge(&judging, ends[1]);
	}
	(void)close(ends[1]);
	if (pid > 0) {
		run->judge = pid;
		return ends[0];
	}
	(void)close(ends[0]);
	return -1;
}

/* It ends with the sweeper, and whoever waits for all children may have seen that. */
static void end_judge(const struct ms_standing_sweep *run)
{
	if (!run->judge || waitpid(run->judge, NULL, WNOHANG) != 0)
		return;
	(void)kill(run->judge, SIGKILL);
	(void)waitpid(run->judge, NULL, 0);
}

/* ---- the sweeper ---- */

static _Noreturn void be_sweeper(const struct ms_standing_sweep *run,
                                 const struct ms_options *options, int judge, pid_t parent)
{
	const struct rlimit most = { MAX_REPORT_BYTES, MAX_REPORT_BYTES };
	struct ms_scan_options scan = options->scan;
	struct ms_arena arena = { 0 };
	struct ms_sweep sweep = {
		.shared = run->standing,
		.options = &scan,
		.jobs = jobs_for(options, run->standing->pid),
		.watch = ms_arena_alloc(&arena, sizeof(*sweep.watch)),
		.parent = parent,
		.channel = -1,
		.report = run->report,
		.transit = run->transit,
		.judge = judge,
		.book = -1,
	};

	scan.ended = true;
	if (!ms_follow_parent(parent))
		_exit(0);
	if (!sweep.watch)
		_exit(1);
	(void)prctl(PR_SET_NAME, "memscan-sweep");
	/* Without an answer there is a report nevertheless. */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)setrlimit(RLIMIT_FSIZE, &most);
	_exit(ms_sweep_serve_standing(&sweep));
}

/* What is shared with the sweeper is nothing for processes that read files. */
static void share(struct ms_collection *standing, int advice)
{
	(void)madvise(standing, standing->map_bytes, advice);
}

static enum ms_status start(struct ms_standing_sweep *run, const struct ms_options *options,
                            struct ms_error *err)
{
	enum ms_status st = ms_target_check_machine(run->standing->pid, err);
	pid_t parent = getpid();
	int judge;

	if (st)
		return st;
	run->report = memfd_create("memscan-report", MFD_CLOEXEC);
	if (run->report < 0)
		return ms_fail_sys(err, errno, "no file for a report");
	share(run->standing, MADV_DONTFORK);
	judge = start_judge(run, options);
	run->transit = ms_transit_start(run->standing->pid);
	share(run->standing, MADV_DOFORK);
	run->pid = fork();
	if (!run->pid)
		be_sweeper(run, options, judge, parent);
	share(run->standing, MADV_DONTFORK);
	ms_transit_leave(run->transit);
	if (run->pid < 0)
		st = ms_fail_sys(err, errno, "cannot start the sweeper process");
	if (judge >= 0)
		(void)close(judge);
	return st;
}

/* ---- the report ---- */

static enum ms_status receive(void *ctx, struct ms_arena *arena, struct ms_report *ret,
                              struct ms_error *err)
{
	const struct ms_standing_sweep *run = ctx;
	int fd = run->report;
	enum ms_status st;

	(void)lseek(fd, 0, SEEK_SET);
	st = ms_wire_receive(ms_sweep_get, &fd, arena, ret, err);
	if (st)
		return st;
	ret->target.threads = run->standing->n_threads;
	ret->scan.pause_ns = run->standing->pause_ns;
	ret->scan.peak_rss_bytes = run->peak_rss_bytes;
	return MS_OK;
}

static enum ms_status name(void *ctx, struct ms_arena *arena, struct ms_report *report,
                           struct ms_error *err)
{
	const struct ms_standing_sweep *run = ctx;

	return ms_naming_fill(&run->naming, arena, report, err);
}

static const struct ms_service_host host = { .attempt = receive, .name = name };

struct ms_standing_sweep *ms_sweep_start(const struct ms_options *options,
                                         struct ms_collection *standing, bool followed,
                                         struct ms_error *err)
{
	struct ms_standing_sweep *run = calloc(1, sizeof(*run));

	if (!run) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory for a scan");
		return NULL;
	}
	run->standing = standing;
	run->followed = followed;
	run->service = (struct ms_service){ .host = &host,
		                            .ctx = run,
		                            .pid = standing->pid,
		                            .options = options->scan,
		                            .once = true };
	run->naming = (struct ms_naming){ .pid = standing->pid,
		                          .debug_folder = options->debug_folder,
		                          .debuginfod = options->debuginfod };
	run->report = -1;
	if (start(run, options, err)) {
		ms_sweep_free(run);
		return NULL;
	}
	ms_service_begin(&run->service);
	return run;
}

pid_t ms_sweep_pid(const struct ms_standing_sweep *sweep)
{
	return sweep->pid;
}

void ms_sweep_take(struct ms_standing_sweep *sweep, const struct rusage *usage,
                   struct ms_arena *arena, struct ms_swept *ret)
{
	struct ms_service *service = &sweep->service;

	ret->pid = sweep->standing->pid;
	ret->followed = sweep->followed;
	if (!usage) {
		ret->status = ms_fail(&ret->err, MS_E_GONE, "it was killed while it was scanned");
		return;
	}
	sweep->peak_rss_bytes = (uint64_t)usage->ru_maxrss * 1024;
	/* The scan began with the pause, when the first thread stood. */
	service->began_ns = ms_now_ns() - sweep->standing->pause_ns;
	ret->status = ms_service_ask(service, arena, &ret->report, &ret->err);
	if (!ret->status)
		ms_service_finish(service, arena, &ret->report);
}

struct ms_standing_sweep *ms_sweep_unlist(struct ms_standing_sweep **list, pid_t pid)
{
	struct ms_standing_sweep *found;

	while (*list && (*list)->pid != pid)
		list = &(*list)->next;
	found = *list;
	if (found)
		*list = found->next;
	return found;
}

void ms_sweep_list(struct ms_standing_sweep **list, struct ms_standing_sweep *sweep)
{
	sweep->next = *list;
	*list = sweep;
}

void ms_sweep_free(struct ms_standing_sweep *sweep)
{
	end_judge(sweep);
	ms_transit_reap(sweep->transit);
	if (sweep->report >= 0)
		(void)close(sweep->report);
	free(sweep);
}
