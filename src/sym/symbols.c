/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/symbols.h"

#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <string.h>

#include "sym/modules.h"

struct ms_symbols {
	const struct ms_symbols_call *call;
	struct ms_arena *arena;
	struct ms_modules modules;
	Dwfl_Callbacks callbacks;
	Dwfl *dwfl; /* NULL: no file is to be opened */
};

/* The file of a module, when it is first asked for; how many parameters is libdwfl's choice. */
/* NOLINTNEXTLINE(readability-function-size) */
static int find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
                    char **file_name, Elf **elfp)
{
	struct ms_module *module = *userdata;
	int fd;

	(void)mod;
	(void)name;
	(void)base;
	fd = ms_module_elf(module, elfp);
	/* Debug information is looked for beside a name; a name alone libdwfl would open. */
	if (fd >= 0 || *elfp)
		*file_name = strdup(module->first->name);
	return fd;
}

/* NOLINTNEXTLINE(readability-function-size): as above */
static int find_debug(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
                      const char *file, const char *link, GElf_Word crc, char **ret_name)
{
	struct ms_module *module = *userdata;

	(void)name;
	(void)base;
	(void)file;
	(void)crc;
	return ms_debug_find(&module->debug, mod, link, ret_name);
}

static void report_modules(struct ms_symbols *s)
{
	struct ms_module *module;

	dwfl_report_begin(s->dwfl);
	ms_vec_for_each (module, &s->modules) {
		void **userdata;
		Dwfl_Module *mod = dwfl_report_module(s->dwfl, module->first->name,
		                                      module->range.begin, module->range.end);

		if (mod && dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL))
			*userdata = module;
		module->units = (struct ms_unit_source){ .mod = mod, .arena = s->arena };
		module->table = (struct ms_symbol_table){ .mod = mod, .arena = s->arena };
		module->debug = (struct ms_debug){ .finder = s->call->finder,
			                           .code = ms_module_code(module),
			                           .arena = s->arena };
	}
	(void)dwfl_report_end(s->dwfl, NULL, NULL);
}

static const char deleted[] = " (deleted)";

static bool ends_with(const char *s, const char *end)
{
	size_t len = strlen(s);
	size_t end_len = strlen(end);

	return len >= end_len && strcmp(s + len - end_len, end) == 0;
}

static bool file_of(const void *files, uint32_t number, struct ms_opener_file *ret)
{
	const struct ms_mappings *maps = files;
	const struct ms_mapping *map;

	if (number >= maps->n)
		return false;
	map = &maps->at[number];
	*ret = (struct ms_opener_file){
		.path = map->name,
		.range = map->range,
		.named = map->inode,
		.renamed = ends_with(map->name, deleted),
	};
	return true;
}

void ms_symbols_opener(const struct ms_mappings *maps, struct ms_opener *ret)
{
	ret->file = file_of;
	ret->files = maps;
	ret->n = maps->n;
}

enum ms_status ms_symbols_open(const struct ms_symbols_call *call, struct ms_arena *arena,
                               struct ms_symbols **ret, struct ms_error *err)
{
	struct ms_symbols *s = ms_arena_alloc(arena, sizeof(*s));

	if (!s)
		return ms_fail(err, MS_E_NOMEM, "no memory for symbols");
	s->call = call;
	s->arena = arena;
	s->callbacks = (Dwfl_Callbacks){
		.find_elf = find_elf,
		.find_debuginfo = find_debug,
		.section_address = dwfl_offline_section_address,
	};
	if (!ms_modules_list(call, arena, &s->modules))
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of modules");
	*ret = s;
	if (!call->finder)
		return MS_OK;
	(void)elf_version(EV_CURRENT);
	s->dwfl = dwfl_begin(&s->callbacks);
	if (!s->dwfl)
		return ms_fail(err, MS_E_NOMEM, "no memory for symbols");
	report_modules(s);
	return MS_OK;
}

static void name_build_id(Dwfl_Module *mod, struct ms_module *module, struct ms_symbol *ret)
{
	const unsigned char *bits;
	GElf_Addr vaddr;
	int len = dwfl_module_build_id(mod, &bits, &vaddr);

	if (len <= 0)
		return;
	if (!module->build_id[0])
		for (int i = 0; i < len && 2 * i + 2 < MS_BUILD_ID_TEXT; i++)
			(void)snprintf(module->build_id + (ptrdiff_t)2 * i, 3, "%02x", bits[i]);
	ret->build_id = module->build_id;
}

static void name_function(struct ms_symbols *s, struct ms_module *module, ms_addr addr,
                          struct ms_symbol *ret)
{
	const struct ms_table_entry *entry = ms_symbol_table_find(&module->table, addr);

	if (!entry)
		return;
	ret->function = ms_readable_name(entry->name, s->arena);
	ret->function_offset = addr - entry->range.begin;
}

static void name_line(struct ms_unit_source *units, ms_addr addr, struct ms_symbol *ret)
{
	ms_addr in_unit;
	Dwarf_Die *unit = ms_unit_find(units, addr, &in_unit);
	Dwarf_Line *line = unit ? dwarf_getsrc_die(unit, in_unit) : NULL;
	const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
	int number = 0;

	/* Line 0 is the compiler's word for code that stands in no source. */
	if (!file || dwarf_lineno(line, &number) || number <= 0)
		return;
	ret->file = file;
	ret->line = (uint32_t)number;
}

void ms_symbols_name(struct ms_symbols *symbols, ms_addr addr, struct ms_symbol *ret)
{
	const struct ms_mapping *map = ms_range_find(symbols->call->maps, addr);
	struct ms_module *module = ms_range_find(&symbols->modules, addr);
	Dwfl_Module *mod;
	GElf_Addr bias = 0;

	memset(ret, 0, sizeof(*ret));
	if (!map)
		return;
	ret->module = map->name;
	ret->map_begin = map->range.begin;
	ret->rel_pc = addr - map->range.begin + (map->inode ? map->offset : 0);
	/* Memory of something else may lie in a gap of a module. */
	if (!module || strcmp(module->first->name, map->name) != 0)
		return;
	ret->elf_offset = module->first->offset;
	ret->rel_pc -= map->inode ? ret->elf_offset : 0;
	mod = symbols->dwfl ? dwfl_addrmodule(symbols->dwfl, addr) : NULL;
	if (!mod || !dwfl_module_getelf(mod, &bias))
		return;
	ret->rel_pc = addr - bias;
	name_build_id(mod, module, ret);
	name_function(symbols, module, addr, ret);
	name_line(&module->units, addr, ret);
}
