/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_ARCH_NOTES_H
#define MS_TARGET_ARCH_NOTES_H

/*
 * The notes of a core of i386, as a 64-bit kernel and gdb write them: sys/procfs.h has those of
 * this machine's own programs alone.
 *
 * Source: include/linux/elfcore-compat.h, arch/x86/include/asm/{compat,user32}.h.
 */

#include <assert.h>
#include <stdint.h>

enum {
	MS_NARROW_REGISTERS = 17,
	MS_NARROW_X87_BYTES = 108, /* of NT_FPREGSET, as fsave writes it */
	MS_NARROW_SIGNAL_BYTES = 128,
	MS_NARROW_SIGNAL_VALUE = 20, /* in NT_SIGINFO: the value that the signal carries */
};

/* NT_PRSTATUS */
struct ms_narrow_status {
	int32_t signal[3];
	int16_t current;
	uint16_t padding;
	uint32_t pending, held;
	int32_t pid, parent, group, session;
	int32_t times[8];
	uint32_t registers[MS_NARROW_REGISTERS]; /* struct user_regs_struct32 */
	int32_t has_x87;
};
static_assert(sizeof(struct ms_narrow_status) == 144, "NT_PRSTATUS of i386");

/* NT_PRPSINFO */
struct ms_narrow_program {
	char state, letter, zombie, nice;
	uint32_t flags;
	uint16_t uid, gid;
	int32_t pid, parent, group, session;
	char name[16];
	char args[80];
};
static_assert(sizeof(struct ms_narrow_program) == 124, "NT_PRPSINFO of i386");

/* An entry of NT_386_TLS, struct user_desc: a segment that a register may select. */
struct ms_narrow_area {
	uint32_t number; /* in the table of segments */
	uint32_t base;
	uint32_t limit;
	uint32_t flags;
};

#endif
