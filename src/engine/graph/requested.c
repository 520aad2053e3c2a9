/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/requested.h"

#include <string.h>

#include "base/sort.h"
#include "engine/graph/fold.h"

/* A block that no other unmarked one leads to. */
struct topmost {
	uint64_t size;
	struct ms_block block;
};

struct topmosts MS_VEC(struct topmost);

static bool smaller(const void *a, const void *b)
{
	return ((const struct topmost *)a)->size < ((const struct topmost *)b)->size;
}

static enum ms_status no_memory(struct ms_error *err)
{
	return ms_fail(err, MS_E_NOMEM, "no memory for what requests may hold");
}

/* Those of all unmarked blocks, by size; leaves the marks as they are. */
static enum ms_status find_topmost(struct ms_blocks *blocks, const struct ms_walk_options *like,
                                   struct topmosts *ret, struct ms_error *err)
{
	const struct ms_walk_options alone = { .unaligned = like->unaligned, .edges = like->edges };
	struct ms_arena *arena = blocks->arena;
	struct ms_marks marks = { 0 };
	struct ms_heads heads = { 0 };
	const struct ms_head *head;
	enum ms_status st;

	if (!ms_marks_save(blocks, &marks))
		return no_memory(err);
	st = ms_fold(blocks, &alone, arena, &heads, err);
	ms_marks_restore(blocks, &marks);
	if (st || !ms_vec_reserve(arena, ret, heads.n))
		return st ? st : no_memory(err);
	ms_vec_for_each (head, &heads) {
		const struct ms_extent *extent = &blocks->extents.at[head->extent];

		if (!head->absorbed)
			ret->at[ret->n++] =
				(struct topmost){ ms_block_size(blocks, extent, head->granule),
				                  { head->extent, head->granule } };
	}
	return ms_sort(arena, ret->at, ret->n, sizeof(*ret->at), smaller) ? MS_OK : no_memory(err);
}

/* From @i on: how many of them have the size of the first. */
static size_t count_alike(const struct topmosts *topmost, size_t i)
{
	size_t n = 1;

	while (i + n < topmost->n && topmost->at[i + n].size == topmost->at[i].size)
		n++;
	return n;
}

/*
 * Put those first that @most requests may hold, and return how many: those of sizes of which no
 * more are lost. But where these are more together, some of them are leaks, as of the other sizes.
 */
static size_t move_held(struct topmosts *topmost, uint64_t most)
{
	size_t held = 0;

	for (size_t i = 0, n; i < topmost->n; i += n) {
		n = count_alike(topmost, i);
		if (n > most)
			continue;
		if (held + n > most)
			return 0;
		memmove(topmost->at + held, topmost->at + i, n * sizeof(*topmost->at));
		held += n;
	}
	return held;
}

enum ms_status ms_requested_mark(struct ms_blocks *blocks, const struct ms_walk_options *like,
                                 uint64_t most, struct ms_error *err)
{
	struct topmosts topmost = { 0 };
	enum ms_status st = find_topmost(blocks, like, &topmost, err);
	struct ms_walk *walk = st ? NULL : ms_walk_new(blocks, like, blocks->arena);
	size_t n;

	if (!walk)
		return st ? st : no_memory(err);
	n = move_held(&topmost, most);
	for (size_t i = 0; i < n; i++)
		ms_walk_block(walk, topmost.at[i].block);
	return ms_walk_finish(walk, err);
}
