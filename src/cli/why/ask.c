/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/why/ask.h"

#include <unistd.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/scan/command.h"
#include "cli/tell.h"
#include "scan/threads.h"

static int ask(const struct ms_answer_call *call, const struct ms_options *options,
               struct ms_arena *arena)
{
	const struct ms_writer *writer = call->find_writer(options->writer->name);
	struct ms_report report;
	struct ms_error err;
	enum ms_status st = ms_scan_process(options, arena, &report, &err);

	if (!st && options->verbose)
		ms_tell_report(&report);
	if (!st && call->check)
		st = call->check(options, &report, &err);
	if (st)
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	/* Of a core a thread's number may be another's by now. */
	if (!options->core)
		ms_name_threads(&report);
	if (ms_output_write(options->output, writer, &report,
	                    ms_output_is_coloured(options->colour, options->output, STDOUT_FILENO),
	                    &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	return MS_EXIT_CLEAN;
}

int ms_answer_ask(const struct ms_answer_call *call, const struct ms_options *options)
{
	struct ms_arena arena;
	struct ms_error err;
	int status;

	if (ms_output_check_terminal(options->output, STDOUT_FILENO, options->writer->no_text,
	                             &err) ||
	    ms_output_check(options->output, &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	ms_arena_init(&arena);
	status = ask(call, options, &arena);
	ms_arena_deinit(&arena);
	return status;
}
