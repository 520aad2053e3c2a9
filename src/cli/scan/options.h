/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_OPTIONS_H
#define MS_CLI_OPTIONS_H

/* The options of a scan, from the command line. */

#include <stdio.h>
#include <sys/types.h>

#include "base/status.h"
#include "cli/args.h"
#include "engine/scan.h"
#include "report/writers.h"
#include "target/snapshot.h"

enum ms_colour { MS_COLOUR_AUTO, MS_COLOUR_ALWAYS, MS_COLOUR_NEVER };

enum ms_request { MS_REQUEST_SCAN, MS_REQUEST_HELP, MS_REQUEST_VERSION };

enum { MS_SUPPRESSION_FILES = 64 };

/* Whose options they are. */
enum ms_scan_use { MS_USE_SCAN, MS_USE_RUN, MS_USE_WHY, MS_USE_RETAINED, MS_USE_LIVE, MS_USE_CORE };

struct ms_options {
	struct ms_args_process process; /* first, as its options have it; strings are argv's */
	enum ms_request request;
	const char *core; /* a core, in place of a process; or NULL */
	const char *exe;  /* the program that it is of; NULL: where it was */
	const char *root; /* the folder in which its files have their paths; NULL: ours */
	struct ms_scan_options scan;
	const struct ms_writer *writer;
	bool has_limit;     /* --limit was given */
	const char *output; /* NULL: stdout */
	const char *suppressions[MS_SUPPRESSION_FILES];
	size_t n_suppressions;
	const char *debug_folder; /* where separate debug information is, too; or NULL */
	bool debuginfod;          /* the servers of DEBUGINFOD_URLS are asked for it */
	enum ms_snapshot_how how;
	unsigned jobs;       /* threads to search with */
	uint64_t limit_ns;   /* for a whole scan; 0: none */
	uint64_t confirm_ns; /* wait so long, then scan once more; 0: scan once */
	enum ms_colour colour;
	bool quiet;
	bool verbose;

	enum ms_scan_use use;

	/* memscan run only */
	bool follow;      /* scan what the program forks, too */
	int error_status; /* to end with when there are leaks; 0: with the program's own */
	char **program;   /* its name and arguments, ended by NULL */
};

/*
 * Read @argv, argv[0] being the command's name. Of memscan run the first word that is no option
 * begins the program; of why the last is what is asked for; of core it is the core; of others, and
 * before what why is asked for, a lone number is the process.
 *
 * Returns false when the call is wrong: err->text says what is, err->advice what
 * to do. With --help or --version the rest of the line is not looked at.
 */
bool ms_options_parse(enum ms_scan_use use, int argc, char **argv, struct ms_options *ret,
                      struct ms_error *err);

/* What --help prints. */
void ms_options_help(enum ms_scan_use use, FILE *to);

#endif
