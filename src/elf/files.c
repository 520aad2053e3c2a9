/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int open_regular(const char *path, uint64_t inode, uint64_t *ret_bytes)
{
	int fd = ms_file_open_regular(path);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_size > 0 && (!inode || st.st_ino == inode)) {
		*ret_bytes = (uint64_t)st.st_size;
		return fd;
	}
	(void)close(fd);
	return -1;
}

/* By its name, if that is still the file's; else by the mapping, which takes a privilege. */
static int open_mapped(const struct ms_elf_mapped *mapped, uint64_t *ret_bytes)
{
	char path[64];
	int fd = -1;

	if (mapped->path[0] != '/')
		return -1;
	fd = open_regular(mapped->path, mapped->inode, ret_bytes);
	if (fd >= 0)
		return fd;
	(void)snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64,
	               mapped->memory.begin, mapped->memory.end);
	return open_regular(path, 0, ret_bytes);
}

static bool is_same(const struct ms_elf_mapped *a, const struct ms_elf_mapped *b)
{
	return a->inode == b->inode && a->begin == b->begin &&
	       (a->path == b->path || strcmp(a->path, b->path) == 0);
}

static struct ms_elf_file *look_up(const struct ms_elf_files *files,
                                   const struct ms_elf_mapped *mapped)
{
	struct ms_elf_file *file;

	ms_vec_for_each (file, &files->list)
		if (is_same(&file->mapped, mapped))
			return file;
	return NULL;
}

struct ms_elf_file *ms_elf_files_open(struct ms_elf_files *files,
                                      const struct ms_elf_mapped *mapped)
{
	struct ms_elf_file *file = look_up(files, mapped);

	if (!file && files->sealed)
		return NULL;
	if (!file) {
		file = ms_vec_push(files->arena, &files->list);
		if (!file)
			return NULL;
		file->mapped = *mapped;
		file->fd = open_mapped(mapped, &file->bytes);
	}
	return file->fd >= 0 || file->is_image ? file : NULL;
}

void ms_elf_files_close(struct ms_elf_files *files)
{
	struct ms_elf_file *file;

	ms_vec_for_each (file, &files->list) {
		if (file->fd >= 0)
			(void)close(file->fd);
		file->fd = -1;
	}
}

/* Read @file when it is first asked; false when it is no image. */
static bool read_image(struct ms_elf_files *files, struct ms_elf_file *file)
{
	if (file->fd < 0)
		return file->is_image;
	file->image.variables = files->variables;
	file->is_image =
		ms_elf_read(file->fd, file->mapped.begin, file->bytes, files->arena, &file->image);
	(void)close(file->fd);
	file->fd = -1;
	return file->is_image;
}

bool ms_elf_find(struct ms_elf_files *files, struct ms_elf_file *file, uint64_t at,
                 struct ms_elf_place *ret)
{
	*ret = (struct ms_elf_place){ .pc = at, .name = "" };
	return read_image(files, file) &&
	       ms_elf_find_address(files, file, ms_elf_address(&file->image, at), ret);
}

bool ms_elf_find_address(struct ms_elf_files *files, struct ms_elf_file *file, uint64_t address,
                         struct ms_elf_place *ret)
{
	const struct ms_elf_function *function;

	*ret = (struct ms_elf_place){ .pc = address, .name = "" };
	if (!read_image(files, file))
		return false;
	function = ms_elf_function_at(&file->image, address);
	if (function) {
		ret->offset = address - function->begin;
		ret->name = function->name;
		/* Some linkers put a symbol's version behind its name. */
		ret->name_len = strcspn(function->name, "@");
	}
	return true;
}
