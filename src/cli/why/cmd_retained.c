/* SPDX-License-Identifier: Apache-2.0 */

/* memscan retained: a scan that answers what holds memory, in place of listing leaks. */

#include "cli/cli.h"
#include "cli/scan/command.h"
#include "cli/why/ask.h"

static int ask(const struct ms_options *options)
{
	static const struct ms_answer_call call = {
		.find_writer = ms_retained_writer_find,
	};

	return ms_answer_ask(&call, options);
}

int ms_cmd_retained(int argc, char **argv)
{
	return ms_scan_command(MS_USE_RETAINED, ask, argc, argv);
}
