/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_CONTROL_CONTROL_H
#define MS_INPROC_CONTROL_CONTROL_H

/*
 * The control block that a C library keeps at each thread pointer, for a process that gets a
 * copy of one, and how a process begins that has it. A file for each machine, named as in
 * src/target/arch.
 */

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How far from the calling thread's thread pointer the TLS of a module reaches, as
 * dl_iterate_phdr() gives it; the same in each thread if it was there from the beginning. 0: it
 * has none, or its is elsewhere.
 */
size_t ms_control_reach(const struct dl_phdr_info *module);

/* Bytes on both sides of a thread pointer. */
struct ms_control_room {
	size_t below;
	size_t above;
};

/*
 * Room for a control block and TLS that reach so far.
 *
 * @reach: a multiple of 64
 */
struct ms_control_room ms_control_room(size_t reach);

/* How far below a thread pointer the frames of a stack end, at least, that it lies behind. */
size_t ms_control_gap(size_t reach);

/* Copy what matters of the calling thread's to @to, a thread pointer in zeroed memory. */
void ms_control_copy(char *to, size_t reach);

/* What clone() is given besides. */
struct ms_control_clone {
	int flags;   /* CLONE_VM, CLONE_SETTLS, CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID */
	void *stack; /* its end */
	void *tp;
	uint32_t *tid;
};

/* Returns its number, or -1 with errno. */
int ms_control_clone(int (*live)(void *ctx), void *ctx, const struct ms_control_clone *how);

#endif
