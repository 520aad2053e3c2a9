/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_SIGNAL_CODE_H
#define MS_TARGET_SIGNAL_CODE_H

/* Whether a program can have signal stacks (sigaltstack(2)), by its code. */

#include "base/arena.h"
#include "target/code/image.h"

struct ms_arch;

/*
 * Whether the image calls sigaltstack() of the C library or, as a static program, makes the call
 * itself. Of a program that makes it by syscall() nothing is known.
 *
 * @maps: of the process
 * @arch: of the process
 *
 * Cost: reads the names that the image imports, or a static program's code, from its file.
 */
bool ms_image_has_signal_stacks(struct ms_image *image, const struct ms_mappings *maps,
                                const struct ms_arch *arch, struct ms_arena *arena);

#endif
