/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_ROOTS_H
#define MS_ENGINE_ROOTS_H

/*
 * Step 5: what is alive by itself, and what becomes alive when it is reached.
 *
 *	roots   globals and break memory, less what allocators own; the live part of
 *	        every stack; registers; values that the kernel holds; heap memory
 *	        whose blocks could not be proved
 *	nodes   all other readable memory, less heap and stacks: one block of the
 *	        graph for each stretch, read once something points into it
 */

#include "engine/decoder.h"
#include "engine/graph/walk.h"
#include "engine/stacks.h"

struct ms_roots {
	struct ms_ranges ranges;
	struct ms_stacks stacks;
};

/*
 * Find the roots, and add the nodes to the table of blocks, which is not sealed
 * yet. d->owned is tidy.
 */
ms_must_check enum ms_status ms_roots_find(struct ms_decoding *d, const struct ms_libc_view *libc,
                                           struct ms_roots *ret);

/* Give every root to @walk. */
void ms_roots_walk(const struct ms_roots *roots, struct ms_source *src, struct ms_walk *walk);

#endif
