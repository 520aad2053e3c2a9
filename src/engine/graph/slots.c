/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/slots.h"

enum { HASH_BITS = 9, MISSES = 16 };

/* Of the bits of a set; beyond, the number of values is not known from them. */
enum { FULL = 3 * MS_SLOT_SET * 64 / 4 };

static const double LEAST_SHARE = 0.25;
static const double BY_CHANCE = 1e-6;

static void put(struct ms_slot_set *set, int64_t value)
{
	uint64_t bit = (uint64_t)value * UINT64_C(0x9e3779b97f4a7c15) >> (64 - HASH_BITS);

	set->bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

static uint32_t count(const struct ms_slot_set *set)
{
	uint32_t n = 0;

	for (int i = 0; i < MS_SLOT_SET; i++)
		n += (uint32_t)__builtin_popcountll(set->bits[i]);
	return n;
}

static void join(struct ms_slot_set *set, const struct ms_slot_set *from)
{
	for (int i = 0; i < MS_SLOT_SET; i++)
		set->bits[i] |= from->bits[i];
}

static bool is_near(const struct ms_slot_lead *lead)
{
	return lead->distance > -MS_SLOT_NEAR && lead->distance < MS_SLOT_NEAR;
}

static bool is_uneven(const struct ms_slot_lead *lead)
{
	return lead->distance % 2 && lead->distance % (int64_t)lead->granules;
}

void ms_slot_note(struct ms_slot *slot, const struct ms_slot_lead *lead)
{
	if (is_near(lead))
		return;
	switch (lead->end) {
	case MS_END_UNMARKED:
		put(is_uneven(lead) ? &slot->uneven : &slot->even, lead->distance);
		return;
	case MS_END_MARKED:
		put(&slot->marked, lead->distance);
		return;
	case MS_END_NOWHERE:
		put(&slot->nowhere, lead->distance);
		return;
	}
}

void ms_slot_note_any(struct ms_slot *slot, const struct ms_slot_lead *lead)
{
	if (lead->end == MS_END_NOWHERE)
		slot->misses++;
	else
		slot->hits++;
	if (lead->end != MS_END_NOWHERE && !is_near(lead))
		put(is_uneven(lead) ? &slot->points_uneven : &slot->points_even, lead->distance);
}

void ms_slot_join(struct ms_slot *slot, const struct ms_slot *from)
{
	join(&slot->uneven, &from->uneven);
	join(&slot->even, &from->even);
	join(&slot->marked, &from->marked);
	join(&slot->nowhere, &from->nowhere);
	join(&slot->points_uneven, &from->points_uneven);
	join(&slot->points_even, &from->points_even);
	slot->hits += from->hits;
	slot->misses += from->misses;
}

/* At least the chance that @k of @n or more happen, each by @p: C(n, k) p^k. */
static double chance(uint32_t k, uint32_t n, double p)
{
	double all = 1;

	for (uint32_t i = 1; i <= k; i++)
		all *= p * (n - k + i) / i;
	return all;
}

bool ms_slot_keeps(const struct ms_slot *slot, double share)
{
	uint32_t uneven = count(&slot->uneven);
	uint32_t hits = uneven + count(&slot->even);
	uint32_t marked = count(&slot->marked);
	uint32_t nowhere = count(&slot->nowhere);

	if (hits < MS_SLOT_FEWEST || 8 * uneven < hits)
		return false;
	if (marked > FULL || nowhere > FULL || marked + nowhere > 3 * hits)
		return false;
	return chance(hits, hits + marked, share > LEAST_SHARE ? share : LEAST_SHARE) < BY_CHANCE;
}

bool ms_slot_points(const struct ms_slot *slot)
{
	uint32_t uneven = count(&slot->points_uneven);
	uint32_t values = uneven + count(&slot->points_even);

	return values >= MS_SLOT_FEWEST_POINT && 8 * uneven >= values &&
	       slot->misses <= values / MISSES;
}

bool ms_slot_may_point(const struct ms_slot *slot)
{
	return slot->hits >= MS_SLOT_FEWEST_POINT && slot->misses <= slot->hits / MISSES;
}
