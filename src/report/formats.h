/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_FORMATS_H
#define MS_REPORT_FORMATS_H

/* The writers there are, one per file; for writers.c, which callers ask instead. */

#include "report/writers.h"

extern const struct ms_writer
	ms_text_writer; /* text.c: for people, and for readers of Android's logs */
extern const struct ms_writer ms_json_writer; /* json.c: memscan.report/1 */

/*
 * Parts of the text report, for those that log it: the summary line, and a leak's lines;
 * its type and its stack are in @report, which may be NULL.
 */
void ms_text_summary(const struct ms_totals *totals, struct ms_sink *sink);
void ms_text_leak(const struct ms_leak *leak, const struct ms_report *report, struct ms_sink *sink);

#endif
