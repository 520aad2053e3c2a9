/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/frames/modules.h"

#include "shim/pointer.h"

void ms_places_init(struct ms_places *places)
{
	*places = (struct ms_places){ 0 };
	places->files.arena = &places->arena;
	ms_shim_modules_read(&places->arena, &places->modules);
}

void ms_places_deinit(struct ms_places *places)
{
	ms_elf_files_close(&places->files);
	ms_arena_deinit(&places->arena);
}

const struct ms_place *ms_places_find(struct ms_places *places, uint64_t pc)
{
	static const struct ms_place nowhere = { 0 };
	struct ms_place *place = ms_pointer((uintptr_t)ms_map_find(&places->kept, pc));

	if (place)
		return place;
	place = ms_arena_alloc(&places->arena, sizeof(*place));
	if (!place || !ms_map_add(&places->kept, &places->arena, pc, (uintptr_t)place))
		return &nowhere;
	ms_place_find(places, pc, place);
	return place;
}
