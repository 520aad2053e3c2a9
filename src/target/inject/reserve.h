/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_RESERVE_H
#define MS_TARGET_RESERVE_H

/*
 * Whether a process has room for the agent: of each limit at most a quarter of what is left, so
 * that its own malloc does not fail for want of what the agent took.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

struct ms_reserve {
	pid_t pid;
	size_t n_maps;     /* that it has */
	uint64_t bytes;    /* that the agent maps */
	uint64_t interval; /* from sample to sample */
};

/*
 * Look at RLIMIT_AS, RLIMIT_DATA, the number of mappings, the memory that the system lets all
 * processes reserve, and the memory cgroup. A limit that cannot be asked for is none.
 *
 * Returns MS_E_DENIED with the limit, its use, and what to do.
 */
ms_must_check enum ms_status ms_reserve_check(const struct ms_reserve *wanted,
                                              struct ms_error *err);

/* The part of that which needs no process. */
static inline bool ms_reserve_fits(uint64_t limit, uint64_t use, uint64_t bytes)
{
	return limit == UINT64_MAX || (limit > use && (limit - use) / 4 >= bytes);
}

#endif
