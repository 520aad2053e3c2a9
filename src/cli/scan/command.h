/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_SCAN_COMMAND_H
#define MS_CLI_SCAN_COMMAND_H

#include "cli/scan/options.h"

/* What a command that scans does. Returns enum ms_exit, or any status. */
typedef int ms_scan_act(const struct ms_options *options);

/* Take the options of a command, read the files that they name, and act; or say what is wrong. */
int ms_scan_command(enum ms_scan_use use, ms_scan_act *act, int argc, char **argv);

/* What memscan does without a command: scan, and write the report. enum ms_exit */
int ms_scan_and_report(const struct ms_options *options);

/* Scan the process that is chosen, or the core, once or, with --confirm, twice. @ret: lives in
 * @arena */
ms_must_check enum ms_status ms_scan_process(const struct ms_options *options,
                                             struct ms_arena *arena, struct ms_report *ret,
                                             struct ms_error *err);

#endif
