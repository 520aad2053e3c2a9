/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inproc/log.h"
#include "inproc/trigger/trigger.h"

/* Beyond these the arithmetic would not hold, and no process lives so long. */
static const uint64_t MOST_BYTES = UINT64_C(1) << 62;
static const uint64_t MOST_SECONDS = UINT64_C(1000000000);

/* A number of bytes with K, M or G behind it, or without. */
static bool parse_size(const char *text, uint64_t *ret)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (end == text || *text == '-' || errno)
		return false;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		unsigned shift = 10 * (unsigned)(unit - units + 1);

		if (n > UINT64_MAX >> shift)
			return false;
		n <<= shift;
		end++;
	}
	*ret = n;
	return !*end && n;
}

static uint64_t take_size(const char *name, uint64_t most, const char *example)
{
	const char *text = getenv(name);
	uint64_t n = 0;

	if (!text || !*text)
		return 0;
	if (parse_size(text, &n) && n <= most)
		return n;
	ms_log("%s takes a number such as %s, not '%s'; it is left out", name, example, text);
	return 0;
}

static void take_folder(char *ret)
{
	const char *folder = getenv(MS_ENV_FOLDER);

	if (!folder || !*folder)
		folder = MS_DEFAULT_FOLDER;
	if (*folder == '/' && strlen(folder) < MS_FOLDER_BYTES) {
		(void)snprintf(ret, MS_FOLDER_BYTES, "%s", folder);
		return;
	}
	ms_log("%s takes a folder's name that begins with '/' and has less than %d bytes, not "
	       "'%s'; %s is used",
	       MS_ENV_FOLDER, MS_FOLDER_BYTES, folder, MS_DEFAULT_FOLDER);
	(void)snprintf(ret, MS_FOLDER_BYTES, "%s", MS_DEFAULT_FOLDER);
}

/* A copy, for the program may change its environment. */
static void take_suppressions(char *ret)
{
	const char *file = getenv("MEMUNREACHABLE_SUPPRESSIONS");

	ret[0] = '\0';
	if (file && strlen(file) < MS_PROGRAM_BYTES)
		(void)snprintf(ret, MS_PROGRAM_BYTES, "%s", file);
	else if (file)
		ms_log("MEMUNREACHABLE_SUPPRESSIONS has too long a name; it is left out");
}

static bool take_program(char *ret, const char *folder, size_t len, const char *name)
{
	int n = snprintf(ret, MS_PROGRAM_BYTES, "%.*s%s", (int)len, folder, name);

	if (n > 0 && n < MS_PROGRAM_BYTES && access(ret, X_OK) == 0)
		return true;
	ret[0] = '\0';
	return false;
}

/* The program memscan: as told, beside this library, or where the two are installed. */
static void find_memscan(char *ret)
{
	const char *told = getenv(MS_ENV_MEMSCAN);
	const char *slash;
	Dl_info info;
	size_t len;

	if (told && *told) {
		if (!take_program(ret, told, strlen(told), ""))
			ms_log("%s: no program '%s'", MS_ENV_MEMSCAN, told);
		return;
	}
	/* NOLINTNEXTLINE(bugprone-multi-level-implicit-pointer-conversion) */
	if (!dladdr((const void *)ms_trigger_read_settings, &info) || !info.dli_fname)
		return;
	slash = strrchr(info.dli_fname, '/');
	len = slash ? (size_t)(slash - info.dli_fname) : 0;
	if (!take_program(ret, info.dli_fname, len, "/memscan") &&
	    !take_program(ret, info.dli_fname, len, "/../bin/memscan") &&
	    !take_program(ret, "", 0, "/usr/bin/memscan"))
		(void)take_program(ret, "", 0, "/usr/local/bin/memscan");
}

void ms_trigger_read_settings(struct ms_trigger_settings *ret)
{
	const char *trigger = getenv(MS_ENV_TRIGGER);

	memset(ret, 0, sizeof(*ret));
	ret->off = trigger && !strcmp(trigger, "0");
	take_folder(ret->folder);
	find_memscan(ret->memscan);
	take_suppressions(ret->suppressions);
	ret->rss_bytes = take_size(MS_ENV_RSS, MOST_BYTES, "500M");
	ret->interval_s = take_size(MS_ENV_INTERVAL, MOST_SECONDS, "600");
}
