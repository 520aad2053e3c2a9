/* SPDX-License-Identifier: Apache-2.0 */

/* memscan live: a scan that prints which calls allocated what lives, as samples say. */

#include "cli/cli.h"
#include "cli/scan/command.h"
#include "cli/why/ask.h"

static enum ms_status check(const struct ms_options *options, const struct ms_report *report,
                            struct ms_error *err)
{
	if (report->sampling.on)
		return MS_OK;
	if (options->core) {
		(void)ms_fail(err, MS_E_UNSUPPORTED,
		              "nothing is known of who allocated the blocks: the process's "
		              "allocations were not sampled when the core was taken");
		ms_advise(err, "sample those of a running process: memscan attach PID");
		return MS_E_UNSUPPORTED;
	}
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "nothing is known of who allocated the blocks of process %d: its "
	              "allocations are not sampled",
	              (int)report->target.pid);
	ms_advise(err, "sample them first: memscan attach %d", (int)report->target.pid);
	return MS_E_UNSUPPORTED;
}

static int ask(const struct ms_options *options)
{
	static const struct ms_answer_call call = {
		.find_writer = ms_live_writer_find,
		.check = check,
	};

	return ms_answer_ask(&call, options);
}

int ms_cmd_live(int argc, char **argv)
{
	return ms_scan_command(MS_USE_LIVE, ask, argc, argv);
}
