/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/files.h"

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "sym/elf/functions.h"
#include "sym/elf/packed.h"
#include "sym/opener.h"
#include "sym/symbols.h"

struct ms_symbol_file {
	Dwfl_Callbacks callbacks;
	Dwfl *dwfl;
	Dwfl_Module *mod;
	struct ms_function_source source;
	struct ms_symbol_table data;
	struct ms_debug debug;
	const char *path;
	Elf *elf;
	GElf_Addr bias;
};

/* What finds the debug information of a file that is here. */
struct finding {
	struct ms_finder finder;
	struct ms_opener opener;
	const char *path;
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

/* The one file that is looked for. */
static bool sought_file(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	*ret = *(const struct ms_opener_file *)files;
	return number == 0;
}

/*
 * A dump's author has chosen the name: in a folder that the caller gave it does not lead out of
 * that; in this machine's root it leads only to a file of the inode that was mapped.
 */
static int open_in(const struct ms_symbol_folder *folder, const char *name, uint64_t inode)
{
	const struct ms_opener_file file = { .path = name, .named = inode };
	const struct ms_file_question question = { .kind = MS_FILE_CODE };
	struct ms_file_answer answer;
	struct ms_opener opener;

	ms_opener_init(&opener, 0, MS_OPENER_ANYONE);
	opener.file = sought_file;
	opener.files = &file;
	opener.n = 1;
	opener.roots[0] = folder->path;
	opener.roots[1] = NULL;
	opener.confined = !folder->same_inode;
	return ms_opener_find(&opener, &question, &answer);
}

/* The file in @folder, its name there in @name; -1 when there is none. */
static int find_in(const struct ms_symbol_folder *folder, const struct ms_mapped_file *mapped,
                   char name[PATH_MAX])
{
	uint64_t inode = folder->same_inode ? mapped->inode : 0;
	size_t len = strlen(mapped->path);
	const char *base;
	int fd;

	if (len >= PATH_MAX || mapped->path[0] != '/')
		return -1;
	if (len > strlen(deleted) && strcmp(mapped->path + len - strlen(deleted), deleted) == 0)
		len -= strlen(deleted);
	if (!stays_inside(mapped->path, len))
		return -1;
	memcpy(name, mapped->path, len);
	name[len] = '\0';
	fd = open_in(folder, name, inode);
	base = strrchr(name, '/');
	if (fd < 0 && folder->flat) {
		memmove(name, base, strlen(base) + 1);
		fd = open_in(folder, name, inode);
	}
	return fd;
}

int ms_symbol_folders_open(const struct ms_symbol_folders *folders,
                           const struct ms_mapped_file *mapped)
{
	char path[PATH_MAX];
	int fd = -1;

	for (size_t i = 0; i < folders->n && fd < 0; i++)
		fd = find_in(&folders->at[i], mapped, path);
	return fd;
}

/* Of libdwfl: a module without a file; there is none. */
/* NOLINTNEXTLINE(readability-function-size) */
static int find_no_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
                       char **file_name, Elf **elfp)
{
	(void)mod;
	(void)userdata;
	(void)name;
	(void)base;
	(void)file_name;
	(void)elfp;
	return -1;
}

/* A callback of libdwfl: how many parameters is its choice. */
/* NOLINTNEXTLINE(readability-function-size) */
static int find_debug(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
                      const char *file, const char *link, GElf_Word crc, char **ret_name)
{
	(void)name;
	(void)base;
	(void)file;
	(void)crc;
	return ms_debug_find(*userdata, mod, link, ret_name);
}

