/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_FRAMES_FRAMES_H
#define MS_SHIM_FRAMES_FRAMES_H

/* Backtraces: taking them, and writing them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "shim/frames/modules.h"
#include "shim/next.h"

enum { MS_FRAMES_MAX = 256 };

/*
 * The frame, by __builtin_frame_address(0), of the function that the program called, while
 * that one runs; or NULL. Backtraces from there are cheaper.
 */
extern MS_SHIM_OWN MS_SHIM_TLS const void
	*ms_frames_from; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

/*
 * Load the unwinder. False when there is none, and then no backtrace has a frame.
 * Context: start-up; dlopen() allocates.
 */
bool ms_frames_init(void);

/*
 * The addresses of the calls that led here, innermost first, ours left out, to @pc, which
 * has room for @max; their number. The unwinder may wait for the loader's lock: hold none.
 */
size_t ms_frames_take(uint64_t *pc, size_t max);

/* Log @title and the frames, as backtrace_full does if @full, each on a line. */
void ms_frames_say(struct ms_places *places, const char *title, const uint64_t *pc, size_t n,
                   bool full);

#endif
