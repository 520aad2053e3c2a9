/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What stands first in each list. There may be millions to choose from: twice as many as a
 * list has are kept, and put in order when there is no more room; what would come behind
 * the last is then passed over.
 */
#include "base/sort.h"
#include "report/records/recording.h"

/* An entry, and what it is sorted by: the larger numbers first. */
struct ranked {
	uint64_t first;
	uint64_t second;
	uint32_t index;
};

struct ranking {
	struct ms_arena *arena;
	struct ranked *at;
	size_t n;
	size_t cap;
	size_t limit;
	bool cut; /* the last of the list is known */
	bool failed;
};

static bool before(const void *a, const void *b)
{
	const struct ranked *x = a;
	const struct ranked *y = b;

	if (x->first != y->first)
		return x->first > y->first;
	return x->second != y->second ? x->second > y->second : x->index < y->index;
}

static struct ranking begin(struct ms_arena *arena, uint64_t limit, size_t n)
{
	struct ranking ranking = { .arena = arena, .limit = limit < n ? (size_t)limit : n };

	ranking.cap = ranking.limit > n / 2 ? n : 2 * ranking.limit;
	ranking.at = ms_arena_alloc(arena, (ranking.cap + 1) * sizeof(*ranking.at));
	ranking.failed = !ranking.at;
	return ranking;
}

static void cut(struct ranking *ranking)
{
	if (!ranking->failed)
		ranking->failed = !ms_sort(ranking->arena, ranking->at, ranking->n,
		                           sizeof(*ranking->at), before);
	if (ranking->n > ranking->limit)
		ranking->n = ranking->limit;
	ranking->cut = true;
}

static void offer(struct ranking *ranking, struct ranked entry)
{
	if (ranking->failed || !ranking->limit)
		return;
	if (ranking->cut && !before(&entry, &ranking->at[ranking->limit - 1]))
		return;
	if (ranking->n == ranking->cap)
		cut(ranking);
	ranking->at[ranking->n++] = entry;
}

/* Move the list to @ret; false when memory ran out. */
static bool end(struct ranking *ranking, struct ms_recorded_indices *ret)
{
	cut(ranking);
	if (ranking->failed || !ms_vec_reserve(ranking->arena, ret, ranking->n + 1))
		return false;
	for (size_t i = 0; i < ranking->n; i++)
		ret->at[i] = ranking->at[i].index;
	ret->n = ranking->n;
	return true;
}

static bool list_sizes(struct ms_recording *r, uint64_t limit, struct ms_arena *arena)
{
	struct ranking live = begin(arena, limit, r->sizes.n);
	struct ranking all = begin(arena, limit, r->sizes.n);

	for (uint32_t i = 0; i < r->sizes.n; i++) {
		const struct ms_recorded_size *size = &r->sizes.at[i];

		offer(&all, (struct ranked){ size->allocations, size->size, i });
		if (!size->live_blocks)
			continue;
		r->n_live_sizes++;
		offer(&live, (struct ranked){ size->live_blocks * size->size, size->size, i });
	}
	return end(&live, &r->live_sizes) && end(&all, &r->all_sizes);
}

static bool list_threads(struct ms_recording *r, uint64_t limit, struct ms_arena *arena)
{
	struct ranking ranking = begin(arena, limit, r->threads.n);

	for (uint32_t i = 0; i < r->threads.n; i++) {
		const struct ms_recorded_thread *thread = &r->threads.at[i];

		offer(&ranking, (struct ranked){ thread->live_bytes, thread->operations, i });
	}
	return end(&ranking, &r->by_thread);
}

static bool list_oldest(struct ms_recording *r, uint64_t limit, struct ms_arena *arena)
{
	struct ranking ranking = begin(arena, limit, (size_t)r->end.blocks);

	for (uint32_t i = 0; i < r->blocks.n; i++) {
		const struct ms_recorded_block *block = &r->blocks.at[i];

		if (block->live)
			offer(&ranking, (struct ranked){ ~block->born_ns, ~block->line, i });
	}
	return end(&ranking, &r->oldest);
}

enum ms_status ms_recording_list(struct ms_recording *recording, uint64_t limit,
                                 struct ms_arena *arena, struct ms_error *err)
{
	if (list_sizes(recording, limit, arena) && list_threads(recording, limit, arena) &&
	    list_oldest(recording, limit, arena))
		return MS_OK;
	(void)ms_fail(err, MS_E_NOMEM, "no memory for the lists of %.90s", recording->file);
	ms_advise(err, "give --limit a smaller number");
	return MS_E_NOMEM;
}
