/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source that is a copy of a frozen process's memory.
 *
 * It takes as long as reading the resident bytes, all of it pause, and as much
 * memory again; but it needs nothing of the target, and once it is made the
 * target can do what it likes. Pages that hold a file's unchanged content are not
 * copied but read through /proc/TID/mem when they are asked for.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target/arch/arch.h"
#include "target/hold/pages.h"
#include "target/hold/transfer.h"
#include "target/kernel_roots.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/target.h"

struct ms_copy {
	struct ms_source base;
	struct ms_mirrors mirrors;
	struct ms_pages pages; /* what the mirrors hold; the rest of them is zeros */
	struct ms_wanted_list
		own;           /* of these, those that are copied; the rest are the same pages */
	struct ms_ranges lost; /* of the pages above, those that could not be read */
	int mem_fd;
	uint64_t bytes;
	struct ms_ranges elsewhere;        /* whose absent pages are no zeros; before it stood */
	struct ms_descriptors descriptors; /* before the process stood; none: not prepared */
	uint64_t prepared_bytes;           /* memory that ms_copy_prepare() took */
	struct ms_arena *arena;
};

static struct ms_copy *copy_of(struct ms_source *src)
{
	return (struct ms_copy *)src; /* base is its first member */
}

/* The first lost page in @range. */
static bool find_lost(const struct ms_copy *copy, struct ms_range range, ms_addr *ret)
{
	for (size_t i = 0; i < copy->lost.n; i++) {
		struct ms_range lost = ms_range_common(copy->lost.at[i], range);

		if (lost.begin < lost.end) {
			*ret = lost.begin;
			return true;
		}
	}
	return false;
}

/* Cut @range, which begins readable, before its first lost page. */
static struct ms_range before_lost(const struct ms_copy *copy, struct ms_range range)
{
	ms_addr lost;

	if (copy->lost.n && find_lost(copy, range, &lost))
		range.end = lost;
	return range;
}

/* Read from @addr to @end or to the next change in how it is read. Returns how many bytes. */
static size_t read_part(struct ms_copy *copy, ms_addr addr, ms_addr end, char *buf)
{
	struct ms_page_part part;
	ssize_t got = 0;

	if (!ms_pages_part(&copy->pages, addr, end, &part))
		return 0;
	if (part.page) {
		ms_addr at = part.page->held_at + (addr - part.page->range.begin);
		struct ms_range held = { at, at + ms_range_len(part.range) };

		held = before_lost(copy, held);
		memcpy(buf, ms_mirrors_at(&copy->mirrors, at), ms_range_len(held));
		return ms_range_len(held);
	}
	switch (part.absent) {
	case MS_ABSENT_ZERO:
		memset(buf, 0, ms_range_len(part.range));
		return ms_range_len(part.range);
	case MS_ABSENT_FILE:
		got = pread(copy->mem_fd, buf, ms_range_len(part.range), (off_t)addr);
		break;
	case MS_ABSENT_NONE:
		break;
	}
	return got > 0 ? (size_t)got : 0;
}

static size_t read_copy(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	ms_addr end = addr + len < addr ? UINT64_MAX : addr + len;
	size_t done = 0;

	while (addr + done < end) {
		size_t got = read_part(copy_of(src), addr + done, end, (char *)buf + done);

		if (!got)
			break;
		done += got;
	}
	return done;
}

static const void *view_copy(struct ms_source *src, ms_addr addr, size_t len)
{
	struct ms_copy *copy = copy_of(src);
	const struct ms_mirror *mirror = ms_mirrors_find(&copy->mirrors, addr);
	struct ms_range range = { addr, addr + len };
	ms_addr lost;

	if (!mirror || len > mirror->range.end - addr)
		return NULL;
	if (copy->lost.n && find_lost(copy, range, &lost))
		return NULL;
	return mirror->at + (addr - mirror->range.begin);
}

static bool present_in_copy(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	return ms_pages_present(&copy_of(src)->pages, within, ret);
}

