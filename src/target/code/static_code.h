/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_STATIC_CODE_H
#define MS_TARGET_STATIC_CODE_H

/* Where malloc lies in a program that is linked statically and stripped. */

#include "base/arena.h"
#include "engine/source.h"
#include "target/code/image.h"

/*
 * Find the instructions of glibc's malloc by what they refer to.
 *
 * Returns false when @image has none, or has not initialised its heap.
 * Cost: reads the image's writable data and its text once.
 */
bool ms_static_code_find(const struct ms_image *image, const struct ms_mappings *maps,
                         struct ms_arena *arena, struct ms_range *ret);

#endif
