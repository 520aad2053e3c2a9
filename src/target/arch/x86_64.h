/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_X86_64_H
#define MS_TARGET_X86_64_H

/* Between the files of this architecture, and those of i386, whose programs its kernels run. */

#include <sys/user.h>

#include "target/arch/arch.h"

extern const struct ms_arch_calls ms_calls_x86_64;
extern const struct ms_arch_calls ms_calls_i386;
extern const struct ms_arch_stepping ms_stepping_x86;
extern const struct ms_arch ms_arch_i386;

/* The vector registers as a signal frame has them, and back. */
bool ms_vectors_save_x86(pid_t tid, struct ms_vectors *ret);
bool ms_vectors_restore_x86(pid_t tid, struct ms_vectors *vectors);

/*
 * The vector registers as the kernel gives them, to at most @max words; debuggers find out by them
 * how long they are. Returns how many bytes.
 */
size_t ms_vectors_capture_x86(pid_t tid, uint64_t *words, size_t max);

/* The call of an i386 thread, as ms_cpu.call; -1: it is in none. */
int64_t ms_i386_call_of(const struct user_regs_struct *regs);

#endif
