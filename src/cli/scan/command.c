/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/command.h"

#include "cli/cli.h"
#include "cli/scan/suppressions.h"
#include "cli/tell.h"
#include "report/version.h"

static int flushed(void)
{
	return fflush(stdout) == 0 ? MS_EXIT_CLEAN : MS_EXIT_UNWRITTEN;
}

static int prepare_and_act(ms_scan_act *act, struct ms_options *options)
{
	struct ms_suppressions suppressions = { 0 };
	struct ms_arena arena;
	struct ms_error err = { 0 };
	int status;

	ms_arena_init(&arena);
	if (ms_suppressions_read(options, &arena, &suppressions, &err)) {
		ms_tell_error(&err);
		status = MS_EXIT_USAGE;
	} else {
		if (options->debuginfod)
			ms_tell_servers();
		options->scan.suppressions = suppressions.n ? &suppressions : NULL;
		status = act(options);
	}
	ms_arena_deinit(&arena);
	return status;
}

int ms_scan_command(enum ms_scan_use use, ms_scan_act *act, int argc, char **argv)
{
	struct ms_options options;
	struct ms_error err = { 0 };

	if (!ms_options_parse(use, argc, argv, &options, &err))
		return ms_tell_failed(&err, MS_EXIT_USAGE);
	switch (options.request) {
	case MS_REQUEST_HELP:
		ms_options_help(use, stdout);
		return flushed();
	case MS_REQUEST_VERSION:
		ms_tell_out("memscan " MS_VERSION);
		return flushed();
	case MS_REQUEST_SCAN:
		break;
	}
	return prepare_and_act(act, &options);
}
