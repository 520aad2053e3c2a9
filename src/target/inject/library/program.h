/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_INJECT_PROGRAM_H
#define MS_TARGET_INJECT_PROGRAM_H

/*
 * A program that is its own library of malloc: it is linked statically, and its file has symbols.
 *
 * Nothing in its memory says which C library it has, and of glibc seldom which version. So all
 * of its instructions are looked through for what the agent needs: that none of them names the
 * bytes of a thread's control block that the agent is to use.
 */

#include "target/inject/library/library.h"

/*
 * Find malloc in the program of a process that has loaded no C library. Returns
 * MS_E_UNSUPPORTED, with what to do, when it has no symbols, another malloc than those that are
 * known, or uses these bytes; when its file cannot be read.
 */
ms_must_check enum ms_status ms_program_find(const struct ms_running *in, struct ms_arena *arena,
                                             struct ms_malloc_library *ret, struct ms_error *err);

#endif
