/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can hold a pointer that the program made is copied; what is a file's
 * unchanged content is not, because it can be read at any time later:
 *
 *	anonymous, brk, stacks             resident pages
 *	shared memory of any kind          resident pages
 *	private, writable, of a file       resident pages
 *	private, read-only, of a file      pages changed before (relocations)
 *	shared, writable once, of a file   resident pages
 *	shared, read-only, of a file       nothing
 *	devices, the kernel's own          nothing: reading some has effects
 *
 * What is not resident is not asked for while the process stands: the file system may
 * take long to bring it, or for ever. No pointer to a block was written there yet.
 */
#include "target/hold/wanted.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum choice { CHOOSE_NONE, CHOOSE_CHANGED, CHOOSE_RESIDENT };

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* MAP_SHARED|MAP_ANONYMOUS is called /dev/zero, POSIX shared memory lies in /dev/shm. */
static bool is_device(const char *name)
{
	return starts_with(name, "/dev/") && !starts_with(name, "/dev/zero") &&
	       !starts_with(name, "/dev/shm/");
}

/* Of all that is the kernel's it alone can be read like a file. */
static bool is_vdso(const char *name)
{
	return !strcmp(name, "[vdso]");
}

/* Memory that has an inode but no file to read it from again. */
static bool is_shared_memory(const struct ms_mapping *map)
{
	return starts_with(map->name, "/dev/zero") || starts_with(map->name, "/dev/shm/") ||
	       starts_with(map->name, "/memfd:") || starts_with(map->name, "/SYSV") ||
	       starts_with(map->name, "/anon_hugepage");
}

enum ms_absent ms_absent_of(const struct ms_mapping *map)
{
	if (is_device(map->name) || (ms_is_kernels(map->name) && !is_vdso(map->name)))
		return MS_ABSENT_NONE;
	if (starts_with(map->name, "/anon_hugepage") && !map->shared)
		return MS_ABSENT_ZERO;
	if (map->inode || map->shared || is_vdso(map->name))
		return MS_ABSENT_FILE;
	return MS_ABSENT_ZERO;
}

/*
 * Whether the shared mapping @map of process @tid can have been written through: its file
 * was opened for that, which the mode of the kernel's link to it says.
 */
static bool was_writable(pid_t tid, const struct ms_mapping *map)
{
	char path[96];
	struct stat link;

	if (map->prot & MS_PROT_WRITE)
		return true;
	(void)snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)tid,
	               (unsigned long long)map->range.begin, (unsigned long long)map->range.end);
	return !lstat(path, &link) && link.st_mode & S_IWUSR;
}

bool ms_wanted_beside(pid_t tid, const struct ms_mapping *map)
{
	return is_shared_memory(map) || (map->shared && was_writable(tid, map));
}

static enum choice choose(pid_t tid, const struct ms_mapping *map)
{
	if (ms_absent_of(map) == MS_ABSENT_NONE || is_vdso(map->name))
		return CHOOSE_NONE;
	if (!map->inode || is_shared_memory(map) || map->prot & MS_PROT_WRITE)
		return CHOOSE_RESIDENT;
	if (!map->shared)
		return CHOOSE_CHANGED;
	return was_writable(tid, map) ? CHOOSE_RESIDENT : CHOOSE_NONE;
}

static bool add(const struct ms_resident *resident, const struct ms_mapping *map,
                struct ms_range range, struct ms_wanted_list *list)
{
	struct ms_wanted *last = list->n ? &list->at[list->n - 1] : NULL;
	bool forced = !(map->prot & MS_PROT_READ);

	if (last && last->range.end == range.begin && last->forced == forced) {
		last->range.end = range.end;
		return true;
	}
	last = ms_vec_push(resident->arena, list);
	if (last)
		*last = (struct ms_wanted){ .range = range, .forced = forced };
	return last;
}

/* Choose among the runs from *@at on, which is moved to the first that reaches beyond @map. */
static bool choose_in(const struct ms_resident *resident, const struct ms_mapping *map, size_t *at,
                      struct ms_wanted_list *list)
{
	enum choice choice = choose(resident->tid, map);

	while (*at < resident->runs.n && resident->runs.at[*at].range.end <= map->range.begin)
		(*at)++;
	for (; *at < resident->runs.n && choice != CHOOSE_NONE; (*at)++) {
		const struct ms_page_run *run = &resident->runs.at[*at];
		struct ms_range part = ms_range_common(run->range, map->range);

		if (run->range.begin >= map->range.end)
			break;
		if ((choice == CHOOSE_RESIDENT || !run->file) && !add(resident, map, part, list))
			return false;
		if (run->range.end > map->range.end)
			break;
	}
	return true;
}

bool ms_wanted_choose(const struct ms_resident *resident, struct ms_wanted_list *ret)
{
	const struct ms_mapping *map;
	size_t at = 0;

	ms_vec_for_each (map, resident->maps)
		if (!choose_in(resident, map, &at, ret))
			return false;
	return true;
}
