/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_TRIGGERS_H
#define MS_SHIM_TRIGGERS_H

/*
 * Signals that ask for something. Their handlers only remember it, for the next call of
 * malloc and the others to do; but records are written at once.
 */

#include <stdbool.h>
#include <stdint.h>

/* One bit each of what was asked for. */
extern uint32_t ms_triggered; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static inline bool ms_triggers_pending(void)
{
	return __atomic_load_n(&ms_triggered, __ATOMIC_RELAXED) != 0;
}

/* Do what was asked for. Context: inside the gate. */
void ms_triggers_run(void);

/* Install the handlers that the options ask for; false, with the reason logged. */
bool ms_triggers_init(void);

#endif
