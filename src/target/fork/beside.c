/* SPDX-License-Identifier: Apache-2.0 */
#include "target/fork/beside.h"

#include <string.h>
#include <unistd.h>

#include "base/sort.h"
#include "target/hold/transfer.h"
#include "target/target.h"

enum ms_status ms_beside_choose(struct ms_beside *beside, pid_t tid, uint64_t max_bytes,
                                struct ms_arena *arena, struct ms_error *err)
{
	struct ms_notes unused = { 0 };
	struct ms_resident resident = { .maps = &beside->maps,
		                        .arena = arena,
		                        .warnings = &unused };
	struct ms_mirror_plan plan = { &beside->maps, &beside->pages, arena };
	enum ms_status st;

	beside->pages.n = 0;
	if (!beside->maps.n)
		return MS_OK;
	st = ms_resident_find(tid, &resident, err);
	if (st)
		return st;
	if (!ms_wanted_choose(&resident, &beside->pages))
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of pages to copy");
	beside->in_clone = ms_wanted_bytes(&beside->pages) > max_bytes;
	if (!beside->in_clone)
		return ms_mirrors_create(&beside->mirrors, &plan, err);
	for (size_t i = 0; i < beside->pages.n; i++)
		beside->pages.at[i].in_clone = true;
	return MS_OK;
}

enum ms_status ms_beside_copy(struct ms_beside *beside, pid_t tid, struct ms_arena *arena,
                              struct ms_error *err)
{
	struct ms_transfer transfer = { .tid = tid, .arena = arena };
	enum ms_status st;

	if (!beside->pages.n || beside->in_clone)
		return MS_OK;
	st = ms_target_open_mem(tid, &transfer.mem_fd, err);
	if (st)
		return st;
	st = ms_transfer_run(&transfer, &beside->pages, &beside->mirrors, err);
	beside->lost = transfer.lost;
	beside->bytes += transfer.bytes;
	(void)close(transfer.mem_fd);
	return st;
}

bool ms_beside_read(struct ms_beside *beside, struct ms_range part, char *buf, size_t *ret)
{
	const struct ms_mirror *mirror = ms_mirrors_find(&beside->mirrors, part.begin);
	const struct ms_range *lost;

	if (!mirror)
		return false;
	ms_vec_for_each (lost, &beside->lost) {
		struct ms_range common = ms_range_common(*lost, part);

		if (common.begin < common.end)
			part.end = common.begin;
	}
	memcpy(buf, mirror->at + (part.begin - mirror->range.begin), ms_range_len(part));
	*ret = ms_range_len(part);
	return true;
}

bool ms_beside_add(struct ms_beside *beside, const struct ms_mapping *map, struct ms_arena *arena)
{
	struct ms_mapping *slot = ms_vec_push(arena, &beside->maps);

	if (slot)
		*slot = *map;
	return slot;
}

static bool mapping_before(const void *a, const void *b)
{
	return ((const struct ms_mapping *)a)->range.begin <
	       ((const struct ms_mapping *)b)->range.begin;
}

bool ms_beside_sort(struct ms_beside *beside, struct ms_arena *arena)
{
	return ms_sort(arena, beside->maps.at, beside->maps.n, sizeof(*beside->maps.at),
	               mapping_before);
}

void ms_beside_close(struct ms_beside *beside)
{
	ms_mirrors_destroy(&beside->mirrors);
}
