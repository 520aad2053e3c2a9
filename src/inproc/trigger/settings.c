/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <link.h>
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
	const char *text = secure_getenv(name);
	uint64_t n = 0;

	if (!text || !*text)
		return 0;
	if (parse_size(text, &n) && n <= most)
		return n;
	ms_log("%s takes a number such as %s, not '%s'; it is ignored", name, example, text);
	return 0;
}

static void take_folder(char *ret)
{
	const char *folder = secure_getenv(MS_ENV_FOLDER);

	if (!folder || !*folder)
		folder = MS_DEFAULT_FOLDER;
	if (*folder == '/' && strlen(folder) < MS_FOLDER_BYTES) {
		(void)snprintf(ret, MS_FOLDER_BYTES, "%s", folder);
		return;
	}
	ms_log("%s takes the path of a folder that begins with '/' and is shorter than %d "
	       "bytes, not '%s'; %s is used",
	       MS_ENV_FOLDER, MS_FOLDER_BYTES, folder, MS_DEFAULT_FOLDER);
	(void)snprintf(ret, MS_FOLDER_BYTES, "%s", MS_DEFAULT_FOLDER);
}

/* A copy, for the program may change its environment. */
static void take_suppressions(char *ret)
{
	const char *file = secure_getenv("MEMUNREACHABLE_SUPPRESSIONS");

	ret[0] = '\0';
	if (file && strlen(file) < MS_PROGRAM_BYTES)
		(void)snprintf(ret, MS_PROGRAM_BYTES, "%s", file);
	else if (file)
		ms_log("MEMUNREACHABLE_SUPPRESSIONS is ignored: the path is too long");
}

/* Absolute, for the program may change its folder before the file is run. */
static bool take_program(char *ret, const char *folder, size_t len, const char *name)
{
	char path[PATH_MAX];
	char whole[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%.*s%s", (int)len, folder, name);

	if (n > 0 && n < PATH_MAX && !access(path, X_OK) && realpath(path, whole) &&
	    strlen(whole) < MS_PROGRAM_BYTES) {
		(void)snprintf(ret, MS_PROGRAM_BYTES, "%s", whole);
		return true;
	}
	ret[0] = '\0';
	return false;
}

/* Of what is loaded, the file that this code is in. */
struct self {
	size_t nth;
	char *path; /* of PATH_MAX; "" for the program itself, which may call itself anything */
};

static int look_for_self(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct self *self = ctx;
	uintptr_t code = (uintptr_t)ms_trigger_read_settings - info->dlpi_addr;
	bool is_program = self->nth++ == 0;

	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || code - segment->p_vaddr >= segment->p_memsz)
			continue;
		if (!is_program && !realpath(info->dlpi_name, self->path))
			return -1;
		return 1;
	}
	return 0;
}

static bool find_self(char *ret)
{
	struct self self = { .path = ret };
	ssize_t n;

	ret[0] = '\0';
	if (dl_iterate_phdr(look_for_self, &self) != 1)
		return false;
	if (ret[0])
		return true;
	n = readlink("/proc/self/exe", ret, PATH_MAX - 1);
	ret[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

/* The program memscan: the one named, beside this library, or where the two are installed. */
static void find_memscan(char *ret)
{
	const char *named = secure_getenv(MS_ENV_MEMSCAN);
	char self[PATH_MAX];
	size_t len;

	if (named && *named) {
		if (!take_program(ret, named, strlen(named), ""))
			ms_log("%s is ignored: '%s' is not a program", MS_ENV_MEMSCAN, named);
		return;
	}
	if (find_self(self)) {
		len = (size_t)(strrchr(self, '/') - self);
		if (take_program(ret, self, len, "/memscan") ||
		    take_program(ret, self, len, "/../bin/memscan"))
			return;
	}
	if (!take_program(ret, "", 0, "/usr/bin/memscan"))
		(void)take_program(ret, "", 0, "/usr/local/bin/memscan");
}

void ms_trigger_read_settings(struct ms_trigger_settings *ret)
{
	const char *trigger = secure_getenv(MS_ENV_TRIGGER);

	memset(ret, 0, sizeof(*ret));
	ret->off = trigger && !strcmp(trigger, "0");
	take_folder(ret->folder);
	find_memscan(ret->memscan);
	take_suppressions(ret->suppressions);
	ret->rss_bytes = take_size(MS_ENV_RSS, MOST_BYTES, "500M");
	ret->interval_s = take_size(MS_ENV_INTERVAL, MOST_SECONDS, "600");
}
