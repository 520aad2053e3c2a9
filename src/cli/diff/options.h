/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_DIFF_OPTIONS_H
#define MS_CLI_DIFF_OPTIONS_H

/* The options of memscan diff. Strings are borrowed from the command line. */

#include <stdio.h>

#include "base/status.h"
#include "report/diff/writers.h"

struct ms_diff_options {
	bool help;
	const struct ms_diff_writer *writer;
	uint64_t limit;
	const char *output; /* NULL: standard output */
	const char *files[MS_DIFF_SIDES];
};

/* False when the call is wrong, with both lines in @err. With --help the rest is not looked at. */
bool ms_diff_options_parse(int argc, char **argv, struct ms_diff_options *ret,
                           struct ms_error *err);

void ms_diff_options_help(FILE *to);

#endif
