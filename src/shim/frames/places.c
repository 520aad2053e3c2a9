/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/frames/modules.h"

enum { FIRST_SLOTS = 256 };

struct ms_place_slot {
	uintptr_t pc;
	struct ms_place *place; /* NULL: empty */
};

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

static struct ms_place_slot *slot_of(const struct ms_places *places, uintptr_t pc)
{
	size_t i = (size_t)((uint64_t)pc * UINT64_C(0x9e3779b97f4a7c15) >> 32);

	for (;; i++) {
		struct ms_place_slot *slot = &places->slot[i & (places->n_slots - 1)];

		if (!slot->place || slot->pc == pc)
			return slot;
	}
}

static bool grow(struct ms_places *places)
{
	struct ms_places more = *places;

	more.n_slots = places->n_slots ? 2 * places->n_slots : FIRST_SLOTS;
	more.slot = ms_arena_alloc(&places->arena, more.n_slots * sizeof(*more.slot));
	if (!more.slot)
		return false;
	for (size_t i = 0; i < places->n_slots; i++) {
		if (places->slot[i].place)
			*slot_of(&more, places->slot[i].pc) = places->slot[i];
	}
	places->slot = more.slot;
	places->n_slots = more.n_slots;
	return true;
}

const struct ms_place *ms_places_find(struct ms_places *places, uintptr_t pc)
{
	static const struct ms_place nowhere = { 0 };
	struct ms_place_slot *slot;

	if (2 * places->n >= places->n_slots && !grow(places))
		return &nowhere;
	slot = slot_of(places, pc);
	if (slot->place)
		return slot->place;
	slot->place = ms_arena_alloc(&places->arena, sizeof(*slot->place));
	if (!slot->place)
		return &nowhere;
	slot->pc = pc;
	places->n++;
	ms_place_find(places, pc, slot->place);
	return slot->place;
}
