/* SPDX-License-Identifier: Apache-2.0 */
#include "base/range.h"

#include "base/sort.h"

static bool range_before(const void *a, const void *b)
{
	const struct ms_range *x = a;
	const struct ms_range *y = b;

	return x->begin < y->begin;
}

bool ms_ranges_tidy(struct ms_arena *arena, struct ms_ranges *ranges)
{
	size_t kept = 0;

	if (!ms_sort(arena, ranges->at, ranges->n, sizeof(*ranges->at), range_before))
		return false;
	for (size_t i = 0; i < ranges->n; i++) {
		struct ms_range r = ranges->at[i];

		if (kept && r.begin <= ranges->at[kept - 1].end) {
			if (r.end > ranges->at[kept - 1].end)
				ranges->at[kept - 1].end = r.end;
			continue;
		}
		ranges->at[kept++] = r;
	}
	ranges->n = kept;
	return true;
}

/* The first hole that ends behind @addr, or the number of holes. */
static size_t first_hole_behind(const struct ms_ranges *holes, ms_addr addr)
{
	size_t low = 0;
	size_t high = holes->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (holes->at[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool ms_range_next_gap(struct ms_range *rest, const struct ms_ranges *holes, struct ms_range *ret)
{
	size_t i = first_hole_behind(holes, rest->begin);

	if (i < holes->n && holes->at[i].begin <= rest->begin)
		rest->begin = holes->at[i++].end;
	if (rest->begin >= rest->end)
		return false;
	*ret = *rest;
	if (i < holes->n && holes->at[i].begin < rest->end)
		ret->end = holes->at[i].begin;
	rest->begin = ret->end;
	return true;
}

bool ms_ranges_add(struct ms_arena *arena, struct ms_ranges *ranges, ms_addr begin, ms_addr end)
{
	struct ms_range *r;

	if (begin >= end)
		return true;
	r = ms_vec_push(arena, ranges);
	if (!r)
		return false;
	*r = (struct ms_range){ begin, end };
	return true;
}
