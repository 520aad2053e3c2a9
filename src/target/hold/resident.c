/* SPDX-License-Identifier: Apache-2.0 */
#include "target/hold/resident.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/page.h"
#include "target/proc.h"
#include "target/target.h"

enum { REGIONS_PER_CALL = 8192, ENTRIES_PER_READ = 64 * 1024 };

/* Reading 8 bytes per page of more than this takes longer than a pause may. */
static const uint64_t MAX_UNREADABLE_BYTES = (uint64_t)1 << 30;

/* Source: include/uapi/linux/fs.h of Linux 6.7, newer than the headers we build with. */
struct page_region {
	uint64_t start;
	uint64_t end;
	uint64_t categories;
};

struct pm_scan_arg {
	uint64_t size;
	uint64_t flags;
	uint64_t start;
	uint64_t end;
	uint64_t walk_end;
	uint64_t vec;
	uint64_t vec_len;
	uint64_t max_pages;
	uint64_t category_inverted;
	uint64_t category_mask;
	uint64_t category_anyof_mask;
	uint64_t return_mask;
};

static_assert(sizeof(struct pm_scan_arg) == 96, "layout of the kernel's");

enum {
	IS_FILE = 1 << 2,
	IS_PRESENT = 1 << 3,
	IS_SWAPPED = 1 << 4,
	IS_ZERO_PAGE = 1 << 5,
	IS_GUARD = 1 << 8, /* Linux 6.15 */
};

#define PAGEMAP_SCAN_CALL _IOWR('f', 16, struct pm_scan_arg)

/* Bits of an entry of /proc/PID/pagemap. Source: Documentation/admin-guide/mm/pagemap.rst. */
#define ENTRY_PRESENT ((uint64_t)1 << 63)
#define ENTRY_SWAPPED ((uint64_t)1 << 62)
#define ENTRY_FILE    ((uint64_t)1 << 61)
#define ENTRY_GUARD   ((uint64_t)1 << 58)

static enum ms_status no_memory(struct ms_error *err)
{
	return ms_fail(err, MS_E_NOMEM, "no memory for the list of resident pages");
}

/* Append @range, to the run before when it goes on there. */
static bool add_run(struct ms_resident *resident, struct ms_range range, bool file)
{
	struct ms_page_run *last =
		resident->runs.n ? &resident->runs.at[resident->runs.n - 1] : NULL;

	if (last && last->range.end == range.begin && last->file == file) {
		last->range.end = range.end;
		return true;
	}
	last = ms_vec_push(resident->arena, &resident->runs);
	if (last)
		*last = (struct ms_page_run){ range, file };
	return last;
}

static enum ms_status add_regions(struct ms_resident *resident, const struct page_region *regions,
                                  size_t n, struct ms_error *err)
{
	for (size_t i = 0; i < n; i++) {
		struct ms_range range = { regions[i].start, regions[i].end };

		if (!add_run(resident, range, regions[i].categories & IS_FILE))
			return no_memory(err);
	}
	return MS_OK;
}

/* Ask from arg->start on; with guard pages left out where the kernel knows them. */
static long scan_once(int pagemap, struct pm_scan_arg *arg)
{
	long n = ioctl(pagemap, (MS_IOCTL_REQUEST)PAGEMAP_SCAN_CALL, arg);

	if (n < 0 && errno == EINVAL && arg->category_mask & IS_GUARD) {
		arg->category_mask &= ~(uint64_t)IS_GUARD;
		arg->category_inverted &= ~(uint64_t)IS_GUARD;
		n = ioctl(pagemap, (MS_IOCTL_REQUEST)PAGEMAP_SCAN_CALL, arg);
	}
	return n;
}

