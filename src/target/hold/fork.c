/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source that is a copy-on-write clone of the target (clone/clone.h).
 *
 * The pause is that of a fork, and no second copy of the memory exists but of what the
 * target writes to meanwhile; but it is read through a file, which is quick in large
 * pieces only. Three kinds of memory are not in a clone as they were:
 *
 *	shared mappings    the target goes on writing to the same pages. Copied while it
 *	                   stands; beyond a limit read late, which the report says
 *	MADV_DONTFORK      missing; told by the size of the address space. Copied while it
 *	                   stands
 *	MADV_WIPEONFORK    zeros. Told late, by pages that the target has and the clone has
 *	                   not, and copied then: a C library keeps random numbers there
 *
 * /proc/PID/mem is read, never process_vm_readv(): that pins pages, and to pin a shared
 * page is to copy it.
 *
 * The clone may also be the process that reads: a program that searches a copy of itself.
 * It looks at its memory in place.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sort.h"
#include "target/arch/arch.h"
#include "target/hold/beside.h"
#include "target/hold/cache.h"
#include "target/kernel_roots.h"
#include "target/maps.h"
#include "target/own.h"
#include "target/proc.h"
#include "target/target.h"

/* Shared memory beyond this is not copied in the pause. */
static const uint64_t MAX_COPIED_BYTES = (uint64_t)64 << 20;

struct ms_fork {
	struct ms_source base;
	struct ms_pages pages;
	int mem_fd; /* the clone's */
	struct ms_cache *cache;
	atomic_bool gone; /* the clone ended while it was read */
	atomic_uint_least64_t bytes;
	struct ms_arena *arena;

	struct ms_descriptors descriptors; /* before the process stood */
	struct ms_ranges elsewhere;        /* whose absent pages are no zeros; before that */

	struct ms_beside beside; /* copied in the pause */
	struct ms_beside wiped;  /* copied behind it */

	const struct ms_ranges
		*own; /* not NULL: the clone reads itself, and this is not the target's */
};

static struct ms_fork *fork_of(struct ms_source *src)
{
	return (struct ms_fork *)src; /* base is its first member */
}

/* ---- reading ---- */

/* Read from the clone, at most to the end of the page when it is less than one. */
static size_t read_clone(struct ms_fork *f, struct ms_range part, char *buf)
{
	size_t len = ms_range_len(part);
	size_t in_page = MS_CACHE_PAGE - part.begin % MS_CACHE_PAGE;
	ssize_t got;

	if (len >= MS_CACHE_PAGE)
		got = pread(f->mem_fd, buf, len, (off_t)part.begin);
	else
		got = ms_cache_read(f->cache, f->mem_fd, part.begin, buf,
		                    len < in_page ? len : in_page);
	if (!got)
		f->gone = true;
	if (got <= 0)
		return 0;
	atomic_fetch_add_explicit(&f->bytes, (uint64_t)got, memory_order_relaxed);
	return (size_t)got;
}

static size_t read_part(struct ms_fork *f, ms_addr addr, ms_addr end, char *buf)
{
	struct ms_part part;
	size_t got;

	if (!ms_pages_part(&f->pages, addr, end, &part))
		return 0;
	if (part.page && !part.page->in_clone &&
	    (ms_beside_read(&f->beside, part.range, buf, &got) ||
	     ms_beside_read(&f->wiped, part.range, buf, &got)))
		return got;
	if (part.page)
		return read_clone(f, part.range, buf);
	switch (part.absent) {
	case MS_ABSENT_ZERO:
		memset(buf, 0, ms_range_len(part.range));
		return ms_range_len(part.range);
	case MS_ABSENT_FILE:
		return read_clone(f, part.range, buf);
	case MS_ABSENT_NONE:
		break;
	}
	return 0;
}

static size_t read_fork(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	ms_addr end = addr + len < addr ? UINT64_MAX : addr + len;
	size_t done = 0;

	while (addr + done < end) {
		size_t got = read_part(fork_of(src), addr + done, end, (char *)buf + done);

		if (!got)
			break;
		done += got;
	}
	return done;
}

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
	const struct ms_fork *f = fork_of(src);
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

static bool present_in_fork(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	return ms_pages_present(&fork_of(src)->pages, within, ret);
}

static void close_fork(struct ms_source *src)
{
	struct ms_fork *f = fork_of(src);

	ms_beside_close(&f->beside);
	ms_beside_close(&f->wiped);
	if (f->mem_fd >= 0)
		(void)close(f->mem_fd);
}

static const struct ms_source_ops fork_ops = {
	.name = "fork",
	.read = read_fork,
	.present = present_in_fork,
	.close = close_fork,
};

static const struct ms_source_ops self_ops = {
	.name = "self",
	.read = read_fork,
	.view = view_self,
	.present = present_in_fork,
	.close = close_fork,
};

