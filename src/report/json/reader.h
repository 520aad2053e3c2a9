/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_JSON_READER_H
#define MS_REPORT_JSON_READER_H

/*
 * A report that the JSON writer wrote, read back.
 *
 * Files come from other machines and may be anything. One entry of a list is read at a
 * time, so that a report of millions of leaks costs the memory of its leaks, and a hostile
 * one not more than MS_JSON_MOST_VALUE makes of json-c's objects.
 *
 * Members that are not known are skipped: a later memscan may have added them. A kind of
 * leak that is not known is refused, as it could be counted as anything. What JSON does not
 * have is empty: code, lost, the doubt about a heap, single steps; functions in backtraces
 * have no offset. Text that is too long for its place is cut off, and a number beyond 64
 * bits is taken for the largest of them.
 */

#include <stddef.h>

#include "base/status.h"
#include "engine/report.h"

enum {
	MS_JSON_MOST_DEPTH = 32,              /* objects and lists in one another, in an entry */
	MS_JSON_MOST_VALUE = 4 * 1024 * 1024, /* bytes of an entry of a list, or of an object */
};

/* A file that was read. */
struct ms_json_file {
	const char *name; /* for error texts */
	const char *text;
	size_t len;
};

/*
 * Read @file. All of @ret is in @arena, nothing in the file's text.
 *
 * Returns MS_E_CORRUPT when it is no report, or damaged or cut off, with the line in err;
 * MS_E_UNSUPPORTED for a report of another version; MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_json_read_report(const struct ms_json_file *file,
                                                 struct ms_arena *arena, struct ms_report *ret,
                                                 struct ms_error *err);

#endif
