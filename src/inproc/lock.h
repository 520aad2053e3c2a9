/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_LOCK_H
#define MS_INPROC_LOCK_H

/*
 * A lock that knows its owner: it is free again when that has died, and in a forked child
 * whose parent held it; and it refuses the thread that has it already, as a signal handler
 * may ask for it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ms_lock {
	uint64_t owner; /* process << 32 | thread; 0: free */
};

/*
 * @process: whose memory this is; the caller's own, or the one beside which it runs
 *
 * Returns false, with the lock not taken, when this thread has it.
 */
bool ms_lock_take(struct ms_lock *lock, pid_t process);
void ms_lock_give(struct ms_lock *lock);

#endif
