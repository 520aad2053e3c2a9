/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_ENDING_H
#define MS_BASE_ENDING_H

/*
 * Signals that end this process (a terminal's, and kill's own) held back while a process
 * stands that depends on us: it is let go first, and then the signal does what it does.
 */

#include <signal.h>
#include <stdbool.h>

struct ms_ending {
	sigset_t held;
	sigset_t before; /* the mask that this thread had */
};

/* Hold back those that are not ignored. */
void ms_ending_hold(struct ms_ending *ret);

/* Whether one has come. */
bool ms_ending_came(const struct ms_ending *ending);

/* The same, for who does not know who holds them back. */
bool ms_ending_is_pending(void);

/* Hold back none any more; does not return when one has come. */
void ms_ending_allow(const struct ms_ending *ending);

#endif
