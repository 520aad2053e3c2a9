/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_RESERVED_H
#define MS_ENGINE_LOADED_RESERVED_H

/*
 * Go's runtime reserves ranges of addresses for indexes of its heap, up to half a gibibyte, and
 * makes pages of them usable when it needs them. Its pointers are to where such a range begins:
 *
 *	pointer ─▶ ├─────── no access ───────┤ page ├─────── no access ───────┤
 *
 * so that nothing leads to the page. What lies in the midst of such a range is the runtime's own.
 *
 * Source: runtime/mpagealloc_64bit.go, mheap.go of Go 1.19; Go is known by the mark that its
 * linker puts into a program's data (debug/buildinfo).
 */

#include "engine/mapping.h"

/*
 * Add the memory of @regions that Go's runtime has in ranges it reserved to @ret.
 *
 * Returns false without memory.
 * Cost: nothing where no memory lies so; else a read of up to 64 KiB of each module's data.
 */
ms_must_check bool ms_reserved_find(struct ms_source *src, const struct ms_regions *regions,
                                    struct ms_arena *arena, struct ms_ranges *ret);

#endif
