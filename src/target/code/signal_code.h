/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_SIGNAL_CODE_H
#define MS_TARGET_SIGNAL_CODE_H

/* Whether a program can have signal stacks (sigaltstack(2)), by its code. */

#include "base/arena.h"
#include "target/code/mapped_file.h"

struct ms_arch;

/*
 * Whether any object of the process calls sigaltstack() of the C library or, as a static program,
 * makes the call itself; also where there is too much to look through. A program that makes the
 * call by syscall() is not recognised.
 *
 * @arch: of the process
 *
 * Cost: reads the names that the objects import, or a static program's code, from their files.
 */
bool ms_signal_stacks_are_in(const struct ms_running *in, const struct ms_arch *arch,
                             struct ms_arena *arena);

#endif
