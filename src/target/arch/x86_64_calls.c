/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of ours in a thread of an x86_64 process.
 *
 * rt_sigreturn reads, from the stack pointer on, the struct ucontext that the kernel
 * itself would have pushed for a signal:
 *
 *	sp - 8   return address, popped by then
 *	sp       flags, link, alternate stack, registers, mask
 *	…        vectors, in the XSAVE layout, with two magic words around
 *
 * The alternate stack in it is made invalid: do_sigaltstack() then leaves the true
 * one alone, and restore_altstack() forgives that.
 */
#include <assert.h>
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "target/arch/x86_64.h"

/* Source: arch/x86/include/uapi/asm/sigcontext.h and ucontext.h. */
struct sigcontext_64 {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t di, si, bp, bx, dx, ax, cx, sp, ip, flags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t fpstate;
	uint64_t reserved[8];
};

struct frame {
	uint64_t return_address;
	uint64_t flags;
	uint64_t link;
	uint64_t altstack_sp;
	uint32_t altstack_flags;
	uint32_t padding;
	uint64_t altstack_size;
	struct sigcontext_64 context;
	uint64_t mask;
};

static_assert(sizeof(struct sigcontext_64) == 256, "layout of the kernel's");
static_assert(sizeof(struct frame) == 312, "layout of the kernel's");
static_assert(sizeof(struct frame) <= MS_FRAME_BYTES, "room for a frame");
static_assert(sizeof(struct user_regs_struct) <= sizeof(struct ms_registers), "room for registers");

enum {
	UC_FP_XSTATE = 1,
	UC_SIGCONTEXT_SS = 2,
	UC_STRICT_RESTORE_SS = 4,
	NO_ALTSTACK = 0x7fffffff, /* no valid set of flags */
	SYSCALL_BYTES = 2,
	ERESTARTSYS = 512, /* include/linux/errno.h */
	ERESTART_RESTARTBLOCK = 516,
	SW_RESERVED = 464, /* in the XSAVE image: struct _fpx_sw_bytes */
	MAGIC1 = 0x46505853,
	MAGIC2 = 0x46505845,
};

struct fpx_sw_bytes {
	uint32_t magic1;
	uint32_t extended_size;
	uint64_t xfeatures;
	uint32_t xstate_size;
	uint32_t padding[7];
};

static_assert(sizeof(struct fpx_sw_bytes) == 48, "layout of the kernel's");

/* getpid() and the like end so, in every C library. */
static const uint8_t syscall_ret[] = { 0x0f, 0x05, 0xc3 };

/* mov $15,%rax; syscall: gdb knows signal frames by it, so it has never changed. */
static const uint8_t restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };

/* The address of @hit, in code that lies at @at; 0 when there is none. */
static ms_addr place(const uint8_t *code, ms_addr at, const uint8_t *hit)
{
	return hit ? at + (ms_addr)(hit - code) : 0;
}

static void find(const uint8_t *code, size_t len, ms_addr at, struct ms_gadgets *ret)
{
	if (!ret->call)
		ret->call = place(code, at, memmem(code, len, syscall_ret, sizeof(syscall_ret)));
	if (!ret->restore)
		ret->restore = place(code, at, memmem(code, len, restorer, sizeof(restorer)));
}

static struct user_regs_struct regs_of(const struct ms_registers *registers)
{
	struct user_regs_struct regs;

	memcpy(&regs, registers->words, sizeof(regs));
	return regs;
}

/*
 * How much of the @len bytes that ptrace gives a signal's frame may hold: the kernel takes
 * none of the extended registers from one that is larger than the thread's own state, and
 * tiles (AMX) are part of that only in threads that have used them.
 * Source: check_xstate_in_sigframe(), arch/x86/kernel/fpu/signal.c
 */
static size_t frame_bytes(const uint8_t *bytes, size_t len)
{
	enum { HEADER = 512, TILES = 18, STATES = 0xd };
	unsigned size, offset, unused[2];
	uint64_t in_use;

	memcpy(&in_use, bytes + HEADER, sizeof(in_use));
	if (in_use >> TILES & 1 ||
	    !__get_cpuid_count(STATES, TILES, &size, &offset, &unused[0], &unused[1]) || !size ||
	    offset > len)
		return len;
	return offset;
}

