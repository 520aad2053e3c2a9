/* SPDX-License-Identifier: Apache-2.0 */

/* In front of the C library's dlopen(), for libraries whose calls would go past us: bypass.h. */

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "shim/bypass.h"
#include "shim/next.h"
#include "shim/shim.h"

/* Whether @file is looked for in folders that the caller at @pc names, or relative to it. */
static bool depends_on_caller(const char *file, const void *pc)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (strchr(file, '$'))
		return true;
	if (strchr(file, '/'))
		return false;
	if (!dladdr1(pc, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return true;
	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_RPATH || d->d_tag == DT_RUNPATH)
			return true;
	return false;
}

/* Whose blocks may get mixed up with those of others. */
static bool is_concerned(const char *file, int mode)
{
	return (mode & RTLD_DEEPBIND) && file && ms_shim.phase == MS_SHIM_ON && ms_shim_tracks();
}

__attribute__((noinline)) static void *load_deeply(const char *file, int mode)
{
	void *library = ms_next.dlopen(file, mode);

	if (library)
		ms_bypass_loaded(library, file);
	return library;
}

/* The C library looks who called: it is called last, by a jump, unless that does not matter. */
MS_SHIM_EXPORT void *dlopen(const char *file, int mode)
{
	if (!ms_next_ready() || !ms_next.dlopen)
		return NULL;
	if (!is_concerned(file, mode))
		return ms_next.dlopen(file, mode);
	if (!depends_on_caller(file, __builtin_return_address(0)))
		return load_deeply(file, mode);
	/* what it calls is found with the first block that is not ours */
	ms_bypass_unseen();
	return ms_next.dlopen(file, mode);
}