static const struct ms_source_ops standing_ops = {
	.name = "copy", /* the nearest of the names that the report knows */
	.read = read_fork,
	.present = present_in_fork,
	.close = close_fork,
};

uint64_t ms_fork_bytes(const struct ms_source *fork)
{
	const struct ms_fork *f = (const struct ms_fork *)fork;

	return f->bytes + f->beside.bytes + f->wiped.bytes;
}

uint64_t ms_fork_private_bytes(const struct ms_source *fork)
{
	return ms_wanted_private_bytes(&((const struct ms_fork *)fork)->pages.list);
}

int ms_fork_descriptor(const struct ms_source *fork)
{
	return ((const struct ms_fork *)fork)->mem_fd;
}

bool ms_fork_is_whole(struct ms_source *fork)
{
	struct ms_fork *f = fork_of(fork);
	char byte;

	for (size_t i = 0; i < f->pages.list.n; i++)
		if (f->pages.list.at[i].in_clone)
			return !f->gone &&
			       pread(f->mem_fd, &byte, 1, (off_t)f->pages.list.at[i].range.begin);
	return !f->gone;
}

/* ---- what is not in the clone ---- */

static enum ms_status no_memory(struct ms_error *err)
{
	return ms_fail(err, MS_E_NOMEM, "no memory for the layout of the clone");
}

static struct ms_fork *new_fork(struct ms_arena *arena)
{
	struct ms_fork *f = ms_arena_alloc(arena, sizeof(*f));

	if (!f)
		return NULL;
	f->base.ops = &fork_ops;
	f->base.abi = ms_native_arch.abi;
	f->pages.maps = &f->base.mappings;
	f->mem_fd = -1;
	f->arena = arena;
	f->cache = ms_cache_new(arena);
	return f->cache ? f : NULL;
}

enum ms_status ms_fork_prepare(pid_t pid, struct ms_arena *arena, struct ms_source **ret,
                               struct ms_error *err)
{
	struct ms_fork *f = new_fork(arena);
	pid_t living = ms_proc_thread_of(pid);
	struct ms_mappings maps = { 0 };
	const struct ms_mapping *map;
	enum ms_status st;

	if (!f)
		return no_memory(err);
	st = ms_maps_read(living, arena, &maps, err);
	if (st)
		return st;
	ms_vec_for_each (map, &maps)
		if (ms_wanted_beside(living, map) && !ms_beside_add(&f->beside, map, arena))
			return no_memory(err);
	st = ms_beside_choose(&f->beside, living, MAX_COPIED_BYTES, arena, err);
	if (st) {
		close_fork(&f->base);
		return st;
	}
	ms_descriptors_look(living, NULL, arena, &f->descriptors);
	if (!ms_pages_find_elsewhere(living, &f->descriptors, arena, &f->elsewhere)) {
		close_fork(&f->base);
		return no_memory(err);
	}
	if (f->beside.mirrors.n_memories)
		ms_mirrors_populate(&f->beside.mirrors, &f->beside.pages);
	*ret = &f->base;
	return MS_OK;
}

void ms_fork_set_self(struct ms_source *prepared, const struct ms_ranges *own)
{
	struct ms_fork *f = fork_of(prepared);
	struct ms_mappings *shared = &f->beside.maps;
	size_t kept = 0;

	assert(own->at); /* whoever reads has a stack at least */
	f->base.ops = &self_ops;
	f->own = own;
	for (size_t i = 0; i < shared->n; i++)
		if (!ms_range_find(own, shared->at[i].range.begin))
			shared->at[kept++] = shared->at[i];
	shared->n = kept;
	/* A clone has none of this memory: it makes its own. */
	ms_mirrors_destroy(&f->beside.mirrors);
	f->beside.mirrors = (struct ms_mirrors){ 0 };
}

/* Pages of address space that the process has, by /proc/@pid/statm; 0 when it is gone. */
static uint64_t mapped_pages(pid_t pid)
{
	char text[128];

	(void)ms_proc_read(pid, "statm", text, sizeof(text));
	return strtoull(text, NULL, 10);
}

static bool mapping_before(const void *a, const void *b)
{
	return ((const struct ms_mapping *)a)->range.begin <
	       ((const struct ms_mapping *)b)->range.begin;
}

/* Find the mappings that the clone has not; those of devices and of the kernel's are no loss. */
static enum ms_status find_missing(struct ms_fork *f, const struct ms_collection *frozen, bool *ret,
                                   struct ms_error *err)
{
	struct ms_mappings all = { 0 };
	struct ms_mappings cloned = { 0 };
	const struct ms_mapping *map;
	enum ms_status st;

