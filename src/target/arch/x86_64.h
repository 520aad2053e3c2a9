/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_X86_64_H
#define MS_TARGET_X86_64_H

/* Between the files of this architecture, and those of i386, whose programs its kernels run. */

#include "target/arch/arch.h"

/* A call, by a number that says all of it, which the kernel does not restart. */
struct ms_restart_row {
	uint32_t call;
	uint8_t restart; /* enum ms_restart */
	uint8_t timeout; /* enum ms_timeout */
	uint8_t arg;     /* that has it */
};

/* What ms_arch.restart and ms_arch.timed say by @n rows. */
enum ms_restart ms_restart_in(const struct ms_restart_row *rows, size_t n, int64_t call);
struct ms_timed ms_timed_in(const struct ms_restart_row *rows, size_t n, int64_t call);

extern const struct ms_arch_calls ms_calls_x86_64;
extern const struct ms_arch_stepping ms_stepping_x86;
extern const struct ms_arch ms_arch_i386;

#endif
