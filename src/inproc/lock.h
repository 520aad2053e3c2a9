/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_LOCK_H
#define MS_INPROC_LOCK_H

/*
 * A lock that knows its owner: it is free again in a forked child whose parent held it,
 * and refuses the thread that has it already, as a signal handler may.
 */

#include <stdbool.h>
#include <stdint.h>

struct ms_lock {
	uint64_t owner; /* process << 32 | thread; 0: free */
};

/* False, and not taken, when this thread has it. */
bool ms_lock_take(struct ms_lock *lock);
void ms_lock_give(struct ms_lock *lock);

#endif
