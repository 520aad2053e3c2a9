/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/modules.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/modules.h"

enum { MAX_VDSO_BYTES = 1 << 20 };

static bool is_vdso(const struct ms_mapping *map)
{
	return strcmp(map->name, "[vdso]") == 0;
}

static bool begins_elf(const struct ms_symbols_call *call, const struct ms_mapping *map)
{
	char magic[SELFMAG];

	return (map->inode || is_vdso(map)) &&
	       call->read(call->ctx, map->range.begin, magic, sizeof(magic)) == sizeof(magic) &&
	       memcmp(magic, ELFMAG, SELFMAG) == 0;
}

bool ms_modules_list(const struct ms_symbols_call *call, struct ms_arena *arena,
                     struct ms_modules *ret)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, call->maps) {
		struct ms_module *last = ret->n ? &ret->at[ret->n - 1] : NULL;

		if (last && ms_module_first(call->maps, map) == last->first && map != last->first) {
			last->range.end = map->range.end;
			continue;
		}
		if (ms_module_first(call->maps, map) != map || !begins_elf(call, map))
			continue;
		last = ms_vec_push(arena, ret);
		if (!last)
			return false;
		*last = (struct ms_module){
			.range = map->range, .first = map, .call = call, .arena = arena
		};
	}
	return true;
}

uint32_t ms_module_code(const struct ms_module *module)
{
	return (uint32_t)(module->first - module->call->maps->at);
}

static int open_file(const struct ms_module *module)
{
	const struct ms_finder *finder = module->call->finder;
	const struct ms_file_question question = { .kind = MS_FILE_CODE,
		                                   .code = ms_module_code(module) };
	struct ms_file_answer answer;

	return finder->find(finder->ctx, &question, &answer);
}

static Elf *vdso_elf(const struct ms_module *module)
{
	size_t len = ms_range_len(module->range);
	char *bytes = len <= MAX_VDSO_BYTES ? ms_arena_alloc(module->arena, len) : NULL;

	if (!bytes || module->call->read(module->call->ctx, module->range.begin, bytes, len) != len)
		return NULL;
	return elf_memory(bytes, len);
}

/* An ELF file inside of another file: what is mapped from somewhere in its middle. */
static Elf *inner_elf(const struct ms_module *module, int fd)
{
	uint64_t offset = module->first->offset;
	struct stat st;
	void *bytes;

	if (fstat(fd, &st) != 0 || (uint64_t)st.st_size <= offset)
		return NULL;
	/* Private and writable: libelf may swap bytes in place. */
	bytes = mmap(NULL, (size_t)st.st_size - offset, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd,
	             (off_t)offset);
	if (bytes == MAP_FAILED)
		return NULL;
	return elf_memory(bytes, (size_t)st.st_size - offset);
}

int ms_module_elf(struct ms_module *module, Elf **ret_elf)
{
	int fd;

	*ret_elf = NULL;
	if (is_vdso(module->first)) {
		*ret_elf = vdso_elf(module);
		return -1;
	}
	fd = open_file(module);
	if (fd < 0 || module->first->offset == 0)
		return fd;
	*ret_elf = inner_elf(module, fd);
	(void)close(fd);
	return -1;
}
