/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_MAPPED_FILE_H
#define MS_TARGET_MAPPED_FILE_H

/* The file that a part of a running process was mapped from. */

#include "target/inject/library/library.h"

/*
 * Open it for reading. -1 when it cannot be, or does not begin as @image does in memory, its
 * build-id included: then another has taken its place.
 */
int ms_mapped_file_open(const struct ms_malloc_functions_in *in, const struct ms_image *image,
                        const struct ms_mapping *text);

/*
 * Read what it has at @text; NULL as well when it has less.
 *
 * Returns bytes of @arena.
 */
const uint8_t *ms_mapped_file_text(int fd, const struct ms_mapping *text, struct ms_arena *arena);

#endif
