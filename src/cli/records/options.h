/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_RECORDS_OPTIONS_H
#define MS_CLI_RECORDS_OPTIONS_H

/* The options of memscan records. Strings are borrowed from the command line. */

#include <stdio.h>

#include "base/status.h"
#include "report/records/formats.h"

struct ms_records_options {
	bool help;
	bool at_peak;
	struct ms_recording_until until;
	uint64_t limit; /* of each list; UINT64_MAX: there is none */
	const struct ms_recording_writer *writer;
	const char *output; /* NULL: standard output */
	const char *file;
};

/* False when the call is wrong, with both lines in @err. With --help the rest is not looked at. */
bool ms_records_options_parse(int argc, char **argv, struct ms_records_options *ret,
                              struct ms_error *err);

void ms_records_options_help(FILE *to);

#endif
