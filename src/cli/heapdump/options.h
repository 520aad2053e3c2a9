/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_HEAPDUMP_OPTIONS_H
#define MS_CLI_HEAPDUMP_OPTIONS_H

/* The options of memscan heapdump. Strings are borrowed from the command line. */

#include <stdio.h>

#include "base/status.h"
#include "report/heapdump/view.h"

struct ms_heapdump_options {
	bool help;
	bool reversed;
	bool by_size;
	bool verbose;
	bool debuginfod;
	const struct ms_heapdump_writer *writer;
	const char *output;      /* NULL: standard output */
	const char *symbols;     /* NULL: where they usually are */
	const char *app_symbols; /* NULL: nowhere */
	const char *files[2];    /* the newer first */
	size_t n_files;
};

/* False when the call is wrong, with both lines in @err. With --help the rest is not looked at. */
bool ms_heapdump_options_parse(int argc, char **argv, struct ms_heapdump_options *ret,
                               struct ms_error *err);

void ms_heapdump_options_help(FILE *to);

#endif
