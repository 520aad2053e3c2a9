/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_LOG_H
#define MS_INPROC_LOG_H

/*
 * Messages on standard error, as Android's log writes them where there is no log: each
 * line begins with "libmemunreachable: ".
 */

#include "report/writers.h"

void ms_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A sink of lines, each of which is a message; the last one ends with ms_log_end(). */
struct ms_log_lines {
	struct ms_sink sink; /* first */
	size_t n;
	char line[512];
};

void ms_log_begin(struct ms_log_lines *lines);
void ms_log_end(struct ms_log_lines *lines);

#endif
