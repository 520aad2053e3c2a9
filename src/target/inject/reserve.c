/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All of the agent's memory counts as addresses, and all but its text as data (Linux 4.7 on). In
 * memory are its used pages alone: at most a page for each sample that lives, and some tables;
 * all of them where the process locks its memory.
 */
#include "target/inject/reserve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/page.h"
#include "target/proc.h"
#include "target/target.h"

enum { OWN_MAPS = 2, TABLE_BYTES = 1 << 20, MIB_SHIFT = 20 };

static unsigned long long mib(uint64_t bytes)
{
	return bytes >> MIB_SHIFT;
}

/* ---- limits of the process ---- */

struct limit {
	enum __rlimit_resource resource;
	const char *name;
	const char *option; /* of prlimit */
	const char *use;    /* in its status, KiB */
};

static const struct limit limits[] = {
	{ RLIMIT_AS, "RLIMIT_AS", "as", "VmSize" },
	{ RLIMIT_DATA, "RLIMIT_DATA", "data", "VmData" },
};

static enum ms_status check_limit(const struct ms_reserve *wanted, const struct limit *limit,
                                  const char *status, struct ms_error *err)
{
	const uint64_t use = ms_proc_field(status, limit->use, 10) << 10;
	const uint64_t enough = use + 5 * wanted->bytes;
	struct rlimit now;

	if (prlimit(wanted->pid, limit->resource, NULL, &now) || now.rlim_cur == RLIM_INFINITY ||
	    ms_reserve_fits(now.rlim_cur, use, wanted->bytes))
		return MS_OK;
	(void)ms_fail(err, MS_E_DENIED,
	              "process %d has %llu of the %llu MiB that it may map (%s), and the agent may "
	              "take a quarter of what is left, but needs %llu MiB",
	              wanted->pid, mib(use), mib(now.rlim_cur), limit->name, mib(wanted->bytes));
	/* With the colon the hard limit stays. */
	ms_advise(
		err,
		"raise the limit, and lower it after memscan detach: prlimit --%s=%llu%s --pid %d",
		limit->option, (unsigned long long)enough, now.rlim_max < enough ? "" : ":",
		wanted->pid);
	return err->status;
}

/* ---- limits of the system ---- */

static bool read_number(const char *path, uint64_t *ret)
{
	char text[64];
	char *end;

	if (ms_proc_read_path(path, text, sizeof(text)) <= 0)
		return false;
	*ret = strtoull(text, &end, 10);
	return end != text;
}

static enum ms_status check_maps(const struct ms_reserve *wanted, struct ms_error *err)
{
	uint64_t most;

	if (!read_number("/proc/sys/vm/max_map_count", &most) ||
	    ms_reserve_fits(most, wanted->n_maps, OWN_MAPS))
		return MS_OK;
	(void)ms_fail(
		err, MS_E_DENIED,
		"process %d has %zu of the %llu mappings that it may have, and the agent would "
		"take %d more",
		wanted->pid, wanted->n_maps, (unsigned long long)most, OWN_MAPS);
	ms_advise(err, "raise the limit: sysctl vm.max_map_count=%llu",
	          (unsigned long long)most * 2);
	return err->status;
}

/* Where the kernel promises no more memory than there is, it does so whatever a mapping asks. */
static enum ms_status check_commit(const struct ms_reserve *wanted, struct ms_error *err)
{
	enum { NEVER = 2 };
	char text[8192];
	uint64_t mode, limit, use;

	if (!read_number("/proc/sys/vm/overcommit_memory", &mode) || mode != NEVER)
		return MS_OK;
	(void)ms_proc_read_path("/proc/meminfo", text, sizeof(text));
	limit = ms_proc_field(text, "CommitLimit", 10) << 10;
	use = ms_proc_field(text, "Committed_AS", 10) << 10;
	if (!limit || ms_reserve_fits(limit, use, wanted->bytes))
		return MS_OK;
	(void)ms_fail(
		err, MS_E_DENIED,
		"%llu of the %llu MiB that this system promises to processes "
		"(vm.overcommit_memory=2) are in use, and the agent may take a quarter of the "
		"rest, but needs %llu MiB",
		mib(use), mib(limit), mib(wanted->bytes));
	ms_advise(err, "end other processes, add swap, or raise vm.overcommit_ratio");
	return err->status;
}

/* ---- its cgroup ---- */

/* What of the agent's memory may be in use, as the heap is now. */
static uint64_t used_bytes(const struct ms_reserve *wanted, const char *status)
{
	const uint64_t heap = ms_proc_field(status, "RssAnon", 10) << 10;
	const uint64_t locked = ms_proc_field(status, "VmLck", 10) << 10;
	const uint64_t samples = heap / (wanted->interval ? wanted->interval : 1) + 1;
	uint64_t bytes = TABLE_BYTES;

	/* One that locks some pages has less locked than it has. */
	if (locked > heap || samples >= wanted->bytes / MS_PAGE_BYTES)
		return wanted->bytes;
	bytes += samples * MS_PAGE_BYTES;
	return bytes < wanted->bytes ? bytes : wanted->bytes;
}

static enum ms_status check_cgroup(const struct ms_reserve *wanted, const char *status,
                                   struct ms_error *err)
{
	const uint64_t room = ms_fork_room(wanted->pid);
	const uint64_t bytes = used_bytes(wanted, status);

	if (ms_reserve_fits(room, 0, bytes))
		return MS_OK;
	(void)ms_fail(
		err, MS_E_DENIED,
		"the memory cgroup of process %d has %llu MiB left, of which the agent may take "
		"a quarter, but may use %llu MiB",
		wanted->pid, mib(room), mib(bytes));
	ms_advise(err, "raise the limit of the cgroup (memory.max), or attach with a larger "
	               "--sample");
	return err->status;
}

enum ms_status ms_reserve_check(const struct ms_reserve *wanted, struct ms_error *err)
{
	char status[MS_PROC_STATUS_BYTES];
	enum ms_status st = check_maps(wanted, err);

	(void)ms_proc_read(ms_proc_thread_of(wanted->pid), "status", status, sizeof(status));
	for (size_t i = 0; !st && i < sizeof(limits) / sizeof(limits[0]); i++)
		st = check_limit(wanted, &limits[i], status, err);
	if (!st)
		st = check_commit(wanted, err);
	if (!st)
		st = check_cgroup(wanted, status, err);
	return st;
}
