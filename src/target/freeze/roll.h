/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_ROLL_H
#define MS_TARGET_ROLL_H

/* Leading threads out of malloc; the why and how are in roll.c. */

#include "target/freeze/freeze.h"
#include "target/freeze/inside.h"

/* Whether a thread is inside malloc, and not just waiting there for a lock. */
bool ms_roll_is_thread_inside(const struct ms_freezer *freezer, const struct ms_tracee *tracee);

/* Lead all threads of the target out. Returns whether any was made to run; counts are in shared. */
bool ms_roll_all(struct ms_freezer *freezer);

/*
 * Make a stopped thread safe to let go: no breakpoint, no trap flag, no SIGTRAP
 * of ours on its way, its own signal mask. One that did not stop in time while
 * it was rolled is still armed, and would die of the next trap.
 */
void ms_roll_disarm(const struct ms_freezer *freezer, struct ms_tracee *tracee);

#endif