static void close_copy(struct ms_source *src)
{
	struct ms_copy *copy = copy_of(src);

	ms_mirrors_destroy(&copy->mirrors);
	if (copy->mem_fd >= 0)
		(void)close(copy->mem_fd);
}

static const struct ms_source_ops copy_ops = {
	.name = "copy",
	.read = read_copy,
	.view = view_copy,
	.present = present_in_copy,
	.close = close_copy,
};

int ms_copy_descriptor(const struct ms_source *copy)
{
	return ((const struct ms_copy *)copy)->mem_fd;
}

uint64_t ms_copy_bytes(const struct ms_source *copy)
{
	return ((const struct ms_copy *)copy)->bytes;
}

uint64_t ms_copy_private_bytes(const struct ms_source *copy)
{
	return ms_wanted_private_bytes(&((const struct ms_copy *)copy)->pages.list);
}

/* Memory that can be had without swapping, in bytes; UINT64_MAX when it cannot be told. */
static uint64_t available_memory(void)
{
	char text[4096];
	uint64_t kib;

	if (ms_proc_read_path("/proc/meminfo", text, sizeof(text)) <= 0)
		return UINT64_MAX;
	kib = ms_proc_field(text, "MemAvailable", 10);
	return kib ? kib << 10 : UINT64_MAX;
}

static enum ms_status check_memory(const struct ms_copy *copy, struct ms_error *err)
{
	uint64_t available = available_memory();
	uint64_t bytes = ms_wanted_bytes(&copy->own);

	if (bytes <= copy->prepared_bytes || bytes - copy->prepared_bytes <= available)
		return MS_OK;
	(void)ms_fail(err, MS_E_NOMEM,
	              "a copy of the target's %llu MiB does not fit in memory "
	              "(%llu MiB available)",
	              (unsigned long long)(bytes >> 20), (unsigned long long)(available >> 20));
	ms_advise(err, "free so much memory, or raise the cgroup's limit: the copy is as large "
	               "as what the target has resident");
	return MS_E_NOMEM;
}

/* Read the map, choose the pages to copy and make mirrors for them. */
static enum ms_status make_room(struct ms_copy *copy, pid_t tid, struct ms_notes *warnings,
                                struct ms_error *err)
{
	struct ms_resident resident = { .arena = copy->arena, .warnings = warnings };
	struct ms_mirror_plan plan = { .wanted = &copy->own, .arena = copy->arena };
	struct ms_mappings maps;
	enum ms_status st;

	st = ms_maps_read(tid, copy->arena, &maps, err);
	if (st)
		return st;
	copy->base.mappings = maps;
	resident.maps = &copy->base.mappings;
	plan.maps = &copy->base.mappings;
	st = ms_resident_find(tid, &resident, err);
	if (st)
		return st;
	copy->pages.list = (struct ms_wanted_list){ 0 };
	if (!ms_wanted_choose(&resident, &copy->pages.list) ||
	    !ms_wanted_once(&resident, &copy->pages.list, &copy->own))
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of pages");
	st = check_memory(copy, err);
	return st ? st : ms_mirrors_create(&copy->mirrors, &plan, err);
}

static enum ms_status copy_pages(struct ms_copy *copy, pid_t tid, struct ms_error *err)
{
	struct ms_transfer transfer = {
		.tid = tid,
		.mem_fd = copy->mem_fd,
		.arena = copy->arena,
	};
	enum ms_status st = ms_transfer_run(&transfer, &copy->own, &copy->mirrors, err);

	copy->lost = transfer.lost;
	copy->bytes = transfer.bytes;
	return st;
}

/* Say how much of each mapping is missing. */
static void note_lost(const struct ms_copy *copy, struct ms_notes *warnings)
{
	const struct ms_mapping *map;

	if (!copy->lost.n)
		return;
	ms_vec_for_each (map, &copy->base.mappings) {
		uint64_t bytes = 0;

		for (size_t i = 0; i < copy->lost.n; i++)
			bytes += ms_range_len(ms_range_common(copy->lost.at[i], map->range));
		if (bytes)
			ms_note_add(copy->arena, warnings,
			            "%llu page%s of %s at 0x%llx could not be read",
			            (unsigned long long)(bytes / copy->base.abi.page_bytes),
			            ms_plural(bytes / copy->base.abi.page_bytes),
			            *map->name ? map->name : "anonymous memory",
			            (unsigned long long)map->range.begin);
	}
}

