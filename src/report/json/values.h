/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_JSON_VALUES_H
#define MS_REPORT_JSON_VALUES_H

/*
 * JSON of many small trees: the outermost object and its long arrays are written by hand,
 * what stands in them is made, written and dropped, one by one.
 */

#include <json-c/json.h>

#include "report/print.h"

struct ms_json {
	struct ms_text text; /* not ok: the sink stopped, or memory ran out */
};

/* Write @value and drop it. */
void ms_json_put(struct ms_json *j, struct json_object *value);

/* Give @value to @object, which owns it from here. */
void ms_json_add(struct ms_json *j, struct json_object *object, const char *key,
                 struct json_object *value);
void ms_json_append(struct ms_json *j, struct json_object *array, struct json_object *value);

void ms_json_add_number(struct ms_json *j, struct json_object *object, const char *key, uint64_t n);
void ms_json_add_address(struct ms_json *j, struct json_object *object, const char *key,
                         uint64_t addr);

/* What others chose, as text; longer than 16 KiB it is cut off. */
struct json_object *ms_json_name(const char *name);

#endif
