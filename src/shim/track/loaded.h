/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_TRACK_LOADED_H
#define MS_SHIM_TRACK_LOADED_H

/*
 * Which libraries this process has had, and while which stacks were kept: stacks stay for good,
 * libraries do not, and where one was another may be loaded.
 *
 * Entries are never taken away. A library that is loaded once more to the same place is the
 * same entry, if nothing else was there meanwhile. Once there is no room for more the stacks
 * of libraries loaded then are named as far as these are there.
 */

#include <stddef.h>
#include <stdint.h>

#include "malloc_debug/registry.h"

/*
 * Note what was loaded and unloaded since the last call, and return how many libraries have gone so
 * far. To be called before a stack is kept: it may wait for the loader's lock. A signal's
 * handler that comes in between notes nothing.
 */
uint64_t ms_loaded_look(void);

/*
 * What stacks of equal addresses differ by: it changes when a library is loaded to where
 * another one was, and is the same again with the same libraries.
 */
uint64_t ms_loaded_mix(void);

/* The entries, for the registry. */
struct malloc_debug_list ms_loaded_list(void);

#endif