static enum ms_status fill(struct ms_copy *copy, const struct ms_collection *frozen,
                           struct ms_notes *warnings, struct ms_error *err)
{
	pid_t tid = frozen->live_tid;
	enum ms_status st;

	/* Not before: the target may have become another program since. */
	st = ms_target_open_mem(tid, &copy->mem_fd, err);
	if (!st)
		st = make_room(copy, tid, warnings, err);
	if (!st)
		st = copy_pages(copy, tid, err);
	if (!st)
		st = ms_collection_threads(frozen, copy->arena, &copy->base.threads, err);
	if (st)
		return st;
	ms_kernel_roots_find(frozen, &copy->descriptors, copy->arena, &copy->base, warnings);
	note_lost(copy, warnings);
	if (!ms_pages_unseen(&copy->pages, &copy->elsewhere, &copy->lost, copy->arena,
	                     &copy->base.unseen))
		return ms_fail(err, MS_E_NOMEM, "no memory for the copy");
	return MS_OK;
}

static struct ms_copy *new_copy(const struct ms_arch *arch, struct ms_arena *arena,
                                struct ms_error *err)
{
	struct ms_copy *copy = ms_arena_alloc(arena, sizeof(*copy));

	if (!copy) {
		(void)ms_fail(err, MS_E_NOMEM, "no memory for the copy");
		return NULL;
	}
	copy->base.ops = &copy_ops;
	copy->base.abi = ms_arch_abi(arch);
	copy->pages.maps = &copy->base.mappings;
	copy->mem_fd = -1;
	copy->arena = arena;
	return copy;
}

enum ms_status ms_copy_prepare(pid_t pid, uint64_t most_bytes, struct ms_arena *arena,
                               struct ms_source **ret, struct ms_error *err)
{
	pid_t living = ms_proc_thread_of(pid);
	struct ms_copy *copy = new_copy(ms_target_arch(living), arena, err);
	struct ms_notes unused = { 0 };
	enum ms_status st;

	if (!copy)
		return err->status;
	st = make_room(copy, living, &unused, err);
	copy->prepared_bytes = ms_wanted_bytes(&copy->own);
	if (!st && copy->prepared_bytes > most_bytes)
		st = ms_fail(err, MS_E_UNSUPPORTED, "%llu MiB are too much to copy",
		             (unsigned long long)(copy->prepared_bytes >> 20));
	if (st) {
		close_copy(&copy->base);
		return st;
	}
	ms_descriptors_look(living, NULL, arena, &copy->descriptors);
	if (!ms_pages_find_elsewhere(living, &copy->descriptors, arena, &copy->elsewhere)) {
		close_copy(&copy->base);
		return ms_fail(err, MS_E_NOMEM, "no memory for the list of mappings");
	}
	ms_mirrors_populate(&copy->mirrors, &copy->own);
	*ret = &copy->base;
	return MS_OK;
}

enum ms_status ms_copy_fill(struct ms_source *prepared, const struct ms_collection *frozen,
                            struct ms_notes *warnings, struct ms_error *err)
{
	enum ms_status st = fill(copy_of(prepared), frozen, warnings, err);

	if (st)
		close_copy(prepared);
	return st;
}

enum ms_status ms_copy_open(const struct ms_collection *frozen, struct ms_arena *arena,
                            struct ms_notes *warnings, struct ms_source **ret, struct ms_error *err)
{
	struct ms_copy *copy = new_copy(frozen->arch, arena, err);
	enum ms_status st;

	if (!copy)
		return err->status;
	st = ms_copy_fill(&copy->base, frozen, warnings, err);
	if (st)
		return st;
	*ret = &copy->base;
	return MS_OK;
}
