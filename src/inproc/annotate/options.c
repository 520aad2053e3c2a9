/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/annotate/options.h"

#include <string.h>

/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): see options.h */
struct ms_lsan_options ms_lsan;

static const char BETWEEN[] = " ,:\n\t\r";

struct option_text {
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
};

/* Read the option at @at, which is not between two; returns what is behind it. */
static const char *read_option(const char *at, struct option_text *ret)
{
	size_t word = strcspn(at, BETWEEN);
	const char *equals = memchr(at, '=', word);
	const char *close;

	if (!equals) {
		*ret = (struct option_text){ at, 0, at, 0 };
		return at + word;
	}
	*ret = (struct option_text){ at, (size_t)(equals - at), equals + 1,
		                     word - (size_t)(equals + 1 - at) };
	if (*ret->value != '\'' && *ret->value != '"')
		return at + word;
	ret->value++;
	close = strchr(ret->value, equals[1]);
	ret->value_len = close ? (size_t)(close - ret->value) : strlen(ret->value);
	return ret->value + ret->value_len + (close != NULL);
}

long ms_option_find(const char *text, const char *name, char *value, size_t size)
{
	size_t name_len = strlen(name);
	struct option_text option;
	long found = -1;

	for (const char *at = text; at && *(at += strspn(at, BETWEEN)) != '\0';) {
		at = read_option(at, &option);
		if (option.name_len != name_len || memcmp(option.name, name, name_len) != 0 ||
		    option.value_len >= size)
			continue;
		memcpy(value, option.value, option.value_len);
		value[option.value_len] = '\0';
		found = (long)option.value_len;
	}
	return found;
}
