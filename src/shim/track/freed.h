/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_TRACK_FREED_H
#define MS_SHIM_TRACK_FREED_H

/* Freed blocks that are kept for a while: first in, first out. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "malloc_debug/registry.h"

struct ms_freed {
	uintptr_t p;
	size_t usable;
	uint32_t trace; /* of the free() */
};

/* Room for @max; false without memory. */
bool ms_freed_init(size_t max);

/* Append @block; true when that pushed the oldest out, to @oldest. */
bool ms_freed_push(struct ms_freed block, struct ms_freed *oldest);

/* Take the oldest, if there is one. */
bool ms_freed_pop(struct ms_freed *ret);

/* The one at @p, if it is there. */
bool ms_freed_find(const void *p, struct ms_freed *ret);

/* The ring itself, for the registry. */
struct malloc_debug_list ms_freed_kept(void);

#endif
