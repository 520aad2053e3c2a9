/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/names/naming.h"

#include <string.h>

#include "engine/modules.h"
#include "engine/names/demangle.h"

enum { FUNCTION_BYTES = 1024 };

static const char *hexadecimal(const struct ms_code *code, struct ms_arena *arena)
{
	static const char digits[] = "0123456789abcdef";
	char text[2 * MS_BUILD_ID_BYTES];
	size_t n = 0;

	for (size_t i = 0; i < code->build_id_len && i < MS_BUILD_ID_BYTES; i++) {
		text[n++] = digits[code->build_id[i] >> 4];
		text[n++] = digits[code->build_id[i] & 15];
	}
	return n ? ms_arena_strndup(arena, text, n) : NULL;
}

static const char *function_name(const struct ms_elf_place *place, struct ms_arena *arena)
{
	char plain[FUNCTION_BYTES];
	const char *linked = ms_arena_strndup(arena, place->name, place->name_len);

	if (linked && ms_demangle_function(linked, plain, sizeof(plain)))
		return ms_arena_strndup(arena, plain, sizeof(plain));
	return linked;
}

static void name(struct ms_elf_files *files, const struct ms_codes *code, ms_addr pc,
                 struct ms_symbol *ret)
{
	const struct ms_code *map = ms_range_find(code, pc);
	const struct ms_code *first;
	struct ms_elf_mapped mapped;
	struct ms_elf_file *file;
	struct ms_elf_place place;
	bool found;

	if (!map)
		return;
	first = ms_code_first(code, map);
	ret->module = map->name;
	ret->map_begin = map->range.begin;
	ret->rel_pc = pc - map->range.begin + map->offset - first->offset;
	ret->elf_offset = first->offset;
	ret->build_id = hexadecimal(map, files->arena);
	mapped = (struct ms_elf_mapped){ first->name, map->inode, first->offset, map->range };
	file = map->inode ? ms_elf_files_open(files, &mapped) : NULL;
	if (!file)
		return;
	/* Data need not stand in the file. */
	found = files->variables && map->has_bias
	                ? ms_elf_find_address(files, file, pc - map->bias, &place)
	                : ms_elf_find(files, file, ret->rel_pc, &place);
	if (!found)
		return;
	ret->rel_pc = place.pc;
	ret->function_offset = place.offset;
	if (place.name_len)
		ret->function = function_name(&place, files->arena);
}

void ms_names_fill(struct ms_elf_files *files, struct ms_report *report)
{
	if (!ms_vec_reserve(files->arena, &report->names, report->pcs.n))
		return;
	for (size_t i = 0; i < report->pcs.n; i++)
		name(files, &report->code, report->pcs.at[i], &report->names.at[i].symbol);
	report->names.n = report->pcs.n;
}

void ms_names_open(struct ms_elf_files *files, const struct ms_mappings *maps)
{
	const struct ms_mapping *map;

	ms_vec_for_each (map, maps) {
		const struct ms_mapping *first = ms_module_first(maps, map);

		if (map->inode && map->prot & MS_PROT_EXEC)
			(void)ms_elf_files_open(
				files, &(struct ms_elf_mapped){ first->name, map->inode,
			                                        first->offset, map->range });
	}
}

static uint32_t judge(const struct ms_suppressions *all, const struct ms_named *frames, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct ms_symbol *symbol = &frames[i].symbol;
		const char *names[] = { symbol->function ? symbol->function : "",
			                symbol->module ? symbol->module : "" };
		size_t found = ms_suppressions_find(all, names, sizeof(names) / sizeof(names[0]));

		if (found < all->n)
			return (uint32_t)found + 1;
	}
	return 0;
}

bool ms_names_judge(void *ctx, const struct ms_report *asked, uint32_t *verdicts,
                    struct ms_error *err)
{
	struct ms_names_judge *judging = ctx;
	struct ms_report named = *asked;

	named.names = (struct ms_names){ 0 };
	ms_names_fill(&judging->files, &named);
	if (named.names.n != asked->pcs.n) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory for the names of functions");
		return false;
	}
	memset(verdicts, 0, asked->stacks.n * sizeof(*verdicts));
	for (size_t i = 0; named.names.at && i < asked->stacks.n; i++)
		verdicts[i] =
			judge(judging->suppressions, named.names.at + asked->stacks.at[i].first,
		              asked->stacks.at[i].n);
	return true;
}
