/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_ROLL_H
#define MS_TARGET_ROLL_H

/* Leading threads out of malloc; the why and how are in roll.c. */

#include "target/freeze/freeze.h"

/*
 * Whether a thread at @pc is inside malloc: in its instructions, or in a function
 * of the same library that was called from there.
 *
 * @stack:    the topmost words of its stack, n of them
 * @ret_back: where that function returns to in malloc; 0 when @pc itself is there
 */
bool ms_roll_is_inside(const struct ms_collection *code, ms_addr pc, const uint64_t *stack,
                       size_t n, ms_addr *ret_back);

/*
 * Whether a thread sleeps, or slept until we came, in a call that it will make
 * once more: it changes nothing, and does so consistently.
 */
bool ms_roll_is_waiting(const struct ms_cpu *cpu);

bool ms_roll_is_thread_inside(const struct ms_freezer *freezer, const struct ms_tracee *tracee);

/*
 * Lead one thread out, until freezer->roll_until_ns. Returns whether it was made to run;
 * counts are in shared.
 *
 * @exact: it executes no instruction beyond malloc, which takes longer
 */
bool ms_roll_thread(struct ms_freezer *freezer, struct ms_tracee *tracee, bool exact);

/* The same with all of the target's. Returns whether any was made to run. */
bool ms_roll_all(struct ms_freezer *freezer);

/*
 * Make a stopped thread safe to let go: no breakpoint, no trap flag, no SIGTRAP
 * of ours on its way, its own signal mask. One that did not stop in time while
 * it was rolled is still armed, and would die of the next trap.
 */
void ms_roll_disarm(const struct ms_freezer *freezer, struct ms_tracee *tracee);

#endif
