/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_ANNOTATE_REGIONS_H
#define MS_INPROC_ANNOTATE_REGIONS_H

/*
 * Registered root regions: plain references to them, as in ignored.h. The scan searches
 * a mapping, and a block, once something points into it; so more than the region itself
 * may be searched, never less.
 *
 * No lock either. Any thread, any time; errno is kept.
 */

#include <stdbool.h>
#include <stddef.h>

/* False without memory, or when there are 4096 of them. @size > 0. */
bool ms_regions_add(const void *p, size_t size);

/* False when no such region was added, or only by a call that has not returned. */
bool ms_regions_remove(const void *p, size_t size);

#endif
