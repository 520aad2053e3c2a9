/* SPDX-License-Identifier: Apache-2.0 */
#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

#include "sym/symbols.h"

enum {
	LONGEST = 16 * 1024,          /* longer names are shown as they are */
	LONGEST_READABLE = 64 * 1024, /* substitutions can make a short name a very long one */
};

static bool is_mangled(const char *name)
{
	return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_R", 2) == 0;
}

const char *ms_readable_name(const char *name, struct ms_arena *arena)
{
	size_t len = strcspn(name, "@");
	const char *plain = name[len] && len ? ms_arena_strndup(arena, name, len) : name;
	const char *ret = NULL;
	char *readable;

	if (!plain || !is_mangled(plain) || len > LONGEST)
		return plain ? plain : name;
	readable = cplus_demangle(plain, DMGL_AUTO | DMGL_PARAMS | DMGL_ANSI);
	if (readable && strlen(readable) <= LONGEST_READABLE)
		ret = ms_arena_strndup(arena, readable, LONGEST_READABLE);
	free(readable);
	return ret ? ret : plain;
}
