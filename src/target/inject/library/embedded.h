/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_INJECT_EMBEDDED_H
#define MS_TARGET_INJECT_EMBEDDED_H

/*
 * jemalloc or gperftools' tcmalloc linked into a program: by its symbols, which name functions
 * that no other allocator has. jemalloc's may all have a prefix ("je_", Rust's "_rjem_"): calls
 * of plain malloc lead elsewhere then.
 */

#include "target/inject/library/library.h"

/*
 * Find one by the symbols of @library, a program, and set its kind and prefix.
 *
 * @ret: whether there is one
 *
 * Returns MS_E_UNSUPPORTED when there are two, or one that cannot be attached.
 */
ms_must_check enum ms_status ms_embedded_find(pid_t tid, struct ms_arena *arena,
                                              struct ms_malloc_library *library, bool *ret,
                                              struct ms_error *err);

/*
 * Find a function of it whose name may be anyone's: an operator of C++, or one of the standard
 * that it has under another name. Only what is seen to be the allocator's is found.
 */
bool ms_embedded_code(struct ms_malloc_library *library, const char *name, struct ms_range *ret);

/* Whether plain malloc of the program is its, too. */
bool ms_embedded_is_reached(struct ms_malloc_library *library);

/*
 * Fail where one is in @program, which has no symbols: by what it says when it fails, or is set by.
 *
 * Returns MS_OK where none is seen.
 */
ms_must_check enum ms_status ms_embedded_check_stripped(const struct ms_running *in,
                                                        const struct ms_image *program,
                                                        struct ms_arena *arena,
                                                        struct ms_error *err);

#endif
