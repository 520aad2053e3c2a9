/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_BREAKS_H
#define MS_TARGET_BREAKS_H

/*
 * Whether breakpoints in debug registers stop anyone. Some virtual machines let them be
 * set, and never trap.
 */

#include "target/arch/arch.h"

enum ms_breaks { MS_BREAKS_UNTRIED, MS_BREAKS_WORK, MS_BREAKS_FAIL };

/* Try it with a child of this process. Takes some tenths of a millisecond. */
enum ms_breaks ms_breaks_try(const struct ms_arch_stepping *stepping);

#endif
