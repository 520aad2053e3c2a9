/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_ATTACH_OPTIONS_H
#define MS_CLI_ATTACH_OPTIONS_H

/* The command lines of memscan attach and memscan detach. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "cli/args.h"

struct ms_attach_options {
	struct ms_args_process process; /* first: options of it take it so */
	uint64_t sample;                /* bytes */
	uint64_t for_ns;                /* 0: until somebody detaches */
	bool status, quiet, help;
};

extern const struct ms_option_table ms_attach_table, ms_detach_table;

/* False when the call is wrong, with both lines in @err. */
bool ms_attach_parse(int argc, char **argv, const struct ms_option_table *table,
                     struct ms_attach_options *ret, struct ms_error *err);

#endif
