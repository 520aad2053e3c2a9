/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_JAIL_H
#define MS_TARGET_JAIL_H

/*
 * Rights given up for good by a process that reads what a possibly hostile program wrote:
 * an attacker who takes it over can compute, read what it has open, and write its answer.
 *
 *	rights.c        descriptors, groups, ids, capabilities, limits
 *	seal.c          which system calls are left
 *	filter.c        rules of system calls and their arguments, as a program for seccomp
 *
 * Nothing here is a wish: when something cannot be had the caller gets a failure, and
 * reads nothing. What is not held cannot be given up, and that is no failure.
 *
 * No malloc; system calls are made directly, because the C library would signal threads
 * that a fork of a program with threads has not.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/status.h"

/* Of everything that has no rights, and of nothing else on most systems. */
enum { MS_JAIL_NOBODY = 65534 };

struct ms_jail {
	const int *keep; /* descriptors that stay open, in any order; negative ones are none */
	size_t n_keep;
	pid_t parent;       /* this process ends with it */
	uid_t uid;          /* to have instead of root's; 0: MS_JAIL_NOBODY */
	gid_t gid;          /* the same */
	uint64_t new_bytes; /* memory that it may take beside what it has; 0: any */
	rlim_t n_open; /* descriptors that poll() may be given, and a new one's number is below */
};

/*
 * Give up all descriptors but those to keep, new privileges by a program, and core dumps: what a
 * process can do without that starts others with rights. @jail: what to keep; the rest is not read
 *
 * Returns MS_E_SYS as below. Context: as below.
 */
ms_must_check enum ms_status ms_jail_close(const struct ms_jail *jail, struct ms_error *err);

/*
 * Give up what this process holds: memory without a limit, all descriptors but those to keep, the
 * tree of files (where it may, CAP_SYS_CHROOT), groups, ids, capabilities, new privileges by a
 * program, core dumps, being looked at by others.
 *
 * The ids become those wanted when they are root's and this process may change them and
 * could still be killed by its parent (CAP_SETUID, CAP_SETGID, CAP_KILL); they stay where a
 * user namespace has no such id.
 *
 * Returns MS_E_SYS with what could not be given up, with advice; MS_E_DIED when the parent
 * is gone.
 * Context: this process has one thread; /proc is there, or the kernel has close_range().
 */
ms_must_check enum ms_status ms_jail_drop(const struct ms_jail *jail, struct ms_error *err);

/* What a sealed process is for, and so which system calls it has. */
enum ms_jail_work {
	MS_JAIL_SWEEP, /* search memory that is held; anything else kills it */
	/*
	 * Read files that it is given, by libraries that others wrote: what they try besides
	 * is refused, and they go on without.
	 */
	MS_JAIL_READ,
	/*
	 * Read a core and files that it is given, of which it asks another process; then it is
	 * sealed again, for MS_JAIL_SWEEP.
	 */
	MS_JAIL_READ_CORE,
	MS_JAIL_WORKS
};

/*
 * Give up all system calls but those that @work needs, in every thread.
 *
 * Returns MS_E_SYS, with advice, when the kernel or a filter that is there refuses.
 * Context: after ms_jail_drop().
 */
ms_must_check enum ms_status ms_jail_seal(enum ms_jail_work work, struct ms_error *err);

#endif
