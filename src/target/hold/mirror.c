/* SPDX-License-Identifier: Apache-2.0 */
#include "target/hold/mirror.h"

#include <assert.h>
#include <sys/mman.h>

#include "base/libc.h"

static const uint64_t SLACK = (uint64_t)64 << 20;
static const uint64_t HUGE_PAGE = (uint64_t)2 << 20;

/* Smaller pieces gain nothing by huge pages, and each costs an entry of our own map. */
static const uint64_t HUGE_FROM = (uint64_t)8 << 20;

/* Where mirrors are laid out: what may be shown of the target around the pages to copy. */
struct layout {
	const struct ms_mappings *maps;
	size_t map; /* the mapping looked at last */
	struct ms_mirror_list *list;
	struct ms_arena *arena;
};

/* Around a page at @addr: how far, at most SLACK each way, memory goes on that reads as zeros. */
static struct ms_range zeros_around(struct layout *layout, struct ms_range range)
{
	const struct ms_mappings *maps = layout->maps;
	struct ms_range around = range;
	size_t i;

	while (maps->at[layout->map].range.end <= range.begin)
		layout->map++;
	for (i = layout->map + 1; i-- > 0;) {
		if (ms_absent_of(&maps->at[i]) != MS_ABSENT_ZERO ||
		    maps->at[i].range.end < around.begin || range.begin - around.begin >= SLACK)
			break;
		around.begin = maps->at[i].range.begin;
	}
	for (i = layout->map; i < maps->n; i++) {
		if (ms_absent_of(&maps->at[i]) != MS_ABSENT_ZERO ||
		    maps->at[i].range.begin > around.end || around.end - range.end >= SLACK)
			break;
		if (maps->at[i].range.end > around.end)
			around.end = maps->at[i].range.end;
	}
	if (range.begin - around.begin > SLACK)
		around.begin = range.begin - SLACK;
	if (around.end - range.end > SLACK && around.end > range.end)
		around.end = range.end + SLACK;
	return around;
}

static bool lay_out(struct layout *layout, struct ms_range range)
{
	struct ms_mirror_list *list = layout->list;
	struct ms_mirror *last = list->n ? &list->at[list->n - 1] : NULL;
	struct ms_range around;

	if (last && range.end <= last->range.end) {
		last->need.end = range.end;
		return true;
	}
	around = zeros_around(layout, range);
	if (last && around.begin <= last->range.end) {
		last->range.end = around.end;
		last->need.end = range.end;
		return true;
	}
	last = ms_vec_push(layout->arena, list);
	if (last)
		*last = (struct ms_mirror){ .range = around, .need = range };
	return last;
}

/* Let the kernel use huge pages where it will all be filled. */
static void advise_huge(struct ms_mirrors *mirrors, const struct ms_wanted_list *wanted)
{
	const struct ms_wanted *want;

	ms_vec_for_each (want, wanted) {
		uint64_t len = ms_range_len(want->range);
		uint64_t skip;
		char *at;

		if (len < HUGE_FROM)
			continue;
		at = ms_mirrors_at(mirrors, want->range.begin);
		skip = ms_align_up((uintptr_t)at, HUGE_PAGE) - (uintptr_t)at;
		(void)madvise(at + skip, ms_align_down(len - skip, HUGE_PAGE), MADV_HUGEPAGE);
	}
}

/* Take the place of an old mirror that has all @mirror needs, cutting both to what they share. */
static void take_over(struct ms_mirrors *old, struct ms_mirror *mirror)
{
	const struct ms_mirror *had = ms_mirrors_find(old, mirror->need.begin);

	if (!had || had->range.end < mirror->need.end)
		return;
	mirror->range = ms_range_common(mirror->range, had->range);
	mirror->at = had->at + (mirror->range.begin - had->range.begin);
}

/* Give memory to the mirrors that have none. */
static enum ms_status map_memory(struct ms_mirrors *mirrors, struct ms_error *err)
{
	struct ms_mirror *mirror;
	size_t len = 0;
	char *at;

	ms_vec_for_each (mirror, &mirrors->list)
		len += mirror->at ? 0 : ms_range_len(mirror->range);
	if (!len)
		return MS_OK;
	assert(mirrors->n_memories < MS_MIRROR_MEMORIES);
	at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	          -1, 0);
	if (at == MAP_FAILED)
		return ms_fail(err, MS_E_NOMEM, "no address space for a copy of %zu MiB",
		               len >> 20);
	/* A fork would make every page shared, and copying to it a fault again. */
	(void)madvise(at, len, MADV_DONTFORK);
	mirrors->memory[mirrors->n_memories] = at;
	mirrors->memory_len[mirrors->n_memories++] = len;
	ms_vec_for_each (mirror, &mirrors->list) {
		if (mirror->at)
			continue;
		mirror->at = at;
		at += ms_range_len(mirror->range);
	}
	return MS_OK;
}

enum ms_status ms_mirrors_create(struct ms_mirrors *mirrors, const struct ms_mirror_plan *plan,
                                 struct ms_error *err)
{
	struct ms_mirrors old = *mirrors;
	struct layout layout = { plan->maps, 0, &mirrors->list, plan->arena };
	const struct ms_wanted *want;
	struct ms_mirror *mirror;
	enum ms_status st;

	mirrors->list = (struct ms_mirror_list){ 0 };
	mirrors->last = 0;
	ms_vec_for_each (want, plan->wanted)
		if (!lay_out(&layout, want->range))
			return ms_fail(err, MS_E_NOMEM, "no memory for the layout of the copy");
	ms_vec_for_each (mirror, &mirrors->list)
		take_over(&old, mirror);
	st = map_memory(mirrors, err);
	if (!st)
		advise_huge(mirrors, plan->wanted);
	return st;
}

void ms_mirrors_destroy(struct ms_mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->n_memories; i++)
		(void)munmap(mirrors->memory[i], mirrors->memory_len[i]);
	mirrors->n_memories = 0;
}

const struct ms_mirror *ms_mirrors_find(struct ms_mirrors *mirrors, ms_addr addr)
{
	const struct ms_mirror_list *list = &mirrors->list;
	size_t last = atomic_load_explicit(&mirrors->last, memory_order_relaxed);
	const struct ms_mirror *found;

	if (last < list->n && ms_range_has(list->at[last].range, addr))
		return &list->at[last];
	found = ms_range_find(list, addr);
	if (found)
		atomic_store_explicit(&mirrors->last, (size_t)(found - list->at),
		                      memory_order_relaxed);
	return found;
}

char *ms_mirrors_at(struct ms_mirrors *mirrors, ms_addr addr)
{
	const struct ms_mirror *mirror = ms_mirrors_find(mirrors, addr);

	assert(mirror);
	return mirror->at + (addr - mirror->range.begin);
}

void ms_mirrors_populate(struct ms_mirrors *mirrors, const struct ms_wanted_list *wanted)
{
	const struct ms_wanted *want;

	ms_vec_for_each (want, wanted) {
		(void)madvise(ms_mirrors_at(mirrors, want->range.begin), ms_range_len(want->range),
		              MADV_POPULATE_WRITE);
	}
}
