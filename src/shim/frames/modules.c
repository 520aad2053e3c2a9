/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/frames/modules.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* One line of /proc/self/maps, NUL-terminated. */
static bool parse_line(const char *line, struct ms_shim_module *ret)
{
	char mode[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n",
	           &ret->range.begin, &ret->range.end, mode, &ret->offset, &ret->inode, &path) < 5)
		return false;
	ret->name = path ? line + path : "";
	ret->elf_offset = ret->offset;
	return true;
}

/* The mappings of one file follow each other; its image begins with the first. */
static void join(const struct ms_shim_modules *modules, struct ms_shim_module *module)
{
	const struct ms_shim_module *before = modules->n > 1 ? module - 1 : NULL;

	if (before && module->name[0] && strcmp(before->name, module->name) == 0 &&
	    before->offset < module->offset)
		module->elf_offset = before->elf_offset;
}

void ms_shim_modules_read(struct ms_arena *arena, struct ms_shim_modules *ret)
{
	struct ms_bytes text = { 0 };
	struct ms_error err;
	char *line;

	if (ms_file_read("/proc/self/maps", arena, &text, &err) ||
	    !ms_vec_reserve(arena, &text, text.n + 1))
		return;
	text.at[text.n] = '\0';
	line = text.at;
	for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		struct ms_shim_module *module = ms_vec_push(arena, ret);

		if (!module)
			return;
		*end = '\0';
		if (parse_line(line, module))
			join(ret, module);
		else
			ret->n--;
	}
}

/* The program's own, if it is one that has such names. It takes malloc's memory. */
static void demangle(char *name, size_t size)
{
	char *(*cxa_demangle)(const char *, char *, size_t *, int *) = NULL;
	void *symbol;
	char *plain;
	int status = -1;

	if (strncmp(name, "_Z", 2) != 0)
		return;
	symbol = dlsym(RTLD_DEFAULT, "__cxa_demangle");
	memcpy(&cxa_demangle, &symbol, sizeof(symbol));
	plain = cxa_demangle ? cxa_demangle(name, NULL, NULL, &status) : NULL;
	if (plain && status == 0)
		(void)snprintf(name, size, "%s", plain);
	free(plain);
}

void ms_place_find(struct ms_places *places, uint64_t pc, struct ms_place *ret)
{
	const struct ms_shim_module *module = ms_range_find(&places->modules, pc);
	struct ms_elf_mapped mapped;
	struct ms_elf_file *file;
	struct ms_elf_place place;

	*ret = (struct ms_place){ .module = module, .pc = pc };
	if (!module)
		return;
	ret->pc = pc - module->range.begin + module->offset - module->elf_offset;
	mapped = (struct ms_elf_mapped){ module->name, module->inode, module->elf_offset,
		                         module->range };
	file = module->inode ? ms_elf_files_open(&places->files, &mapped) : NULL;
	if (!file || !ms_elf_find(&places->files, file, ret->pc, &place))
		return;
	ret->pc = place.pc;
	ret->offset = place.offset;
	(void)snprintf(ret->function, sizeof(ret->function), "%.*s", (int)place.name_len,
	               place.name);
	demangle(ret->function, sizeof(ret->function));
}
