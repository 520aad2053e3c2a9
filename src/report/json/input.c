/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/input.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "report/utf8.h"

enum { MOST_NAME = 80 };

void ms_json_input_init(struct ms_json_input *in, const struct ms_json_file *file,
                        struct ms_arena *arena, struct ms_error *err)
{
	*in = (struct ms_json_input){ .file = file, .arena = arena, .err = err };
	in->at = in->value = file->text;
	in->tokener = json_tokener_new_ex(MS_JSON_MOST_DEPTH);
	if (!in->tokener)
		ms_json_no_memory(in);
	else /* what stands behind a value is looked at here */
		json_tokener_set_flags(in->tokener, JSON_TOKENER_STRICT |
		                                            JSON_TOKENER_ALLOW_TRAILING_CHARS |
		                                            JSON_TOKENER_VALIDATE_UTF8);
}

void ms_json_input_deinit(struct ms_json_input *in)
{
	if (in->tokener)
		json_tokener_free(in->tokener);
	in->tokener = NULL;
}

/* ---- failures ---- */

static size_t left(const struct ms_json_input *in)
{
	return (size_t)(in->file->text + in->file->len - in->at);
}

static size_t line_of(const struct ms_json_input *in)
{
	size_t line = 1;

	for (const char *c = in->file->text; c < in->value; c++)
		line += *c == '\n';
	return line;
}

static const char *name_of(const struct ms_json_input *in)
{
	return ms_file_end(in->file->name, MOST_NAME);
}

void ms_json_corrupt(struct ms_json_input *in, const char *fmt, ...)
{
	char what[MS_ERROR_TEXT];
	char clean[MS_ERROR_TEXT];
	va_list ap;

	if (in->st)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	(void)ms_utf8_clean(what, strlen(what), true, clean, sizeof(clean));
	in->st = ms_fail(in->err, MS_E_CORRUPT, "%s, line %zu: %.90s", name_of(in), line_of(in),
	                 clean);
	ms_advise(in->err, "give a whole report, as memscan --json writes it");
}

void ms_json_unsupported(struct ms_json_input *in, const char *what, const char *name)
{
	char clean[64];

	if (in->st)
		return;
	(void)ms_utf8_clean(name, strlen(name), true, clean, sizeof(clean));
	in->st = ms_fail(in->err, MS_E_UNSUPPORTED, "%s, line %zu: unknown %s '%s'", name_of(in),
	                 line_of(in), what, clean);
	ms_advise(in->err, "read it with the version of memscan that wrote it, or a later one");
}

void ms_json_no_memory(struct ms_json_input *in)
{
	if (in->st)
		return;
	in->st = ms_fail(in->err, MS_E_NOMEM, "no memory for the report %s", name_of(in));
	ms_advise(in->err, "reading a report takes several times its own size");
}

/* ---- pieces ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct ms_json_input *in)
{
	while (left(in) && is_blank(*in->at))
		in->at++;
}

bool ms_json_take(struct ms_json_input *in, char c)
{
	if (in->st)
		return false;
	skip_blanks(in);
	if (!left(in) || *in->at != c)
		return false;
	in->at++;
	return true;
}

bool ms_json_at_end(struct ms_json_input *in)
{
	skip_blanks(in);
	in->value = in->at;
	return !left(in);
}

bool ms_json_expect(struct ms_json_input *in, char c)
{
	if (ms_json_take(in, c))
		return true;
	in->value = in->at;
	if (left(in))
		ms_json_corrupt(in, "there is no '%c' where one must stand", c);
	else
		ms_json_corrupt(in, "it ends in the middle");
	return false;
}

static void bad_value(struct ms_json_input *in, enum json_tokener_error error, size_t len)
{
	if (error == json_tokener_error_depth)
		ms_json_corrupt(in, "a value is nested more than %d deep", MS_JSON_MOST_DEPTH);
	else if (error == json_tokener_continue && len < left(in))
		ms_json_corrupt(in, "a value has more than %d bytes", MS_JSON_MOST_VALUE);
	else if (error == json_tokener_continue)
		ms_json_corrupt(in, "it ends in the middle");
	else if (error == json_tokener_success)
		ms_json_corrupt(in, "a value is null, which none of a report is");
	else
		ms_json_corrupt(in, "it is no JSON: %s", json_tokener_error_desc(error));
}

struct json_object *ms_json_value(struct ms_json_input *in)
{
	struct json_object *value;
	enum json_tokener_error error;
	size_t len;

	if (in->st)
		return NULL;
	skip_blanks(in);
	in->value = in->at;
	len = left(in) < MS_JSON_MOST_VALUE ? left(in) : MS_JSON_MOST_VALUE;
	json_tokener_reset(in->tokener);
	value = json_tokener_parse_ex(in->tokener, in->at, (int)len);
	error = json_tokener_get_error(in->tokener);
	if (value && error == json_tokener_success) {
		in->at += json_tokener_get_parse_end(in->tokener);
		return value;
	}
	bad_value(in, error, len);
	json_object_put(value);
	return NULL;
}

/* ---- members of an object ---- */

static struct json_object *member(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	(void)json_object_object_get_ex(object, key, &value);
	return value;
}

