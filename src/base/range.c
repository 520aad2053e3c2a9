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

bool ms_range_next_gap(struct ms_range *rest, const struct ms_ranges *holes, struct ms_range *ret)
{
	size_t i = ms_range_search(holes->at, holes->n, sizeof(*holes->at), rest->begin);

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

bool ms_ranges_add_all(struct ms_arena *arena, struct ms_ranges *ranges,
                       const struct ms_ranges *from)
{
	const struct ms_range *r;

	ms_vec_for_each (r, from)
		if (!ms_ranges_add(arena, ranges, r->begin, r->end))
			return false;
	return true;
}
