/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_OUTPUT_H
#define MS_CLI_OUTPUT_H

/*
 * Where the report goes. A file is written whole or not at all: the bytes go to a
 * temporary file in the same folder, which takes the name when all are on disk.
 * What is no regular file (a FIFO, /dev/full) is written to as it is.
 */

#include "base/status.h"
#include "cli/scan/options.h"
#include "report/writers.h"

/*
 * Find out, before anything else is done, whether @path can be written; @path NULL
 * is standard output, which can. Leaves nothing behind.
 */
ms_must_check enum ms_status ms_output_check(const char *path, struct ms_error *err);

/* Refuse what is no text where it would go to @fd, since @path is NULL, and that is a terminal. */
ms_must_check enum ms_status ms_output_check_terminal(const char *path, int fd, bool no_text,
                                                      struct ms_error *err);

/* Something that can be written. */
struct ms_printed {
	/* Returns false when the sink stopped it, or memory ran out. */
	bool (*write)(const void *what, struct ms_sink *sink);
	const void *what;
	bool colour;
};

/* Write it to @path, or to standard output when it is NULL. */
ms_must_check enum ms_status ms_output_print(const char *path, const struct ms_printed *printed,
                                             struct ms_error *err);

/* The same for a report. */
ms_must_check enum ms_status ms_output_write(const char *path, const struct ms_writer *writer,
                                             const struct ms_report *report, bool colour,
                                             struct ms_error *err);

/* Write @report to the open descriptor @fd, which stays open. */
ms_must_check enum ms_status ms_output_write_fd(int fd, const struct ms_writer *writer,
                                                const struct ms_report *report, bool colour,
                                                struct ms_error *err);

/* Whether a report to @path, or to @fd when it is NULL, is to be coloured. */
bool ms_output_is_coloured(enum ms_colour wanted, const char *path, int fd);

#endif
