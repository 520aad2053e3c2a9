/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_JSON_BACKTRACES_H
#define MS_REPORT_JSON_BACKTRACES_H

/* The backtraces of a report that is read: stacks, addresses and their names again. */

#include "report/json/input.h"

enum { MS_JSON_REMEMBERED = 4096 };

/*
 * What was read lately, by a hash of it, as most of it comes again and again. What is not
 * found here is only kept twice.
 */
struct ms_json_recent {
	const char *texts[MS_JSON_REMEMBERED];
	uint32_t stacks[MS_JSON_REMEMBERED]; /* as ms_leak.stack */
	uint32_t types[MS_JSON_REMEMBERED];  /* as ms_leak.type; the reader's */
};

/* Where something of that @hash is remembered. */
static inline size_t ms_json_recent_at(uint64_t hash)
{
	return hash % MS_JSON_REMEMBERED;
}

/* A hash of @s, going on from @hash. */
uint64_t ms_json_hash(uint64_t hash, const char *s);

/*
 * The number in @report of the backtrace that @object has, as ms_leak.stack; 0: it has none, or
 * behind a failure.
 */
uint32_t ms_json_get_backtrace(struct ms_json_input *in, struct json_object *object,
                               struct ms_json_recent *recent, struct ms_report *report);

/* The number of the address of frame @object in @report, as ms_leak.callback; 0 behind a failure.
 */
uint32_t ms_json_get_callback(struct ms_json_input *in, struct json_object *object,
                              struct ms_json_recent *recent, struct ms_report *report);

#endif
