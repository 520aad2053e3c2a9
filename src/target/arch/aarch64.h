/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_AARCH64_H
#define MS_TARGET_AARCH64_H

/* Between the files of this architecture. */

#include <assert.h>

#include "target/arch/arch.h"

/* The registers of a thread as words: general ones as NT_PRSTATUS has them, then NT_FPREGSET's. */
enum {
	AARCH64_X8 = 8, /* the number of a call */
	AARCH64_LINK = 30,
	AARCH64_SP = 31,
	AARCH64_PC = 32,
	AARCH64_STATE = 33,
	AARCH64_GENERAL = 34,
	AARCH64_VECTORS = 66, /* v0 to v31; fpsr and fpcr, halves; nothing */
};

static_assert(AARCH64_GENERAL + AARCH64_VECTORS <= sizeof(struct ms_registers) / sizeof(uint64_t),
              "room for registers");

enum {
	AARCH64_SVC = 0xd4000001,           /* svc #0 */
	AARCH64_BRANCH_TYPE = 3 << 10,      /* of pstate: that a BTI is wanted next */
	AARCH64_FPSIMD = 0x46508001,        /* FPSIMD_MAGIC of a signal frame's record */
	AARCH64_FPSIMD_BYTES = 8 + 8 + 512, /* with its head, fpsr and fpcr */
};

/* Read a set of at most @bytes registers; how many there were. 0: none. */
size_t ms_aarch64_read(pid_t tid, uintptr_t type, void *buf, size_t bytes);
bool ms_aarch64_write(pid_t tid, uintptr_t type, const void *buf, size_t bytes);

extern const struct ms_arch_calls ms_calls_aarch64;

#endif
