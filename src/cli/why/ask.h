/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_WHY_ASK_H
#define MS_CLI_WHY_ASK_H

/* A scan that answers a question in place of listing leaks. */

#include "cli/scan/options.h"

/* What the commands differ in. */
struct ms_answer_call {
	const struct ms_writer *(*find_writer)(const char *name);
	/* Whether it is an answer at all; NULL: always. */
	enum ms_status (*check)(const struct ms_options *options, const struct ms_report *report,
	                        struct ms_error *err);
};

/* Scan, and write the answer; enum ms_exit. */
int ms_answer_ask(const struct ms_answer_call *call, const struct ms_options *options);

#endif
