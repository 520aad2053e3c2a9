/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_PIECE_H
#define MS_TARGET_PIECE_H

/*
 * A piece of a process, read into memory of ours.
 *
 * What is read of a process's memory counts as resident in it from then on. Code and tables,
 * of which a program may have 100 MiB and more, are read from its files for that reason.
 */

#include "base/arena.h"
#include "target/code/image.h"

struct ms_piece {
	struct ms_range range;
	const unsigned char *bytes;
};

/*
 * Read @range, or as much from its begin on as anything is looked for in: 256 MiB.
 *
 * Returns false when not all of it can be read, or without memory.
 */
bool ms_piece_read(const struct ms_image *image, struct ms_range range, struct ms_arena *arena,
                   struct ms_piece *ret);

/*
 * The same of what a program does not write: from the file, if it is mapped from one that can
 * be read and is still the same, and from memory if not.
 *
 * @maps: of the process
 */
bool ms_piece_read_constant(const struct ms_image *image, const struct ms_mappings *maps,
                            struct ms_range range, struct ms_arena *arena, struct ms_piece *ret);

/* The same of the image's first mapping with instructions. */
bool ms_piece_read_text(const struct ms_image *image, const struct ms_mappings *maps,
                        struct ms_arena *arena, struct ms_piece *ret);

#endif