	if (mapped_pages(frozen->live_tid) == mapped_pages(frozen->image))
		return MS_OK;
	st = ms_maps_read(frozen->live_tid, f->arena, &all, err);
	if (!st)
		st = ms_maps_read(frozen->image, f->arena, &cloned, err);
	if (st)
		return st;
	ms_vec_for_each (map, &all) {
		if (ms_maps_find(&cloned, map->range.begin) || ms_absent_of(map) == MS_ABSENT_NONE)
			continue;
		*ret = true;
		if (!ms_maps_find(&f->beside.maps, map->range.begin) &&
		    !ms_beside_add(&f->beside, map, f->arena))
			return no_memory(err);
	}
	return ms_beside_sort(&f->beside, f->arena) ? MS_OK : no_memory(err);
}

enum ms_status ms_fork_hold(struct ms_source *prepared, const struct ms_collection *frozen,
                            struct ms_notes *warnings, struct ms_error *err)
{
	struct ms_fork *f = fork_of(prepared);
	bool missing = false;
	enum ms_status st = find_missing(f, frozen, &missing, err);

	if (!st)
		st = ms_beside_choose(&f->beside, frozen->live_tid, MAX_COPIED_BYTES, f->arena,
		                      err);
	if (!st && missing && f->beside.in_clone)
		st = ms_fail(err, MS_E_UNSUPPORTED,
		             "it keeps much of its memory from clones (MADV_DONTFORK)");
	if (!st)
		st = ms_beside_copy(&f->beside, frozen->live_tid, f->arena, err);
	if (st) {
		close_fork(prepared);
		return st;
	}
	if (missing)
		ms_note_add(f->arena, warnings,
		            "memory that the process keeps from clones (MADV_DONTFORK) was copied "
		            "beside its clone");
	ms_kernel_roots_find(frozen, &f->descriptors, f->arena, &f->base, warnings);
	return MS_OK;
}

/* ---- the clone itself ---- */

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

static enum ms_status read_maps(struct ms_fork *f, pid_t image, struct ms_mappings *ret,
                                struct ms_error *err)
{
	struct ms_ranges own = { 0 };
	const struct ms_range *r;

	if (!f->own)
		return ms_maps_read(image, f->arena, ret, err);
	ms_vec_for_each (r, f->own)
		if (!ms_ranges_add(f->arena, &own, r->begin, r->end))
			return no_memory(err);
	if (!add_mirrors(f->arena, &own, &f->beside.mirrors))
		return no_memory(err);
	return ms_own_maps(&own, f->arena, ret, err);
}

/* Those of the clone's mappings that are not beside; then add those that it has not. */
static enum ms_status list_mappings(struct ms_fork *f, pid_t image, struct ms_mappings *own,
                                    struct ms_error *err)
{
	struct ms_mappings *all = &f->base.mappings;
	const struct ms_mapping *map;
	enum ms_status st = read_maps(f, image, all, err);
	size_t n = all->n;

	if (st)
		return st;
	for (size_t i = 0; i < n; i++) {
		struct ms_mapping *slot;

		if (ms_maps_find(&f->beside.maps, all->at[i].range.begin))
			continue;
		slot = ms_vec_push(f->arena, own);
		if (!slot)
			return no_memory(err);
		*slot = all->at[i];
	}
	ms_vec_for_each (map, &f->beside.maps) {
		struct ms_mappings cloned = { all->at, n, n };
		struct ms_mapping *slot;

		if (ms_maps_find(&cloned, map->range.begin) || ms_absent_of(map) == MS_ABSENT_NONE)
			continue;
		slot = ms_vec_push(f->arena, all);
		if (!slot)
			return no_memory(err);
		*slot = *map;
	}
	return ms_sort(f->arena, all->at, all->n, sizeof(*all->at), mapping_before)
	               ? MS_OK
	               : no_memory(err);
}

static bool add_pages(struct ms_fork *f, const struct ms_beside *beside)
{
	const struct ms_wanted *page;

	ms_vec_for_each (page, &beside->pages) {
		struct ms_wanted *slot = ms_vec_push(f->arena, &f->pages.list);

		if (!slot)
			return false;
		*slot = *page;
	}
	return true;
}

/* Private memory of which the clone has no page: never touched, or wiped. */
static bool may_be_wiped(struct ms_fork *f, const struct ms_mapping *map)
{
	struct ms_range run;

	return !map->inode && !map->shared && map->prot & MS_PROT_WRITE &&
	       !ms_pages_present(&f->pages, map->range, &run);
}

