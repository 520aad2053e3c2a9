/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/options/table.h"

/* One NAME or NAME = VALUE; @value is empty when none was given. */
struct setting {
	const char *name;
	size_t name_len;
	char value[MS_OPT_PATH];
};

void ms_opt_init(struct ms_opts *options)
{
	memset(options, 0, sizeof(*options));
	options->max_size = SIZE_MAX;
	ms_opt_find("backtrace_dump_prefix", 21)
		->apply(options, 0, ms_opt_find("backtrace_dump_prefix", 21)->path);
	ms_opt_find("record_allocs_file", 18)
		->apply(options, 0, ms_opt_find("record_allocs_file", 18)->path);
}

__attribute__((format(printf, 3, 4))) static bool refuse(char *error, const struct setting *setting,
                                                         const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(error, MS_OPT_ERROR, "bad value for option '%.*s'", (int)setting->name_len,
	                 setting->name);

	if (n < 0 || n >= MS_OPT_ERROR)
		return false;
	va_start(ap, fmt);
	(void)vsnprintf(error + n, (size_t)(MS_OPT_ERROR - n), fmt, ap);
	va_end(ap);
	return false;
}

static bool read_number(const struct ms_opt_row *row, const struct setting *setting, size_t *ret,
                        char *error)
{
	const char *value = setting->value;
	char *end;
	long n;

	errno = 0;
	n = strtol(value, &end, 10);
	if (errno)
		return refuse(error, setting, ": %s", strerror(errno));
	if (end == value)
		return refuse(error, setting, "%s", "");
	if (*end)
		return refuse(error, setting, ", non space found after option: %s", end);
	if (n < 0)
		return refuse(error, setting, ", value cannot be negative: %ld", n);
	if ((size_t)n < row->min)
		return refuse(error, setting, ", value must be >= %zu: %ld", row->min, n);
	if ((size_t)n > row->max)
		return refuse(error, setting, ", value must be <= %zu: %ld", row->max, n);
	*ret = (size_t)n;
	return true;
}

static bool apply(struct ms_opts *options, const struct setting *setting, char *error)
{
	const struct ms_opt_row *row = ms_opt_find(setting->name, setting->name_len);
	size_t number = row ? row->bare : 0;
	bool given = setting->value[0] != '\0';

	if (!row) {
		(void)snprintf(error, MS_OPT_ERROR, "unknown option %.*s", (int)setting->name_len,
		               setting->name);
		return false;
	}
	if (row->takes == MS_TAKES_NOTHING && given) {
		(void)snprintf(error, MS_OPT_ERROR,
		               "value set for option '%.*s' which does not take a value",
		               (int)setting->name_len, setting->name);
		return false;
	}
	if (row->takes == MS_NEEDS_NUMBER || (row->takes == MS_TAKES_NUMBER && given)) {
		if (!read_number(row, setting, &number, error))
			return false;
	}
	options->on |= row->sets;
	if (row->apply)
		row->apply(options, number, given ? setting->value : row->path);
	return true;
}

static const char *past_space(const char *at)
{
	while (isspace((unsigned char)*at))
		at++;
	return at;
}

/* A value that is too long to be a path is cut, and no number. */
static const char *take_setting(const char *at, struct setting *ret)
{
	const char *after;
	size_t n = 0;

	ret->name = at;
	while (*at && *at != '=' && !isspace((unsigned char)*at))
		at++;
	ret->name_len = (size_t)(at - ret->name);
	ret->value[0] = '\0';
	after = past_space(at);
	if (*after != '=')
		return after;
	at = past_space(after + 1);
	for (; *at && !isspace((unsigned char)*at); at++) {
		if (n < sizeof(ret->value) - 1)
			ret->value[n++] = *at;
	}
	ret->value[n] = '\0';
	return past_space(at);
}

bool ms_opt_parse(struct ms_opts *options, const char *text, char *error)
{
	struct setting setting;

	for (const char *at = past_space(text); *at;) {
		at = take_setting(at, &setting);
		if (!apply(options, &setting, error))
			return false;
	}
	return true;
}
