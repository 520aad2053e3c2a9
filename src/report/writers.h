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
};

/* The writer of that name, or NULL. */
const struct ms_writer *ms_writer_find(const char *name);

#endif
