/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_REPORT_RECORDS_INDEX_H
#define MS_REPORT_RECORDS_INDEX_H

/* Where the entry of a number (an address, a size) is: a hash table by linear probing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct ms_index_slot {
	uint64_t key;
	uint32_t value; /* 0: the slot is free */
};

/* { 0 } is empty. */
struct ms_index {
	struct ms_index_slot *slots;
	unsigned bits; /* of the number of slots */
	size_t used;
};

/* What @key has, or 0. */
uint32_t ms_index_find(const struct ms_index *index, uint64_t key);

/* Give @key, which has none, a @value other than 0; false without memory. */
bool ms_index_add(struct ms_index *index, struct ms_arena *arena, uint64_t key, uint32_t value);

/* Take away @key, which is there. */
void ms_index_remove(struct ms_index *index, uint64_t key);

#endif
