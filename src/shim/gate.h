/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_GATE_H
#define MS_SHIM_GATE_H

/*
 * Which threads are in the shim.
 *
 * A thread enters for each call. Inside, its own calls of malloc (by the unwinder, the
 * loader, or a signal handler that came just then) are not let in, and go to the next
 * allocator. The gate can be closed: then no thread is inside, so no lock of ours or of the
 * unwinder is held, which is what fork() and the end of the process need.
 */

#include <stdbool.h>

/* False without resources. Before any thread enters. */
bool ms_gate_init(void);

/* False when this thread is inside already. Waits while the gate is closed. */
bool ms_gate_enter(void);
void ms_gate_leave(void);

/*
 * Keep all threads from entering and wait until none is inside, but not for ever: one may
 * have left by longjmp() from a signal handler. One closer at a time, which itself may
 * still enter, and may close it again: it is open after as many openings.
 */
void ms_gate_close(void);

/* The same for the closer, too: if it enters, or closes it, it waits until another opens it. */
void ms_gate_close_to_all(void);
void ms_gate_open(void);

/* Whether this thread has closed it. */
bool ms_gate_is_ours(void);

/* In a forked child: only this thread is left. */
void ms_gate_reset(void);

/* From now on, this thread is not let in. Answers what it was. */
bool ms_gate_exclude(void);
void ms_gate_include(bool was_inside);

#endif
