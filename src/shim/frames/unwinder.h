/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_FRAMES_UNWINDER_H
#define MS_SHIM_FRAMES_UNWINDER_H

/*
 * A library that unwinds all stacks, where walk.h has no answer; the build chooses it:
 *
 *	libunwind.c, memory.c     libunwind
 *	libgcc.c                  the C compiler's run-time library, but for x86-64
 */

#include <stdbool.h>

/* How it is called, for messages. */
extern const char ms_unwinder_name[];

/* False when there is none; dlerror() says why. Context: start-up; dlopen() allocates. */
bool ms_unwinder_load(void);

/* A module has gone, and what is remembered may be of it. */
void ms_unwinder_forget(void);

/*
 * The return addresses that led here, innermost first, ours among them, to @ret, which has
 * room for @max; their number, 0 before it is loaded.
 */
int ms_unwinder_take(void **ret, int max);

#endif
