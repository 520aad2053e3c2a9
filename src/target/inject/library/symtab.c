/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/library/symtab.h"

#include <string.h>
#include <unistd.h>

static const uint64_t most_bytes = UINT64_C(1) << 28; /* of each table */

static void *read_part(int fd, uint64_t at, uint64_t bytes, struct ms_arena *arena)
{
	void *part = bytes && bytes <= most_bytes && at <= INT64_MAX
	                     ? ms_arena_alloc(arena, (size_t)bytes)
	                     : NULL;

	return part && pread(fd, part, (size_t)bytes, (off_t)at) == (ssize_t)bytes ? part : NULL;
}

static bool is_known(const Elf64_Ehdr *head)
{
	return !memcmp(head->e_ident, ELFMAG, SELFMAG) && head->e_ident[EI_CLASS] == ELFCLASS64 &&
	       head->e_ident[EI_DATA] == ELFDATA2LSB && head->e_machine == EM_X86_64 &&
	       head->e_shentsize == sizeof(Elf64_Shdr);
}

void ms_symtab_read(int fd, struct ms_arena *arena, struct ms_symtab *ret)
{
	Elf64_Ehdr head;
	const Elf64_Shdr *sections, *table = NULL;
	const Elf64_Sym *symbols;
	const char *names;

	*ret = (struct ms_symtab){ 0 };
	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || !is_known(&head))
		return;
	sections = read_part(fd, head.e_shoff, head.e_shnum * sizeof(*sections), arena);
	if (!sections)
		return;
	for (size_t i = 0; i < head.e_shnum && !table; i++)
		if (sections[i].sh_type == SHT_SYMTAB)
			table = &sections[i];
	if (!table || table->sh_link >= head.e_shnum)
		return;
	symbols = read_part(fd, table->sh_offset, table->sh_size, arena);
	names = read_part(fd, sections[table->sh_link].sh_offset, sections[table->sh_link].sh_size,
	                  arena);
	if (!symbols || !names || names[sections[table->sh_link].sh_size - 1])
		return;
	*ret = (struct ms_symtab){ symbols, (size_t)(table->sh_size / sizeof(*symbols)), names,
		                   (size_t)sections[table->sh_link].sh_size };
}

/* The name of a symbol of that type which the file defines; or NULL. */
static const char *name_of(const struct ms_symtab *table, size_t index, unsigned char type)
{
	const Elf64_Sym *symbol = &table->symbols[index];

	return ELF64_ST_TYPE(symbol->st_info) == type && symbol->st_shndx != SHN_UNDEF &&
	                       symbol->st_name < table->names_bytes
	               ? table->names + symbol->st_name
	               : NULL;
}

const char *ms_symtab_function(const struct ms_symtab *table, size_t index)
{
	return name_of(table, index, STT_FUNC);
}

bool ms_symtab_find(const struct ms_symtab *table, const char *name, struct ms_range *ret)
{
	const Elf64_Sym *local = NULL, *found = NULL;

	for (size_t i = 0; i < table->n; i++) {
		const Elf64_Sym *symbol = &table->symbols[i];

		const char *its = ms_symtab_function(table, i);

		if (!its || strcmp(its, name) != 0)
			continue;
		if (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL) {
			found = symbol;
			break;
		}
		/* Two of one name: no one can say which. */
		if (local && local->st_value != symbol->st_value)
			return false;
		local = symbol;
	}
	if (!found)
		found = local;
	if (!found || !found->st_value || found->st_value + found->st_size < found->st_value)
		return false;
	*ret = (struct ms_range){ found->st_value, found->st_value + found->st_size };
	return true;
}

bool ms_symtab_is_strong(const struct ms_symtab *table, const char *name)
{
	for (size_t i = 0; i < table->n; i++) {
		const char *its = ms_symtab_function(table, i);

		if (its && !strcmp(its, name) &&
		    ELF64_ST_BIND(table->symbols[i].st_info) == STB_GLOBAL)
			return true;
	}
	return false;
}

bool ms_symtab_has_at(const struct ms_symtab *table, uint64_t at, const char *prefix)
{
	for (size_t i = 0; i < table->n; i++) {
		const char *its = ms_symtab_function(table, i);

		if (its && table->symbols[i].st_value == at &&
		    !strncmp(its, prefix, strlen(prefix)))
			return true;
	}
	return false;
}

bool ms_symtab_around(const struct ms_symtab *table, uint64_t at, struct ms_range *ret)
{
	for (size_t i = 0; i < table->n; i++) {
		const Elf64_Sym *symbol = &table->symbols[i];

		if (!ms_symtab_function(table, i) || at < symbol->st_value ||
		    at - symbol->st_value >= symbol->st_size ||
		    symbol->st_size > UINT64_MAX - symbol->st_value)
			continue;
		*ret = (struct ms_range){ symbol->st_value, symbol->st_value + symbol->st_size };
		return true;
	}
	return false;
}

bool ms_symtab_is_chosen(const struct ms_symtab *table, const char *name)
{
	for (size_t i = 0; i < table->n; i++) {
		const char *its = name_of(table, i, STT_GNU_IFUNC);

		if (its && !strcmp(its, name))
			return true;
	}
	return false;
}
