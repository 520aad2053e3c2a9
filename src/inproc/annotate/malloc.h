/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_ANNOTATE_MALLOC_H
#define MS_INPROC_ANNOTATE_MALLOC_H

/*
 * malloc and its kin in front of the program's own: they pass everything on, keep the
 * set of ignored blocks true when a block is freed, and put in what a thread allocates
 * while it has allocations disabled.
 *
 * They are deliberately no allocator: the next definition in the program's search order
 * does the work, whichever it is.
 */

#include <stdbool.h>
#include <stddef.h>

/* Keep a reference to the block that has @p until it is freed. False without memory. */
bool ms_malloc_ignore(const void *p);

/*
 * Whether the program's calls of malloc and free come to ours, perhaps by way of another
 * malloc in front, as that of libmalloc_debug.
 */
bool ms_malloc_reached(void);

/* Whether those of this library go to the C library directly, as in a static program. */
bool ms_malloc_is_library(void);

/* Called by libmalloc_debug when it has started, which may be after this library has. */
void memunreachable_malloc_started(void);

/* Open a window of this thread in which every new block is ignored. */
void ms_malloc_disable(void);

/* Close one; false when none is open. */
bool ms_malloc_enable(void);

#endif
