/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_WRITERS_H
#define MS_REPORT_WRITERS_H

/*
 * Port: a const report becomes bytes.
 *
 * To add a format: one file with a `const struct ms_writer`, a row in writers.c,
 * a golden file in tests/golden/. Writers never name addresses, open files or
 * look at a process.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "engine/report.h"

/* Where the bytes go; write() returns false to stop the writer. */
struct ms_sink {
	bool (*write)(struct ms_sink *sink, const char *bytes, size_t len);
	bool colour; /* terminal escapes are welcome */
};

struct ms_writer {
	const char *name; /* as in --format */
	/* Returns false when the sink stopped it, or memory ran out. */
	bool (*write)(const struct ms_report *report, struct ms_sink *sink);
	bool whole;   /* it sums up the leaks that are listed: all of them are wanted */
	bool no_text; /* what it writes is not for terminals */
};

/* Those that there are, one per file; callers ask for one by its name, or get NULL. */
extern const struct ms_writer ms_text_writer;   /* for people, and for readers of Android's logs */
extern const struct ms_writer ms_json_writer;   /* memscan.report/1 */
extern const struct ms_writer ms_html_writer;   /* a page: leaks by stack and type */
extern const struct ms_writer ms_folded_writer; /* the same, for flame graphs */
extern const struct ms_writer ms_pprof_writer;  /* and for pprof */
const struct ms_writer *ms_writer_find(const char *name);

/* The same for answers: ms_report.answer, with what is known of the scan. */
const struct ms_writer *ms_answer_writer_find(const char *name);
extern const struct ms_writer ms_why_text_writer;
extern const struct ms_writer ms_why_json_writer; /* memscan.why/1 */

/* And for what holds memory: ms_report.retained. */
const struct ms_writer *ms_retained_writer_find(const char *name);
extern const struct ms_writer ms_retained_text_writer;
extern const struct ms_writer ms_retained_json_writer; /* memscan.retained/1 */

/* And for what lives: ms_report.sites. Its JSON is a report's. */
const struct ms_writer *ms_live_writer_find(const char *name);
extern const struct ms_writer ms_live_text_writer;
extern const struct ms_writer ms_live_folded_writer;
extern const struct ms_writer ms_live_pprof_writer;

/* Why a possible leak is not called a leak. */
const char *ms_text_reason(enum ms_reason reason);

/*
 * Parts of the text report, for those that log it: the summary line, and a leak's lines;
 * its type and its stack are in @report, which may be NULL.
 */
void ms_text_summary(const struct ms_totals *totals, struct ms_sink *sink);
void ms_text_leak(const struct ms_leak *leak, const struct ms_report *report, struct ms_sink *sink);

#endif
