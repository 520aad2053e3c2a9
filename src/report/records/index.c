/* SPDX-License-Identifier: Apache-2.0 */
#include "report/records/index.h"

#include <assert.h>

enum { FIRST_BITS = 10 };

/* Fibonacci hashing: the upper bits of a product with 2^64 / the golden ratio. */
static size_t home_of(const struct ms_index *index, uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - index->bits));
}

static size_t mask_of(const struct ms_index *index)
{
	return ((size_t)1 << index->bits) - 1;
}

/* The slot of @key, or the free one where it would be. */
static struct ms_index_slot *slot_of(const struct ms_index *index, uint64_t key)
{
	size_t i = home_of(index, key);

	while (index->slots[i].value && index->slots[i].key != key)
		i = (i + 1) & mask_of(index);
	return &index->slots[i];
}

uint32_t ms_index_find(const struct ms_index *index, uint64_t key)
{
	return index->slots ? slot_of(index, key)->value : 0;
}

static bool grow(struct ms_index *index, struct ms_arena *arena)
{
	struct ms_index grown = { .bits = index->slots ? index->bits + 1 : FIRST_BITS };

	grown.slots = ms_arena_alloc(arena, sizeof(*grown.slots) << grown.bits);
	if (!grown.slots)
		return false;
	for (size_t i = 0; index->slots && i <= mask_of(index); i++) {
		if (index->slots[i].value)
			*slot_of(&grown, index->slots[i].key) = index->slots[i];
	}
	grown.used = index->used;
	*index = grown;
	return true;
}

bool ms_index_add(struct ms_index *index, struct ms_arena *arena, uint64_t key, uint32_t value)
{
	struct ms_index_slot *slot;

	assert(value);
	/* At most half full. */
	if ((!index->slots || index->used * 2 > mask_of(index)) && !grow(index, arena))
		return false;
	slot = slot_of(index, key);
	assert(!slot->value);
	slot->key = key;
	slot->value = value;
	index->used++;
	return true;
}

/* The entries behind it move up, so that no search ends too early. */
void ms_index_remove(struct ms_index *index, uint64_t key)
{
	size_t mask = mask_of(index);
	size_t hole = (size_t)(slot_of(index, key) - index->slots);

	assert(index->slots[hole].value);
	for (size_t i = (hole + 1) & mask; index->slots[i].value; i = (i + 1) & mask) {
		size_t home = home_of(index, index->slots[i].key);

		/* Its home is not behind the hole: it may stand there. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			index->slots[hole] = index->slots[i];
			hole = i;
		}
	}
	index->slots[hole].value = 0;
	index->used--;
}
