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
 */
#include <stdlib.h>

#include "base/sort.h"
#include "target/arch/arch.h"
#include "target/fork/read.h"
#include "target/kernel_roots.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/target.h"

/* Shared memory beyond this is not copied in the pause. */
static const uint64_t MAX_COPIED_BYTES = (uint64_t)64 << 20;

static const struct ms_source_ops fork_ops = {
	.name = "fork",
	.read = ms_fork_read,
	.present = ms_fork_present,
	.is_whole = ms_fork_is_whole,
	.close = ms_fork_close,
};

static enum ms_status clone_maps(struct ms_fork *f, pid_t image, struct ms_mappings *ret,
                                 struct ms_error *err)
{
	return ms_maps_read(image, f->arena, ret, err);
}

/* ---- what is not in the clone ---- */

enum ms_status ms_fork_prepare(pid_t pid, struct ms_arena *arena, struct ms_source **ret,
                               struct ms_error *err)
{
	struct ms_fork *f = ms_fork_new(&fork_ops, arena);
	pid_t living = ms_proc_thread_of(pid);
	struct ms_mappings maps = { 0 };
	const struct ms_mapping *map;
	enum ms_status st;

	if (!f)
		return ms_fork_no_memory(err);
	f->base.abi = ms_arch_abi(ms_target_arch(living));
	f->maps = clone_maps;
	st = ms_maps_read(living, arena, &maps, err);
	if (st)
		return st;
	ms_vec_for_each (map, &maps)
		if (ms_wanted_beside(living, map) && !ms_beside_add(&f->beside, map, arena))
			return ms_fork_no_memory(err);
	st = ms_beside_choose(&f->beside, living, MAX_COPIED_BYTES, arena, err);
	if (st) {
		ms_fork_close(&f->base);
		return st;
	}
	ms_descriptors_look(living, NULL, arena, &f->descriptors);
	if (!ms_pages_find_elsewhere(living, &f->descriptors, arena, &f->elsewhere)) {
		ms_fork_close(&f->base);
		return ms_fork_no_memory(err);
	}
	if (f->beside.mirrors.n_memories)
		ms_mirrors_populate(&f->beside.mirrors, &f->beside.pages);
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
			return ms_fork_no_memory(err);
	}
	return ms_beside_sort(&f->beside, f->arena) ? MS_OK : ms_fork_no_memory(err);
}

enum ms_status ms_fork_hold(struct ms_source *prepared, const struct ms_collection *frozen,
                            struct ms_notes *warnings, struct ms_error *err)
{
	struct ms_fork *f = ms_fork_of(prepared);
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
		ms_fork_close(prepared);
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

/* Those of the clone's mappings that are not beside; then add those that it has not. */
static enum ms_status list_mappings(struct ms_fork *f, pid_t image, struct ms_mappings *own,
                                    struct ms_error *err)
{
	struct ms_mappings *all = &f->base.mappings;
	const struct ms_mapping *map;
	enum ms_status st = f->maps(f, image, all, err);
	size_t n = all->n;

	if (st)
		return st;
	for (size_t i = 0; i < n; i++) {
		struct ms_mapping *slot;

		if (ms_maps_find(&f->beside.maps, all->at[i].range.begin))
			continue;
		slot = ms_vec_push(f->arena, own);
		if (!slot)
			return ms_fork_no_memory(err);
		*slot = all->at[i];
	}
	ms_vec_for_each (map, &f->beside.maps) {
		struct ms_mappings cloned = { all->at, n, n };
		struct ms_mapping *slot;

		if (ms_maps_find(&cloned, map->range.begin) || ms_absent_of(map) == MS_ABSENT_NONE)
			continue;
		slot = ms_vec_push(f->arena, all);
		if (!slot)
			return ms_fork_no_memory(err);
		*slot = *map;
	}
	return ms_sort(f->arena, all->at, all->n, sizeof(*all->at), mapping_before)
	               ? MS_OK
	               : ms_fork_no_memory(err);
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
			return ms_fork_no_memory(err);
	st = ms_beside_choose(&f->wiped, tid, 0, f->arena, err);
	if (st || !f->wiped.pages.n)
		return st;
	/* It may be that the target has touched it since; the answer takes long, and is rare. */
	st = ms_maps_flagged(released->image, MS_FLAG_WIPED, f->arena, &wiped, err);
	f->wiped = (struct ms_beside){ 0 };
	ms_vec_for_each (r, &wiped) {
		map = ms_maps_find(own, r->begin);
		if (map && !ms_beside_add(&f->wiped, map, f->arena))
			return ms_fork_no_memory(err);
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
	enum ms_status st = list_mappings(f, released->image, &own, err);

	if (!st)
		st = ms_fork_list_pages(f, &resident, released->image, err);
	if (st)
		return st;
	st = copy_wiped(f, released, &own, err);
	/* The target may have ended by now, which is no matter of this scan. */
	if (st == MS_E_NOMEM || !add_pages(f, &f->beside) || !add_pages(f, &f->wiped))
		return ms_fork_no_memory(err);
	return ms_wanted_sort(&f->pages.list, f->arena) ? MS_OK : ms_fork_no_memory(err);
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
	struct ms_fork *f = ms_fork_of(held);
	enum ms_status st = ms_target_open_mem(released->image, &f->mem_fd, err);

	if (!st)
		st = list_pages(f, released, warnings, err);
	if (!st)
		st = ms_collection_threads(released, f->arena, &f->base.threads, err);
	if (st) {
		ms_fork_close(held);
		return st;
	}
	note_shared(f, warnings);
	if (!ms_pages_unseen(&f->pages, &f->elsewhere, &f->beside.lost, f->arena,
	                     &f->base.unseen)) {
		ms_fork_close(held);
		return ms_fork_no_memory(err);
	}
	return MS_OK;
}
