/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of ours in a thread of an i386 process, by int 0x80 and with i386's numbers: these
 * are what its seccomp filters expect, and what its C library returns from handlers by.
 *
 * rt_sigreturn reads the kernel's struct rt_sigframe_ia32. What belongs to the x87 is taken from
 * an image of its own, in the form of fsave, which lies directly below the XSAVE image:
 *
 *	sp - 4   return address, popped by then
 *	sp       number, addresses of what follows, siginfo: not looked at
 *	         flags, link, alternate stack, registers, mask
 *	…        x87 as fsave has it
 *	         vectors, in the XSAVE layout, with two magic words around
 *
 * The alternate stack is made invalid, as in x86_64_calls.c.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include <asm/ldt.h>

#include "base/syscalls.h"
#include "target/arch/x86_64.h"

/* Source: arch/x86/include/uapi/asm/sigcontext.h, arch/x86/include/asm/sigframe.h, ia32.h. */
struct sigcontext_32 {
	uint32_t gs, fs, es, ds;
	uint32_t di, si, bp, sp, bx, dx, cx, ax;
	uint32_t trapno, err, ip, cs, flags, sp_at_signal, ss;
	uint32_t fpstate, oldmask, cr2;
};

struct frame {
	uint32_t return_address;
	uint32_t number;
	uint32_t info_at, context_at;
	uint8_t info[128];
	uint32_t flags, link;
	uint32_t altstack_sp, altstack_flags, altstack_size;
	struct sigcontext_32 context;
	uint32_t mask[2];
};

/* What fsave writes, and two numbers of the kernel's. */
struct x87 {
	uint32_t control, status, tags, ip, cs_and_opcode, data, data_segment;
	uint8_t stack[8][10];
	uint16_t status_again, magic;
};

static_assert(sizeof(struct sigcontext_32) == 88, "layout of the kernel's");
static_assert(sizeof(struct frame) == 260, "layout of the kernel's");
static_assert(sizeof(struct x87) == 112, "layout of the kernel's");
static_assert(sizeof(struct frame) + sizeof(struct x87) <= MS_FRAME_BYTES, "room for a frame");
static_assert(sizeof(struct user_regs_struct) + sizeof(struct x87) <= sizeof(struct ms_registers),
              "room for registers");

enum {
	X87_WORD = sizeof(struct user_regs_struct) / sizeof(uint64_t), /* of struct ms_registers */
	CODE_32 = 0x23,                                                /* __USER32_CS */
	NO_ALTSTACK = 0x7fffffff,                                      /* no valid set of flags */
	INT_BYTES = 2,
	ERESTARTSYS = 512, /* include/linux/errno.h */
	ERESTART_RESTARTBLOCK = 516,
	SEGMENT_SHIFT = 3,
	USERS_GDT = 3,  /* the bits below: a user's, and not of the LDT */
	FIRST_TLS = 12, /* GDT_ENTRY_TLS_MIN */
	LAST_TLS = 14,
};

/* _dl_sysinfo_int80() of the loader, and of static programs: for kernels without a vdso. */
static const uint8_t int_ret[] = { 0xcd, 0x80, 0xc3 };

/* mov $173,%eax; int $0x80: gdb knows signal frames by it, so it has never changed. */
static const uint8_t restorer[] = { 0xb8, 0xad, 0x00, 0x00, 0x00, 0xcd, 0x80 };

/* The address of @hit, in code that lies at @at; 0 when there is none. */
static ms_addr place(const uint8_t *code, ms_addr at, const uint8_t *hit)
{
	return hit ? at + (ms_addr)(hit - code) : 0;
}

static void find(const uint8_t *code, size_t len, ms_addr at, struct ms_gadgets *ret)
{
	if (!ret->call)
		ret->call = place(code, at, memmem(code, len, int_ret, sizeof(int_ret)));
	if (!ret->restore)
		ret->restore = place(code, at, memmem(code, len, restorer, sizeof(restorer)));
}

/* Source: arch/x86/entry/syscalls/syscall_32.tbl */
static int64_t number(int64_t own_call)
{
	enum { NO_CALL = INT32_MAX };

	switch (own_call) {
	case SYS_exit:
		return 1;
	case SYS_close:
		return 6;
	case SYS_wait4:
		return 114;
	case SYS_clone:
		return 120;
	case SYS_prctl:
		return 172;
	case SYS_rt_sigreturn:
		return 173;
	case SYS_sigaltstack:
		return 186;
	case SYS_futex:
		return 240;
	case SYS_unshare:
		return 310;
	case SYS_close_range:
		return 436;
	default:
		return NO_CALL;
	}
}

static struct user_regs_struct regs_of(const struct ms_registers *registers)
{
	struct user_regs_struct regs;

	memcpy(&regs, registers->words, sizeof(regs));
	return regs;
}

/* The x87's part of an XSAVE image, @from. Of its tags the kernel wants to know only the empty. */
static void take_x87(const uint8_t *from, void *ret)
{
	enum { TAGS = 4, OPCODE = 6, IP = 8, DATA = 16, STACK = 32, REGISTER = 16, EMPTY = 3 };
	struct x87 x = { .tags = 0xffff0000, .data_segment = 0xffff0000 };
	uint16_t word;

	memcpy(&word, from, sizeof(word));
	x.control = 0xffff0000 | word;
	memcpy(&word, from + sizeof(word), sizeof(word));
	x.status = 0xffff0000 | word;
	x.status_again = word;
	memcpy(&word, from + OPCODE, sizeof(word));
	x.cs_and_opcode = (uint32_t)word << 16 | CODE_32;
	memcpy(&x.ip, from + IP, sizeof(x.ip));
	memcpy(&x.data, from + DATA, sizeof(x.data));
	for (unsigned i = 0; i < 8; i++) {
		if (!(from[TAGS] >> i & 1))
			x.tags |= (uint32_t)EMPTY << 2 * i;
		memcpy(x.stack[i], from + STACK + (size_t)REGISTER * i, sizeof(x.stack[i]));
	}
	memcpy(ret, &x, sizeof(x));
}

