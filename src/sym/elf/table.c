/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/elf/table.h"

#include <gelf.h>
#include <string.h>

#include "base/elf/rows.h"
#include "base/search.h"
#include "base/sort.h"

/* So many symbols may begin inside of another one. */
enum { DEEPEST = 64 };

enum { RANK_LOCAL, RANK_WEAK, RANK_GLOBAL, RANK_SIZED = 4 };

static uint8_t rank_of(const GElf_Sym *sym)
{
	int bind = GELF_ST_BIND(sym->st_info);
	int rank = bind == STB_GLOBAL ? RANK_GLOBAL : bind == STB_WEAK ? RANK_WEAK : RANK_LOCAL;

	return (uint8_t)(rank | (sym->st_size ? RANK_SIZED : 0));
}

static bool is_code(const GElf_Sym *sym, GElf_Word section)
{
	int type = GELF_ST_TYPE(sym->st_info);

	return section != SHN_UNDEF && section != SHN_ABS &&
	       (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

/*
 * Whether it says only where code or data begins: assemblers for ARM write thousands.
 *
 * Source: ELF for the Arm 64-bit Architecture, 5.5.4.
 */
static bool is_marker(const GElf_Sym *sym, const char *name)
{
	return GELF_ST_TYPE(sym->st_info) == STT_NOTYPE && name[0] == '$' &&
	       (name[1] == 'x' || name[1] == 'd') && (!name[2] || name[2] == '.');
}

static bool is_data(const GElf_Sym *sym, GElf_Word section)
{
	return section != SHN_UNDEF && section != SHN_ABS && sym->st_size &&
	       GELF_ST_TYPE(sym->st_info) == STT_OBJECT;
}

/* How far one without a size may reach: to the end of its section. */
static uint64_t room_behind(Elf *elf, const GElf_Sym *sym, GElf_Word section)
{
	Elf_Scn *scn = elf_getscn(elf, section);
	GElf_Shdr header;

	if (!scn || !gelf_getshdr(scn, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
	    sym->st_value - header.sh_addr >= header.sh_size)
		return 0;
	return header.sh_addr + header.sh_size - sym->st_value;
}

static bool entry_before(const void *a, const void *b)
{
	const struct ms_table_entry *x = a;
	const struct ms_table_entry *y = b;

	return x->range.begin != y->range.begin ? x->range.begin < y->range.begin
	                                        : x->rank < y->rank;
}

/* ---- functions without a symbol ---- */

static void find_frames(struct ms_symbol_table *table)
{
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(table->mod, &bias);
	GElf_Phdr phdr;
	size_t n;

	if (!elf || elf_getphdrnum(elf, &n))
		return;
	for (size_t i = 0; i < n && gelf_getphdr(elf, (int)i, &phdr); i++) {
		if (phdr.p_type != PT_GNU_EH_FRAME)
			continue;
		table->frames = elf_getdata_rawchunk(elf, (int64_t)phdr.p_offset, phdr.p_filesz,
		                                     ELF_T_BYTE);
		table->frames_at = bias + phdr.p_vaddr;
	}
}

static size_t read_frames(void *ctx, ms_addr addr, void *buf, size_t len)
{
	const struct ms_symbol_table *table = ctx;
	uint64_t at = addr - table->frames_at;

	if (at >= table->frames->d_size)
		return 0;
	if (len > table->frames->d_size - at)
		len = (size_t)(table->frames->d_size - at);
	memcpy(buf, (const char *)table->frames->d_buf + at, len);
	return len;
}

/* Whether a function begins behind @begin, at @addr or before. */
static bool begins_between(struct ms_symbol_table *table, ms_addr begin, ms_addr addr)
{
	const struct ms_reader from = { read_frames, table };

	return table->frames && table->frames->d_buf &&
	       ms_row_begin(from, table->frames_at, addr) > begin;
}

/* ---- symbols ---- */

static void list(struct ms_symbol_table *table)
{
	int n = dwfl_module_getsymtab(table->mod);

	table->listed = true;
	if (!table->data)
		find_frames(table);
	for (int i = 1; i < n; i++) {
		struct ms_table_entry *entry;
		GElf_Word section = 0;
		GElf_Addr addr = 0;
		GElf_Addr bias = 0;
		GElf_Sym sym;
		Elf *elf = NULL;
		const char *name =
			dwfl_module_getsym_info(table->mod, i, &sym, &addr, &section, &elf, &bias);
		uint64_t len;

		if (!name || !*name || is_marker(&sym, name) ||
		    !(table->data ? is_data(&sym, section) : is_code(&sym, section)))
			continue;
		len = sym.st_size ? sym.st_size : elf ? room_behind(elf, &sym, section) : 0;
		if (!len || addr + len < addr)
			continue;
		entry = ms_vec_push(table->arena, &table->entries);
		if (!entry)
			break;
		*entry = (struct ms_table_entry){ { addr, addr + len }, name, rank_of(&sym) };
	}
	if (!ms_sort(table->arena, table->entries.at, table->entries.n, sizeof(*table->entries.at),
	             entry_before))
		table->entries.n = 0;
}

/* How many entries begin at or before @addr. */
static size_t count_until(const struct ms_symbol_table *table, ms_addr addr)
{
	return ms_lower_bound(0, table->entries.n, i, table->entries.at[i].range.begin <= addr);
}

const struct ms_table_entry *ms_symbol_table_find(struct ms_symbol_table *table, ms_addr addr)
{
	const struct ms_table_entry *unsized = NULL;
	bool passed = false; /* the end of a symbol: one without a size does not reach beyond */
	size_t i;

	if (!table->listed)
		list(table);
	i = count_until(table, addr);
	for (size_t left = DEEPEST; i-- > 0 && left > 0; left--) {
		const struct ms_table_entry *entry = &table->entries.at[i];
		bool has = ms_range_has(entry->range, addr);

		if (entry->rank & RANK_SIZED) {
			if (has)
				return entry;
			passed = true;
		}
		if (has && !passed && !unsized)
			unsized = entry;
	}
	return unsized && !begins_between(table, unsized->range.begin, addr) ? unsized : NULL;
}

bool ms_table_entry_is_sized(const struct ms_table_entry *entry)
{
	return entry->rank & RANK_SIZED;
}
