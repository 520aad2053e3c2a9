/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ptrmap.h"

#include <assert.h>

enum { FEWEST = 1024 };

/* The slot of @key, or the free one where it would be. */
static struct ms_ptrmap_slot *find(const struct ms_ptrmap *map, const void *key)
{
	size_t mask = map->slots.n - 1;
	size_t i = (size_t)((uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;

	while (map->slots.at[i].key && map->slots.at[i].key != key)
		i = (i + 1) & mask;
	return &map->slots.at[i];
}

static bool grow(struct ms_arena *arena, struct ms_ptrmap *map)
{
	size_t n = map->slots.n ? 2 * map->slots.n : FEWEST;
	struct ms_ptrmap larger = { .used = map->used };
	struct ms_ptrmap_slot *slot;

	if (!ms_vec_reserve(arena, &larger.slots, n))
		return false;
	assert(larger.slots.at);
	larger.slots.n = n;
	ms_vec_for_each (slot, &map->slots)
		if (slot->key)
			*find(&larger, slot->key) = *slot;
	*map = larger;
	return true;
}

uint64_t *ms_ptrmap_at(struct ms_arena *arena, struct ms_ptrmap *map, const void *key)
{
	struct ms_ptrmap_slot *slot;

	if (map->used >= map->slots.n / 2 && !grow(arena, map))
		return NULL;
	slot = find(map, key);
	if (!slot->key) {
		slot->key = key;
		map->used++;
	}
	return &slot->value;
}
