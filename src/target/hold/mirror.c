/* SPDX-License-Identifier: Apache-2.0 */
#include "target/hold/mirror.h"

#include <assert.h>
#include <sys/mman.h>

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

	if (last && range.end <= last->range.end)
		return true;
	around = zeros_around(layout, range);
	if (last && around.begin <= last->range.end) {
		last->range.end = around.end;
		return true;
	}
	last = ms_vec_push(layout->arena, list);
	if (last)
		last->range = around;
	return last;
}

/* Let the kernel use huge pages where it will all be filled. */
static void advise_huge(struct ms_mirrors *mirrors, const struct ms_wanted_list *wanted)
{
	const struct ms_wanted *want;

	ms_vec_for_each (want, wanted) {
		const struct ms_mirror *mirror;
		uintptr_t begin;
		uintptr_t end;

		if (ms_range_len(want->range) < HUGE_FROM)
			continue;
		mirror = ms_mirrors_find(mirrors, want->range.begin);
		begin = (uintptr_t)mirror->at + (want->range.begin - mirror->range.begin);
		end = (begin + ms_range_len(want->range)) & ~(HUGE_PAGE - 1);
		begin = ms_align_up(begin, HUGE_PAGE);
		(void)madvise(mirror->at + (begin - (uintptr_t)mirror->at), end - begin,
		              MADV_HUGEPAGE);
	}
}

enum ms_status ms_mirrors_create(struct ms_mirrors *mirrors, const struct ms_mappings *maps,
                                 const struct ms_wanted_list *wanted, struct ms_arena *arena,
                                 struct ms_error *err)
{
	struct layout layout = { .maps = maps, .list = &mirrors->list, .arena = arena };
	const struct ms_wanted *want;
	struct ms_mirror *mirror;
	char *at;

	ms_vec_for_each (want, wanted)
		if (!lay_out(&layout, want->range))
			return ms_fail(err, MS_E_NOMEM, "no memory for the layout of the copy");
	ms_vec_for_each (mirror, &mirrors->list)
		mirrors->memory_len += ms_range_len(mirror->range);
	if (!mirrors->memory_len)
		return MS_OK;
	at = mmap(NULL, mirrors->memory_len, PROT_READ | PROT_WRITE,
	          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return ms_fail(err, MS_E_NOMEM, "no address space for a copy of %zu MiB",
		               mirrors->memory_len >> 20);
	mirrors->memory = at;
	ms_vec_for_each (mirror, &mirrors->list) {
		mirror->at = at;
		at += ms_range_len(mirror->range);
	}
	advise_huge(mirrors, wanted);
	return MS_OK;
}

void ms_mirrors_destroy(struct ms_mirrors *mirrors)
{
	if (mirrors->memory)
		(void)munmap(mirrors->memory, mirrors->memory_len);
	mirrors->memory = NULL;
}

const struct ms_mirror *ms_mirrors_find(struct ms_mirrors *mirrors, ms_addr addr)
{
	const struct ms_mirror_list *list = &mirrors->list;
	size_t low = 0;
	size_t high = list->n;

	if (mirrors->last < list->n && ms_range_has(list->at[mirrors->last].range, addr))
		return &list->at[mirrors->last];
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (list->at[mid].range.end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == list->n || !ms_range_has(list->at[low].range, addr))
		return NULL;
	mirrors->last = low;
	return &list->at[low];
}

void ms_mirrors_populate(struct ms_mirrors *mirrors, const struct ms_wanted_list *wanted)
{
	const struct ms_wanted *want;

	ms_vec_for_each (want, wanted) {
		const struct ms_mirror *mirror = ms_mirrors_find(mirrors, want->range.begin);

		(void)madvise(mirror->at + (want->range.begin - mirror->range.begin),
		              ms_range_len(want->range), MADV_POPULATE_WRITE);
	}
}
