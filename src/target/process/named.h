/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_NAMED_H
#define MS_TARGET_NAMED_H

/*
 * The names of all processes: by libproc2 (named_libproc2.c), or where this machine has none, as
 * Debian 11 with its procps 3, by /proc alone (named_proc.c).
 */

#include <sys/types.h>

#include "base/status.h"

struct ms_named_process {
	pid_t pid;
	const char *comm;  /* "" if it has just ended */
	const char *first; /* argv[0]; NULL without arguments, as a thread of the kernel's */
	const char *exe;   /* its program's file; NULL if that is not to be seen */
};

/* Call @see for each; what it is shown lives until it returns. */
ms_must_check enum ms_status ms_named_each(void (*see)(void *ctx,
                                                       const struct ms_named_process *process),
                                           void *ctx, struct ms_error *err);

#endif
