/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/retained/ranking.h"

bool ms_ranking_init(struct ms_ranking *r, uint32_t most, struct ms_arena *arena)
{
	*r = (struct ms_ranking){ .most = most };
	r->at = ms_arena_alloc(arena, ((size_t)most + 1) * sizeof(*r->at));
	return r->at != NULL;
}

static bool is_lighter(const struct ms_ranked *a, const struct ms_ranked *b)
{
	return a->weight != b->weight ? a->weight < b->weight : a->what > b->what;
}

static void swap(struct ms_ranked *a, struct ms_ranked *b)
{
	struct ms_ranked was = *a;

	*a = *b;
	*b = was;
}

static void sink(struct ms_ranking *r, uint32_t i)
{
	for (;;) {
		uint32_t least = i;

		for (uint32_t below = 2 * i + 1; below <= 2 * i + 2 && below < r->n; below++)
			if (is_lighter(&r->at[below], &r->at[least]))
				least = below;
		if (least == i)
			return;
		swap(&r->at[i], &r->at[least]);
		i = least;
	}
}

static void rise(struct ms_ranking *r, uint32_t i)
{
	for (; i && is_lighter(&r->at[i], &r->at[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&r->at[i], &r->at[(i - 1) / 2]);
}

void ms_ranking_add(struct ms_ranking *r, uint32_t what, uint64_t weight)
{
	const struct ms_ranked added = { weight, what };

	r->seen++;
	if (r->n < r->most) {
		r->at[r->n] = added;
		rise(r, r->n++);
	} else if (r->n && is_lighter(r->at, &added)) {
		r->at[0] = added;
		sink(r, 0);
	}
}

/* The lightest goes to the end, one after the other. */
void ms_ranking_finish(struct ms_ranking *r)
{
	uint32_t n = r->n;

	while (r->n > 1) {
		swap(&r->at[0], &r->at[--r->n]);
		sink(r, 0);
	}
	r->n = n;
}
