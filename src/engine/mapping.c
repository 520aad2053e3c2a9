/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/mapping.h"

#include <elf.h>
#include <string.h>

#include "engine/modules.h"

/*
 * A program or library is recognised by its ELF header at the mapping of its
 * file's first bytes. Its loadable segments say how far its writable memory
 * goes: [.data .bss), the tail of which is anonymous. Whatever is mapped from
 * the same file inside that span belongs to it; RELRO and pages that were made
 * read-only later come along, because the source knows which pages changed.
 */

enum { MAX_PHDRS = 128, MAX_PHOFF = 1 << 16 };

/* Longest program or library believed, bytes. */
static const uint64_t MAX_SPAN = UINT64_C(1) << 40;

struct module {
	struct ms_range span; /* from its ELF header to the end of its last segment */
	ms_addr data_end;     /* end of its last writable segment; 0 when it has none */
};

/* Pages of the kernel's, and memory of devices, whose reading may have effects. */
static bool is_unreadable_kind(const struct ms_mapping *m)
{
	return ms_is_kernels(m->name) || ms_is_device(m->name);
}

static bool is_elf_header(const Elf64_Ehdr *ehdr)
{
	return memcmp(ehdr->e_ident, ELFMAG, SELFMAG) == 0 &&
	       ehdr->e_ident[EI_CLASS] == ELFCLASS64 && ehdr->e_phentsize == sizeof(Elf64_Phdr) &&
	       ehdr->e_phnum <= MAX_PHDRS && ehdr->e_phoff <= MAX_PHOFF;
}

/* Widen @module by a loadable segment; false when its length makes no sense. */
static bool add_segment(struct module *module, uint64_t bias, uint32_t page, const Elf64_Phdr *phdr)
{
	ms_addr end = ms_align_up(bias + phdr->p_vaddr + phdr->p_memsz, page);

	if (end < module->span.begin || end - module->span.begin > MAX_SPAN)
		return false;
	if (end > module->span.end)
		module->span.end = end;
	if (phdr->p_flags & PF_W)
		module->data_end = end;
	return true;
}

/*
 * Fill @ret from the program headers behind the ELF header at @m. False, with
 * @ret untouched, when there is no header or it makes no sense.
 */
static bool read_module(struct ms_source *src, const struct ms_mapping *m, struct module *ret)
{
	struct module module = { m->range, 0 };
	const uint32_t page = src->abi.page_bytes;
	const Elf64_Phdr *base = NULL;
	Elf64_Phdr phdr[MAX_PHDRS];
	Elf64_Ehdr ehdr;
	size_t n;

	if (m->offset != 0 || !m->file ||
	    ms_source_read(src, m->range.begin, &ehdr, sizeof(ehdr)) != sizeof(ehdr) ||
	    !is_elf_header(&ehdr))
		return false;
	n = ms_source_read(src, m->range.begin + ehdr.e_phoff, phdr,
	                   ehdr.e_phnum * sizeof(phdr[0])) /
	    sizeof(phdr[0]);
	for (size_t i = 0; i < n; i++) {
		if (phdr[i].p_type != PT_LOAD)
			continue;
		if (!base)
			base = &phdr[i];
		if (!add_segment(&module, m->range.begin - ms_align_down(base->p_vaddr, page), page,
		                 &phdr[i]))
			return false;
	}
	if (base)
		*ret = module;
	return base;
}

static enum ms_region_kind kind_by_itself(const struct ms_mapping *m)
{
	if (is_unreadable_kind(m))
		return MS_REGION_SKIP;
	if (!strcmp(m->name, "[heap]"))
		return MS_REGION_BRK;
	if (!strcmp(m->name, "[stack]"))
		return MS_REGION_STACK;
	return MS_REGION_MEMORY;
}

/* The part of an anonymous mapping that is a module's zero-filled data; empty when none is. */
static struct ms_range bss_part(const struct ms_mapping *m, const struct module *module)
{
	struct ms_range none = { m->range.begin, m->range.begin };
	enum ms_region_kind kind = kind_by_itself(m);

	if (m->file || m->shared || m->range.begin < module->span.begin ||
	    (kind != MS_REGION_MEMORY && kind != MS_REGION_BRK))
		return none;
	return ms_range_common(m->range, (struct ms_range){ m->range.begin, module->data_end });
}

/* Where the walk over the mappings stands. */
struct classify {
	struct module module;           /* the one seen last */
	const struct ms_mapping *first; /* its ELF header's mapping; NULL before any */
	uint32_t n_modules;
};

static enum ms_region_kind kind_of(const struct classify *c, const struct ms_mapping *m)
{
	if (c->first && ms_mapping_same_file(m, c->first) && !m->shared &&
	    m->range.begin < c->module.span.end)
		return MS_REGION_GLOBALS;
	return kind_by_itself(m);
}

/* Add the one or two regions of mapping @i; false when there is no memory. */
static bool add_regions(struct ms_source *src, const struct classify *c, uint32_t i,
                        struct ms_arena *arena, struct ms_regions *ret)
{
	const struct ms_mapping *m = &src->mappings.at[i];
	struct ms_range bss = bss_part(m, &c->module);
	struct ms_region *region;

	if (bss.end > bss.begin) {
		region = ms_vec_push(arena, ret);
		if (!region)
			return false;
		*region = (struct ms_region){ bss, i, c->n_modules, MS_REGION_GLOBALS };
	}
	if (bss.end == m->range.end)
		return true;
	region = ms_vec_push(arena, ret);
	if (!region)
		return false;
	*region = (struct ms_region){ { bss.end, m->range.end }, i, 0, kind_of(c, m) };
	if (region->kind == MS_REGION_GLOBALS)
		region->module = c->n_modules;
	return true;
}

enum ms_status ms_classify(struct ms_source *src, struct ms_arena *arena, struct ms_regions *ret,
                           struct ms_error *err)
{
	struct classify c = { 0 };

	for (uint32_t i = 0; i < src->mappings.n; i++) {
		if (read_module(src, &src->mappings.at[i], &c.module)) {
			c.first = &src->mappings.at[i];
			c.n_modules++;
		}
		if (!add_regions(src, &c, i, arena, ret))
			return ms_fail(err, MS_E_NOMEM, "no memory for the mappings");
	}
	return MS_OK;
}

const struct ms_region *ms_region_of(const struct ms_regions *regions, ms_addr addr)
{
	return ms_range_find(regions, addr);
}
