/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_SHARING_H
#define MS_TARGET_SHARING_H

/* Who else runs in a process's memory: a child of vfork() that has not executed a program yet. */

#include <sys/types.h>

#include "base/status.h"

/*
 * Refuse @pid when another process that can be seen from here shares its memory: MS_E_BUSY,
 * with that process's number.
 */
ms_must_check enum ms_status ms_sharing_check(pid_t pid, struct ms_error *err);

#endif
