/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_CONTROL_H
#define MS_INPROC_CONTROL_H

/*
 * The control block that a C library keeps at each thread pointer, for a process that gets a
 * copy of one, and how a process begins that has it.
 */

#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* Room for it from the thread pointer on. */
enum { MS_CONTROL_BYTES = 2048 };

/* Where the calling thread has the TLS of a module, as dl_iterate_phdr() gives it; 0: nowhere. */
uintptr_t ms_control_tls(const struct dl_phdr_info *module);

/*
 * Copy the calling thread's to @to, zeroed memory, and what lies below the thread pointer.
 *
 * @tls_bytes: so many of these
 */
void ms_control_copy(char *to, size_t tls_bytes);

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
