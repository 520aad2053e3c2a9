/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_HOLD_H
#define MS_TARGET_HOLD_H

/* What every way of holding a process needs. */

#include "target/collection.h"

/* List the threads as the collection process left them in shared memory. MS_E_NOMEM only. */
ms_must_check enum ms_status ms_hold_threads(const struct ms_collection *frozen,
                                             struct ms_arena *arena, struct ms_threads *ret,
                                             struct ms_error *err);

/* Open /proc/@tid/mem. Returns MS_E_GONE, MS_E_DENIED with advice, MS_E_SYS. */
ms_must_check enum ms_status ms_hold_open_mem(pid_t tid, int *ret, struct ms_error *err);

#endif
