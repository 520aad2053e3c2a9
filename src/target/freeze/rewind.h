/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_REWIND_H
#define MS_TARGET_REWIND_H

/* Giving broken-off system calls back; the why and how are in rewind.c. */

#include "target/freeze/freeze.h"

/* How a stopped thread came out of the kernel. Signal n is bit n - 1. */
struct ms_broken_call {
	int64_t result;
	int64_t call; /* -1: none */
	enum ms_restart restart;
	bool on_socket;   /* asked only for MS_RESTART_SOCKET */
	bool group_stop;  /* SIGSTOP broke it off, not we */
	uint64_t signals; /* being delivered, or pending and not blocked */
	uint64_t caught;  /* those with a handler */
};

/* Whether the call is to be made once more: our stop, and nothing else, broke it off. */
bool ms_rewind_wanted(const struct ms_broken_call *broken);

/* Set @tracee, which is about to be detached, back to before the call that we broke off. */
void ms_rewind(const struct ms_freezer *freezer, const struct ms_tracee *tracee);

#endif
