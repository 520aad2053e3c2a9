/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a process, before it is touched, about a clone of it.
 *
 * A clone costs the target's memory cgroup its page tables, and a page for each page that
 * the target writes to while it is read. Where little room is left the kernel would end a
 * process of the group; a copy is charged to us.
 *
 * A page of hugetlbfs comes from a pool. When a process writes to one that a fork shares,
 * and the pool is empty, the kernel ends it with SIGBUS: the process, unless it has the
 * mapping's reservation (MAP_NORESERVE and a fork of its maker have none).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "target/arch/arch.h"
#include "target/clone/files.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/target.h"

enum { PATH_BYTES = 4096, TABLES = 512 };

/* Version 2 of cgroups has one tree, version 1 a tree for memory. */
struct version {
	const char *mark; /* in a line of /proc/PID/cgroup, before the path */
	const char *root;
	const char *limit;
	const char *usage;
};

static const struct version versions[] = {
	{ ":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes" },
	{ "0::", "/sys/fs/cgroup", "memory.max", "memory.current" },
};

/* Read @file of the group at @folder; false when there is no number in it ("max"). */
static bool read_bytes(const char *folder, const char *file, uint64_t *ret)
{
	char path[2 * PATH_BYTES];
	char text[64];
	char *end;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (ms_proc_read_path(path, text, sizeof(text)) <= 0)
		return false;
	*ret = strtoull(text, &end, 10);
	return end != text;
}

/* Bytes of files in memory that the kernel takes back first. */
static uint64_t reclaimable(const char *folder)
{
	char path[2 * PATH_BYTES];
	char text[2 * PATH_BYTES];
	const char *at;

	(void)snprintf(path, sizeof(path), "%s/memory.stat", folder);
	(void)ms_proc_read_path(path, text, sizeof(text));
	at = strstr(text, "\ninactive_file ");
	return at ? strtoull(at + strlen("\ninactive_file "), NULL, 10) : 0;
}

/* Bytes that the group at @folder may still take; UINT64_MAX when it has no limit. */
static uint64_t room_in(const struct version *v, const char *folder)
{
	uint64_t limit;
	uint64_t usage;
	uint64_t back;

	if (!read_bytes(folder, v->limit, &limit) || !read_bytes(folder, v->usage, &usage))
		return UINT64_MAX;
	back = reclaimable(folder);
	usage -= back < usage ? back : usage;
	return limit > usage ? limit - usage : 0;
}

/* What the group of @tid leaves it, and those that it lies in. */
static uint64_t least_room(pid_t tid, const struct version *v)
{
	uint64_t least = UINT64_MAX;
	char text[PATH_BYTES];
	char folder[PATH_BYTES + 64];
	size_t root = strlen(v->root);
	char *path;

	(void)ms_proc_read(tid, "cgroup", text, sizeof(text));
	path = strstr(text, v->mark);
	if (!path)
		return least;
	path += strlen(v->mark);
	path[strcspn(path, "\n")] = '\0';
	(void)snprintf(folder, sizeof(folder), "%s%s", v->root, strcmp(path, "/") ? path : "");
	/* The root, too: in a container it is a group that may have a limit. */
	for (;;) {
		uint64_t bytes = room_in(v, folder);
		char *slash = strrchr(folder, '/');

		least = bytes < least ? bytes : least;
		if (slash < folder + root)
			return least;
		*slash = '\0';
	}
}

uint64_t ms_fork_room(pid_t pid)
{
	pid_t living = ms_proc_thread_of(pid); /* one that has ended seems to be in no group */
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		uint64_t bytes = least_room(living, &versions[i]);

		least = bytes < least ? bytes : least;
	}
	return least;
}

/* Whether one of @huge is memory that a fork shares until it is written to. */
static bool is_any_private(const struct ms_mappings *maps, const struct ms_ranges *huge)
{
	const struct ms_range *r;

	ms_vec_for_each (r, huge) {
		const struct ms_mapping *map = ms_maps_find(maps, r->begin);

		if (!map || !map->shared)
			return true;
	}
	return false;
}

enum ms_status ms_fork_check_huge_pages(pid_t pid, struct ms_error *err)
{
	char status[MS_PROC_STATUS_BYTES];
	struct ms_arena arena = { 0 };
	struct ms_ranges huge = { 0 };
	struct ms_mappings maps = { 0 };
	pid_t living = ms_proc_thread_of(pid); /* of a leader that has ended all is empty */
	uint64_t kib;
	enum ms_status st;

	(void)ms_proc_read(living, "status", status, sizeof(status));
	kib = ms_proc_field(status, "HugetlbPages", 10);
	if (!kib)
		return MS_OK;
	st = ms_maps_flagged(living, MS_FLAG_HUGE_PAGE, &arena, &huge, err);
	if (!st)
		st = ms_maps_read(living, &arena, &maps, err);
	if (!st && is_any_private(&maps, &huge))
		st = ms_fail(
			err, MS_E_UNSUPPORTED,
			"it has %llu MiB of huge pages (hugetlbfs), and for those it writes to "
			"meanwhile there may be no others",
			(unsigned long long)(kib >> 10));
	ms_arena_deinit(&arena);
	return st;
}

enum ms_status ms_fork_check(pid_t pid, uint64_t *ret_least, struct ms_error *err)
{
	char status[MS_PROC_STATUS_BYTES];
	const struct ms_arch *arch = ms_target_arch(ms_proc_thread_of(pid));
	uint64_t room = ms_fork_room(pid);
	uint64_t bytes;

	if (!arch->calls)
		return ms_fail(err, MS_E_UNSUPPORTED,
		               "it runs a program for %s, and how to clone that is not known",
		               arch->title);
	if (ms_target_is_frozen(pid))
		return ms_fail(err, MS_E_UNSUPPORTED,
		               "it is frozen by its cgroup, so that no thread can make a clone");
	if (ms_fork_check_huge_pages(pid, err) || ms_files_check(pid, err))
		return err->status;
	(void)ms_proc_read(ms_proc_thread_of(pid), "status", status, sizeof(status));
	bytes = ms_proc_field(status, "RssAnon", 10) << 10;
	/*
	 * All of it may be written to before the clone has given its own back: it was seen to end
	 * for a clone that was ended when half of the room was gone.
	 */
	if (room < bytes + bytes / TABLES)
		return ms_fail(err, MS_E_UNSUPPORTED,
		               "its memory cgroup has %llu MiB left, and it may write to %llu MiB "
		               "meanwhile",
		               (unsigned long long)(room >> 20), (unsigned long long)(bytes >> 20));
	/* Others of the group take of the room, too. */
	*ret_least = room < 2 * bytes ? room / 8 : 0;
	return MS_OK;
}

uint64_t ms_fork_saves(pid_t pid)
{
	char status[MS_PROC_STATUS_BYTES];

	(void)ms_proc_read(ms_proc_thread_of(pid), "status", status, sizeof(status));
	return (ms_proc_field(status, "RssAnon", 10) + ms_proc_field(status, "RssShmem", 10) +
	        ms_proc_field(status, "VmSwap", 10))
	       << 10;
}
