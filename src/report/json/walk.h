/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_JSON_WALK_H
#define MS_REPORT_JSON_WALK_H

/*
 * The outermost object of a report and its lists, whose values are read one by one: so a
 * reader needs no more of json-c's objects than one of them takes.
 */

#include "report/json/input.h"

/* A member of the outermost object that a reader knows; others are skipped. */
struct ms_json_member {
	const char *key;
	bool must; /* stand there */
	bool list; /* of values of @type */
	enum json_type type;
	void (*take)(void *reader, struct json_object *value);
};

struct ms_json_walk {
	const struct ms_json_member *members;
	size_t n;
	bool *seen; /* of each member; the caller's, false */
	void *reader;
};

/* Read all of @in's file, and see that nothing stands behind it. Failures are in in->st. */
void ms_json_walk(struct ms_json_input *in, const struct ms_json_walk *walk);

struct ms_json_schema {
	char text[64];
};

/*
 * What @file says that it is: its "schema". It is read as far as that stands.
 *
 * Returns MS_E_CORRUPT when it is no JSON, or says nothing; MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_json_schema_of(const struct ms_json_file *file,
                                               struct ms_json_schema *ret, struct ms_error *err);

#endif
