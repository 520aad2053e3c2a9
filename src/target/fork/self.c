/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source for the clone that reads itself: a program that searches a copy of its memory, and
 * looks at it in place.
 */
#include <assert.h>

#include "target/fork/read.h"
#include "target/maps.h"
#include "target/own.h"
#include "target/target.h"

/* Whether all of @map is anonymous memory that no one but the target has, and the clone has it. */
static bool is_in_place(const struct ms_fork *f, const struct ms_mapping *map)
{
	return map->prot & MS_PROT_READ && !map->shared && !map->inode &&
	       ms_absent_of(map) == MS_ABSENT_ZERO &&
	       !ms_maps_find(&f->beside.maps, map->range.begin) &&
	       !ms_maps_find(&f->wiped.maps, map->range.begin);
}

static const void *view_self(struct ms_source *src, ms_addr addr, size_t len)
{
	const struct ms_fork *f = ms_fork_of(src);
	ms_addr end = addr + len;

	for (ms_addr at = addr; at < end;) {
		const struct ms_mapping *map = ms_maps_find(&f->base.mappings, at);

		if (!map || !is_in_place(f, map))
			return NULL;
		at = map->range.end;
	}
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the target's addresses are ours here */
	return len ? (const void *)(uintptr_t)addr : NULL;
}

static const struct ms_source_ops self_ops = {
	.name = "self",
	.read = ms_fork_read,
	.view = view_self,
	.present = ms_fork_present,
	.close = ms_fork_close,
};

/* The memory of both @mirrors is ours. */
static bool add_mirrors(struct ms_arena *arena, struct ms_ranges *own,
                        const struct ms_mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->n_memories; i++) {
		ms_addr at = (uintptr_t)mirrors->memory[i];

		if (!ms_ranges_add(arena, own, at, at + mirrors->memory_len[i]))
			return false;
	}
	return true;
}

static enum ms_status own_maps(struct ms_fork *f, pid_t image, struct ms_mappings *ret,
                               struct ms_error *err)
{
	struct ms_ranges own = { 0 };
	const struct ms_range *r;

	(void)image;
	ms_vec_for_each (r, f->own)
		if (!ms_ranges_add(f->arena, &own, r->begin, r->end))
			return ms_fork_no_memory(err);
	if (!add_mirrors(f->arena, &own, &f->beside.mirrors))
		return ms_fork_no_memory(err);
	return ms_own_maps(&own, f->arena, ret, err);
}

void ms_fork_set_self(struct ms_source *prepared, const struct ms_ranges *own)
{
	struct ms_fork *f = ms_fork_of(prepared);
	struct ms_mappings *shared = &f->beside.maps;
	size_t kept = 0;

	assert(own->at); /* whoever reads has a stack at least */
	f->base.ops = &self_ops;
	f->maps = own_maps;
	f->own = own;
	for (size_t i = 0; i < shared->n; i++)
		if (!ms_range_find(own, shared->at[i].range.begin))
			shared->at[kept++] = shared->at[i];
	shared->n = kept;
	/* A clone has none of this memory: it makes its own. */
	ms_mirrors_destroy(&f->beside.mirrors);
	f->beside.mirrors = (struct ms_mirrors){ 0 };
}
