/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/slots.h"

enum { HASH_BITS = 9 };

/* Of the bits of a set of others; beyond, their number cannot be told from them. */
#define FULL (UINT32_C(3) * MS_SLOT_OTHERS * 64 / 4)

static const double LEAST_SHARE = 0.25;
static const double BY_CHANCE = 1e-6;

static uint64_t hash_of(uint64_t value)
{
	return value * UINT64_C(0x9e3779b97f4a7c15) >> (64 - HASH_BITS);
}

static void put(uint64_t *set, uint64_t words, uint64_t value)
{
	uint64_t bit = hash_of(value) % (words * 64);

	set[bit / 64] |= UINT64_C(1) << bit % 64;
}

static uint32_t count(const uint64_t *set, uint64_t words)
{
	uint32_t n = 0;

	for (uint64_t i = 0; i < words; i++)
		n += (uint32_t)__builtin_popcountll(set[i]);
	return n;
}

void ms_slot_note(struct ms_slot *slot, uint64_t granules, int64_t distance, enum ms_slot_end end)
{
	uint64_t value = (uint64_t)distance;
	bool uneven = distance % 2 && distance % (int64_t)granules;

	if (value + MS_SLOT_NEAR < 2 * (uint64_t)MS_SLOT_NEAR)
		return;
	switch (end) {
	case MS_END_UNMARKED:
		put(uneven ? slot->uneven : slot->even, MS_SLOT_HITS, value);
		return;
	case MS_END_MARKED:
		put(slot->marked, MS_SLOT_OTHERS, value);
		return;
	case MS_END_NOWHERE:
		put(slot->nowhere, MS_SLOT_OTHERS, value);
		return;
	}
}

static void join(uint64_t *set, const uint64_t *from, uint64_t words)
{
	for (uint64_t i = 0; i < words; i++)
		set[i] |= from[i];
}

void ms_slot_join(struct ms_slot *slot, const struct ms_slot *from)
{
	join(slot->uneven, from->uneven, MS_SLOT_HITS);
	join(slot->even, from->even, MS_SLOT_HITS);
	join(slot->marked, from->marked, MS_SLOT_OTHERS);
	join(slot->nowhere, from->nowhere, MS_SLOT_OTHERS);
}

/* At least the chance that @k of @n or more happen, each by @p: C(n, k) p^k. */
static double chance(uint32_t k, uint32_t n, double p)
{
	double all = 1;

	for (uint32_t i = 1; i <= k; i++)
		all *= p * (n - k + i) / i;
	return all;
}

bool ms_slot_convinces(const struct ms_slot *slot, double share)
{
	uint32_t uneven = count(slot->uneven, MS_SLOT_HITS);
	uint32_t even = count(slot->even, MS_SLOT_HITS);
	uint32_t marked = count(slot->marked, MS_SLOT_OTHERS);
	uint32_t nowhere = count(slot->nowhere, MS_SLOT_OTHERS);
	uint32_t hits = uneven + even;

	if (hits < MS_SLOT_FEWEST || 8 * uneven < hits)
		return false;
	if (marked > FULL || nowhere > FULL || marked + nowhere > 3 * hits)
		return false;
	return chance(hits, hits + marked, share > LEAST_SHARE ? share : LEAST_SHARE) < BY_CHANCE;
}
