/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_SIGNAL_STACKS_H
#define MS_TARGET_SIGNAL_STACKS_H

/*
 * Where the threads' signal stacks are (sigaltstack(2)). Only the kernel knows it, and
 * shows it to the thread alone: a program that never takes a stack back need not keep its
 * address.
 */

#include "target/clone/seccomp.h"
#include "target/freeze/freeze.h"

struct ms_asked;

struct ms_stack_asker {
	struct ms_freezer *freezer;
	union ms_seccomp_room *seccomp;
	struct ms_vectors *vectors;
	uint8_t *block;
	struct ms_asked *asked; /* those that are under way */
	bool cannot_run;        /* its cgroup is frozen */
};

/* Everything that needs memory, done before the target is touched. MS_E_NOMEM. */
ms_must_check enum ms_status ms_stack_asker_init(struct ms_stack_asker *asker,
                                                 struct ms_freezer *freezer, struct ms_error *err);

/*
 * Have each thread of the frozen target ask, and write it to shared->threads, if the process has
 * a handler of a signal; without one only the first 256, and only if its code registers signal
 * stacks. Those that cannot be asked, or not within 20 ms or the time that it took to stop them
 * all, are counted in shared->n_unasked.
 *
 * Cost: one read of /proc, and some 25 µs for a thread that is asked.
 */
void ms_signal_stacks_ask(struct ms_stack_asker *asker);

#endif
