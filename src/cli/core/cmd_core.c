/* SPDX-License-Identifier: Apache-2.0 */

/* memscan core FILE: a scan like any, of a core. */

#include "cli/cli.h"
#include "cli/scan/command.h"

int ms_cmd_core(int argc, char **argv)
{
	return ms_scan_command(MS_USE_CORE, ms_scan_and_report, argc, argv);
}
