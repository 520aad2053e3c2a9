/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_MAP_H
#define MS_BASE_MAP_H

/* A number for each of many numbers (addresses, sizes, pointers): a hash table by linear probing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct ms_map_slot {
	uint64_t key;
	uint64_t value; /* 0: the slot is free */
};

/* { 0 } is empty. */
struct ms_map {
	struct ms_map_slot *slots;
	unsigned bits; /* of the number of slots */
	size_t used;
};

/* What @key has, or 0. */
uint64_t ms_map_find(const struct ms_map *map, uint64_t key);

/* Give @key, which has none, a @value other than 0; false without memory. */
bool ms_map_add(struct ms_map *map, struct ms_arena *arena, uint64_t key, uint64_t value);

/* Take away @key, which is there. */
void ms_map_remove(struct ms_map *map, uint64_t key);

#endif
