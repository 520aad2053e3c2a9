/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_JSON_ANSWER_H
#define MS_REPORT_JSON_ANSWER_H

/* What answers in JSON have in common: how they begin and end, roots and blocks. */

#include "report/json/values.h"

/* Everything up to what the answer itself is, and everything behind it. */
void ms_json_answer_begin(struct ms_json *j, const struct ms_report *report, const char *schema);
void ms_json_answer_end(struct ms_json *j, const struct ms_report *report);

/* A member of the outermost object. */
void ms_json_member(struct ms_json *j, const char *key, struct json_object *value);

/* What is "" is not there. */
void ms_json_add_text(struct ms_json *j, struct json_object *object, const char *key,
                      const char *text);

/* A root. */
struct json_object *ms_json_spot(struct ms_json *j, const struct ms_report *report,
                                 const struct ms_spot *spot);

/* Type and module. */
void ms_json_add_type(struct ms_json *j, struct json_object *object, const struct ms_type *type);

/* The members of a block or mapping. */
void ms_json_add_block(struct ms_json *j, struct json_object *object,
                       const struct ms_report *report, const struct ms_answer_step *step);

#endif
