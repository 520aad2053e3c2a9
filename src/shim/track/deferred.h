/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_TRACK_DEFERRED_H
#define MS_SHIM_TRACK_DEFERRED_H

/*
 * Blocks of ours that were freed from inside of the shim, by a signal handler perhaps, and
 * wait for the next call that comes in. Without locks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "malloc_debug/registry.h"

enum { MS_DEFERRED = 256 };

struct ms_deferred {
	uint32_t n;
	_Alignas(8)
		uint64_t inverted[MS_DEFERRED]; /* 0: empty; no reference to what looks for leaks */
};

/* Only to be asked whether there are any. */
extern struct ms_deferred
	ms_deferred; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

static inline bool ms_deferred_any(void)
{
	return __atomic_load_n(&ms_deferred.n, __ATOMIC_RELAXED) != 0;
}

/* With more than MS_DEFERRED at once, @p is lost. */
void ms_deferred_add(const void *p);

/* Take one out, from slot @from on; its slot, or MS_DEFERRED when there is none. */
unsigned ms_deferred_take(unsigned from, void **ret);

/* The list itself, for the registry. */
struct malloc_debug_list ms_deferred_list(void);

#endif
