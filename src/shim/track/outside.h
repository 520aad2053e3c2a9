/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_TRACK_OUTSIDE_H
#define MS_SHIM_TRACK_OUTSIDE_H

/*
 * Live blocks that the next allocator gave directly: before the shim had started, and to
 * calls from inside of it. They have no header and no entry, and are to be freed as they
 * are. Without locks, for signal handlers and the shim itself call it at any point.
 */

#include <stdbool.h>
#include <stddef.h>

/* Without memory for it, @p is forgotten. */
void ms_outside_add(const void *p);
bool ms_outside_has(const void *p);
/* Forget @p; false when it was none. */
bool ms_outside_take(const void *p);

#endif
