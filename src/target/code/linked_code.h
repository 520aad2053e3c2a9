/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_LINKED_CODE_H
#define MS_TARGET_LINKED_CODE_H

/* Where an allocator lies that is linked into a program, or into a library with another purpose. */

#include "base/arena.h"
#include "engine/anchors.h"
#include "target/code/image.h"

enum { MS_LINKED_CODE_RANGES = 12 };

struct ms_linked_code {
	size_t n; /* 0: it is not clear which instructions are the allocator's */
	struct ms_range at[MS_LINKED_CODE_RANGES]; /* by address */
	struct ms_anchors anchors; /* which of them it was found by: all that the image has */
	struct ms_range text;      /* all of the image's instructions */
	bool calls_into_text; /* the allocator calls functions of the image that are not in it */
};

/*
 * Find the instructions of allocators that keep their state at @anchors, as far as these are in
 * the data of @image.
 *
 * Context: none of it is trusted; @anchors may be anything.
 * Cost:    reads the image's text once, if an anchor is in its data.
 */
void ms_linked_code_find(const struct ms_image *image, const struct ms_mappings *maps,
                         const struct ms_anchors *anchors, struct ms_arena *arena,
                         struct ms_linked_code *ret);

#endif
