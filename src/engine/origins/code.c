/* SPDX-License-Identifier: Apache-2.0 */

/* What code addresses lie in: whole files, for it takes the first mapping to name one. */

#include <string.h>

#include "engine/modules.h"
#include "engine/origins/build_id.h"
#include "engine/origins/origins.h"

/* Whether @map goes on with the file of @before, as ms_module_first() has it. */
static bool goes_on(const struct ms_mapping *before, const struct ms_mapping *map)
{
	return before && ms_mapping_same_file(before, map) &&
	       ms_segment_goes_on(ms_segment_of(before), ms_segment_of(map));
}

/* Mark in @wanted @map and all mappings of its file's run. */
static void want(const struct ms_mappings *maps, const struct ms_mapping *map, bool *wanted)
{
	const struct ms_mapping *first = ms_module_first(maps, map);
	const struct ms_mapping *last = first;

	wanted[first - maps->at] = true;
	wanted[map - maps->at] = true;
	for (const struct ms_mapping *m = first + 1; first->file && m < maps->at + maps->n; m++) {
		if (!m->file)
			continue;
		if (!goes_on(last, m))
			break;
		wanted[m - maps->at] = true;
		last = m;
	}
}

static void describe(const struct ms_mapping *map, const struct ms_loaded *loaded,
                     struct ms_code *ret)
{
	ms_code_init(ret, map);
	if (!map->file)
		return;
	ret->bias = loaded->bias;
	ret->has_bias = loaded->has_bias;
	ret->build_id_len = loaded->build_id_len;
	memcpy(ret->build_id, loaded->build_id, sizeof(ret->build_id));
}

/* In each mapping many addresses lie: the last one is asked first. */
static void want_all(const struct ms_mappings *maps, const struct ms_pcs *pcs, bool *wanted)
{
	const struct ms_mapping *map = NULL;
	const ms_addr *pc;

	ms_vec_for_each (pc, pcs) {
		if (map && ms_range_has(map->range, *pc))
			continue;
		map = ms_range_find(maps, *pc);
		if (map && !wanted[map - maps->at])
			want(maps, map, wanted);
	}
}

/* The list of those that are @wanted; false without memory. */
static bool list(const struct ms_origin_teller *teller, const bool *wanted)
{
	const struct ms_mappings *maps = &teller->src->mappings;
	const struct ms_mapping *before = NULL;
	const struct ms_mapping *map;
	struct ms_loaded loaded = { 0 };

	ms_vec_for_each (map, maps) {
		struct ms_code *code;

		/* All mappings of a file are wanted, or none. */
		if (map->file && wanted[map - maps->at] && !goes_on(before, map))
			ms_loaded_read(teller->src, map->range.begin, &loaded);
		if (map->file)
			before = map;
		if (!wanted[map - maps->at])
			continue;
		code = ms_vec_push(teller->arena, &teller->report->code);
		if (!code)
			return false;
		describe(map, &loaded, code);
	}
	return true;
}

/* Those of unloaded libraries; all of one's are wanted, or none. */
static bool list_unloaded(const struct ms_origin_teller *teller)
{
	const struct ms_codes *all = &teller->origins->unloaded;
	bool *wanted = ms_arena_alloc(teller->arena, all->n + 1);
	const ms_addr *pc;

	if (!wanted)
		return false;
	ms_vec_for_each (pc, &teller->report->pcs) {
		const struct ms_code *code = ms_range_find(all, *pc);

		if (code)
			wanted[code - all->at] = true;
	}
	for (size_t i = 0; i < all->n; i++) {
		struct ms_code *code;

		if (!wanted[i] &&
		    !(i + 1 < all->n && wanted[i + 1] && all->at[i + 1].moved == all->at[i].moved))
			continue;
		code = ms_vec_push(teller->arena, &teller->report->code);
		if (!code)
			return false;
		*code = all->at[i];
	}
	return true;
}

bool ms_origin_tell_code(const struct ms_origin_teller *teller)
{
	bool *wanted;

	if (!teller->report->pcs.n)
		return true;
	wanted = ms_arena_alloc(teller->arena, teller->src->mappings.n * sizeof(*wanted));
	if (!wanted)
		return false;
	want_all(&teller->src->mappings, &teller->report->pcs, wanted);
	return list(teller, wanted) && (!teller->origins || list_unloaded(teller));
}
