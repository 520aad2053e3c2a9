/* SPDX-License-Identifier: Apache-2.0 */
#include "target/hold/pages.h"

#include "target/maps.h"
#include "target/proc.h"

/* The first of the held runs that ends behind @addr; list.n when there is none. */
static size_t find(struct ms_pages *pages, ms_addr addr)
{
	const struct ms_wanted_list *list = &pages->list;
	size_t i = atomic_load_explicit(&pages->last, memory_order_relaxed);

	if (i >= list->n || !ms_range_has(list->at[i].range, addr)) {
		i = ms_range_search(list->at, list->n, sizeof(*list->at), addr);
		atomic_store_explicit(&pages->last, i, memory_order_relaxed);
	}
	return i;
}

bool ms_pages_part(struct ms_pages *pages, ms_addr addr, ms_addr end, struct ms_part *ret)
{
	const struct ms_mapping *map = ms_maps_find(pages->maps, addr);
	struct ms_range part = { addr, end };
	const struct ms_wanted *page;
	size_t i;

	if (!map)
		return false;
	i = find(pages, addr);
	page = i < pages->list.n ? &pages->list.at[i] : NULL;
	if (page && page->range.begin <= addr) {
		*ret = (struct ms_part){ ms_range_common(part, page->range), page, MS_ABSENT_NONE };
		return true;
	}
	if (page && page->range.begin < part.end)
		part.end = page->range.begin;
	*ret = (struct ms_part){ ms_range_common(part, map->range), NULL, ms_absent_of(map) };
	return true;
}

bool ms_pages_present(struct ms_pages *pages, struct ms_range within, struct ms_range *ret)
{
	const struct ms_wanted_list *list = &pages->list;
	size_t i = find(pages, within.begin);
	struct ms_range run;

	if (i == list->n)
		return false;
	run = list->at[i].range;
	while (++i < list->n && list->at[i].range.begin == run.end && run.end < within.end)
		run.end = list->at[i].range.end;
	run = ms_range_common(run, within);
	if (run.begin == run.end)
		return false;
	*ret = run;
	return true;
}

/* Whether any memory of this machine is in swap. */
static bool is_swap_used(void)
{
	char text[4096];

	return ms_proc_read_path("/proc/meminfo", text, sizeof(text)) > 0 &&
	       ms_proc_field(text, "SwapTotal", 10) > ms_proc_field(text, "SwapFree", 10);
}

bool ms_pages_find_elsewhere(pid_t tid, const struct ms_descriptors *descriptors,
                             struct ms_arena *arena, struct ms_ranges *ret)
{
	const char *const flags[] = { descriptors->faults ? MS_FLAG_MISSING : NULL,
		                      descriptors->faults ? MS_FLAG_MINOR : NULL,
		                      is_swap_used() ? MS_SHARED_SWAPPED : NULL };
	struct ms_error unused;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (flags[i] && ms_maps_flagged(tid, flags[i], arena, ret, &unused)) {
			ret->n = 0;
			return ms_ranges_add(arena, ret, 0, INT64_MAX);
		}
	return ms_ranges_tidy(arena, ret);
}

bool ms_pages_unseen(const struct ms_pages *pages, const struct ms_ranges *elsewhere,
                     const struct ms_ranges *lost, struct ms_arena *arena, struct ms_ranges *ret)
{
	const struct ms_wanted *page;
	struct ms_ranges held = { 0 };
	const struct ms_range *r;
	bool ok = true;

	ms_vec_for_each (page, &pages->list)
		ok &= !elsewhere->n ||
		      ms_ranges_add(arena, &held, page->range.begin, page->range.end);
	ok = ok && ms_ranges_tidy(arena, &held);
	ms_vec_for_each (r, elsewhere) {
		struct ms_range rest = *r;
		struct ms_range gap;

		while (ok && ms_range_next_gap(&rest, &held, &gap))
			ok = ms_ranges_add(arena, ret, gap.begin, gap.end);
	}
	/* Guard pages look as if they were there before Linux 6.15; they are of no file. */
	ms_vec_for_each (r, lost) {
		const struct ms_mapping *map = ms_maps_find(pages->maps, r->begin);

		if (map && map->file)
			ok &= ms_ranges_add(arena, ret, r->begin, r->end);
	}
	return ok && ms_ranges_tidy(arena, ret);
}

uint64_t ms_wanted_bytes(const struct ms_wanted_list *list)
{
	const struct ms_wanted *want;
	uint64_t bytes = 0;

	ms_vec_for_each (want, list)
		bytes += ms_range_len(want->range);
	return bytes;
}

uint64_t ms_wanted_private_bytes(const struct ms_wanted_list *list)
{
	const struct ms_wanted *want;
	uint64_t bytes = 0;

	ms_vec_for_each (want, list)
		bytes += want->of_file ? 0 : ms_range_len(want->range);
	return bytes;
}
