/* SPDX-License-Identifier: Apache-2.0 */
#include "inproc/names/leak.h"

#include <unistd.h>

#include "engine/modules.h"
#include "inproc/names/naming.h"
#include "target/maps.h"

static bool has_code(const struct ms_mapping *map, const struct ms_mappings *maps,
                     const struct ms_pcs *pcs)
{
	for (size_t i = 0; i < pcs->n; i++) {
		const struct ms_mapping *of = ms_maps_find(maps, pcs->at[i]);

		if (of && (of == map || ms_mapping_same_file(of, map)))
			return true;
	}
	return false;
}

static bool add_code(const struct ms_mapping *map, struct ms_arena *arena, struct ms_codes *code)
{
	struct ms_code *entry = ms_vec_push(arena, code);

	if (entry)
		ms_code_init(entry, map);
	return entry;
}

bool ms_names_of_backtrace(const struct UnreachableMemoryBacktrace *backtrace,
                           struct ms_arena *arena, struct ms_report *ret)
{
	size_t n = backtrace->num_frames < MEMUNREACHABLE_FRAMES ? backtrace->num_frames
	                                                         : MEMUNREACHABLE_FRAMES;
	struct ms_elf_files files = { .arena = arena };
	struct ms_stack *stack = ms_vec_push(arena, &ret->stacks);
	struct ms_mappings maps = { 0 };
	const struct ms_mapping *map;
	struct ms_error err;

	if (!stack || !ms_vec_reserve(arena, &ret->pcs, n) ||
	    ms_maps_read(getpid(), arena, &maps, &err))
		return false;
	*stack = (struct ms_stack){ 0, (uint32_t)n, 0 };
	for (size_t i = 0; i < n; i++)
		ret->pcs.at[ret->pcs.n++] = backtrace->frames[i];
	ms_vec_for_each (map, &maps)
		if (has_code(map, &maps, &ret->pcs) && !add_code(map, arena, &ret->code))
			return false;
	ms_names_fill(&files, ret);
	ms_elf_files_close(&files);
	return ret->names.n == n;
}
