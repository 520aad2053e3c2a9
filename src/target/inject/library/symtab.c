/* SPDX-License-Identifier: Apache-2.0 */
#include "target/inject/library/symtab.h"

#include <string.h>
#include <unistd.h>

#include "base/search.h"
#include "base/sort.h"

enum { OVERLAPS = 64 }; /* functions looked at in front of the nearest */

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

/* ---- names ---- */

/* The name of a symbol of that type which the file defines; or NULL. */
static const char *name_of(const struct ms_symtab *table, size_t index, unsigned char type)
{
	const Elf64_Sym *symbol = &table->symbols[index];
	const char *name;

	if (ELF64_ST_TYPE(symbol->st_info) != type || symbol->st_shndx == SHN_UNDEF ||
	    symbol->st_name >= table->names_bytes)
		return NULL;
	name = table->names + symbol->st_name;
	return strnlen(name, MS_SYMTAB_NAME + 1) <= MS_SYMTAB_NAME ? name : NULL;
}

const char *ms_symtab_function(const struct ms_symtab *table, size_t index)
{
	return name_of(table, index, STT_FUNC);
}

static const char *name_of_either(const struct ms_symtab *table, size_t index)
{
	const char *name = name_of(table, index, STT_FUNC);

	return name ? name : name_of(table, index, STT_GNU_IFUNC);
}

static uint32_t hash_of(const struct ms_symtab *table, const char *name)
{
	uint64_t hash = 0;

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(hash >> (64 - table->first_bits));
}

/* From the end, so that those of one name stand in the table's order. False without memory. */
static bool index_names(struct ms_symtab *table, struct ms_arena *arena)
{
	for (table->first_bits = 4; (size_t)1 << table->first_bits < table->n;)
		table->first_bits++;
	table->first = ms_arena_alloc(arena, sizeof(*table->first) << table->first_bits);
	table->next = ms_arena_alloc(arena, (table->n + 1) * sizeof(*table->next));
	if (!table->first || !table->next)
		return false;
	for (size_t i = table->n; i-- > 0;) {
		const char *name = name_of_either(table, i);
		uint32_t *first = name ? &table->first[hash_of(table, name)] : NULL;

		if (!first)
			continue;
		table->next[i] = *first;
		*first = (uint32_t)i + 1;
	}
	return true;
}

/* A walk over the symbols of one name and type. */
struct alike {
	const struct ms_symtab *table;
	const char *name;
	unsigned char type;
	uint32_t at; /* the number of the next one that may be, plus one */
	unsigned n;
};

static struct alike alike(const struct ms_symtab *table, const char *name, unsigned char type)
{
	return (struct alike){ .table = table,
		               .name = name,
		               .type = type,
		               .at = table->n ? table->first[hash_of(table, name)] : 0 };
}

/* The next one; NULL: there is no more, or too many are alike. */
static const Elf64_Sym *next_alike(struct alike *walk)
{
	while (walk->at && walk->n++ < MS_SYMTAB_ALIKE) {
		const size_t index = walk->at - 1;
		const char *name = name_of(walk->table, index, walk->type);

		walk->at = walk->table->next[index];
		if (name && !strcmp(name, walk->name))
			return &walk->table->symbols[index];
	}
	return NULL;
}

/* ---- the file ---- */

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
	ret->too_large = table->sh_size / sizeof(*symbols) > MS_SYMTAB_MOST ||
	                 sections[table->sh_link].sh_size > most_bytes;
	if (ret->too_large)
		return;
	symbols = read_part(fd, table->sh_offset, table->sh_size, arena);
	names = read_part(fd, sections[table->sh_link].sh_offset, sections[table->sh_link].sh_size,
	                  arena);
	if (!symbols || !names || names[sections[table->sh_link].sh_size - 1])
		return;
	*ret = (struct ms_symtab){ .symbols = symbols,
		                   .n = (size_t)(table->sh_size / sizeof(*symbols)),
		                   .names = names,
		                   .names_bytes = (size_t)sections[table->sh_link].sh_size };
	if (!index_names(ret, arena))
		ret->n = 0;
}

/* ---- questions ---- */

bool ms_symtab_find(const struct ms_symtab *table, const char *name, struct ms_range *ret)
{
	struct alike walk = alike(table, name, STT_FUNC);
	const Elf64_Sym *local = NULL, *found = NULL, *symbol;

	while (!found && (symbol = next_alike(&walk))) {
		if (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL) {
			found = symbol;
			break;
		}
		/* Two of one name: no one can say which. */
		if (local && local->st_value != symbol->st_value)
			return false;
		local = symbol;
	}
	if (!found && walk.at)
		return false;
	if (!found)
		found = local;
	if (!found || !found->st_value || found->st_value + found->st_size < found->st_value)
		return false;
	*ret = (struct ms_range){ found->st_value, found->st_value + found->st_size };
	return true;
}

bool ms_symtab_is_strong(const struct ms_symtab *table, const char *name)
{
	struct alike walk = alike(table, name, STT_FUNC);
	const Elf64_Sym *symbol;

	while ((symbol = next_alike(&walk)))
		if (ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL)
			return true;
	return false;
}

bool ms_symtab_is_chosen(const struct ms_symtab *table, const char *name)
{
	struct alike walk = alike(table, name, STT_GNU_IFUNC);

	return next_alike(&walk);
}

/* ---- addresses ---- */

static bool begins_before(const void *a, const void *b)
{
	return ((const struct ms_symtab_place *)a)->begin <
	       ((const struct ms_symtab_place *)b)->begin;
}

void ms_symtab_sort(struct ms_symtab *table, struct ms_arena *arena)
{
	table->n_places = 0;
	table->places = ms_arena_alloc(arena, (table->n + 1) * sizeof(*table->places));
	for (size_t i = 0; table->places && i < table->n; i++)
		if (ms_symtab_function(table, i))
			table->places[table->n_places++] =
				(struct ms_symtab_place){ table->symbols[i].st_value, (uint32_t)i };
	if (!ms_sort(arena, table->places, table->n_places, sizeof(*table->places), begins_before))
		table->n_places = 0;
}

bool ms_symtab_has_at(const struct ms_symtab *table, uint64_t at, const char *prefix)
{
	size_t i = ms_lower_bound(0, table->n_places, k, table->places[k].begin < at);

	for (unsigned n = 0; n < MS_SYMTAB_ALIKE && i < table->n_places; n++, i++) {
		const char *name = ms_symtab_function(table, table->places[i].index);

		if (table->places[i].begin != at)
			break;
		if (name && !strncmp(name, prefix, strlen(prefix)))
			return true;
	}
	return false;
}

bool ms_symtab_around(const struct ms_symtab *table, uint64_t at, struct ms_range *ret)
{
	size_t n = ms_lower_bound(0, table->n_places, k, table->places[k].begin <= at);

	for (size_t i = n; i-- > 0 && n - i <= OVERLAPS;) {
		const Elf64_Sym *symbol = &table->symbols[table->places[i].index];

		if (at - symbol->st_value >= symbol->st_size ||
		    symbol->st_size > UINT64_MAX - symbol->st_value)
			continue;
		*ret = (struct ms_range){ symbol->st_value, symbol->st_value + symbol->st_size };
		return true;
	}
	return false;
}
