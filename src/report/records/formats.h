/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_RECORDS_FORMATS_H
#define MS_REPORT_RECORDS_FORMATS_H

/* The writers there are, one per file. */

#include "report/records/recording.h"
#include "report/writers.h"

struct ms_recording_writer {
	const char *name; /* as in --format */
	/* Returns false when the sink stopped it, or memory ran out. */
	bool (*write)(const struct ms_recording *recording, struct ms_sink *sink);
};

extern const struct ms_recording_writer ms_recording_text; /* text.c */
extern const struct ms_recording_writer ms_recording_json; /* json.c: memscan.records/1 */

/* The writer of that name, or NULL. */
const struct ms_recording_writer *ms_recording_writer_find(const char *name);

/* From the first operation on; 0 for a time before it, or without times. */
static inline uint64_t ms_recording_offset_ns(const struct ms_recording *r, uint64_t ns)
{
	return r->timed && ns > r->first_ns ? ns - r->first_ns : 0;
}

static inline double ms_recording_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* How long the recording is, as far as it was replayed. */
static inline uint64_t ms_recording_span_ns(const struct ms_recording *r)
{
	return r->timed ? r->last_ns - r->first_ns : 0;
}

/* Allocations in a second; 0 when that cannot be told. */
static inline double ms_recording_rate(const struct ms_recording *r)
{
	uint64_t span = ms_recording_span_ns(r);

	return span ? (double)r->allocations / ms_recording_seconds(span) : 0;
}

#endif
