/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/run/sweeps.h"
#include "cli/scan/command.h"
#include "cli/tell.h"
#include "target/run/run.h"
#include "target/target.h"

/* As shells end when they cannot start a program. */
enum { STATUS_NOT_EXECUTABLE = 126, STATUS_NOT_FOUND = 127, STATUS_SIGNAL = 128 };

struct run_command {
	const struct ms_options *options;
	struct ms_standing_sweep *sweeps; /* under way */
	bool leaks;
};

/* ---- the scans ---- */

static void tell_unscanned(const struct run_command *run, pid_t pid, const struct ms_error *why)
{
	if (!run->options->quiet)
		ms_tell("process %d was not scanned: %s; %s", (int)pid, why->text,
		        ms_tell_advice(why));
}

static pid_t sweep(void *ctx, struct ms_collection *standing, bool followed)
{
	struct run_command *run = ctx;
	struct ms_error err;
	struct ms_standing_sweep *started = ms_sweep_start(run->options, standing, followed, &err);

	if (!started) {
		tell_unscanned(run, standing->pid, &err);
		return 0;
	}
	ms_sweep_list(&run->sweeps, started);
	return ms_sweep_pid(started);
}

static void missed(void *ctx, pid_t pid, const struct ms_error *why)
{
	tell_unscanned(ctx, pid, why);
}

/* ---- the reports ---- */

/*
 * The name of process @pid's report: --output with each %p replaced. Without any, the
 * program's own has that name, and those of the processes that it made get ".PID".
 * False when it is too long.
 */
static bool output_name(const char *pattern, pid_t pid, bool followed, char ret[PATH_MAX])
{
	bool alike = !strstr(pattern, "%p");
	const size_t size = PATH_MAX;
	size_t used = 0;

	for (const char *c = pattern; *c; c++) {
		bool is_pid = c[0] == '%' && c[1] == 'p';
		int n = is_pid ? snprintf(ret + used, size - used, "%d", (int)pid)
		               : snprintf(ret + used, size - used, "%c", *c);

		c += is_pid;
		used += (size_t)n;
		if (used >= size)
			return false;
	}
	if (alike && followed)
		used += (size_t)snprintf(ret + used, size - used, ".%d", (int)pid);
	return used < size;
}

static enum ms_status write_report(const struct run_command *run, const struct ms_swept *swept,
                                   struct ms_error *err)
{
	const struct ms_options *options = run->options;
	bool colour = ms_output_is_coloured(options->colour, options->output, STDERR_FILENO);
	char name[PATH_MAX];

	if (!options->output)
		return ms_output_write_fd(STDERR_FILENO, options->writer, &swept->report, colour,
		                          err);
	if (!output_name(options->output, swept->pid, swept->followed, name))
		return ms_fail(err, MS_E_UNSUPPORTED, "the name of the report is too long");
	return ms_output_write(name, options->writer, &swept->report, colour, err);
}

static void tell_swept(struct run_command *run, const struct ms_swept *swept)
{
	const struct ms_options *options = run->options;
	bool leaks = swept->report.totals.leaked_allocations;
	struct ms_error err;

	run->leaks |= leaks;
	if (options->verbose)
		ms_tell_report(&swept->report);
	/* Without leaks a report on the terminal says nothing that --quiet wants to hear. */
	if (options->quiet && !options->output && !leaks)
		return;
	if (ms_tell_is_unread(&swept->report, &err))
		tell_unscanned(run, swept->pid, &err);
	if (write_report(run, swept, &err))
		ms_tell_error(&err);
}

static void swept(void *ctx, pid_t sweeper, const struct rusage *usage, bool whole)
{
	struct run_command *run = ctx;
	struct ms_standing_sweep *sweep_run = ms_sweep_unlist(&run->sweeps, sweeper);
	struct ms_arena arena = { 0 };
	struct ms_swept *result = calloc(1, sizeof(*result));

	if (result && sweep_run) {
		ms_sweep_take(sweep_run, whole ? usage : NULL, &arena, result);
		if (result->status)
			tell_unscanned(run, result->pid, &result->err);
		else
			tell_swept(run, result);
	}
	ms_arena_deinit(&arena);
	free(result);
	if (sweep_run)
		ms_sweep_free(sweep_run);
}

static const struct ms_run_ops ops = { .sweep = sweep, .swept = swept, .missed = missed };

/* ---- the end ---- */

/* End as the program did: by the same signal, but without a second core. */
static int end_by(int signal_number)
{
	const struct rlimit none = { 0, 0 };
	sigset_t set;

	(void)setrlimit(RLIMIT_CORE, &none);
	/* A core that goes to a program is made whatever that limit. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)signal(signal_number, SIG_DFL);
	(void)raise(signal_number);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, signal_number);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	return STATUS_SIGNAL + signal_number;
}

static int tell_not_started(const char *program, int exec_errno)
{
	bool absent = exec_errno == ENOENT || exec_errno == ENOTDIR;
	struct ms_error err;

	(void)ms_fail_sys(&err, exec_errno, "cannot run %.120s", program);
	ms_advise(&err, absent ? "give a program that is in PATH, or the path to it"
	                       : "give a file that is a program, and that you may execute");
	ms_tell_error(&err);
	return absent ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

static int run_program(const struct ms_options *options)
{
	struct run_command run = { .options = options };
	const struct ms_run_call call = {
		.argv = options->program,
		.follow = options->follow,
		.ops = &ops,
		.ctx = &run,
	};
	struct ms_run_end end;
	struct ms_error err;

	if (ms_target_check_proc(&err) || ms_run(&call, &end, &err))
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	if (end.exec_errno)
		return tell_not_started(options->program[0], end.exec_errno);
	if (end.n_alive && !options->quiet)
		ms_tell("%u of its processes live on, unscanned", end.n_alive);
	if (run.leaks && options->error_status)
		return options->error_status;
	return WIFSIGNALED(end.status) ? end_by(WTERMSIG(end.status)) : WEXITSTATUS(end.status);
}

static int check_and_run(const struct ms_options *options)
{
	char name[PATH_MAX];
	struct ms_error err;

	if (ms_output_check_terminal(options->output, STDERR_FILENO, options->writer->no_text,
	                             &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	if (!options->output)
		return run_program(options);
	/* What cannot be kept need not be scanned; ours is a pid as long as another. */
	if (!output_name(options->output, getpid(), options->follow, name)) {
		(void)ms_fail(&err, MS_E_UNSUPPORTED, "the name of the report is too long");
		ms_advise(&err, "give --output a shorter one");
	} else if (!ms_output_check(name, &err)) {
		return run_program(options);
	}
	return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
}

int ms_cmd_run(int argc, char **argv)
{
	return ms_scan_command(MS_USE_RUN, check_and_run, argc, argv);
}
