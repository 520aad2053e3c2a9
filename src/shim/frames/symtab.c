/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/frames/symtab.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/pointer.h"

struct image {
	const char *bytes;
	size_t len;
};

/* @n entries of @size bytes at @at in the image, or NULL when it does not have them. */
static const void *part(struct image image, uint64_t at, uint64_t n, uint64_t size)
{
	uint64_t len;

	if (__builtin_mul_overflow(n, size, &len) || at > image.len || len > image.len - at)
		return NULL;
	return image.bytes + at;
}

static const Elf64_Ehdr *header_of(struct image image)
{
	const Elf64_Ehdr *ehdr = part(image, 0, 1, sizeof(*ehdr));

	if (!ehdr || memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0 ||
	    ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_ident[EI_DATA] != ELFDATA2LSB)
		return NULL;
	return ehdr;
}

/* The address of byte @at. What no segment has is taken to be loaded where it stands. */
static uint64_t address_of(struct image image, const Elf64_Ehdr *ehdr, uint64_t at)
{
	const Elf64_Phdr *phdr = part(image, ehdr->e_phoff, ehdr->e_phnum, sizeof(*phdr));

	for (unsigned i = 0; phdr && i < ehdr->e_phnum; i++) {
		if (phdr[i].p_type == PT_LOAD && (phdr[i].p_flags & PF_X) != 0 &&
		    at - phdr[i].p_offset < phdr[i].p_filesz)
			return at - phdr[i].p_offset + phdr[i].p_vaddr;
	}
	return at;
}

static bool name_by(struct image image, const Elf64_Shdr *table, const Elf64_Shdr *strings,
                    struct ms_symbol *symbol)
{
	const Elf64_Sym *sym = part(image, table->sh_offset, table->sh_size, 1);
	const char *string = part(image, strings->sh_offset, strings->sh_size, 1);

	for (uint64_t i = 0; sym && string && i < table->sh_size / sizeof(*sym); i++) {
		unsigned type = ELF64_ST_TYPE(sym[i].st_info);

		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym[i].st_shndx == SHN_UNDEF ||
		    symbol->pc - sym[i].st_value >= sym[i].st_size ||
		    sym[i].st_name >= strings->sh_size)
			continue;
		(void)snprintf(
			symbol->name, sizeof(symbol->name), "%.*s",
			(int)strnlen(string + sym[i].st_name, strings->sh_size - sym[i].st_name),
			string + sym[i].st_name);
		symbol->offset = symbol->pc - sym[i].st_value;
		return true;
	}
	return false;
}

static bool name_in(struct image image, const Elf64_Ehdr *ehdr, uint32_t type,
                    struct ms_symbol *symbol)
{
	const Elf64_Shdr *shdr = part(image, ehdr->e_shoff, ehdr->e_shnum, sizeof(*shdr));

	for (unsigned i = 0; shdr && i < ehdr->e_shnum; i++) {
		if (shdr[i].sh_type == type && shdr[i].sh_link < ehdr->e_shnum &&
		    name_by(image, &shdr[i], &shdr[shdr[i].sh_link], symbol))
			return true;
	}
	return false;
}

static struct image map_file(const char *path)
{
	struct image image = { NULL, 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	void *p;

	if (fd < 0)
		return image;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p != MAP_FAILED)
			image = (struct image){ p, (size_t)st.st_size };
	}
	(void)close(fd);
	return image;
}

bool ms_symtab_find(const char *path, uint64_t elf_offset, uint64_t at, struct ms_symbol *ret)
{
	struct image file = map_file(path);
	struct image image = file;
	const Elf64_Ehdr *ehdr = NULL;

	ret->name[0] = '\0';
	if (file.bytes && elf_offset < file.len) {
		image.bytes += elf_offset;
		image.len -= elf_offset;
		ehdr = header_of(image);
	}
	if (ehdr) {
		ret->pc = address_of(image, ehdr, at);
		ret->offset = 0;
		if (!name_in(image, ehdr, SHT_SYMTAB, ret))
			(void)name_in(image, ehdr, SHT_DYNSYM, ret);
	}
	if (file.bytes)
		(void)munmap(ms_pointer((uintptr_t)file.bytes), file.len);
	return ehdr != NULL;
}
