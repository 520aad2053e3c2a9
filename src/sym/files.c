/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/files.h"

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sym/functions.h"
#include "sym/modules.h"

struct ms_symbol_file {
	Dwfl_Callbacks callbacks;
	char debug_folders[PATH_MAX + 64];
	char *debug_folders_at;
	Dwfl *dwfl;
	struct ms_unit_source source;
	Elf *elf;
	GElf_Addr bias;
};

static const char deleted[] = " (deleted)";

/* A dump's names are others' choice: none may lead out of the folder. */
static bool stays_inside(const char *path, size_t len)
{
	for (const char *at = path; at < path + len;) {
		size_t part = strcspn(at, "/");

		if (part == 2 && at[0] == '.' && at[1] == '.')
			return false;
		at += part + 1;
	}
	return true;
}

static int open_at(const struct ms_symbol_folder *folder, const char *name, size_t len,
                   char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s/%.*s", folder->path, (int)len, name);

	return n > 0 && n < PATH_MAX ? n : -1;
}

/* The file in @folder, its name in @path; -1 when there is none. */
static int find_in(const struct ms_symbol_folder *folder, const struct ms_mapped_file *mapped,
                   char path[PATH_MAX])
{
	uint64_t inode = folder->same_inode ? mapped->inode : 0;
	const char *base = strrchr(mapped->path, '/');
	size_t len = strlen(mapped->path);
	int fd = -1;

	if (len >= PATH_MAX || mapped->path[0] != '/')
		return -1;
	if (len > strlen(deleted) && strcmp(mapped->path + len - strlen(deleted), deleted) == 0)
		len -= strlen(deleted);
	if (!stays_inside(mapped->path, len))
		return -1;
	if (open_at(folder, mapped->path + 1, len - 1, path) > 0)
		fd = ms_module_open(path, inode);
	if (fd < 0 && folder->flat && base &&
	    open_at(folder, base + 1, len - (size_t)(base + 1 - mapped->path), path) > 0)
		fd = ms_module_open(path, inode);
	return fd;
}

int ms_symbol_folders_open(const struct ms_symbol_folder *folders, size_t n,
                           const struct ms_mapped_file *mapped)
{
	char path[PATH_MAX];
	int fd = -1;

	for (size_t i = 0; i < n && fd < 0; i++)
		fd = find_in(&folders[i], mapped, path);
	return fd;
}

/* Libraries of one address space each: nothing can overlap. Takes @fd in every case. */
static bool begin(struct ms_symbol_file *file, const char *path, int fd)
{
	file->callbacks = (Dwfl_Callbacks){
		.find_elf = dwfl_build_id_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.section_address = dwfl_offline_section_address,
		.debuginfo_path = &file->debug_folders_at,
	};
	file->debug_folders_at = file->debug_folders;
	(void)elf_version(EV_CURRENT);
	file->dwfl = dwfl_begin(&file->callbacks);
	if (file->dwfl) {
		dwfl_report_begin(file->dwfl);
		file->source.mod = dwfl_report_elf(file->dwfl, path, path, fd, 0, false);
		(void)dwfl_report_end(file->dwfl, NULL, NULL);
	}
	if (!file->source.mod)
		(void)close(fd);
	else
		file->elf = dwfl_module_getelf(file->source.mod, &file->bias);
	return file->elf;
}

struct ms_symbol_file *ms_symbol_file_open(const struct ms_symbol_folder *folders, size_t n,
                                           const struct ms_mapped_file *mapped,
                                           struct ms_arena *arena)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < n; i++) {
		int fd = find_in(&folders[i], mapped, path);
		struct ms_symbol_file *file;

		if (fd < 0)
			continue;
		file = ms_arena_alloc(arena, sizeof(*file));
		if (!file) {
			(void)close(fd);
			return NULL;
		}
		file->source.arena = arena;
		(void)snprintf(file->debug_folders, sizeof(file->debug_folders),
		               ":.debug:%s/usr/lib/debug:/usr/lib/debug", folders[i].path);
		if (begin(file, path, fd))
			return file;
		ms_symbol_file_close(file);
	}
	return NULL;
}

void ms_symbol_file_close(struct ms_symbol_file *file)
{
	if (file->dwfl)
		dwfl_end(file->dwfl);
}

/*
 * Where code at @offset is loaded; false when no code is there, and then the file is
 * not the one that was mapped.
 */
static bool find_address(const struct ms_symbol_file *file, uint64_t offset, ms_addr *ret)
{
	GElf_Phdr phdr;
	size_t n;

	if (elf_getphdrnum(file->elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n && i < INT_MAX; i++) {
		if (!gelf_getphdr(file->elf, (int)i, &phdr))
			return false;
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X) ||
		    offset - phdr.p_offset >= phdr.p_filesz)
			continue;
		*ret = phdr.p_vaddr + (offset - phdr.p_offset);
		return true;
	}
	return false;
}

bool ms_symbol_file_name(struct ms_symbol_file *file, uint64_t offset, struct ms_functions *ret)
{
	ms_addr addr;

	ret->n = 0;
	if (!find_address(file, offset, &addr))
		return false;
	ms_functions_find(&file->source, addr + file->bias, ret);
	return true;
}