struct json_object *ms_json_get(struct ms_json_input *in, struct json_object *object,
                                const char *key, enum json_type type)
{
	struct json_object *value = in->st ? NULL : member(object, key);

	if (!value || json_object_is_type(value, type))
		return value;
	ms_json_corrupt(in, "\"%s\" is not of type %s", key, json_type_to_name(type));
	return NULL;
}

uint64_t ms_json_get_amount(struct ms_json_input *in, struct json_object *object, const char *key,
                            uint64_t most)
{
	struct json_object *value = ms_json_get(in, object, key, json_type_int);
	uint64_t n = value ? json_object_get_uint64(value) : 0;

	if (value && (json_object_get_int64(value) < 0 || n > most)) {
		ms_json_corrupt(in, "\"%s\" is out of range", key);
		return 0;
	}
	return n;
}

/* Of more than @bytes bytes it is a failure. */
static int64_t get_signed(struct ms_json_input *in, struct json_object *object, const char *key,
                          size_t bytes)
{
	struct json_object *value = ms_json_get(in, object, key, json_type_int);
	int64_t n = value ? json_object_get_int64(value) : 0;

	if (value && ((n > 0 && json_object_get_uint64(value) != (uint64_t)n) ||
	              (bytes == sizeof(int32_t) && (n > INT32_MAX || n < INT32_MIN)))) {
		ms_json_corrupt(in, "\"%s\" is out of range", key);
		return 0;
	}
	return n;
}

static bool parse_address(const char *s, size_t len, ms_addr *ret)
{
	static const char digits[] = "0123456789abcdef";

	*ret = 0;
	if (len < 3 || len > 18 || s[0] != '0' || s[1] != 'x')
		return false;
	for (size_t i = 2; i < len; i++) {
		const char *digit = memchr(digits, s[i], sizeof(digits) - 1);

		if (!digit)
			return false;
		*ret = *ret << 4 | (ms_addr)(digit - digits);
	}
	return true;
}

ms_addr ms_json_get_address(struct ms_json_input *in, struct json_object *object, const char *key)
{
	struct json_object *value = ms_json_get(in, object, key, json_type_string);
	ms_addr ret = 0;

	if (value && !parse_address(json_object_get_string(value),
	                            (size_t)json_object_get_string_len(value), &ret))
		ms_json_corrupt(in, "\"%s\" is no address", key);
	return ret;
}

void ms_json_string(struct json_object *value, char *ret, size_t cap)
{
	ms_utf8_clean(json_object_get_string(value), (size_t)json_object_get_string_len(value),
	              false, ret, cap);
}

size_t ms_json_name_of(struct json_object *value, const struct ms_json_names *names)
{
	size_t i = 0;

	while (i < names->n && strcmp(names->at[i], json_object_get_string(value)) != 0)
		i++;
	return i;
}

/* ---- fields ---- */

static void put_number(void *at, size_t size, uint64_t n)
{
	uint32_t narrow = (uint32_t)n;

	if (size == sizeof(narrow))
		memcpy(at, &narrow, size);
	else
		memcpy(at, &n, sizeof(n));
}

/* A later memscan may have names of its own: what can do without is taken for none. */
static void get_name(struct ms_json_input *in, struct json_object *object,
                     const struct ms_json_field *field, unsigned char *at)
{
	struct json_object *value = ms_json_get(in, object, field->key, json_type_string);
	size_t i = value ? ms_json_name_of(value, field->names) : 0;

	if (i < field->names->n)
		*at = (unsigned char)i;
	else if (!field->optional)
		ms_json_unsupported(in, field->key, json_object_get_string(value));
}

static void get_text(struct ms_json_input *in, struct json_object *object,
                     const struct ms_json_field *field, char *at)
{
	struct json_object *value = ms_json_get(in, object, field->key, json_type_string);

	if (value)
		ms_json_string(value, at, field->size);
}

static void get_bool(struct ms_json_input *in, struct json_object *object, const char *key,
                     bool *ret)
{
	struct json_object *value = ms_json_get(in, object, key, json_type_boolean);

	*ret = value && json_object_get_boolean(value);
}

static void get_field(struct ms_json_input *in, struct json_object *object,
                      const struct ms_json_field *field, unsigned char *at)
{
	uint64_t most = field->size == sizeof(uint32_t) ? UINT32_MAX : UINT64_MAX;

	switch (field->form) {
	case MS_JSON_UNSIGNED:
		put_number(at, field->size, ms_json_get_amount(in, object, field->key, most));
		break;
	case MS_JSON_SIGNED:
		put_number(at, field->size,
		           (uint64_t)get_signed(in, object, field->key, field->size));
		break;
	case MS_JSON_BOOL:
		get_bool(in, object, field->key, (bool *)at);
		break;
	case MS_JSON_ADDRESS:
		put_number(at, field->size, ms_json_get_address(in, object, field->key));
		break;
	case MS_JSON_TEXT:
		get_text(in, object, field, (char *)at);
		break;
	case MS_JSON_NAME:
		get_name(in, object, field, at);
		break;
	}
}

void ms_json_get_fields(struct ms_json_input *in, struct json_object *object,
                        const struct ms_json_fields *fields, void *base)
{
	for (size_t i = 0; i < fields->n && !in->st; i++) {
		const struct ms_json_field *field = &fields->at[i];

		if (!field->optional && !member(object, field->key))
			ms_json_corrupt(in, "\"%s\" is missing", field->key);
		get_field(in, object, field, (unsigned char *)base + field->offset);
	}
}
