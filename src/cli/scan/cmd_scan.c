/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/workers.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/scan/command.h"
#include "cli/scan/trio.h"
#include "cli/tell.h"
#include "target/target.h"

static enum ms_status choose(const struct ms_options *options, pid_t *ret, struct ms_error *err)
{
	pid_t id = options->id;
	enum ms_status st;

	if (options->name) {
		st = ms_target_find_by_name(options->name, &id, err);
		if (st)
			return st;
	}
	return ms_target_check(id, ret, err);
}

static enum ms_status scan(const struct ms_options *options, struct ms_arena *arena,
                           struct ms_report *ret, struct ms_error *err)
{
	struct ms_naming naming = {
		.debug_folder = options->debug_folder,
		.debuginfod = options->debuginfod,
	};
	struct ms_progress progress;
	struct ms_trio_call call = {
		.naming = &naming,
		.timeout_ns = options->timeout_ns,
		.scan = &options->scan,
		.how = options->how,
		.jobs = options->jobs ? options->jobs : ms_workers_wanted(),
		.progress = &progress,
		.verbose = options->verbose,
	};
	struct ms_target_facts target;
	struct ms_host_facts host;
	enum ms_status st;
	uint32_t threads;

	st = choose(options, &call.pid, err);
	if (st)
		return st;
	naming.pid = call.pid;
	memset(&target, 0, sizeof(target));
	memset(&host, 0, sizeof(host));
	ms_target_facts(call.pid, &target, &host);
	ms_progress_begin(&progress, options->quiet);
	st = ms_trio_scan(&call, arena, ret, err);
	/* Without names it still is a report. */
	if (!st && ms_naming_fill(&naming, arena, ret, err))
		ms_note_add(arena, &ret->warnings, "functions are not named: %s", err->text);
	ms_progress_end(&progress);
	if (st)
		return st;
	threads = ret->target.threads; /* those that were frozen, which is the better count */
	ret->target = target;
	ret->target.threads = threads;
	ret->host = host;
	ret->possible = options->scan.possible;
	return MS_OK;
}

/* What to do about a failure when the place where it arose knew nothing better. */
static const char *advice(enum ms_status status)
{
	switch (status) {
	case MS_E_GONE:
		return "scan it earlier in its life";
	case MS_E_DENIED:
		return "run memscan as root, or as the user whose process it is";
	case MS_E_TIMEOUT:
		return "try again when it is less busy, or with a longer --timeout";
	case MS_E_NOMEM:
		return "free some memory on this machine, or raise the cgroup's limit";
	case MS_E_UNSUPPORTED:
		return "memscan cannot scan this process";
	case MS_OK:
	case MS_E_FAULT:
	case MS_E_SYS:
	case MS_E_CORRUPT:
	case MS_E_BUSY:
	case MS_E_DIED:
		break;
	}
	return "try again; --verbose tells more";
}

static int scan_and_report(const struct ms_options *options)
{
	struct ms_arena arena;
	struct ms_report report;
	struct ms_error err;
	enum ms_status st;
	int status = MS_EXIT_CLEAN;

	/* What cannot be kept need not be scanned. */
	if (ms_output_check(options->output, &err)) {
		ms_tell_error(&err);
		return MS_EXIT_UNWRITTEN;
	}
	ms_arena_init(&arena);
	st = scan(options, &arena, &report, &err);
	if (st) {
		if (!err.advice[0])
			ms_advise(&err, "%s", advice(st));
		ms_tell_error(&err);
		status = MS_EXIT_REFUSED;
		goto out;
	}
	if (options->verbose)
		ms_tell_report(&report);
	if (report.totals.leaked_allocations)
		status = MS_EXIT_LEAKS;
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
	static const struct ms_scan_command command = {
		.parse = ms_options_parse,
		.help = ms_options_help,
		.act = scan_and_report,
	};

	return ms_scan_command(&command, argc, argv);
}
