/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_CLI_TELL_H
#define MS_CLI_TELL_H

/*
 * Lines for people. Names that others chose are in them: what would command a terminal, or end the
 * line, is made harmless. Nothing else in cli prints (tools/check-layers); reports go through
 * output.h, text of other processes through lines.h.
 */

#include "base/status.h"
#include "cli/cli.h"
#include "engine/report.h"

/* The two lines of a failure: what was refused, what to do. None if @err has no text. */
void ms_tell_error(const struct ms_error *err);

/* The same; answers @status. */
int ms_tell_failed(const struct ms_error *err, enum ms_exit status);

/*
 * Whether a write failed because the reader of the pipe has all that it wants, as "head" has: then
 * @err has no text, and ms_tell_error() says nothing.
 */
bool ms_tell_has_left(int sys_errno, struct ms_error *err);

/* @what could not be written to standard output: say so, unless its reader has left. */
int ms_tell_unwritten(int sys_errno, const char *what, const char *advice);

/* What to do about @err; never empty. */
const char *ms_tell_advice(const struct ms_error *err);

/* One line to stderr, which begins with "memscan: ". */
void ms_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One line to stdout, as it is. */
void ms_tell_out(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Whether @report has no leaks, but cannot say anything about most of the memory.
 *
 * @err: out, if so: the message
 */
bool ms_tell_is_unread(const struct ms_report *report, struct ms_error *err);

/* --debuginfod was given: say so when there are no servers to ask. */
void ms_tell_servers(void);

/* --verbose: phases, steps, tries, warnings and evidence of a finished scan. */
void ms_tell_report(const struct ms_report *report);

#endif
