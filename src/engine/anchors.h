/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_ANCHORS_H
#define MS_ENGINE_ANCHORS_H

/*
 * Where allocators keep their state in the data of programs and libraries. What refers to it
 * is the allocator's code, which nothing else tells where it is linked into a program. A
 * decoder knows the state of a heap that was scanned; whoever scans it again looks for the
 * code before (target/code/linked_code.h). They come from a process that has read hostile
 * memory, and are only ever compared with addresses.
 */

#include <stdint.h>

#include "base/range.h"

enum { MS_ANCHORS = 16 };

struct ms_anchors {
	uint32_t n;
	struct ms_range at[MS_ANCHORS];
};

/* Append @range; false when there is no room. */
static inline bool ms_anchors_add(struct ms_anchors *anchors, struct ms_range range)
{
	if (anchors->n >= MS_ANCHORS)
		return false;
	anchors->at[anchors->n++] = range;
	return true;
}

/* Whether @range is one of @anchors. */
static inline bool ms_anchors_have(const struct ms_anchors *anchors, struct ms_range range)
{
	for (uint32_t i = 0; i < anchors->n && i < MS_ANCHORS; i++)
		if (anchors->at[i].begin == range.begin && anchors->at[i].end == range.end)
			return true;
	return false;
}

#endif
