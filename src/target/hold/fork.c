/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source that is a copy-on-write clone of the target (clone/clone.h).
 *
 * The pause is that of a fork, and no second copy of the memory exists but of what the
 * target writes to meanwhile; but it is read through a file, which is quick in large
 * pieces only. Two kinds of memory are not in a clone as they were, and are copied while
 * the target stands:
 *
 *	shared mappings    the target goes on writing to the same pages; beyond a limit
 *	                   they are read late, and the report says so
 *	MADV_DONTFORK      missing; told by the size of the address space
 *
 * /proc/PID/mem is read, never process_vm_readv(): that pins pages, and to pin a shared
 * page is to copy it.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sort.h"
#include "target/hold/cache.h"
#include "target/hold/hold.h"
#include "target/hold/pages.h"
#include "target/hold/transfer.h"
#include "target/kernel_roots.h"
#include "target/maps.h"
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

	/* What is not in the clone. */
	struct ms_mappings beside;
	struct ms_wanted_list beside_pages;
	struct ms_mirrors mirrors;
	struct ms_ranges lost; /* of the pages above, those that could not be read */
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

/* Read what was copied, up to the first page that could not be. */
static size_t read_beside(struct ms_fork *f, struct ms_range part, char *buf)
{
	const struct ms_range *lost;

	ms_vec_for_each (lost, &f->lost) {
		struct ms_range common = ms_range_common(*lost, part);

		if (common.begin < common.end)
			part.end = common.begin;
	}
	memcpy(buf, ms_mirrors_at(&f->mirrors, part.begin), ms_range_len(part));
	return ms_range_len(part);
}

