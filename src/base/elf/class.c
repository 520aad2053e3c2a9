/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elf/class.h"

#include <assert.h>
#include <string.h>

/* What is read has this class. */
static bool is_wide(uint8_t word_bytes)
{
	return word_bytes == sizeof(uint64_t);
}

static void widen_header(const Elf32_Ehdr *narrow, Elf64_Ehdr *ret)
{
	*ret = (Elf64_Ehdr){
		.e_type = narrow->e_type,
		.e_machine = narrow->e_machine,
		.e_version = narrow->e_version,
		.e_entry = narrow->e_entry,
		.e_phoff = narrow->e_phoff,
		.e_shoff = narrow->e_shoff,
		.e_flags = narrow->e_flags,
		.e_ehsize = narrow->e_ehsize,
		.e_phentsize = narrow->e_phentsize,
		.e_phnum = narrow->e_phnum,
		.e_shentsize = narrow->e_shentsize,
		.e_shnum = narrow->e_shnum,
		.e_shstrndx = narrow->e_shstrndx,
	};
	memcpy(ret->e_ident, narrow->e_ident, sizeof(ret->e_ident));
}

bool ms_elf_read_header(struct ms_reader from, ms_addr at, Elf64_Ehdr *ret)
{
	Elf32_Ehdr narrow;
	Elf64_Ehdr wide;

	/* A loaded object is no smaller than a page. */
	if (!ms_read_all(from, at, &wide, sizeof(wide)) ||
	    memcmp(wide.e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	memcpy(&narrow, &wide, sizeof(narrow));
	if (wide.e_ident[EI_CLASS] == ELFCLASS32)
		widen_header(&narrow, ret);
	else if (wide.e_ident[EI_CLASS] == ELFCLASS64)
		*ret = wide;
	else
		return false;
	return true;
}

static Elf64_Phdr wide_segment(const Elf32_Phdr *narrow)
{
	return (Elf64_Phdr){
		.p_type = narrow->p_type,
		.p_flags = narrow->p_flags,
		.p_offset = narrow->p_offset,
		.p_vaddr = narrow->p_vaddr,
		.p_paddr = narrow->p_paddr,
		.p_filesz = narrow->p_filesz,
		.p_memsz = narrow->p_memsz,
		.p_align = narrow->p_align,
	};
}

bool ms_elf_read_segments(struct ms_reader from, ms_addr at, const Elf64_Ehdr *head,
                          Elf64_Phdr *ret)
{
	const uint8_t *bytes = (const uint8_t *)ret;
	Elf32_Phdr narrow;

	if (is_wide(ms_elf_word_bytes(head)))
		return ms_read_all(from, at, ret, head->e_phnum * sizeof(*ret));
	if (!ms_read_all(from, at, ret, head->e_phnum * sizeof(narrow)))
		return false;
	/* From the end, as they become longer. */
	for (size_t i = head->e_phnum; i-- > 0;) {
		memcpy(&narrow, bytes + i * sizeof(narrow), sizeof(narrow));
		ret[i] = wide_segment(&narrow);
	}
	return true;
}

size_t ms_elf_read_dynamic(struct ms_reader from, ms_addr at, uint8_t word_bytes, Elf64_Dyn *ret,
                           size_t n)
{
	const uint8_t *bytes = (const uint8_t *)ret;
	size_t each = ms_elf_dynamic_bytes(word_bytes);
	Elf32_Dyn narrow;

	n = from.read(from.ctx, at, ret, n * each) / each;
	if (is_wide(word_bytes))
		return n;
	/* From the end, as they become longer. */
	for (size_t i = n; i-- > 0;) {
		memcpy(&narrow, bytes + i * sizeof(narrow), sizeof(narrow));
		ret[i].d_tag = narrow.d_tag;
		ret[i].d_un.d_val = narrow.d_un.d_val;
	}
	return n;
}

bool ms_elf_read_symbol(struct ms_reader from, ms_addr at, uint64_t index, uint8_t word_bytes,
                        Elf64_Sym *ret)
{
	Elf32_Sym narrow;

	if (is_wide(word_bytes))
		return ms_read_all(from, at + index * sizeof(*ret), ret, sizeof(*ret));
	if (!ms_read_all(from, at + index * sizeof(narrow), &narrow, sizeof(narrow)))
		return false;
	*ret = (Elf64_Sym){
		.st_name = narrow.st_name,
		.st_info = narrow.st_info,
		.st_other = narrow.st_other,
		.st_shndx = narrow.st_shndx,
		.st_value = narrow.st_value,
		.st_size = narrow.st_size,
	};
	return true;
}

bool ms_elf_read_words(struct ms_reader from, ms_addr at, uint8_t word_bytes, uint64_t *ret,
                       size_t n)
{
	uint32_t narrow[MS_ELF_WORDS];

	assert(n <= MS_ELF_WORDS);
	if (is_wide(word_bytes))
		return ms_read_all(from, at, ret, n * sizeof(*ret));
	if (!ms_read_all(from, at, narrow, n * sizeof(narrow[0])))
		return false;
	for (size_t i = 0; i < n; i++)
		ret[i] = narrow[i];
	return true;
}
