/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/object.h"

#include <elf.h>
#include <string.h>

enum {
	MAX_PHDRS = 128,
	MAX_DYNAMIC = 256, /* entries */
};

static bool read_all(struct ms_peek *peek, ms_addr addr, void *buf, size_t len)
{
	return ms_peek_read(peek, addr, buf, len) == len;
}

static void note_tls(const Elf64_Phdr *phdr, struct ms_object *ret)
{
	uint64_t align = phdr->p_align ? phdr->p_align : 1;

	if (align & (align - 1))
		return;
	ret->tls_bytes = phdr->p_memsz;
	ret->tls_align = align;
	ret->tls_image = phdr->p_vaddr;
}

bool ms_object_read(struct ms_peek *peek, ms_addr begin, struct ms_object *ret)
{
	struct ms_object object = { 0 };
	const Elf64_Phdr *load = NULL;
	Elf64_Phdr phdr[MAX_PHDRS];
	Elf64_Ehdr ehdr;

	if (!read_all(peek, begin, &ehdr, sizeof(ehdr)) || ehdr.e_phnum > MAX_PHDRS ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_phentsize != sizeof(phdr[0]) ||
	    !read_all(peek, begin + ehdr.e_phoff, phdr, ehdr.e_phnum * sizeof(phdr[0])))
		return false;
	for (const Elf64_Phdr *p = phdr; p < phdr + ehdr.e_phnum; p++) {
		if (p->p_type == PT_LOAD && !load)
			load = p;
		if (p->p_type == PT_DYNAMIC)
			object.dynamic = p->p_vaddr;
		if (p->p_type == PT_TLS)
			note_tls(p, &object);
	}
	if (!load)
		return false;
	object.bias = begin - ms_align_down(load->p_vaddr, peek->src->abi.page_bytes);
	object.dynamic += object.dynamic ? object.bias : 0;
	*ret = object;
	return true;
}

struct ms_dynamic ms_dynamic_read(struct ms_peek *peek, ms_addr at)
{
	struct ms_dynamic ret = { 0 };
	Elf64_Dyn entry;

	for (int i = 0; i < MAX_DYNAMIC; i++, at += sizeof(entry)) {
		if (!read_all(peek, at, &entry, sizeof(entry)) || entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_STRTAB)
			ret.strings = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_SYMTAB)
			ret.symbols = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_GNU_HASH)
			ret.gnu_hash = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_DEBUG)
			ret.debug = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_RELA)
			ret.rela = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_RELASZ)
			ret.rela_bytes = entry.d_un.d_val;
		ret.shared |= entry.d_tag == DT_SONAME || entry.d_tag == DT_NEEDED;
	}
	return ret;
}
