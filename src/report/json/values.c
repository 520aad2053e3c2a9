/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report/utf8.h"

enum { LONGEST_NAME = 16 * 1024 };

/* The library escapes C0 alone; the others stand in strings only, and as \\uXXXX they rest. */
static void put_escaped(struct ms_text *t, const char *bytes, size_t len)
{
	while (len) {
		struct ms_utf8_control control;
		size_t plain = ms_utf8_plain(bytes, len, &control);

		ms_text_put(t, bytes, plain);
		if (control.length)
			ms_text_print(t, "\\u%04" PRIx32, control.code);
		bytes += plain + control.length;
		len -= plain + control.length;
	}
}

void ms_json_put(struct ms_json *j, struct json_object *value)
{
	size_t len = 0;
	const char *bytes = NULL;

	if (value)
		bytes = json_object_to_json_string_length(
			value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
	if (bytes)
		put_escaped(&j->text, bytes, len);
	else
		j->text.ok = false;
	json_object_put(value);
}

void ms_json_add(struct ms_json *j, struct json_object *object, const char *key,
                 struct json_object *value)
{
	if (value && object && json_object_object_add(object, key, value) == 0)
		return;
	json_object_put(value);
	j->text.ok = false;
}

void ms_json_append(struct ms_json *j, struct json_object *array, struct json_object *value)
{
	if (value && array && json_object_array_add(array, value) == 0)
		return;
	json_object_put(value);
	j->text.ok = false;
}

void ms_json_add_number(struct ms_json *j, struct json_object *object, const char *key, uint64_t n)
{
	ms_json_add(j, object, key, json_object_new_uint64(n));
}

void ms_json_add_address(struct ms_json *j, struct json_object *object, const char *key,
                         uint64_t addr)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "0x%" PRIx64, addr);
	ms_json_add(j, object, key, json_object_new_string(text));
}

struct json_object *ms_json_name(const char *name)
{
	char clean[LONGEST_NAME];

	ms_utf8_clean(name, strlen(name), false, clean, sizeof(clean));
	return json_object_new_string(clean);
}
