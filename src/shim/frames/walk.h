/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_FRAMES_WALK_H
#define MS_SHIM_FRAMES_WALK_H

/* Backtraces of ordinary functions, fast; x86-64. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/range.h"

/*
 * @forget: called by a walk that finds that modules have gone since the last time
 *
 * False when the C library does not know which module an address is in, or on another machine;
 * then do not walk.
 */
bool ms_walk_init(void (*forget)(void));

/*
 * @frame: of a function that has not returned, by __builtin_frame_address(0): where the
 *         caller's frame pointer is, with the return address above
 * @pc:    the calls that led to it, innermost first, at most @max; @max > 0
 *
 * How many; 0 when a full unwinder is needed.
 */
size_t ms_walk(const void *frame, uint64_t *pc, size_t max);

/* Where the loader is; empty without walks. */
extern struct ms_range
	ms_walk_loader; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/* Whether the loader called: modules may come and go. */
static inline bool ms_walk_is_loader(uintptr_t pc)
{
	return ms_range_has(ms_walk_loader, pc);
}

/* Look, with the next walk, whether modules have gone. */
void ms_walk_doubt(void);

#endif
