/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "shim/options/options.h"

/* Up to Android 6 there were levels. What each did, in today's words. */
static const struct {
	const char *level;
	const char *options;
} LEVELS[] = {
	{ "1", "backtrace=32" },
	{ "5", "fill" },
	{ "10", "fill guard free_track leak_track backtrace" },
};

struct piece {
	const char *at;
	size_t len;
};

static struct piece trimmed(const char *begin, const char *end)
{
	while (begin < end && isspace((unsigned char)*begin))
		begin++;
	while (end > begin && isspace((unsigned char)end[-1]))
		end--;
	return (struct piece){ begin, (size_t)(end - begin) };
}

/* The last line for @property; none has no length. A '#' begins a comment line. */
static struct piece value_of(const char *text, size_t len, const char *property)
{
	struct piece found = { text, 0 };
	const char *end = text + len;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;
		const char *equals = memchr(text, '=', (size_t)(stop - text));
		struct piece name = trimmed(text, equals ? equals : stop);

		if (equals && name.len == strlen(property) &&
		    memcmp(name.at, property, name.len) == 0)
			found = trimmed(equals + 1, stop);
		text = newline ? newline + 1 : end;
	}
	return found;
}

static bool copy(struct piece from, char *ret, size_t size)
{
	if (!from.len || from.len >= size)
		return false;
	memcpy(ret, from.at, from.len);
	ret[from.len] = '\0';
	return true;
}

bool ms_config_options(const char *text, size_t len, const char *program, char *ret, size_t size)
{
	struct piece filter = value_of(text, len, "libc.debug.malloc.program");
	struct piece level = value_of(text, len, "libc.debug.malloc");

	if (filter.len && !memmem(program, strlen(program), filter.at, filter.len))
		return false;
	if (copy(value_of(text, len, "libc.debug.malloc.options"), ret, size))
		return true;
	for (size_t i = 0; i < sizeof(LEVELS) / sizeof(*LEVELS); i++) {
		if (level.len == strlen(LEVELS[i].level) &&
		    memcmp(level.at, LEVELS[i].level, level.len) == 0)
			return (size_t)snprintf(ret, size, "%s", LEVELS[i].options) < size;
	}
	return false;
}

bool ms_config_hooks(const char *text, size_t len)
{
	struct piece value = value_of(text, len, "libc.debug.hooks.enable");

	return value.len && value.at[0] != '0';
}
