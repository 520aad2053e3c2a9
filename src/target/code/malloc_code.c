/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where glibc's malloc lies in a process.
 *
 * Its object file is linked in one piece, exported from `malloc` to
 * `malloc_info`, its static functions before and behind. What else exports both
 * names is glibc under another name; other allocators have no malloc_info, keep
 * their state consistent in other ways and are left alone.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "target/code/image.h"
#include "target/code/static_code.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/target.h"

/*
 * Source: DWARF of glibc 2.23 to 2.43, amd64: static functions begin 0x6120 below
 * malloc at most; malloc_info is the last but for a few hundred bytes.
 */
enum { BEFORE_MALLOC = 0x6400, BEHIND_INFO = 0x1000 };

static void add_code(struct ms_collection *shared, struct ms_range code, struct ms_range text)
{
	code = ms_range_common(code, text);
	if (code.begin == code.end || shared->n_malloc_code == MS_CODE_RANGES ||
	    shared->n_libc_code == MS_CODE_RANGES)
		return;
	shared->malloc_code[shared->n_malloc_code++] = code;
	shared->libc_code[shared->n_libc_code++] = text;
}

static void add_any(struct ms_collection *shared, struct ms_range text)
{
	if (shared->n_all_code < MS_ALL_CODE_RANGES)
		shared->all_code[shared->n_all_code++] = text;
}

/* The first mapping of the file that @text maps a part of: its ELF header is there. */
static const struct ms_mapping *head_of(const struct ms_mappings *maps,
                                        const struct ms_mapping *text)
{
	const struct ms_mapping *map = text;

	/* Copies of one library (dlmopen) each begin with the mapping of offset 0. */
	while (map > maps->at && map->offset) {
		map--;
		if (map->inode == text->inode && map->dev_major == text->dev_major &&
		    map->dev_minor == text->dev_minor && !map->offset)
			return map;
	}
	return map->offset ? NULL : map;
}

/* Look for malloc in the image that @text maps the instructions of. */
static void look_at(int mem_fd, const struct ms_mappings *maps, const struct ms_mapping *text,
                    struct ms_collection *shared, struct ms_arena *arena)
{
	const struct ms_mapping *head = head_of(maps, text);
	struct ms_image image;
	ms_addr malloc_at;
	ms_addr info_at;
	struct ms_range code;

	if (!head || !ms_image_open(mem_fd, head->range.begin, &image))
		return;
	if (ms_image_find(&image, "malloc", &malloc_at) &&
	    ms_image_find(&image, "malloc_info", &info_at) && malloc_at < info_at)
		code = (struct ms_range){ malloc_at - BEFORE_MALLOC, info_at + BEHIND_INFO };
	else if (image.has_interpreter || !ms_static_code_find(&image, maps, arena, &code))
		return;
	add_code(shared, code, text->range);
}

static void look_through(int mem_fd, const struct ms_mappings *maps, struct ms_collection *shared,
                         struct ms_arena *arena)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, maps) {
		if (!(map->prot & MS_PROT_EXEC))
			continue;
		add_any(shared, map->range);
		if (map->inode)
			look_at(mem_fd, maps, map, shared, arena);
	}
}

void ms_malloc_code_find(pid_t pid, struct ms_collection *shared, struct ms_arena *arena)
{
	pid_t living = ms_proc_living_thread(pid);
	int mem_fd = ms_proc_open(living, "mem", O_RDONLY);
	struct ms_mappings maps = { 0 };
	struct ms_proc_stat stat = { 0 };
	struct ms_error err;

	(void)ms_proc_stat(living, &stat);
	shared->program = stat.program; /* before all that is learnt of it */
	shared->n_malloc_code = 0;
	shared->n_libc_code = 0;
	shared->n_all_code = 0;
	if (mem_fd < 0)
		return;
	if (!ms_maps_read(living, arena, &maps, &err))
		look_through(mem_fd, &maps, shared, arena);
	(void)close(mem_fd);
}
