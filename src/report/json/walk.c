/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/walk.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_KEY = 64 };

/* Read a value, and hand it to @member unless that is NULL. */
static void read_value(struct ms_json_input *in, const struct ms_json_walk *walk,
                       const struct ms_json_member *member)
{
	struct json_object *value = ms_json_value(in);

	if (value && member && !json_object_is_type(value, member->type))
		ms_json_corrupt(in, "\"%s\" has a value that is not of type %s", member->key,
		                json_type_to_name(member->type));
	else if (value && member)
		member->take(walk->reader, value);
	json_object_put(value);
}

/* Behind its bracket. */
static void read_list(struct ms_json_input *in, const struct ms_json_walk *walk,
                      const struct ms_json_member *member)
{
	if (ms_json_take(in, ']'))
		return;
	do
		read_value(in, walk, member);
	while (ms_json_take(in, ','));
	(void)ms_json_expect(in, ']');
}

static const struct ms_json_member *find_member(struct ms_json_input *in,
                                                const struct ms_json_walk *walk, const char *key)
{
	for (size_t i = 0; i < walk->n; i++) {
		if (strcmp(walk->members[i].key, key) != 0)
			continue;
		if (walk->seen[i])
			ms_json_corrupt(in, "\"%s\" stands there twice", key);
		walk->seen[i] = true;
		return &walk->members[i];
	}
	return NULL;
}

/* A member's name and what stands behind it; false behind a failure. */
static bool read_key(struct ms_json_input *in, char ret[LONGEST_KEY])
{
	struct json_object *value = ms_json_value(in);

	if (value && !json_object_is_type(value, json_type_string))
		ms_json_corrupt(in, "a member's name is no string");
	else if (value)
		ms_json_string(value, ret, LONGEST_KEY);
	json_object_put(value);
	return ms_json_expect(in, ':');
}

static void read_member(struct ms_json_input *in, const struct ms_json_walk *walk)
{
	const struct ms_json_member *member;
	char key[LONGEST_KEY];

	if (!read_key(in, key))
		return;
	member = find_member(in, walk, key);
	if (!ms_json_take(in, '[')) {
		if (member && member->list)
			ms_json_corrupt(in, "\"%s\" is no list", key);
		read_value(in, walk, member);
	} else {
		if (member && !member->list)
			ms_json_corrupt(in, "\"%s\" is a list", key);
		read_list(in, walk, member);
	}
}

/* Whether it begins as an object does. */
static bool begins(struct ms_json_input *in)
{
	if (ms_json_at_end(in))
		ms_json_corrupt(in, "it is empty");
	return ms_json_expect(in, '{');
}

void ms_json_walk(struct ms_json_input *in, const struct ms_json_walk *walk)
{
	if (!begins(in))
		return;
	if (!ms_json_take(in, '}')) {
		do
			read_member(in, walk);
		while (ms_json_take(in, ','));
		(void)ms_json_expect(in, '}');
	}
	if (!ms_json_at_end(in))
		ms_json_corrupt(in, "something stands behind the report");
	for (size_t i = 0; i < walk->n; i++)
		if (walk->members[i].must && !walk->seen[i])
			ms_json_corrupt(in, "\"%s\" is missing", walk->members[i].key);
}

static void take_schema(void *reader, struct json_object *value)
{
	struct ms_json_schema *schema = reader;

	ms_json_string(value, schema->text, sizeof(schema->text));
}

enum ms_status ms_json_schema_of(const struct ms_json_file *file, struct ms_json_schema *ret,
                                 struct ms_error *err)
{
	static const struct ms_json_member member = { "schema", true, false, json_type_string,
		                                      take_schema };
	bool seen = false;
	const struct ms_json_walk walk = { &member, 1, &seen, ret };
	struct ms_json_input in;

	ms_json_input_init(&in, file, NULL, err);
	if (begins(&in) && !ms_json_take(&in, '}'))
		do
			read_member(&in, &walk);
		while (!seen && ms_json_take(&in, ','));
	if (!seen)
		ms_json_corrupt(&in, "\"schema\" is missing");
	ms_json_input_deinit(&in);
	return in.st;
}