bool ms_vectors_save_x86(pid_t tid, struct ms_vectors *ret)
{
	const uint32_t magic2 = MAGIC2;
	size_t max = sizeof(ret->bytes) - sizeof(uint64_t); /* the kernel wants whole words */
	struct iovec iov = { ret->bytes, max };
	struct fpx_sw_bytes sw = { .magic1 = MAGIC1 };

	if (ptrace(PTRACE_GETREGSET, tid, (uintptr_t)NT_X86_XSTATE, &iov) || iov.iov_len == max ||
	    iov.iov_len < SW_RESERVED + sizeof(sw))
		return false;
	/* ptrace keeps XCR0, the features of this machine, in the same place. */
	memcpy(&sw.xfeatures, ret->bytes + SW_RESERVED, sizeof(sw.xfeatures));
	sw.xstate_size = (uint32_t)frame_bytes(ret->bytes, iov.iov_len);
	sw.extended_size = sw.xstate_size + (uint32_t)sizeof(magic2);
	memcpy(ret->bytes + SW_RESERVED, &sw, sizeof(sw));
	memcpy(ret->bytes + sw.xstate_size, &magic2, sizeof(magic2));
	ret->n = sw.extended_size;
	ret->n_ptrace = iov.iov_len;
	return true;
}

static bool save(pid_t tid, struct ms_registers *registers, struct ms_vectors *vectors)
{
	struct iovec iov = { registers->words, sizeof(struct user_regs_struct) };

	return !ptrace(PTRACE_GETREGSET, tid, (uintptr_t)NT_PRSTATUS, &iov) &&
	       iov.iov_len == sizeof(struct user_regs_struct) &&
	       (!vectors || ms_vectors_save_x86(tid, vectors));
}

/* The magic words lie where the kernel does not look. */
bool ms_vectors_restore_x86(pid_t tid, struct ms_vectors *vectors)
{
	struct iovec iov = { vectors->bytes, vectors->n_ptrace };

	return !ptrace(PTRACE_SETREGSET, tid, (uintptr_t)NT_X86_XSTATE, &iov);
}

static bool restore(pid_t tid, const struct ms_registers *registers, struct ms_vectors *vectors)
{
	struct user_regs_struct regs = regs_of(registers);
	struct iovec iov = { &regs, sizeof(regs) };

	return !ptrace(PTRACE_SETREGSET, tid, (uintptr_t)NT_PRSTATUS, &iov) &&
	       (!vectors || ms_vectors_restore_x86(tid, vectors));
}

/*
 * Make a call that our stop broke off once more, as the kernel does. A call that has
 * a time-out kept by the kernel (RESTARTBLOCK) begins its time-out anew: the kernel
 * forgets it at rt_sigreturn.
 */
static void rewind_broken(struct user_regs_struct *regs)
{
	int64_t result = (int64_t)regs->rax;
	bool broken = (result <= -ERESTARTSYS && result >= -ERESTART_RESTARTBLOCK) ||
	              (result == -EINTR &&
	               ms_native_arch.restart((int32_t)regs->orig_rax) == MS_RESTART_ALWAYS);

	if ((int64_t)regs->orig_rax < 0 || !broken)
		return;
	regs->rax = regs->orig_rax;
	regs->rip -= SYSCALL_BYTES;
}

static size_t frame(const struct ms_registers *registers, const struct ms_gadgets *gadgets,
                    uint64_t mask, ms_addr vectors_at, uint8_t *buf)
{
	struct user_regs_struct regs = regs_of(registers);
	struct frame f = {
		.return_address = gadgets->restore,
		.flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS | (vectors_at ? UC_FP_XSTATE : 0),
		.altstack_flags = NO_ALTSTACK,
		.mask = mask,
	};

	rewind_broken(&regs);
	f.context = (struct sigcontext_64){
		.r8 = regs.r8,
		.r9 = regs.r9,
		.r10 = regs.r10,
		.r11 = regs.r11,
		.r12 = regs.r12,
		.r13 = regs.r13,
		.r14 = regs.r14,
		.r15 = regs.r15,
		.di = regs.rdi,
		.si = regs.rsi,
		.bp = regs.rbp,
		.bx = regs.rbx,
		.dx = regs.rdx,
		.ax = regs.rax,
		.cx = regs.rcx,
		.sp = regs.rsp,
		.ip = regs.rip,
		.flags = regs.eflags,
		.cs = (uint16_t)regs.cs,
		.ss = (uint16_t)regs.ss,
		.fpstate = vectors_at,
	};
	memcpy(buf, &f, sizeof(f));
	return sizeof(f);
}

static void call(struct ms_registers *registers, const struct ms_gadgets *gadgets,
                 const struct ms_call *what, ms_addr sp)
{
	struct user_regs_struct regs = regs_of(registers);

	regs.rax = (uint64_t)what->nr;
	regs.orig_rax = UINT64_MAX; /* no call to restart */
	regs.rdi = what->args[0];
	regs.rsi = what->args[1];
	regs.rdx = what->args[2];
	regs.r10 = what->args[3];
	regs.r8 = what->args[4];
	regs.r9 = what->args[5];
	regs.rip = gadgets->call;
	regs.rsp = sp;
	memcpy(registers->words, &regs, sizeof(regs));
}

const struct ms_arch_calls ms_calls_x86_64 = {
	.find = find,
	.save = save,
	.restore = restore,
	.frame = frame,
	.first_argument = offsetof(struct frame, context.di),
	.call = call,
};
