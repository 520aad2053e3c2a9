/* SPDX-License-Identifier: Apache-2.0 */

/* memscan core FILE: a scan like any, of a core. */

#include "cli/cli.h"
#include "cli/scan/command.h"

int ms_cmd_core(int argc, char **argv)
{
	static const struct ms_scan_command command = {
		.parse = ms_options_parse_core,
		.help = ms_options_help_core,
		.act = ms_scan_and_report,
	};

	return ms_scan_command(&command, argc, argv);
}
