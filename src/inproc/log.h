/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_LOG_H
#define MS_INPROC_LOG_H

/*
 * Messages on standard error, as Android's log writes them where there is no log: each
 * line begins with "libmemunreachable: ". Without malloc.
 */

#include "report/writers.h"

/* errno is kept: an annotation logs within the program's own code. */
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
