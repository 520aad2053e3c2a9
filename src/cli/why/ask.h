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
	/* Threads that run yet say how they are called. */
	void (*name_threads)(struct ms_report *report);
};

/* Scan, and write the answer; enum ms_exit. */
int ms_answer_ask(const struct ms_answer_call *call, const struct ms_options *options);

/* Name the thread of @spot, where it has one that runs. */
void ms_answer_name_thread(struct ms_spot *spot);

#endif