static size_t read_part(struct ms_fork *f, ms_addr addr, ms_addr end, char *buf)
{
	struct ms_part part;

	if (!ms_pages_part(&f->pages, addr, end, &part))
		return 0;
	if (part.page)
		return part.page->in_clone ? read_clone(f, part.range, buf)
		                           : read_beside(f, part.range, buf);
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

static bool present_in_fork(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	return ms_pages_present(&fork_of(src)->pages, within, ret);
}

static void close_fork(struct ms_source *src)
{
	struct ms_fork *f = fork_of(src);

	ms_mirrors_destroy(&f->mirrors);
	if (f->mem_fd >= 0)
		(void)close(f->mem_fd);
}

static const struct ms_source_ops fork_ops = {
	.name = "fork",
	.read = read_fork,
	.present = present_in_fork,
	.close = close_fork,
};

uint64_t ms_fork_bytes(const struct ms_source *src)
{
	return ((const struct ms_fork *)src)->bytes;
}

bool ms_fork_is_whole(struct ms_source *src)
{
	struct ms_fork *f = fork_of(src);
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

static bool add_beside(struct ms_fork *f, const struct ms_mapping *map)
{
	struct ms_mapping *slot = ms_vec_push(f->arena, &f->beside);

	if (slot)
		*slot = *map;
	return slot;
}

/* Resident pages of the mappings beside, chosen for a copy. */
static enum ms_status choose_beside(struct ms_fork *f, pid_t tid, struct ms_notes *warnings,
                                    struct ms_error *err)
{
	struct ms_resident resident = { .maps = &f->beside,
		                        .arena = f->arena,
		                        .warnings = warnings };
	struct ms_mirror_plan plan = { &f->beside, &f->beside_pages, f->arena };
	enum ms_status st;

	f->beside_pages.n = 0;
	if (!f->beside.n)
		return MS_OK;
	st = ms_resident_find(tid, &resident, err);
	if (st)
		return st;
	if (!ms_wanted_choose(&resident, &f->beside_pages))
		return no_memory(err);
	if (ms_wanted_bytes(&f->beside_pages) <= MAX_COPIED_BYTES)
		return ms_mirrors_create(&f->mirrors, &plan, err);
	for (size_t i = 0; i < f->beside_pages.n; i++)
		f->beside_pages.at[i].in_clone = true;
	return MS_OK;
}

enum ms_status ms_fork_prepare(pid_t pid, struct ms_arena *arena, struct ms_source **ret,
                               struct ms_error *err)
{
	struct ms_fork *f = ms_arena_alloc(arena, sizeof(*f));
	struct ms_notes unused = { 0 };
	struct ms_mappings maps = { 0 };
	const struct ms_mapping *map;
	enum ms_status st;

	if (!f)
		return no_memory(err);
	f->base.ops = &fork_ops;
	f->pages.maps = &f->base.mappings;
	f->mem_fd = -1;
	f->arena = arena;
	f->cache = ms_cache_new(arena);
	if (!f->cache)
		return no_memory(err);
	st = ms_maps_read(ms_proc_living_thread(pid), arena, &maps, err);
	if (st)
		return st;
	ms_vec_for_each (map, &maps)
		if (map->shared && map->prot & MS_PROT_WRITE && !add_beside(f, map))
			return no_memory(err);
	st = choose_beside(f, ms_proc_living_thread(pid), &unused, err);
	if (st) {
		close_fork(&f->base);
		return st;
	}
	if (f->mirrors.n_memories)
		ms_mirrors_populate(&f->mirrors, &f->beside_pages);
	*ret = &f->base;
	return MS_OK;
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

/* Find the mappings that the clone has not. */
static enum ms_status find_missing(struct ms_fork *f, const struct ms_collection *frozen,
                                   struct ms_notes *warnings, struct ms_error *err)
{
	struct ms_mappings all = { 0 };
	struct ms_mappings cloned = { 0 };
	const struct ms_mapping *map;
	uint64_t bytes = 0;
	enum ms_status st;

	if (mapped_pages(frozen->live_tid) == mapped_pages(frozen->image))
		return MS_OK;
	st = ms_maps_read(frozen->live_tid, f->arena, &all, err);
	if (!st)
		st = ms_maps_read(frozen->image, f->arena, &cloned, err);
	if (st)
		return st;
	ms_vec_for_each (map, &all) {
		if (ms_maps_find(&cloned, map->range.begin))
			continue;
		bytes += ms_range_len(map->range);
		if (!ms_maps_find(&f->beside, map->range.begin) && !add_beside(f, map))
			return no_memory(err);
	}
	if (bytes)
		ms_note_add(f->arena, warnings,
		            "%llu KiB of memory that no clone has (MADV_DONTFORK) were copied",
		            (unsigned long long)(bytes >> 10));
	return ms_sort(f->arena, f->beside.at, f->beside.n, sizeof(*f->beside.at), mapping_before)
	               ? MS_OK
	               : no_memory(err);
}

static enum ms_status copy_beside(struct ms_fork *f, pid_t tid, struct ms_error *err)
{
	struct ms_transfer transfer = { .tid = tid, .arena = f->arena };
	enum ms_status st;

	if (!f->beside_pages.n || f->beside_pages.at[0].in_clone)
		return MS_OK;
	st = ms_hold_open_mem(tid, &transfer.mem_fd, err);
	if (st)
		return st;
	st = ms_transfer_run(&transfer, &f->beside_pages, &f->mirrors, err);
	f->lost = transfer.lost;
	f->bytes += transfer.bytes;
	(void)close(transfer.mem_fd);
	return st;
}

enum ms_status ms_fork_hold(struct ms_source *prepared, const struct ms_collection *frozen,
                            struct ms_notes *warnings, struct ms_error *err)
{
	struct ms_fork *f = fork_of(prepared);
	enum ms_status st = find_missing(f, frozen, warnings, err);

	if (!st)
		st = choose_beside(f, frozen->live_tid, warnings, err);
	if (!st)
		st = copy_beside(f, frozen->live_tid, err);
	if (st) {
		close_fork(prepared);
		return st;
	}
	ms_kernel_roots_find(frozen, f->arena, &f->base.kernel_words);
	return MS_OK;
}

/* ---- the clone itself ---- */

static bool wanted_before(const void *a, const void *b)
{
	return ((const struct ms_wanted *)a)->range.begin <
	       ((const struct ms_wanted *)b)->range.begin;
}

/* Those of the clone's mappings that are not beside; then add those that it has not. */
static enum ms_status list_mappings(struct ms_fork *f, pid_t image, struct ms_mappings *own,
                                    struct ms_error *err)
{
	struct ms_mappings *all = &f->base.mappings;
	const struct ms_mapping *map;
	enum ms_status st = ms_maps_read(image, f->arena, all, err);
	size_t n = all->n;

	if (st)
		return st;
	for (size_t i = 0; i < n; i++) {
		struct ms_mapping *slot;

		if (ms_maps_find(&f->beside, all->at[i].range.begin))
			continue;
		slot = ms_vec_push(f->arena, own);
		if (!slot)
			return no_memory(err);
		*slot = all->at[i];
	}
	ms_vec_for_each (map, &f->beside) {
		struct ms_mappings cloned = { all->at, n, n };
		struct ms_mapping *slot;

		if (ms_maps_find(&cloned, map->range.begin))
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

static enum ms_status list_pages(struct ms_fork *f, pid_t image, struct ms_notes *warnings,
                                 struct ms_error *err)
{
	struct ms_mappings own = { 0 };
	struct ms_resident resident = { .maps = &own, .arena = f->arena, .warnings = warnings };
	struct ms_wanted_list *list = &f->pages.list;
	const struct ms_wanted *page;
	enum ms_status st = list_mappings(f, image, &own, err);

	if (!st)
		st = ms_resident_find(image, &resident, err);
	if (st)
		return st;
	if (!ms_wanted_choose(&resident, list))
		return no_memory(err);
	for (size_t i = 0; i < list->n; i++)
		list->at[i].in_clone = true;
	ms_vec_for_each (page, &f->beside_pages) {
		struct ms_wanted *slot = ms_vec_push(f->arena, list);

		if (!slot)
			return no_memory(err);
		*slot = *page;
	}
	return ms_sort(f->arena, list->at, list->n, sizeof(*list->at), wanted_before)
	               ? MS_OK
	               : no_memory(err);
}

static void note_shared(const struct ms_fork *f, struct ms_notes *warnings)
{
	if (f->beside_pages.n && f->beside_pages.at[0].in_clone)
		ms_note_add(f->arena, warnings,
		            "%llu MiB of shared memory were read while the process ran: too much "
		            "to copy in the pause",
		            (unsigned long long)(ms_wanted_bytes(&f->beside_pages) >> 20));
}

enum ms_status ms_fork_open(struct ms_source *held, const struct ms_collection *released,
                            struct ms_notes *warnings, struct ms_error *err)
{
	struct ms_fork *f = fork_of(held);
	enum ms_status st = ms_hold_open_mem(released->image, &f->mem_fd, err);

	if (!st)
		st = list_pages(f, released->image, warnings, err);
	if (!st)
		st = ms_hold_threads(released, f->arena, &f->base.threads, err);
	if (st) {
		close_fork(held);
		return st;
	}
	note_shared(f, warnings);
	return MS_OK;
}
