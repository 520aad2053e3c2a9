/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/args.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool ms_args_wrong(struct ms_error *err, const char *advice, const char *fmt, ...)
{
	char text[MS_ERROR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)ms_fail(err, MS_E_UNSUPPORTED, "%s", text);
	ms_advise(err, "%s", advice);
	return false;
}

bool ms_args_number(const char *s, uint64_t most, uint64_t *ret)
{
	uint64_t n = 0;

	if (*s == '\0')
		return false;
	for (; *s; s++) {
		uint64_t digit = (uint64_t)(*s - '0');

		if (*s < '0' || *s > '9' || n > (most - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*ret = n;
	return true;
}

bool ms_args_seconds(const char *s, uint64_t most_s, uint64_t *ret_ns)
{
	enum { DIGITS = 9 };
	char digits[32] = "";
	size_t whole = strspn(s, "0123456789");
	size_t parts = s[whole] == '.' ? strspn(s + whole + 1, "0123456789") : 0;
	bool pointed = s[whole] == '.';
	uint64_t ns = 0;

	if (!whole || whole + DIGITS >= sizeof(digits) || parts > DIGITS || (pointed && !parts) ||
	    s[whole + pointed + parts] != '\0')
		return false;
	memcpy(digits, s, whole);
	memset(digits + whole, '0', DIGITS);
	memcpy(digits + whole, s + whole + pointed, parts);
	if (!ms_args_number(digits, most_s * UINT64_C(1000000000), &ns) || !ns)
		return false;
	*ret_ns = ns;
	return true;
}

bool ms_args_limit(const char *s, uint64_t *ret)
{
	if (strcmp(s, "all") != 0)
		return ms_args_number(s, UINT64_MAX, ret);
	*ret = UINT64_MAX;
	return true;
}

int ms_args_next(struct ms_args *args)
{
	int option;
	int at;

	if (!args->begun)
		optind = 0; /* GNU: begin anew, also when tests call us twice */
	args->begun = true;
	opterr = 0;
	/* With short options in one word, optind still is at that word. */
	at = optind ? optind : 1;
	option = getopt_long(args->argc, args->argv, args->shorts, args->longs, NULL);
	if ((option == ':' || option == '?') && optind > at)
		at = optind - 1;
	args->word = at < args->argc ? args->argv[at] : "";
	return option;
}
