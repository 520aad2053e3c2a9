/* SPDX-License-Identifier: Apache-2.0 */

/* What code addresses lie in: whole files, for it takes the first mapping to name one. */

#include "engine/modules.h"
#include "engine/origins/build_id.h"
#include "engine/origins/origins.h"

/* Mark in @wanted @map and all mappings of its file's run. */
static void want(const struct ms_mappings *maps, const struct ms_mapping *map, bool *wanted)
{
	const struct ms_mapping *first = ms_module_first(maps, map);
	const struct ms_mapping *last = first;

	wanted[first - maps->at] = true;
	wanted[map - maps->at] = true;
	for (const struct ms_mapping *m = first + 1; first->inode && m < maps->at + maps->n; m++) {
		if (!m->inode)
			continue;
		if (!ms_mapping_same_file(m, first) || m->offset < last->offset)
			break;
		wanted[m - maps->at] = true;
		last = m;
	}
}

static void describe(struct ms_source *src, const struct ms_mapping *map, struct ms_code *ret)
{
	const struct ms_mapping *first = ms_module_first(&src->mappings, map);

	ms_code_init(ret, map);
	if (map->inode)
		ret->build_id_len = ms_build_id_read(src, first->range.begin, ret->build_id);
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

bool ms_origin_tell_code(const struct ms_origin_teller *teller)
{
	const struct ms_mappings *maps = &teller->src->mappings;
	bool *wanted;

	if (!teller->report->pcs.n)
		return true;
	wanted = ms_arena_alloc(teller->arena, maps->n * sizeof(*wanted));
	if (!wanted)
		return false;
	want_all(maps, &teller->report->pcs, wanted);
	for (size_t i = 0; i < maps->n; i++) {
		struct ms_code *code;

		if (!wanted[i])
			continue;
		code = ms_vec_push(teller->arena, &teller->report->code);
		if (!code)
			return false;
		describe(teller->src, &maps->at[i], code);
	}
	return true;
}
