/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_MODULE_H
#define MS_TESTS_MODULE_H

/* An ELF header with program headers, as at the begin of a mapped module. */

#include <elf.h>
#include <string.h>

/* Write a header to @page and return its program headers, for @n of them. */
static inline Elf64_Phdr *elf_write(void *page, size_t n)
{
	Elf64_Ehdr ehdr = { .e_phoff = sizeof(ehdr),
		            .e_phentsize = sizeof(Elf64_Phdr),
		            .e_phnum = (Elf64_Half)n };

	memcpy(ehdr.e_ident, ELFMAG, SELFMAG);
	ehdr.e_ident[EI_CLASS] = ELFCLASS64;
	memcpy(page, &ehdr, sizeof(ehdr));
	return (Elf64_Phdr *)(void *)((char *)page + sizeof(ehdr));
}

static inline Elf64_Phdr elf_load(uint64_t vaddr, uint64_t memsz, uint32_t flags)
{
	return (Elf64_Phdr){
		.p_type = PT_LOAD, .p_vaddr = vaddr, .p_memsz = memsz, .p_flags = flags
	};
}

#endif
