/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_OUTPUT_H
#define MS_CLI_OUTPUT_H

/*
 * Where the report goes. A file is written whole or not at all, and nothing is written to
 * what another user may have planted (base/newfile.h). A FIFO of the caller's waits some seconds
 * for its reader.
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

/* A file that is being written, whole or not at all; only its owner may read it. */
struct ms_output_file;

/*
 * Begin one that takes the name @path when it is committed. @what: it is, for messages
 *
 * Returns MS_E_SYS, with advice, when it cannot be written.
 */
ms_must_check enum ms_status ms_output_begin(const char *path, const char *what,
                                             struct ms_output_file **ret, struct ms_error *err);
int ms_output_fd(const struct ms_output_file *file);

/* End it. When it cannot take the name, what was written is removed. */
ms_must_check enum ms_status ms_output_commit(struct ms_output_file *file, struct ms_error *err);

/* Remove what was written. */
void ms_output_cancel(struct ms_output_file *file);

/* Whether a report to @path, or to @fd when it is NULL, is to be coloured. */
bool ms_output_is_coloured(enum ms_colour wanted, const char *path, int fd);

#endif
