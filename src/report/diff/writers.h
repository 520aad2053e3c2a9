/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_DIFF_WRITERS_H
#define MS_REPORT_DIFF_WRITERS_H

#include "report/diff/diff.h"
#include "report/writers.h"

struct ms_diff_writer {
	const char *name; /* as in --format */
	/* Returns false when the sink stopped it, or memory ran out. */
	bool (*write)(const struct ms_diff *diff, struct ms_sink *sink);
};

extern const struct ms_diff_writer ms_diff_text_writer;
extern const struct ms_diff_writer ms_diff_json_writer; /* memscan.diff/1 */

/* The one of that name, or NULL. */
const struct ms_diff_writer *ms_diff_writer_find(const char *name);

#endif