enum ms_status ms_resident_scan(int pagemap, struct ms_resident *resident, struct ms_error *err)
{
	struct page_region *regions =
		ms_arena_alloc(resident->arena, REGIONS_PER_CALL * sizeof(*regions));
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.vec = (uintptr_t)regions,
		.vec_len = REGIONS_PER_CALL,
		.category_inverted = IS_ZERO_PAGE | IS_GUARD,
		.category_mask = IS_ZERO_PAGE | IS_GUARD,
		.category_anyof_mask = IS_PRESENT | IS_SWAPPED,
		.return_mask = IS_FILE,
	};

	if (!regions)
		return no_memory(err);
	/* Not beyond the last mapping: [vsyscall] is no part of the user's address space. */
	for (size_t i = 0; i < resident->maps->n; i++)
		if (resident->maps->at[i].range.end <= INT64_MAX)
			arg.end = resident->maps->at[i].range.end;
	while (arg.start < arg.end) {
		long n = scan_once(pagemap, &arg);

		if (n < 0 && (errno == ENOTTY || errno == EINVAL))
			return ms_fail(err, MS_E_UNSUPPORTED, "this kernel has no PAGEMAP_SCAN");
		if (n < 0)
			return ms_fail_sys(err, errno, "listing resident pages");
		if (add_regions(resident, regions, (size_t)n, err))
			return err->status;
		arg.start = arg.walk_end;
	}
	return MS_OK;
}

static bool is_resident(uint64_t entry)
{
	return entry & (ENTRY_PRESENT | ENTRY_SWAPPED) && !(entry & ENTRY_GUARD);
}

/* List one mapping; @entries is scratch for ENTRIES_PER_READ. */
static enum ms_status list_mapping(int pagemap, const struct ms_mapping *map, uint64_t *entries,
                                   struct ms_resident *resident, struct ms_error *err)
{
	const size_t page_bytes = ms_page_bytes();
	ms_addr at = map->range.begin;

	while (at < map->range.end) {
		uint64_t pages = (map->range.end - at) / page_bytes;
		size_t want = pages < ENTRIES_PER_READ ? (size_t)pages : ENTRIES_PER_READ;
		ssize_t got = pread(pagemap, entries, want * sizeof(*entries),
		                    (off_t)(at / page_bytes * sizeof(*entries)));

		if (got < (ssize_t)sizeof(*entries))
			return MS_OK; /* the rest is not there, or the process ended */
		for (size_t i = 0; i < (size_t)got / sizeof(*entries); i++, at += page_bytes) {
			struct ms_range page = { at, at + page_bytes };

			if (is_resident(entries[i]) &&
			    !add_run(resident, page, entries[i] & ENTRY_FILE))
				return no_memory(err);
		}
	}
	return MS_OK;
}

enum ms_status ms_resident_list(int pagemap, struct ms_resident *resident, struct ms_error *err)
{
	uint64_t *entries = ms_arena_alloc(resident->arena, ENTRIES_PER_READ * sizeof(*entries));
	const struct ms_mapping *map;

	if (!entries)
		return no_memory(err);
	ms_vec_for_each (map, resident->maps) {
		enum ms_status st;

		if (map->range.end > INT64_MAX)
			continue;
		if (!(map->prot & MS_PROT_READ) &&
		    ms_range_len(map->range) > MAX_UNREADABLE_BYTES) {
			ms_note_add(resident->arena, resident->warnings,
			            "%llu MiB at 0x%llx without access were not searched",
			            (unsigned long long)(ms_range_len(map->range) >> 20),
			            (unsigned long long)map->range.begin);
			continue;
		}
		st = list_mapping(pagemap, map, entries, resident, err);
		if (st)
			return st;
	}
	return MS_OK;
}

enum ms_status ms_resident_find(pid_t tid, struct ms_resident *resident, struct ms_error *err)
{
	int pagemap = ms_proc_open(tid, "pagemap", O_RDONLY);
	enum ms_status st;

	resident->tid = tid;
	if (pagemap == -ENOENT || pagemap == -ESRCH)
		return ms_fail(err, MS_E_GONE, "process %d ended", tid);
	if (pagemap == -EACCES || pagemap == -EPERM)
		return ms_target_explain_denied(tid, err);
	if (pagemap < 0)
		return ms_fail_sys(err, -pagemap, "opening the page map of process %d", tid);
	st = ms_resident_scan(pagemap, resident, err);
	if (st == MS_E_UNSUPPORTED) {
		resident->runs.n = 0;
		st = ms_resident_list(pagemap, resident, err);
	}
	(void)close(pagemap);
	return st;
}
