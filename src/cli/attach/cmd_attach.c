/* SPDX-License-Identifier: Apache-2.0 */

/* memscan attach and memscan detach: sampled backtraces in a running process, and out again. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "cli/attach/options.h"
#include "cli/cli.h"
#include "cli/tell.h"
#include "target/inject/attach.h"
#include "target/proc.h"
#include "target/target.h"

static const uint64_t tick_ns = UINT64_C(100000000);

/* All that was printed is written. */
static int finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	return ms_tell_unwritten(
		errno, "cannot write to standard output",
		"redirect it to a file with space left, or to a pipe that is read");
}

/* ---- what is said ---- */

static void say_left_out(const struct ms_attached *is)
{
	if (is->functions.in_front)
		ms_tell("%s has a malloc in front of the C library's: of its blocks those are sampled "
		        "that it passes on",
		        is->functions.in_front);
	if (is->functions.beside)
		ms_tell("no call of the program reaches malloc of %s: its blocks are not sampled",
		        is->functions.beside);
	if (is->functions.apart)
		ms_tell("only blocks of %s are sampled: not those of another malloc, which libraries "
		        "call",
		        is->functions.name);
	for (size_t i = 0; i < MS_AGENT_N; i++) {
		const struct ms_malloc_function *function = &is->functions.at[i];

		if (function->found || function->is_other_name || function->is_absent)
			continue;
		if (i == MS_AGENT_CXA_FINALIZE)
			ms_tell("libraries that are unloaded later are not known then: %s: %s",
			        ms_function_name(MS_AGENT_CXA_FINALIZE), function->left_out);
		else
			ms_tell("%s is not sampled: %s",
			        ms_function_name((enum ms_agent_function)i), function->left_out);
	}
}

static void say_attached(pid_t pid, const struct ms_attach_options *options,
                         const struct ms_attached *is)
{
	if (options->quiet)
		return;
	say_left_out(is);
	ms_tell_out("process %d is attached: 1 sample in %" PRIu64 " bytes, %u functions of "
	            "%s; one thread stood %.2f ms, all %.2f ms",
	            pid, options->sample, is->n_diverted, is->functions.name,
	            (double)is->map_ns / 1e6, (double)is->pause_ns / 1e6);
}

static void say_detached(pid_t pid, const struct ms_attach_options *options,
                         const struct ms_attached *is)
{
	if (options->quiet)
		return;
	if (!is->mapped)
		ms_tell_out("process %d was not attached", pid);
	else if (is->begun && !is->kept)
		ms_tell_out("process %d was not attached; memory that an earlier attach had begun "
		            "to prepare is given back",
		            pid);
	else if (!is->kept)
		ms_tell_out("process %d is detached; all stood %.2f ms", pid,
		            (double)is->pause_ns / 1e6);
	else if (is->inside)
		ms_tell_out("process %d is detached; its agent's memory stays, unused, for thread "
		            "%d has not come back from there, and serves the next attach",
		            pid, is->inside);
	else if (is->unknown)
		ms_tell_out("process %d is detached; its agent's memory stays, unused, for to look "
		            "through the stacks takes longer than its threads may stand for it, "
		            "and serves the next attach",
		            pid);
	else
		ms_tell_out("process %d is detached; its agent's memory stays, unused, for no "
		            "thread could give it back, and serves the next attach",
		            pid);
}

static void say_status(pid_t pid, const struct ms_attached *is)
{
	if (!is->mapped) {
		ms_tell_out("process %d is not attached", pid);
		return;
	}
	if (!is->n_diverted) {
		ms_tell_out(
			"process %d is not attached; memory of an earlier attach is kept there, "
			"which memscan detach %d gives back if nobody is in it",
			pid, pid);
		return;
	}
	ms_tell_out("process %d is attached%s: 1 sample in %" PRIu64 " bytes, %u of %u functions "
	            "of %s",
	            pid, is->n_diverted < is->n_functions || !is->is_open ? " in part" : "",
	            is->interval, is->n_diverted, is->n_functions, is->functions.name);
	ms_tell_out("%" PRIu64 " samples, %" PRIu64 " of them live, %" PRIu64
	            " dropped for want of room",
	            is->n_samples, is->n_live, is->n_dropped);
}

