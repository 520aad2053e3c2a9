/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_ARGS_H
#define MS_CLI_ARGS_H

/* What the option parsers of several commands have in common. */

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct option;

/* Record in @err that the call is wrong, and with @advice what to do. Returns false. */
bool ms_args_wrong(struct ms_error *err, const char *advice, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Digits only: no sign, no blank, no unit; what strtoull() takes beyond that are typos. */
bool ms_args_number(const char *s, uint64_t most, uint64_t *ret);

/* Seconds, more than 0 and at most @most_s, in nanoseconds: digits, or "1.5" with nine behind. */
bool ms_args_seconds(const char *s, uint64_t most_s, uint64_t *ret_ns);

/* A number, or "all", which is UINT64_MAX. */
bool ms_args_limit(const char *s, uint64_t *ret);

/* A command line, gone through from its beginning. */
struct ms_args {
	int argc;
	char **argv;
	const char *shorts; /* begins with ':' */
	const struct option *longs;
	const char *word; /* the option just returned, as it was written */
	bool begun;
};

/* As getopt_long(), with optarg; behind the last option optind is the first word that is none. */
int ms_args_next(struct ms_args *args);

#endif
