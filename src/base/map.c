/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <assert.h>

enum { FIRST_BITS = 10 };

/* Fibonacci hashing: the upper bits of a product with 2^64 / the golden ratio. */
static size_t home_of(const struct ms_map *map, uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - map->bits));
}

static size_t mask_of(const struct ms_map *map)
{
	return ((size_t)1 << map->bits) - 1;
}

/* The slot of @key, or the free one where it would be. */
static struct ms_map_slot *slot_of(const struct ms_map *map, uint64_t key)
{
	size_t i = home_of(map, key);

	while (map->slots[i].value && map->slots[i].key != key)
		i = (i + 1) & mask_of(map);
	return &map->slots[i];
}

uint64_t ms_map_find(const struct ms_map *map, uint64_t key)
{
	return map->slots ? slot_of(map, key)->value : 0;
}

static bool grow(struct ms_map *map, struct ms_arena *arena)
{
	struct ms_map grown = { .bits = map->slots ? map->bits + 1 : FIRST_BITS };

	grown.slots = ms_arena_alloc(arena, sizeof(*grown.slots) << grown.bits);
	if (!grown.slots)
		return false;
	for (size_t i = 0; map->slots && i <= mask_of(map); i++) {
		if (map->slots[i].value)
			*slot_of(&grown, map->slots[i].key) = map->slots[i];
	}
	grown.used = map->used;
	*map = grown;
	return true;
}

bool ms_map_add(struct ms_map *map, struct ms_arena *arena, uint64_t key, uint64_t value)
{
	struct ms_map_slot *slot;

	assert(value);
	/* At most half full. */
	if ((!map->slots || map->used * 2 > mask_of(map)) && !grow(map, arena))
		return false;
	slot = slot_of(map, key);
	assert(!slot->value);
	slot->key = key;
	slot->value = value;
	map->used++;
	return true;
}

/* The entries behind it move up, so that no search ends too early. */
void ms_map_remove(struct ms_map *map, uint64_t key)
{
	size_t mask = mask_of(map);
	size_t hole = (size_t)(slot_of(map, key) - map->slots);

	assert(map->slots[hole].value);
	for (size_t i = (hole + 1) & mask; map->slots[i].value; i = (i + 1) & mask) {
		size_t home = home_of(map, map->slots[i].key);

		/* Its home is not behind the hole: it may stand there. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->slots[hole].value = 0;
	map->used--;
}
