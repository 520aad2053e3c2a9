/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_X86_64_H
#define MS_TARGET_X86_64_H

/* Between the files of this architecture, and those of i386, whose programs its kernels run. */

#include "target/arch/arch.h"

extern const struct ms_arch_calls ms_calls_x86_64;
extern const struct ms_arch_stepping ms_stepping_x86;
extern const struct ms_arch ms_arch_i386;

#endif