/* Copy what the target has in such memory, if the kernel says that it is wiped. */
static enum ms_status copy_wiped(struct ms_fork *f, const struct ms_collection *released,
                                 const struct ms_mappings *own, struct ms_error *err)
{
	pid_t tid = released->live_tid;
	struct ms_ranges wiped = { 0 };
	const struct ms_mapping *map;
	const struct ms_range *r;
	enum ms_status st;

	ms_vec_for_each (map, own)
		if (may_be_wiped(f, map) && !ms_beside_add(&f->wiped, map, f->arena))
			return no_memory(err);
	st = ms_beside_choose(&f->wiped, tid, 0, f->arena, err);
	if (st || !f->wiped.pages.n)
		return st;
	/* It may be that the target has touched it since; the answer takes long, and is rare. */
	st = ms_maps_flagged(released->image, MS_FLAG_WIPED, f->arena, &wiped, err);
	f->wiped = (struct ms_beside){ 0 };
	ms_vec_for_each (r, &wiped) {
		map = ms_maps_find(own, r->begin);
		if (map && !ms_beside_add(&f->wiped, map, f->arena))
			return no_memory(err);
	}
	if (!st)
		st = ms_beside_choose(&f->wiped, tid, MAX_COPIED_BYTES, f->arena, err);
	return st ? st : ms_beside_copy(&f->wiped, tid, f->arena, err);
}

static enum ms_status list_pages(struct ms_fork *f, const struct ms_collection *released,
                                 struct ms_notes *warnings, struct ms_error *err)
{
	struct ms_mappings own = { 0 };
	struct ms_resident resident = { .maps = &own, .arena = f->arena, .warnings = warnings };
	struct ms_wanted_list *list = &f->pages.list;
	enum ms_status st = list_mappings(f, released->image, &own, err);

	if (!st)
		st = ms_resident_find(released->image, &resident, err);
	if (st)
		return st;
	if (!ms_wanted_choose(&resident, list))
		return no_memory(err);
	for (size_t i = 0; i < list->n; i++)
		list->at[i].in_clone = true;
	st = copy_wiped(f, released, &own, err);
	/* The target may have ended by now, which is no matter of this scan. */
	if (st == MS_E_NOMEM || !add_pages(f, &f->beside) || !add_pages(f, &f->wiped))
		return no_memory(err);
	return ms_wanted_sort(list, f->arena) ? MS_OK : no_memory(err);
}

static void note_shared(const struct ms_fork *f, struct ms_notes *warnings)
{
	if (f->beside.in_clone)
		ms_note_add(f->arena, warnings,
		            "%llu MiB of shared memory were read while the process ran: too much "
		            "to copy in the pause",
		            (unsigned long long)(ms_wanted_bytes(&f->beside.pages) >> 20));
}

enum ms_status ms_fork_open(struct ms_source *held, const struct ms_collection *released,
                            struct ms_notes *warnings, struct ms_error *err)
{
	struct ms_fork *f = fork_of(held);
	enum ms_status st = ms_target_open_mem(released->image, &f->mem_fd, err);

	if (!st)
		st = list_pages(f, released, warnings, err);
	if (!st)
		st = ms_collection_threads(released, f->arena, &f->base.threads, err);
	if (st) {
		close_fork(held);
		return st;
	}
	note_shared(f, warnings);
	if (!ms_pages_unseen(&f->pages, &f->elsewhere, &f->beside.lost, f->arena,
	                     &f->base.unseen)) {
		close_fork(held);
		return no_memory(err);
	}
	return MS_OK;
}

/* ---- a target that stands, as if it were its own clone ---- */

static enum ms_status list_own_pages(struct ms_fork *f, pid_t tid, struct ms_notes *warnings,
                                     struct ms_error *err)
{
	struct ms_resident resident = { .arena = f->arena, .warnings = warnings };
	struct ms_wanted_list *list = &f->pages.list;
	enum ms_status st = ms_maps_read(tid, f->arena, &f->base.mappings, err);

	resident.maps = &f->base.mappings;
	if (!st)
		st = ms_resident_find(tid, &resident, err);
	if (st)
		return st;
	if (!ms_wanted_choose(&resident, list))
		return no_memory(err);
	for (size_t i = 0; i < list->n; i++)
		list->at[i].in_clone = true;
	return MS_OK;
}

enum ms_status ms_standing_open(const struct ms_collection *standing, struct ms_arena *arena,
                                struct ms_notes *warnings, struct ms_source **ret,
                                struct ms_error *err)
{
	struct ms_fork *f = new_fork(arena);
	enum ms_status st;

	if (!f)
		return no_memory(err);
	f->base.ops = &standing_ops;
	st = ms_target_open_mem(standing->live_tid, &f->mem_fd, err);
	if (!st)
		st = list_own_pages(f, standing->live_tid, warnings, err);
	if (!st)
		st = ms_collection_threads(standing, arena, &f->base.threads, err);
	if (st) {
		close_fork(&f->base);
		return st;
	}
	ms_kernel_roots_find(standing, NULL, arena, &f->base, warnings);
	*ret = &f->base;
	return MS_OK;
}
