/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_LINES_H
#define MS_CLI_LINES_H

/* Lines of text that another process sends, printed so that none of them commands a terminal. */

#include <stddef.h>
#include <stdio.h>

struct ms_lines {
	FILE *to;
	int failed; /* errno of the first write that failed; 0: none did */
	size_t n;
	char line[1024]; /* what has come of the last one */
};

/* Take a piece, however cut. */
void ms_lines_put(struct ms_lines *lines, const char *bytes, size_t len);

/* Print what is left of a line that has no end, and write all out. Returns lines->failed. */
int ms_lines_end(struct ms_lines *lines);

#endif
