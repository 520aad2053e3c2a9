/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/workers.h"
#include "cli/cli.h"
#include "cli/core/core.h"
#include "cli/output.h"
#include "cli/scan/command.h"
#include "cli/scan/trio.h"
#include "cli/tell.h"
#include "scan/service.h"
#include "target/proc.h"
#include "target/target.h"

static const uint64_t TICK_NS = 100000000;

/* ---- one scan, or two ---- */

struct scanning {
	const struct ms_options *options;
	struct ms_service service;
	struct ms_names_book book;
	struct ms_naming naming;
	struct ms_progress progress;
	struct ms_error refusal; /* of the present scan */
	struct ms_trio_call call;
};

static enum ms_status attempt(void *ctx, struct ms_arena *arena, struct ms_report *ret,
                              struct ms_error *err)
{
	struct scanning *s = ctx;

	s->call.deadline_ns = s->service.deadline_ns;
	s->naming.deadline_ns = s->service.deadline_ns;
	return ms_trio_scan(&s->call, arena, ret, err);
}

static void doubted(void *ctx, unsigned attempts, const char *why)
{
	const struct scanning *s = ctx;

	if (s->options->verbose)
		ms_tell("try %u: %s; trying again", attempts, why);
}

static enum ms_status wait_between(void *ctx, size_t n_lost, struct ms_error *err)
{
	struct scanning *s = ctx;
	uint64_t until_ns = ms_now_ns() + s->options->confirm_ns;
	pid_t pid = s->call.pid;
	struct ms_proc_stat stat;
	uint64_t now_ns;

	if (s->options->verbose)
		ms_tell("%zu blocks to be confirmed in %g s", n_lost,
		        (double)s->options->confirm_ns / 1e9);
	s->refusal.status = MS_OK; /* by then it may be another program */
	for (;;) {
		/* Another process may have its number by now. */
		if (!ms_proc_stat(pid, &stat) || stat.start_ticks != s->call.start_ticks ||
		    ms_proc_is_over(pid))
			return ms_fail(err, MS_E_GONE, "process %d ended while it was scanned",
			               (int)pid);
		now_ns = ms_now_ns();
		if (now_ns >= until_ns)
			return MS_OK;
		ms_progress_tick(&s->progress, "waiting for the second scan");
		ms_sleep_ns(until_ns - now_ns < TICK_NS ? until_ns - now_ns : TICK_NS);
	}
}

static enum ms_status name(void *ctx, struct ms_arena *arena, struct ms_report *report,
                           struct ms_error *err)
{
	const struct scanning *s = ctx;

	return ms_naming_fill(&s->naming, arena, report, err);
}

/*
 * A thread of a frozen process returns to the freezer some time after its release, and later on a
 * busy machine. If the process was frozen before the scan, the wait is longer.
 */
static bool is_frozen_again(pid_t pid, bool was_frozen)
{
	enum { MOMENTS = 200, MOST_MOMENTS = 2000 };
	const uint64_t moment_ns = 1000000;
	bool frozen = ms_target_is_frozen(pid);

	for (int i = 0; i < (was_frozen ? MOST_MOMENTS : MOMENTS) && !frozen; i++) {
		ms_sleep_ns(moment_ns);
		frozen = ms_target_is_frozen(pid);
	}
	return frozen;
}

static const struct ms_service_host host = {
	.attempt = attempt,
	.doubted = doubted,
	.wait = wait_between,
	.name = name,
};

enum ms_status ms_scan_process(const struct ms_options *options, struct ms_arena *arena,
                               struct ms_report *ret, struct ms_error *err)
{
	struct scanning s = {
		.options = options,
		.service = { .host = &host,
		             .ctx = &s,
		             .options = options->scan,
		             .limit_ns = options->limit_ns },
		.naming = { .debug_folder = options->debug_folder,
		            .debuginfod = options->debuginfod,
		            .book = &s.book },
		.call = { .scan = &s.service.options,
		          .naming = &s.naming,
		          .timeout_ns = options->process.timeout_ns,
		          .how = options->how,
		          .jobs = options->jobs ? options->jobs : ms_workers_wanted(),
		          .refusal = &s.refusal,
		          .progress = &s.progress,
		          .verbose = options->verbose },
	};
	struct ms_proc_stat stat = { 0 };
	struct ms_chosen chosen;
	enum ms_status st;
	bool was_frozen;

	if (options->core)
		return ms_core_scan(options, arena, ret, err);
	st = ms_target_choose(&options->process.choice, &chosen, err);
	if (st)
		return st;
	s.call.pid = chosen.pid;
	was_frozen = ms_target_is_frozen(chosen.pid);
	(void)ms_proc_stat(s.call.pid, &stat);
	s.call.start_ticks = stat.start_ticks;
	s.naming.pid = s.call.pid;
	s.service.pid = s.call.pid;
	ms_service_begin(&s.service);
	if (chosen.ns_pid && chosen.ns_pid != chosen.pid)
		s.service.target.ns_pid = chosen.ns_pid;
	ms_progress_begin(&s.progress, options->quiet);
	st = options->confirm_ns
	             ? ms_service_ask_twice(&s.service, options->confirm_ns, arena, ret, err)
	             : ms_service_ask(&s.service, arena, ret, err);
	if (!st)
		ms_service_finish(&s.service, arena, ret);
	else if (st == MS_E_BUSY && is_frozen_again(s.call.pid, was_frozen))
		ms_target_advise_frozen(s.call.pid, err);
	ms_progress_end(&s.progress);
	return st;
}

int ms_scan_and_report(const struct ms_options *options)
{
	struct ms_arena arena;
	struct ms_report report;
	struct ms_error err;
	enum ms_status st;
	int status = MS_EXIT_CLEAN;

	/* What cannot be kept need not be scanned. */
	if (ms_output_check_terminal(options->output, STDOUT_FILENO, options->writer->no_text,
	                             &err) ||
	    ms_output_check(options->output, &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	ms_arena_init(&arena);
	st = ms_scan_process(options, &arena, &report, &err);
	if (st) {
		ms_tell_error(&err);
		status = MS_EXIT_REFUSED;
		goto out;
	}
	if (options->verbose)
		ms_tell_report(&report);
	if (report.totals.leaked_allocations)
		status = MS_EXIT_LEAKS;
	if (ms_tell_is_unread(&report, &err)) {
		ms_tell_error(&err);
		status = MS_EXIT_REFUSED;
	}
	if (ms_output_write(options->output, options->writer, &report,
	                    ms_output_is_coloured(options->colour, options->output, STDOUT_FILENO),
	                    &err)) {
		ms_tell_error(&err);
		status = MS_EXIT_UNWRITTEN;
	}
out:
	ms_arena_deinit(&arena);
	return status;
}

int ms_cmd_scan(int argc, char **argv)
{
	return ms_scan_command(MS_USE_SCAN, ms_scan_and_report, argc, argv);
}