/* ---- the commands ---- */

static int detach(pid_t pid, const struct ms_attach_options *options, struct ms_arena *arena)
{
	const struct ms_attach_call call = { .pid = pid,
		                             .timeout_ns = options->process.timeout_ns,
		                             .begun_ns = ms_now_ns() };
	struct ms_attached is;
	struct ms_error err;

	if (ms_detach(&call, arena, &is, &err))
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	say_detached(pid, options, &is);
	return finish(MS_EXIT_CLEAN);
}

static int show(pid_t pid, const struct ms_attach_options *options, struct ms_arena *arena)
{
	const struct ms_attach_call call = { .pid = pid,
		                             .timeout_ns = options->process.timeout_ns,
		                             .begun_ns = ms_now_ns() };
	struct ms_attached is;
	struct ms_error err;

	if (ms_attach_status(&call, arena, &is, &err))
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	say_status(pid, &is);
	return finish(is.n_diverted ? MS_EXIT_CLEAN : MS_EXIT_LEAKS);
}

/* Wait until the time is over, a signal comes or the process ends. */
static void wait_for(pid_t pid, uint64_t span_ns, const struct ms_ending *endings)
{
	uint64_t until_ns = ms_now_ns() + span_ns;

	while (!ms_ending_came(endings) && ms_now_ns() < until_ns && !ms_proc_is_over(pid)) {
		uint64_t left_ns = until_ns - ms_now_ns();

		ms_sleep_ns(left_ns < tick_ns ? left_ns : tick_ns);
	}
}

/* A signal that is to end us is held until the process is detached. */
static int detach_later(pid_t pid, const struct ms_attach_options *options,
                        const struct ms_ending *endings, struct ms_arena *arena)
{
	int status;

	(void)fflush(stdout);
	wait_for(pid, options->for_ns, endings);
	if (ms_proc_is_over(pid)) {
		if (!options->quiet)
			ms_tell_out("process %d has ended", pid);
		status = finish(MS_EXIT_CLEAN);
	} else {
		status = detach(pid, options, arena);
	}
	ms_ending_allow(endings);
	return status;
}

static int attach(pid_t pid, const struct ms_attach_options *options, struct ms_arena *arena)
{
	const struct ms_attach_call call = { .pid = pid,
		                             .interval = options->sample,
		                             .timeout_ns = options->process.timeout_ns,
		                             .begun_ns = ms_now_ns() };
	struct ms_attached is;
	struct ms_ending endings;
	struct ms_error err;

	ms_ending_hold(&endings);
	if (ms_attach(&call, arena, &is, &err)) {
		int status = ms_tell_failed(&err, MS_EXIT_REFUSED);

		ms_ending_allow(&endings);
		return status;
	}
	say_attached(pid, options, &is);
	if (options->for_ns)
		return detach_later(pid, options, &endings, arena);
	ms_ending_allow(&endings);
	return finish(MS_EXIT_CLEAN);
}

static int serve(int argc, char **argv, const struct ms_option_table *table)
{
	struct ms_attach_options options;
	struct ms_chosen chosen;
	struct ms_arena arena;
	struct ms_error err;
	pid_t pid;
	int status;

	if (!ms_attach_parse(argc, argv, table, &options, &err))
		return ms_tell_failed(&err, MS_EXIT_USAGE);
	if (options.help) {
		ms_args_help(stdout, table);
		return finish(MS_EXIT_CLEAN);
	}
	if (ms_target_choose(&options.process.choice, &chosen, &err))
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	pid = chosen.pid;
	ms_arena_init(&arena);
	if (table == &ms_detach_table)
		status = detach(pid, &options, &arena);
	else
		status = options.status ? show(pid, &options, &arena)
		                        : attach(pid, &options, &arena);
	ms_arena_deinit(&arena);
	return status;
}

int ms_cmd_attach(int argc, char **argv)
{
	return serve(argc, argv, &ms_attach_table);
}

int ms_cmd_detach(int argc, char **argv)
{
	return serve(argc, argv, &ms_detach_table);
}
