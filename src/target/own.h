/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_OWN_H
#define MS_TARGET_OWN_H

#include "base/arena.h"
#include "base/range.h"
#include "engine/source.h"

/*
 * Read the map of our own address space without what is ours in it: @own, and all of
 * @arena. Mappings that the kernel shows as one with ours are cut.
 *
 * @own: any order; grows by @arena's own mappings
 *
 * Returns what ms_maps_read() does.
 * Context: no other thread maps or unmaps memory; no other arena has any.
 */
ms_must_check enum ms_status ms_own_maps(struct ms_ranges *own, struct ms_arena *arena,
                                         struct ms_mappings *ret, struct ms_error *err);

#endif
