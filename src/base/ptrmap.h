/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_PTRMAP_H
#define MS_BASE_PTRMAP_H

/* A number for each of many pointers; { 0 } is an empty map. */

#include <stdint.h>

#include "base/vec.h"

struct ms_ptrmap_slot {
	const void *key; /* NULL: free */
	uint64_t value;
};

struct ms_ptrmap {
	struct MS_VEC(struct ms_ptrmap_slot) slots; /* their number is a power of two */
	size_t used;
};

/*
 * The value of @key, which is not NULL; a new one has 0. NULL without memory. Good until the
 * next call.
 */
uint64_t *ms_ptrmap_at(struct ms_arena *arena, struct ms_ptrmap *map, const void *key);

#endif
