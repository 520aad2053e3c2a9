/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_TRANSFER_H
#define MS_TARGET_TRANSFER_H

/* Moving the bytes of a frozen process to mirrors of it. */

#include "target/hold/mirror.h"

struct ms_transfer {
	pid_t tid;  /* a living thread of the target */
	int mem_fd; /* its /proc/TID/mem */
	struct ms_arena *arena;
	struct ms_ranges lost; /* filled in: pages that could not be read, by address */
	uint64_t bytes;        /* filled in */
};

/*
 * Copy all of @wanted. Pages that cannot be read go to transfer->lost.
 *
 * Returns MS_E_GONE when the target ended meanwhile, MS_E_NOMEM.
 * Cost:   one system call for 16 MiB or 512 ranges, whichever comes first.
 */
ms_must_check enum ms_status ms_transfer_run(struct ms_transfer *transfer,
                                             const struct ms_wanted_list *wanted,
                                             struct ms_mirrors *mirrors, struct ms_error *err);

#endif