/* Libraries of one address space each: nothing can overlap. Takes @fd in every case. */
static bool begin(struct ms_symbol_file *file, const char *path, int fd)
{
	void **userdata;

	file->callbacks = (Dwfl_Callbacks){
		.find_elf = find_no_elf,
		.find_debuginfo = find_debug,
		.section_address = dwfl_offline_section_address,
	};
	(void)elf_version(EV_CURRENT);
	file->dwfl = dwfl_begin(&file->callbacks);
	if (file->dwfl) {
		dwfl_report_begin(file->dwfl);
		file->mod = dwfl_report_elf(file->dwfl, path, path, fd, 0, false);
		(void)dwfl_report_end(file->dwfl, NULL, NULL);
	}
	if (!file->mod) {
		(void)close(fd);
		return false;
	}
	(void)dwfl_module_info(file->mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = &file->debug;
	file->source.units.mod = file->mod;
	file->source.table.mod = file->mod;
	file->data.mod = file->mod;
	file->elf = dwfl_module_getelf(file->mod, &file->bias);
	return file->elf;
}

struct ms_symbol_file *ms_symbol_file_take(int fd, const char *path, const struct ms_finder *finder,
                                           uint32_t code, struct ms_arena *arena)
{
	struct ms_symbol_file *file = ms_arena_alloc(arena, sizeof(*file));
	const char *kept = ms_arena_strndup(arena, path, PATH_MAX);

	if (!file || !kept) {
		(void)close(fd);
		return NULL;
	}
	file->source.units.arena = arena;
	file->source.table.arena = arena;
	file->data = (struct ms_symbol_table){ .arena = arena, .data = true };
	file->path = kept;
	file->debug = (struct ms_debug){ .finder = finder, .code = code, .arena = arena };
	if (begin(file, kept, fd))
		return file;
	ms_symbol_file_close(file);
	return NULL;
}

static bool file_of(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	const struct finding *finding = files;

	*ret = (struct ms_opener_file){ .path = finding->path };
	return number == 0;
}

/* @root: NULL for this machine's own */
static const struct ms_finder *new_finder(const char *path, const char *root, bool debuginfod,
                                          struct ms_arena *arena)
{
	struct finding *finding = ms_arena_alloc(arena, sizeof(*finding));

	if (!finding)
		return NULL;
	finding->finder = (struct ms_finder){ ms_opener_find, &finding->opener };
	finding->path = path;
	ms_opener_init(&finding->opener, 0, MS_OPENER_ANYONE);
	finding->opener.file = file_of;
	finding->opener.files = finding;
	finding->opener.n = 1;
	finding->opener.roots[0] = root;
	finding->opener.confined = root;
	finding->opener.debuginfod = debuginfod;
	return &finding->finder;
}

struct ms_symbol_file *ms_symbol_file_open(const struct ms_symbol_folders *folders,
                                           const struct ms_mapped_file *mapped,
                                           struct ms_arena *arena)
{
	struct ms_symbol_file *file = NULL;
	char path[PATH_MAX];

	for (size_t i = 0; i < folders->n && !file; i++) {
		const char *folder = folders->at[i].path;
		/* Where only the very file counts the folder is this machine's root. */
		bool is_here = folders->at[i].same_inode;
		int fd = find_in(&folders->at[i], mapped, path);
		const struct ms_finder *finder;
		const char *inside;

		if (fd < 0)
			continue;
		inside = ms_arena_strndup(arena, path, PATH_MAX);
		finder = inside ? new_finder(inside, is_here ? NULL : folder, folders->debuginfod,
		                             arena)
		                : NULL;
		if (finder)
			file = ms_symbol_file_take(fd, inside, finder, 0, arena);
		else
			(void)close(fd);
	}
	return file;
}

bool ms_symbol_file_fits(const struct ms_symbol_file *file)
{
	return ms_packed_fits(file->elf);
}

const char *ms_symbol_file_path(const struct ms_symbol_file *file)
{
	return file->path;
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
	(void)ms_functions_find(&file->source, addr + file->bias, ret);
	return true;
}

bool ms_symbol_file_tell(struct ms_symbol_file *file, uint64_t offset, struct ms_named *ret)
{
	const struct ms_table_entry *entry;
	const struct ms_functions *functions = &ret->functions;
	struct ms_symbol *symbol = &ret->symbol;
	bool debugged;
	ms_addr addr;

	ret->functions.n = 0;
	if (!find_address(file, offset, &addr))
		return false;
	debugged = ms_functions_find(&file->source, addr + file->bias, &ret->functions);
	symbol->rel_pc = addr;
	if (functions->n) {
		symbol->file = functions->at[0].file;
		symbol->line = functions->at[0].line;
		symbol->function = functions->at[functions->n - 1].name;
	}
	entry = ms_symbol_table_find(&file->source.table, addr + file->bias);
	if (entry) {
		symbol->function_offset = addr + file->bias - entry->range.begin;
		symbol->unsized = !debugged && !ms_table_entry_is_sized(entry);
	}
	return true;
}

bool ms_symbol_file_tell_data(struct ms_symbol_file *file, ms_addr addr, struct ms_arena *arena,
                              struct ms_symbol *ret)
{
	const struct ms_table_entry *entry = ms_symbol_table_find(&file->data, addr + file->bias);

	if (!entry)
		return false;
	ret->rel_pc = addr;
	ret->function = ms_readable_name(entry->name, arena);
	ret->function_offset = addr + file->bias - entry->range.begin;
	return true;
}

size_t ms_symbol_file_build_id(const struct ms_symbol_file *file, const unsigned char **ret)
{
	GElf_Addr vaddr;
	int len = dwfl_module_build_id(file->mod, ret, &vaddr);

	return len > 0 ? (size_t)len : 0;
}

Dwarf *ms_symbol_file_dwarf(struct ms_symbol_file *file, uint64_t *ret_bias)
{
	Dwarf_Addr bias = 0;
	Dwarf *dwarf = dwfl_module_getdwarf(file->mod, &bias);

	*ret_bias = bias - file->bias;
	return dwarf;
}

const struct ms_debug *ms_symbol_file_debug(const struct ms_symbol_file *file)
{
	return &file->debug;
}
