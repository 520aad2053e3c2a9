/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/follow.h"
#include "base/libc.h"
#include "base/syscalls.h"
#include "target/jail/jail.h"
#include "target/proc.h"

static enum ms_status refused(struct ms_error *err, int error, const char *what)
{
	(void)ms_fail_sys(err, error, "memscan cannot give up %s before it reads foreign memory",
	                  what);
	ms_advise(
		err,
		"allow prctl(2), capset(2), setresuid(2), chroot(2) and prlimit(2), which a filter of a "
		"container or a service may forbid");
	return MS_E_SYS;
}

/* ---- descriptors ---- */

static bool is_kept(const struct ms_jail *jail, int fd)
{
	for (size_t i = 0; i < jail->n_keep; i++)
		if (jail->keep[i] == fd)
			return true;
	return false;
}

/* The smallest of those to keep that is not below @from; -1: there is none. */
static int next_kept(const struct ms_jail *jail, unsigned from)
{
	int next = -1;

	for (size_t i = 0; i < jail->n_keep; i++) {
		int fd = jail->keep[i];

		if (fd >= 0 && (unsigned)fd >= from && (next < 0 || fd < next))
			next = fd;
	}
	return next;
}

static bool close_ranges(const struct ms_jail *jail)
{
	unsigned from = 0;

	for (;;) {
		int kept = next_kept(jail, from);
		unsigned to = kept < 0 ? UINT32_MAX : (unsigned)kept - 1;

		/* Nothing is in front of 0. */
		if (kept != 0 && (kept < 0 || from <= to) &&
		    syscall(SYS_close_range, from, to, 0) != 0)
			return false;
		if (kept < 0)
			return true;
		from = (unsigned)kept + 1;
	}
}

/* One by one, as /proc lists them: before Linux 5.9, or where a filter forbids the other way. */
static bool close_each(const struct ms_jail *jail)
{
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list;
	bool ours = false; /* it may be the /proc of another namespace */
	bool closed;
	int32_t fd;

	do {
		closed = false;
		if (ms_proc_list_open(&list, getpid(), "fd", buf) != 0)
			return false;
		while (ms_proc_list_next(&list, &fd)) {
			ours |= fd == list.fd;
			if (fd != list.fd && !is_kept(jail, fd))
				closed |= close(fd) == 0;
		}
		ms_proc_list_close(&list);
	} while (closed);
	return ours;
}

/* ---- ids and capabilities ---- */

struct capabilities {
	struct __user_cap_data_struct at[_LINUX_CAPABILITY_U32S_3];
};

static bool has(const struct capabilities *held, unsigned capability)
{
	return held->at[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

static bool is_empty(const struct capabilities *held)
{
	static const struct capabilities none;

	return memcmp(held, &none, sizeof(none)) == 0;
}

static struct __user_cap_header_struct header(void)
{
	return (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
}

static bool get_capabilities(struct capabilities *ret)
{
	struct __user_cap_header_struct self = header();

	memset(ret, 0, sizeof(*ret));
	return syscall(SYS_capget, &self, ret->at) == 0;
}

static bool drop_capabilities(void)
{
	static const struct capabilities none;
	struct __user_cap_header_struct self = header();

	return syscall(SYS_capset, &self, none.at) == 0;
}

/* What no program could have from here on; the kernel says where its list ends. */
static bool drop_bounding(void)
{
	for (unsigned long i = 0;; i++)
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0)
			return errno == EINVAL && i > 0;
}

/* A user namespace may have no such id. */
static bool set_ids(long call, unsigned wanted)
{
	unsigned id = wanted ? wanted : MS_JAIL_NOBODY;

	return syscall(call, id, id, id) == 0 || errno == EINVAL;
}

static const char *drop_ids(const struct ms_jail *jail, const struct capabilities *held)
{
	if (geteuid() != 0 || !has(held, CAP_SETUID) || !has(held, CAP_SETGID) ||
	    !has(held, CAP_KILL))
		return NULL;
	/* With the capability it is refused only where a user namespace has settled its groups. */
	if (syscall(SYS_setgroups, 0, NULL) != 0 && errno != EPERM)
		return "the groups of root";
	if (!set_ids(SYS_setresgid, jail->gid))
		return "the group root";
	return set_ids(SYS_setresuid, jail->uid) ? NULL : "the user root";
}

/* A folder in which nothing but this process's own descriptors is listed. */
static bool drop_files(void)
{
	return chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0;
}

static enum ms_status drop_rights(const struct ms_jail *jail, struct ms_error *err)
{
	struct capabilities held;
	const char *kept;

	if (!get_capabilities(&held))
		return refused(err, errno, "capabilities");
	if (has(&held, CAP_SETPCAP) && !drop_bounding())
		return refused(err, errno, "the bounding set of capabilities");
	if (has(&held, CAP_SYS_CHROOT) && !drop_files())
		return refused(err, errno, "the tree of files");
	kept = drop_ids(jail, &held);
	if (kept)
		return refused(err, errno, kept);
	if (!is_empty(&held) && !drop_capabilities())
		return refused(err, errno, "capabilities");
	return MS_OK;
}

/* ---- the rest ---- */

static bool limit(int resource, rlim_t most)
{
	const struct rlimit value = { most, most };

	return setrlimit((MS_RESOURCE)resource, &value) == 0;
}

static bool limit_memory(uint64_t new_bytes)
{
	char status[MS_PROC_STATUS_BYTES];

	if (!new_bytes)
		return true;
	return ms_proc_read_path("/proc/self/status", status, sizeof(status)) > 0 &&
	       limit(RLIMIT_DATA, ms_proc_field(status, "VmData", 10) * 1024 + new_bytes);
}

enum ms_status ms_jail_close(const struct ms_jail *jail, struct ms_error *err)
{
	if (!close_ranges(jail) && !close_each(jail))
		return refused(err, errno, "descriptors");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return refused(err, errno, "new privileges");
	if (!limit(RLIMIT_CORE, 0))
		return refused(err, errno, "core dumps");
	return MS_OK;
}

enum ms_status ms_jail_drop(const struct ms_jail *jail, struct ms_error *err)
{
	enum ms_status st;

	if (!limit_memory(jail->new_bytes))
		return refused(err, errno, "memory without a limit");
	st = ms_jail_close(jail, err);
	if (!st)
		st = drop_rights(jail, err);
	if (st)
		return st;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return refused(err, errno, "being looked at by other processes");
	if (!limit(RLIMIT_NOFILE, jail->n_open))
		return refused(err, errno, "further descriptors");
	/* A change of ids has cleared it. */
	if (ms_follow_parent(jail->parent))
		return MS_OK;
	return errno == ESRCH ? ms_fail(err, MS_E_DIED, "memscan ended meanwhile")
	                      : refused(err, errno, "a life beyond that of memscan");
}
