/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <string.h>

#include "target/dump/dump.h"
#include "target/hold/wanted.h"

/*
 * Memory of no file is written where it was ever touched; the rest becomes holes in the core,
 * which read as zeros, as that memory does, unless they would be too long. Of files the pages that
 * are not the file's any more are written, and the first page of programs and libraries, which says
 * what they are; the others are read from the file later.
 */
enum { FILE_GAP = 64 << 10 }; /* pages between two that changed are written with them */

static const uint64_t HOLE_MOST = UINT64_C(1) << 30;

struct finding {
	const struct ms_dump_call *call;
	struct ms_arena *arena;
	struct ms_dump_segments *ret;
};

/* It is written whole, though it is present for no source: the kernel's own page. */
static bool is_vdso(const struct ms_mapping *map)
{
	return !strcmp(map->name, "[vdso]");
}

static bool add(struct finding *f, const struct ms_mapping *map, struct ms_range range,
                uint64_t bytes)
{
	static const uint32_t flags[] = {
		[MS_PROT_READ] = PF_R, [MS_PROT_WRITE] = PF_W, [MS_PROT_EXEC] = PF_X
	};
	struct ms_dump_segment *slot;

	if (range.begin == range.end)
		return true;
	slot = ms_vec_push(f->arena, f->ret);
	if (!slot)
		return false;
	*slot = (struct ms_dump_segment){ .range = range,
		                          .bytes = bytes,
		                          .sparse = !map->file && !is_vdso(map) };
	for (unsigned int bit = MS_PROT_READ; bit <= MS_PROT_EXEC; bit <<= 1)
		slot->flags |= map->prot & bit ? flags[bit] : 0;
	return true;
}

/* Whether the mapping begins with the first page of a program or library. */
static bool is_head(const struct ms_dump_call *call, const struct ms_mapping *map)
{
	char magic[SELFMAG];

	return map->file && !map->offset &&
	       ms_source_read(call->src, map->range.begin, magic, SELFMAG) == SELFMAG &&
	       !memcmp(magic, ELFMAG, SELFMAG);
}

static bool is_omitted(const struct ms_dump_call *call, const struct ms_mapping *map)
{
	if (is_vdso(map))
		return false;
	return ms_absent_of(map) == MS_ABSENT_NONE ||
	       (call->heap_only && (map->shared || !(map->prot & MS_PROT_WRITE)));
}

/* So much may lie between two runs that are written as one. */
static uint64_t most_between(const struct ms_mapping *map)
{
	return map->file ? (uint64_t)FILE_GAP : HOLE_MOST;
}

/* The next run of pages of @map, from @at on, that is written. */
static bool next_run(const struct ms_dump_call *call, const struct ms_mapping *map, ms_addr at,
                     struct ms_range *ret)
{
	struct ms_range rest = { at, map->range.end };
	struct ms_range more;

	if (is_omitted(call, map) || !ms_source_present(call->src, rest, ret))
		return false;
	for (rest.begin = ret->end; ms_source_present(call->src, rest, &more);
	     rest.begin = more.end) {
		if (more.begin - ret->end > most_between(map))
			break;
		ret->end = more.end;
	}
	return true;
}

/*
 * A segment is what is written and what follows up to the next run; the first may have what
 * lies before it apart.
 */
static bool add_mapping(struct finding *f, const struct ms_mapping *map)
{
	const uint32_t page = f->call->src->abi.page_bytes;
	struct ms_range run = { map->range.begin, map->range.begin };
	ms_addr at = map->range.begin;
	struct ms_range next;

	if (is_vdso(map))
		run.end = map->range.end;
	else if (is_head(f->call, map))
		run.end += page;
	while (next_run(f->call, map, run.end > at ? run.end : at, &next)) {
		if (next.begin - run.end <= most_between(map)) {
			run.end = next.end;
			continue;
		}
		if (!add(f, map, (struct ms_range){ at, next.begin }, run.end - at))
			return false;
		at = next.begin;
		run = next;
	}
	/* Never touched up to its end. */
	if (!map->file && !is_omitted(f->call, map) && map->range.end - run.end <= HOLE_MOST)
		run.end = map->range.end;
	return add(f, map, (struct ms_range){ at, map->range.end },
	           run.end > at ? run.end - at : 0);
}

bool ms_dump_segments_find(const struct ms_dump_call *call, struct ms_arena *arena,
                           struct ms_dump_segments *ret)
{
	struct finding f = { call, arena, ret };
	const struct ms_mapping *map;

	ms_vec_for_each (map, &call->src->mappings)
		if (strcmp(map->name, "[vsyscall]") != 0 && !add_mapping(&f, map))
			return false;
	return true;
}
