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
 * take long to bring it, or for ever. The process has written no pointer there; another may
 * have, or this one through another mapping.
 */
#include "target/hold/wanted.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sort.h"

enum choice { CHOOSE_NONE, CHOOSE_CHANGED, CHOOSE_RESIDENT };

/* Of all that is the kernel's it alone can be read like a file. */
static bool is_vdso(const char *name)
{
	return !strcmp(name, "[vdso]");
}

/* Memory that has an inode but no file to read it from again. */
static bool is_shared_memory(const struct ms_mapping *map)
{
	return map->inode &&
	       (ms_name_begins(map->name, "/dev/zero") || ms_name_begins(map->name, "/dev/shm/") ||
	        ms_name_begins(map->name, "/memfd:") || ms_name_begins(map->name, "/SYSV") ||
	        ms_name_begins(map->name, "/anon_hugepage"));
}

enum ms_absent ms_absent_of(const struct ms_mapping *map)
{
	if (ms_is_device(map->name) || (ms_is_kernels(map->name) && !is_vdso(map->name)))
		return MS_ABSENT_NONE;
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

/* Append @range of @map, to the run before when it goes on there. */
static bool add(const struct ms_resident *resident, const struct ms_mapping *map,
                struct ms_range range, bool of_file, struct ms_wanted_list *list)
{
	struct ms_wanted *last = list->n ? &list->at[list->n - 1] : NULL;
	bool forced = !(map->prot & MS_PROT_READ);

	if (last && last->range.end == range.begin && last->forced == forced &&
	    last->of_file == of_file && !(of_file && range.begin == map->range.begin)) {
		last->range.end = range.end;
		return true;
	}
	last = ms_vec_push(resident->arena, list);
	if (last)
		*last = (struct ms_wanted){
			.range = range, .forced = forced, .of_file = of_file, .held_at = range.begin
		};
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
		bool of_file = map->inode && (map->shared || run->file);

		if (run->range.begin >= map->range.end)
			break;
		if ((choice == CHOOSE_RESIDENT || !run->file) &&
		    !add(resident, map, part, of_file, list))
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

static bool wanted_before(const void *a, const void *b)
{
	return ((const struct ms_wanted *)a)->range.begin <
	       ((const struct ms_wanted *)b)->range.begin;
}

bool ms_wanted_sort(struct ms_wanted_list *list, struct ms_arena *arena)
{
	return ms_sort(arena, list->at, list->n, sizeof(*list->at), wanted_before);
}

/* ---- each page of a file once ---- */

/* Wanted pages, by where in which file they are. */
struct file_part {
	const struct ms_mapping *map; /* of that file */
	uint64_t begin;               /* offset into the file */
	uint64_t end;
	struct ms_wanted want;
};

struct file_parts MS_VEC(struct file_part);

static bool is_same_file(const struct ms_mapping *a, const struct ms_mapping *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static bool part_before(const void *left, const void *right)
{
	const struct file_part *a = left;
	const struct file_part *b = right;
	int order = compare(a->map->inode, b->map->inode);

	order = order ? order : compare(a->map->dev_major, b->map->dev_major);
	order = order ? order : compare(a->map->dev_minor, b->map->dev_minor);
	order = order ? order : compare(a->begin, b->begin);
	order = order ? order : compare(a->want.range.begin, b->want.range.begin);
	return order < 0;
}

/* Move the runs of files from @list to @ret, by place in the file. */
static bool take_parts(const struct ms_resident *resident, struct ms_wanted_list *list,
                       struct file_parts *ret)
{
	const struct ms_mapping *map = resident->maps->at;
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct ms_wanted *want = &list->at[i];
		struct file_part *part;

		if (!want->of_file) {
			list->at[kept++] = *want;
			continue;
		}
		while (map->range.end <= want->range.begin)
			map++;
		part = ms_vec_push(resident->arena, ret);
		if (!part)
			return false;
		*part = (struct file_part){ .map = map, .want = *want };
		part->begin = map->offset + (want->range.begin - map->range.begin);
		part->end = part->begin + ms_range_len(want->range);
	}
	list->n = kept;
	return ms_sort(resident->arena, ret->at, ret->n, sizeof(*ret->at), part_before);
}

/* Give @list the beginning of @part, up to @end in the file, which is held at @held_at. */
static bool put_part(const struct ms_resident *resident, struct file_part *part, uint64_t end,
                     ms_addr held_at, struct ms_wanted_list *list)
{
	struct ms_wanted *slot = ms_vec_push(resident->arena, list);
	uint64_t len = end - part->begin;

	if (!slot)
		return false;
	*slot = part->want;
	slot->range.end = slot->range.begin + len;
	slot->held_at = held_at;
	part->want.range.begin += len;
	part->want.held_at += len;
	part->begin += len;
	return true;
}

/*
 * Those parts that hold pages themselves lie one behind the other in a file. Parts come by
 * their beginnings, so none begins before those that held the part before.
 */
static bool share(const struct ms_resident *resident, struct file_parts *parts,
                  struct ms_wanted_list *list)
{
	struct file_parts holders = { 0 };
	size_t first = 0;
	struct file_part *part;

	ms_vec_for_each (part, parts) {
		struct file_part *slot;

		while (first < holders.n && (!is_same_file(holders.at[first].map, part->map) ||
		                             holders.at[first].end <= part->begin))
			first++;
		for (size_t i = first; i < holders.n && part->begin < part->end; i++) {
			const struct file_part *holder = &holders.at[i];
			uint64_t end = holder->end < part->end ? holder->end : part->end;
			ms_addr at = holder->want.range.begin + (part->begin - holder->begin);

			if (!put_part(resident, part, end, at, list))
				return false;
		}
		if (part->begin == part->end)
			continue;
		slot = ms_vec_push(resident->arena, &holders);
		if (!slot)
			return false;
		*slot = *part;
		if (!put_part(resident, part, part->end, part->want.held_at, list))
			return false;
	}
	return true;
}

bool ms_wanted_once(const struct ms_resident *resident, struct ms_wanted_list *list,
                    struct ms_wanted_list *ret_own)
{
	struct file_parts parts = { 0 };
	const struct ms_wanted *want;

	if (!take_parts(resident, list, &parts) || !share(resident, &parts, list) ||
	    !ms_wanted_sort(list, resident->arena))
		return false;
	ret_own->n = 0;
	ms_vec_for_each (want, list) {
		struct ms_wanted *slot;

		if (want->held_at != want->range.begin)
			continue;
		slot = ms_vec_push(resident->arena, ret_own);
		if (!slot)
			return false;
		*slot = *want;
	}
	return true;
}
