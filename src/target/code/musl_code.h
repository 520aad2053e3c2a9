/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_MUSL_CODE_H
#define MS_TARGET_MUSL_CODE_H

/* Where musl's malloc lies, in musl's shared library or a static program. */

#include "base/arena.h"
#include "target/code/image.h"

enum { MS_MUSL_CODE_RANGES = 16 };

/*
 * Find the instructions of mallocng, or of the older malloc, by what they refer to. A linker may
 * have put them into several places.
 *
 * Returns how many places there are: 0 when @image has none, or was never asked for memory.
 * Cost: reads the image's writable data, and, where that is a musl's, its text once.
 */
size_t ms_musl_code_find(const struct ms_image *image, const struct ms_mappings *maps,
                         struct ms_arena *arena, struct ms_range ret[MS_MUSL_CODE_RANGES]);

#endif