/* In a segment of its own (64 bits, 16 bits) a thread would not return to where it was. */
static bool save(pid_t tid, struct ms_registers *registers, struct ms_vectors *vectors)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) || regs.cs != CODE_32 ||
	    (vectors && !ms_vectors_save_x86(tid, vectors)))
		return false;
	memcpy(registers->words, &regs, sizeof(regs));
	if (vectors)
		take_x87(vectors->bytes, registers->words + X87_WORD);
	return true;
}

/*
 * A clone has the descriptors of the thread that made it: where it takes the registers of another,
 * the one that @regs' segment of thread-local storage is by must be that one's.
 */
static bool restore_tls(pid_t tid, const struct user_regs_struct *regs)
{
	unsigned long entry = regs->gs >> SEGMENT_SHIFT;
	struct user_desc desc;

	if ((regs->gs & 7) != USERS_GDT || entry < FIRST_TLS || entry > LAST_TLS)
		return true;
	if (ptrace(PTRACE_GET_THREAD_AREA, tid, entry, &desc))
		return false;
	if (desc.base_addr == (uint32_t)regs->gs_base)
		return true;
	desc.base_addr = (uint32_t)regs->gs_base;
	return !ptrace(PTRACE_SET_THREAD_AREA, tid, entry, &desc);
}

static bool restore(pid_t tid, const struct ms_registers *registers, struct ms_vectors *vectors)
{
	struct user_regs_struct regs = regs_of(registers);

	return !ptrace(PTRACE_SETREGS, tid, NULL, &regs) && restore_tls(tid, &regs) &&
	       (!vectors || ms_vectors_restore_x86(tid, vectors));
}

/* Make a call that our stop broke off once more; see x86_64_calls.c. */
static void rewind_broken(struct user_regs_struct *regs)
{
	int32_t result = (int32_t)regs->rax;
	bool broken = (result <= -ERESTARTSYS && result >= -ERESTART_RESTARTBLOCK) ||
	              (result == -EINTR &&
	               ms_arch_i386.restart(ms_i386_call_of(regs)) == MS_RESTART_ALWAYS);

	if ((int32_t)regs->orig_rax < 0 || !broken)
		return;
	regs->rax = (uint32_t)regs->orig_rax;
	regs->rip -= INT_BYTES;
}

static size_t frame(const struct ms_registers *registers, const struct ms_gadgets *gadgets,
                    uint64_t mask, ms_addr vectors_at, uint8_t *buf)
{
	struct user_regs_struct regs = regs_of(registers);
	struct frame f = {
		.return_address = (uint32_t)gadgets->restore,
		.altstack_flags = NO_ALTSTACK,
		.mask = { (uint32_t)mask, (uint32_t)(mask >> 32) },
	};

	rewind_broken(&regs);
	f.context = (struct sigcontext_32){
		.gs = (uint16_t)regs.gs,
		.fs = (uint16_t)regs.fs,
		.es = (uint16_t)regs.es,
		.ds = (uint16_t)regs.ds,
		.di = (uint32_t)regs.rdi,
		.si = (uint32_t)regs.rsi,
		.bp = (uint32_t)regs.rbp,
		.sp = (uint32_t)regs.rsp,
		.bx = (uint32_t)regs.rbx,
		.dx = (uint32_t)regs.rdx,
		.cx = (uint32_t)regs.rcx,
		.ax = (uint32_t)regs.rax,
		.ip = (uint32_t)regs.rip,
		.cs = (uint16_t)regs.cs,
		.flags = (uint32_t)regs.eflags,
		.sp_at_signal = (uint32_t)regs.rsp,
		.ss = (uint16_t)regs.ss,
		.fpstate = vectors_at ? (uint32_t)(vectors_at - sizeof(struct x87)) : 0,
	};
	memcpy(buf, &f, sizeof(f));
	if (!vectors_at)
		return sizeof(f);
	memcpy(buf + MS_FRAME_BYTES - sizeof(struct x87), registers->words + X87_WORD,
	       sizeof(struct x87));
	return MS_FRAME_BYTES;
}

static void call(struct ms_registers *registers, const struct ms_gadgets *gadgets,
                 const struct ms_call *what, ms_addr sp)
{
	struct user_regs_struct regs = regs_of(registers);

	regs.rax = (uint64_t)number(what->nr);
	regs.orig_rax = UINT64_MAX; /* no call to restart */
	regs.rbx = (uint32_t)what->args[0];
	regs.rcx = (uint32_t)what->args[1];
	regs.rdx = (uint32_t)what->args[2];
	regs.rsi = (uint32_t)what->args[3];
	regs.rdi = (uint32_t)what->args[4];
	regs.rbp = (uint32_t)what->args[5];
	regs.rip = gadgets->call;
	regs.rsp = sp;
	memcpy(registers->words, &regs, sizeof(regs));
}

const struct ms_arch_calls ms_calls_i386 = {
	.find = find,
	.number = number,
	.save = save,
	.restore = restore,
	.frame = frame,
	.first_argument = offsetof(struct frame, context.bx),
	.call = call,
};
