/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/modules.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/modules.h"

enum { MAX_VDSO_BYTES = 1 << 20, MAX_LOADED_BYTES = 64 << 20, HEADERS = 32 };

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

/* ---- without its file ---- */

struct loaded {
	Elf64_Ehdr head;
	Elf64_Phdr parts[HEADERS];
	ms_addr bias;
	size_t bytes;
};

/* What its headers say, as far as that can be. */
static bool read_headers(const struct ms_module *module, struct loaded *ret)
{
	const struct ms_symbols_call *call = module->call;
	bool begun = false;
	size_t len;

	if (call->read(call->ctx, module->range.begin, &ret->head, sizeof(ret->head)) !=
	            sizeof(ret->head) ||
	    ret->head.e_phentsize != sizeof(ret->parts[0]) || ret->head.e_phnum > HEADERS ||
	    ret->head.e_phoff > MAX_LOADED_BYTES)
		return false;
	len = ret->head.e_phnum * sizeof(ret->parts[0]);
	if (call->read(call->ctx, module->range.begin + ret->head.e_phoff, ret->parts, len) != len)
		return false;
	for (int i = 0; i < ret->head.e_phnum; i++) {
		const Elf64_Phdr *part = &ret->parts[i];

		if (part->p_type != PT_LOAD)
			continue;
		if (part->p_offset > MAX_LOADED_BYTES || part->p_filesz > MAX_LOADED_BYTES)
			return false;
		if (!begun)
			ret->bias = module->range.begin - (part->p_vaddr - part->p_offset);
		begun = true;
		if (part->p_offset + part->p_filesz > ret->bytes)
			ret->bytes = part->p_offset + part->p_filesz;
	}
	return begun && ret->bytes >= sizeof(ret->head) && ret->bytes <= MAX_LOADED_BYTES;
}

/*
 * What of the file is in memory: nothing that only debuggers read, but the functions that it
 * shows to others. For a file that was deleted, and cannot be opened by its mapping. That the
 * loader made addresses of places in the dynamic section libdwfl knows.
 */
static Elf *loaded_elf(const struct ms_module *module)
{
	const struct ms_symbols_call *call = module->call;
	struct loaded loaded = { 0 };
	char *bytes;

	if (module->first->offset || !read_headers(module, &loaded))
		return NULL;
	bytes = ms_arena_alloc(module->arena, loaded.bytes);
	if (!bytes)
		return NULL;
	for (int i = 0; i < loaded.head.e_phnum; i++) {
		const Elf64_Phdr *part = &loaded.parts[i];

		if (part->p_type == PT_LOAD)
			(void)call->read(call->ctx, loaded.bias + part->p_vaddr,
			                 bytes + part->p_offset, part->p_filesz);
	}
	/* The table of sections is not in memory. */
	loaded.head.e_shoff = 0;
	loaded.head.e_shnum = loaded.head.e_shstrndx = 0;
	memcpy(bytes, &loaded.head, sizeof(loaded.head));
	return elf_memory(bytes, loaded.bytes);
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
	if (fd < 0)
		*ret_elf = loaded_elf(module);
	if (fd < 0 || module->first->offset == 0)
		return fd;
	*ret_elf = inner_elf(module, fd);
	(void)close(fd);
	return -1;
}
