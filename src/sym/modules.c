/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/modules.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/modules.h"

enum { MAX_VDSO_BYTES = 1 << 20, HEADERS = 32 };

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

/* Whether it begins as the module in memory does: no other build has the same headers. */
static bool is_mapped_one(const struct ms_module *module, int fd)
{
	const struct ms_symbols_call *call = module->call;
	char memory[sizeof(Elf64_Ehdr) + HEADERS * sizeof(Elf64_Phdr)];
	char file[sizeof(memory)];
	Elf64_Ehdr head;
	size_t len;

	if (call->read(call->ctx, module->range.begin, &head, sizeof(head)) != sizeof(head))
		return false;
	len = sizeof(head);
	if (head.e_phoff == sizeof(head) && head.e_phentsize == sizeof(Elf64_Phdr) &&
	    head.e_phnum <= HEADERS)
		len += head.e_phnum * sizeof(Elf64_Phdr);
	return call->read(call->ctx, module->range.begin, memory, len) == len &&
	       pread(fd, file, len, (off_t)module->first->offset) == (ssize_t)len &&
	       memcmp(memory, file, len) == 0;
}

static int open_file(const struct ms_module *module)
{
	const struct ms_finder *finder = module->call->finder;
	struct ms_file_question question = { .kind = MS_FILE_CODE, .code = ms_module_code(module) };
	struct ms_file_answer answer;
	int fd;

	while ((fd = finder->find(finder->ctx, &question, &answer)) >= 0) {
		if (is_mapped_one(module, fd))
			return fd;
		(void)close(fd);
		question.place = answer.place + 1;
	}
	return -1;
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
