/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_JSON_INPUT_H
#define MS_REPORT_JSON_INPUT_H

/*
 * JSON that is read piece by piece: punctuation here, values by json-c.
 *
 * The first failure is kept in st, with the line in err; after it every function returns
 * nothing, 0 or false, and callers may look at st once, at the end.
 */

#include <json-c/json.h>

#include "report/json/fields.h"
#include "report/json/reader.h"

struct ms_json_input {
	const struct ms_json_file *file;
	struct ms_arena *arena;
	struct ms_error *err;
	enum ms_status st;
	struct json_tokener *tokener;
	const char *at;
	const char *value; /* where the last one began */
};

/* Start at the file's first byte; end with ms_json_input_deinit() in every case. */
void ms_json_input_init(struct ms_json_input *in, const struct ms_json_file *file,
                        struct ms_arena *arena, struct ms_error *err);
void ms_json_input_deinit(struct ms_json_input *in);

void ms_json_corrupt(struct ms_json_input *in, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void ms_json_unsupported(struct ms_json_input *in, const char *what, const char *name);
void ms_json_no_memory(struct ms_json_input *in);

/* ---- pieces ---- */

/* Pass @c over if it is next, behind blanks. */
bool ms_json_take(struct ms_json_input *in, char c);

/* The same, and a failure if it is not. */
bool ms_json_expect(struct ms_json_input *in, char c);

/* Nothing but blanks is left. */
bool ms_json_at_end(struct ms_json_input *in);

/* The next value, for json_object_put(); NULL only behind a failure, which null is as well. */
struct json_object *ms_json_value(struct ms_json_input *in);

/* ---- members of an object ---- */

/* Borrowed; NULL when there is none. One of another type is a failure. */
struct json_object *ms_json_get(struct ms_json_input *in, struct json_object *object,
                                const char *key, enum json_type type);

/* 0 when there is none; more than @most is a failure. */
uint64_t ms_json_get_amount(struct ms_json_input *in, struct json_object *object, const char *key,
                            uint64_t most);
ms_addr ms_json_get_address(struct ms_json_input *in, struct json_object *object, const char *key);

/* A string as one of C's, cut off to @cap bytes with its NUL. */
void ms_json_string(struct json_object *value, char *ret, size_t cap);

/* Which of @names @value is, or names->n. */
size_t ms_json_name_of(struct json_object *value, const struct ms_json_names *names);

/* Fill the struct at @base. What is not optional must be there. */
void ms_json_get_fields(struct ms_json_input *in, struct json_object *object,
                        const struct ms_json_fields *fields, void *base);

#endif
