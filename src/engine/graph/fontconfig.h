/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_FONTCONFIG_H
#define MS_ENGINE_GRAPH_FONTCONFIG_H

/*
 * The patterns of fontconfig, which is in every program with a window, and which keeps
 * an array alive only by its distance from the pattern:
 *
 *	struct _FcPattern    { int num, size; intptr_t elts_offset; FcRef ref; }
 *	struct _FcPatternElt { FcObject object; FcValueList *values; }       [size], [0, num) used
 *
 * A pattern says how large its array is, and the array is seen to be one, so each is
 * known by itself: 5 numbers would have to agree by chance.
 *
 * Source: fontconfig 2.14.1, src/fcint.h, src/fcpat.c (FcPatternObjectInsertElt).
 */

#include "engine/graph/lookup.h"

/* Granules of 16 bytes; malloc gives a pattern one more where it would be left alone. */
enum { MS_PATTERN_GRANULES = 2, MS_PATTERN_SPARE = 1 };

/* The same for allocators without granules; some have no smaller size for it than 48. */
enum { MS_PATTERN_BYTES = 24, MS_PATTERN_MOST_BYTES = 48 };

/*
 * Find the array of the pattern whose first 24 bytes are @bytes; false when the block
 * that begins at @begin is no pattern, or has none.
 */
bool ms_fontconfig_array(struct ms_lookup *lookup, ms_addr begin, const uint8_t *bytes,
                         struct ms_block *ret);

#endif
