/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of ours in a thread of an aarch64 process.
 *
 * rt_sigreturn reads at the stack pointer what the kernel itself would have put there for a
 * signal:
 *
 *	sp ─▶ siginfo, 128 bytes
 *	      flags, link, alternate stack, mask
 *	      registers
 *	      records: one with the vectors, which there must be, and the end
 *
 * A call returns to where register x30 says. The alternate stack in the frame is made invalid:
 * do_sigaltstack() then leaves the true one alone, and restore_altstack() forgives that.
 *
 * A thread that computes with scalable vectors (SVE), or has the state of SME, is left alone: a
 * frame without their records would take it away. In a system call no thread has any.
 */
#include <asm/ptrace.h>
#include <assert.h>
#include <elf.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>

#include "target/arch/aarch64.h"

/* Source: arch/arm64/include/uapi/asm/sigcontext.h and ucontext.h. */
struct fpsimd_record {
	uint32_t magic;
	uint32_t bytes;
	uint32_t fpsr;
	uint32_t fpcr;
	uint64_t vectors[64];
};

struct frame {
	uint8_t info[128];
	uint64_t flags;
	uint64_t link;
	uint64_t altstack_sp;
	uint32_t altstack_flags;
	uint32_t padding;
	uint64_t altstack_size;
	uint64_t mask;
	uint8_t unused[120];
	uint64_t aligned;
	uint64_t fault;
	uint64_t general[AARCH64_GENERAL];
	uint64_t aligned_too;
	struct fpsimd_record fpsimd;
	uint64_t end[2];
};

static_assert(offsetof(struct frame, fault) == 304, "layout of the kernel's");
static_assert(offsetof(struct frame, fpsimd) == 592, "layout of the kernel's");
static_assert(sizeof(struct fpsimd_record) == AARCH64_FPSIMD_BYTES, "layout of the kernel's");
static_assert(sizeof(struct frame) <= MS_FRAME_BYTES, "room for a frame");

enum {
	SVE = 0x405,              /* NT_ARM_SVE */
	STREAMING = 0x40b,        /* NT_ARM_SSVE */
	TILES = 0x40c,            /* NT_ARM_ZA */
	NO_ALTSTACK = 0x7fffffff, /* no valid set of flags */
	INSTRUCTION = 4,          /* bytes */
};

/* svc #0; ret: getpid() and the like end so, in every C library. */
static const uint8_t svc_ret[] = { 0x01, 0x00, 0x00, 0xd4, 0xc0, 0x03, 0x5f, 0xd6 };

/* mov x8, #139; svc #0: the kernel's own, in the vdso. Debuggers know signal frames by it. */
static const uint8_t restorer[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 };

/* Where the @n bytes at @wanted are in code that lies at @at; 0 when they are not. */
static ms_addr place(const uint8_t *code, size_t len, ms_addr at, const uint8_t *wanted)
{
	const size_t n = sizeof(svc_ret);

	for (size_t i = (size_t)(-at & (INSTRUCTION - 1)); i + n <= len; i += INSTRUCTION)
		if (!memcmp(code + i, wanted, n))
			return at + i;
	return 0;
}

static_assert(sizeof(svc_ret) == sizeof(restorer), "both are two instructions");

static void find(const uint8_t *code, size_t len, ms_addr at, struct ms_gadgets *ret)
{
	if (!ret->call)
		ret->call = place(code, len, at, svc_ret);
	if (!ret->restore)
		ret->restore = place(code, len, at, restorer);
}

/* What a set of scalable registers says of itself; zeros when there is none. */
static struct user_sve_header head_of(pid_t tid, uintptr_t type)
{
	struct user_sve_header head = { 0 };

	if (ms_aarch64_read(tid, type, &head, sizeof(head)) < sizeof(head))
		memset(&head, 0, sizeof(head));
	return head;
}

static bool has_more_state(pid_t tid)
{
	return (head_of(tid, SVE).flags & SVE_PT_REGS_MASK) == SVE_PT_REGS_SVE ||
	       head_of(tid, STREAMING).size > sizeof(struct user_sve_header) ||
	       head_of(tid, TILES).size > sizeof(struct user_sve_header);
}

static bool save(pid_t tid, struct ms_registers *registers, struct ms_vectors *vectors)
{
	const size_t general = AARCH64_GENERAL * sizeof(uint64_t);
	const size_t more = AARCH64_VECTORS * sizeof(uint64_t);

	memset(registers, 0, sizeof(*registers));
	if (ms_aarch64_read(tid, NT_PRSTATUS, registers->words, general) != general)
		return false;
	if (!vectors)
		return true;
	vectors->n = vectors->n_ptrace = 0;
	return !has_more_state(tid) &&
	       ms_aarch64_read(tid, NT_FPREGSET, registers->words + AARCH64_GENERAL, more) == more;
}

static bool restore(pid_t tid, const struct ms_registers *registers, struct ms_vectors *vectors)
{
	return ms_aarch64_write(tid, NT_PRSTATUS, registers->words,
	                        AARCH64_GENERAL * sizeof(uint64_t)) &&
	       (!vectors || ms_aarch64_write(tid, NT_FPREGSET, registers->words + AARCH64_GENERAL,
	                                     AARCH64_VECTORS * sizeof(uint64_t)));
}

/* A call that was broken off stands at its svc already, or its first argument is gone. */
static size_t frame(const struct ms_registers *registers, const struct ms_gadgets *gadgets,
                    uint64_t mask, ms_addr vectors, uint8_t *buf)
{
	const uint64_t *more = registers->words + AARCH64_GENERAL;
	struct frame f = {
		.altstack_flags = NO_ALTSTACK,
		.mask = mask,
		.fpsimd = { .magic = AARCH64_FPSIMD, .bytes = AARCH64_FPSIMD_BYTES },
	};

	(void)gadgets;
	(void)vectors;
	memcpy(f.general, registers->words, sizeof(f.general));
	memcpy(f.fpsimd.vectors, more, sizeof(f.fpsimd.vectors));
	f.fpsimd.fpsr = (uint32_t)more[AARCH64_VECTORS - 2];
	f.fpsimd.fpcr = (uint32_t)(more[AARCH64_VECTORS - 2] >> 32);
	memcpy(buf, &f, sizeof(f));
	return sizeof(f);
}

static void call(struct ms_registers *registers, const struct ms_gadgets *gadgets,
                 const struct ms_call *what, ms_addr sp)
{
	uint64_t *words = registers->words;

	memcpy(words, what->args, sizeof(what->args));
	words[AARCH64_X8] = (uint64_t)what->nr;
	words[AARCH64_LINK] = gadgets->restore;
	words[AARCH64_SP] = sp;
	words[AARCH64_PC] = gadgets->call;
	words[AARCH64_STATE] &= ~(uint64_t)AARCH64_BRANCH_TYPE;
}

const struct ms_arch_calls ms_calls_aarch64 = {
	.find = find,
	.save = save,
	.restore = restore,
	.frame = frame,
	.first_argument = offsetof(struct frame, general),
	.wants_parked = true,
	.call = call,
};
