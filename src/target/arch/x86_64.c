/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <elf.h>
#include <linux/audit.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/page.h"

#include "target/arch/restarts.h"
#include "target/arch/x86_64.h"

enum {
	GENERAL_WORDS = sizeof(struct user_regs_struct) / sizeof(uint64_t),
	SYSCALL_BYTES = 2,    /* 0f 05 */
	X32_BIT = 0x40000000, /* __X32_SYSCALL_BIT */
	DWARF_SP = 7,
	DWARF_PC = 16,
	SHADOW_STACK = 0x204, /* NT_X86_SHSTK */
	LONGEST_INSTRUCTION = 15,
	MARK_SHIFT = 32, /* in the call's number */
};

static_assert(sizeof(struct user_regs_struct) == 27 * sizeof(uint64_t), "NT_PRSTATUS layout");

/*
 * The standard (never compacted) XSAVE image that NT_X86_XSTATE gives, in words.
 * Source: Intel SDM volume 1, 13.4; the sizes of later parts come from CPUID and
 * do not matter here, for all that follows the header is data.
 */
enum {
	XSTATE_ST = 32 / 8, /* st/mm registers, then xmm; before them control words */
	XSTATE_XMM_END = 416 / 8,
	XSTATE_EXTENDED = 576 / 8, /* behind the reserved bytes and the XSAVE header */
};

static bool read_regset(pid_t tid, uintptr_t type, void *buf, size_t *bytes)
{
	struct iovec iov = { buf, *bytes };

	if (ptrace(PTRACE_GETREGSET, tid, type, &iov))
		return false;
	*bytes = iov.iov_len;
	return true;
}

static bool guards_returns(pid_t tid)
{
	uint64_t shadow_stack = 0;
	size_t bytes = sizeof(shadow_stack);

	return read_regset(tid, SHADOW_STACK, &shadow_stack, &bytes) && shadow_stack;
}

static bool read_regs(pid_t tid, struct user_regs_struct *ret)
{
	size_t bytes = sizeof(*ret);

	return read_regset(tid, NT_PRSTATUS, ret, &bytes) && bytes == sizeof(*ret);
}

static bool write_regs(pid_t tid, struct user_regs_struct *regs)
{
	struct iovec iov = { regs, sizeof(*regs) };

	return !ptrace(PTRACE_SETREGSET, tid, (uintptr_t)NT_PRSTATUS, &iov);
}

/* Close the gaps in @bytes of vector registers at @words. Returns how many words are left. */
static size_t pack_vectors(uint64_t *words, size_t bytes)
{
	size_t n = XSTATE_XMM_END - XSTATE_ST;

	memmove(words, words + XSTATE_ST, n * sizeof(*words));
	if (bytes > XSTATE_EXTENDED * sizeof(*words)) {
		size_t more = bytes / sizeof(*words) - XSTATE_EXTENDED;

		memmove(words + n, words + XSTATE_EXTENDED, more * sizeof(*words));
		n += more;
	}
	return n;
}

/* Read the vector registers to @words. Returns how many bytes there are of them. */
static size_t read_vectors(pid_t tid, uint64_t *words, size_t max)
{
	size_t bytes = max * sizeof(*words);

	/* AMX and AVX-512 overflow the buffer; the kernel cuts, and what is cut are tiles. */
	if (read_regset(tid, NT_X86_XSTATE, words, &bytes))
		return bytes;
	bytes = sizeof(struct user_fpregs_struct);
	return read_regset(tid, NT_FPREGSET, words, &bytes) ? bytes : 0;
}

/*
 * Tiles (AMX) that were not read are no part of the image, by which debuggers find out how long
 * it is: the features of this machine, and those that the thread uses.
 */
static void leave_out_tiles(uint64_t *words, size_t bytes)
{
	enum { FEATURES = 464 / 8, IN_USE = 512 / 8, TILES_END = 2752 + 8192 };
	const uint64_t tiles = UINT64_C(3) << 17;

	if (bytes <= IN_USE * sizeof(*words) || bytes >= TILES_END)
		return;
	words[FEATURES] &= ~tiles;
	words[IN_USE] &= ~tiles;
}

size_t ms_vectors_capture_x86(pid_t tid, uint64_t *words, size_t max)
{
	size_t bytes = read_vectors(tid, words, max);

	leave_out_tiles(words, bytes);
	return bytes;
}

static struct ms_cpu cpu_of(const struct user_regs_struct *regs)
{
	return (struct ms_cpu){
		.pc = regs->rip,
		.sp = regs->rsp,
		.tp = regs->fs_base,
		.result = (int64_t)regs->rax,
		.call = (int32_t)regs->orig_rax,
		.mark = regs->orig_rax >> 63 ? 0 : (uint32_t)(regs->orig_rax >> MARK_SHIFT),
		.args = { regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9 },
	};
}

static void fill_general(const struct user_regs_struct *regs, const struct ms_cpu *cpu,
                         struct ms_frozen_thread *ret)
{
	memcpy(ret->words, regs, sizeof(*regs));
	ms_cpu_put(cpu, ret);
	ret->n_words = GENERAL_WORDS;
}

static bool capture(pid_t tid, enum ms_captured what, struct ms_frozen_thread *ret,
                    struct ms_cpu *ret_cpu)
{
	uint64_t *vectors = ret->words + GENERAL_WORDS;
	const size_t max = MS_THREAD_WORDS - GENERAL_WORDS;
	const bool whole = what == MS_CAPTURED_WHOLE;
	struct user_regs_struct regs;
	size_t bytes;

	if (!read_regs(tid, &regs))
		return false;
	*ret_cpu = cpu_of(&regs);
	fill_general(&regs, ret_cpu, ret);
	if (what == MS_CAPTURED_GENERAL)
		return true;
	bytes = (whole ? ms_vectors_capture_x86 : read_vectors)(tid, vectors, max);
	ret->vector_bytes = whole ? bytes : 0;
	if (whole)
		ret->n_words += bytes / sizeof(*vectors);
	else if (bytes)
		ret->n_words += pack_vectors(vectors, bytes);
	return true;
}

static size_t note_registers(const struct ms_frozen_thread *thread, elf_gregset_t *ret,
                             const uint8_t **ret_vectors)
{
	struct user_regs_struct regs = { .orig_rax = (uint64_t)thread->call,
		                         .rip = thread->pc,
		                         .rsp = thread->sp };

	if (thread->stopped && thread->n_words >= GENERAL_WORDS)
		memcpy(&regs, thread->words, sizeof(regs));
	memcpy(ret, &regs, sizeof(regs));
	*ret_vectors = (const uint8_t *)(thread->words + GENERAL_WORDS);
	return (size_t)thread->vector_bytes;
}

static bool take_noted(const struct ms_noted_registers *noted, struct ms_frozen_thread *ret)
{
	const size_t most = (MS_THREAD_WORDS - GENERAL_WORDS) * sizeof(*ret->words);
	size_t bytes = noted->vectors_bytes < most ? noted->vectors_bytes : most;
	struct user_regs_struct regs;
	struct ms_cpu cpu;

	if (noted->general_bytes < sizeof(regs))
		return false;
	memcpy(&regs, noted->general, sizeof(regs));
	cpu = cpu_of(&regs);
	fill_general(&regs, &cpu, ret);
	if (bytes < sizeof(struct user_fpregs_struct))
		return true;
	memcpy(ret->words + GENERAL_WORDS, noted->vectors, bytes);
	ret->n_words += pack_vectors(ret->words + GENERAL_WORDS, bytes);
	return true;
}

static bool look(pid_t tid, struct ms_cpu *ret)
{
	struct user_regs_struct regs;

	if (!read_regs(tid, &regs))
		return false;
	*ret = cpu_of(&regs);
	return true;
}

static void set_arg(struct user_regs_struct *regs, uint8_t arg, uint64_t value)
{
	static const size_t args[] = {
		offsetof(struct user_regs_struct, rdi), offsetof(struct user_regs_struct, rsi),
		offsetof(struct user_regs_struct, rdx), offsetof(struct user_regs_struct, r10),
		offsetof(struct user_regs_struct, r8),  offsetof(struct user_regs_struct, r9),
	};

	memcpy((char *)regs + args[arg], &value, sizeof(value));
}

static bool rewind_call(pid_t tid, const struct ms_again *again)
{
	struct user_regs_struct regs;

	if (!read_regs(tid, &regs))
		return false;
	regs.rip -= SYSCALL_BYTES;
	regs.rax = regs.orig_rax;
	if (again)
		regs.rax = (uint32_t)regs.orig_rax | (uint64_t)again->mark << MARK_SHIFT;
	if (again && again->changed)
		set_arg(&regs, again->arg, again->value);
	return write_regs(tid, &regs);
}

static bool answer(pid_t tid, int error)
{
	const int64_t result = -error;
	struct user_regs_struct regs;

	if (!read_regs(tid, &regs))
		return false;
	memcpy(&regs.rax, &result, sizeof(result));
	return write_regs(tid, &regs);
}

/* Linux takes a call's number as an int since 5.14; before, others were no calls. */
static bool takes_marks(void)
{
	long result;

	__asm__ volatile("syscall"
	                 : "=a"(result)
	                 : "0"(SYS_getpid | 1L << MARK_SHIFT)
	                 : "rcx", "r11", "memory");
	return result == getpid();
}

static enum ms_restart restart(int64_t call)
{
	return ms_restart_in(ms_native_restarts, MS_NATIVE_RESTARTS, call);
}

static struct ms_timed timed(int64_t call)
{
	return ms_timed_in(ms_native_restarts, MS_NATIVE_RESTARTS, call);
}

static bool pc(pid_t tid, ms_addr *ret)
{
	/* The raw call stores the word; glibc's wrapper returns it, with errno to mark -1. */
	return !syscall(SYS_ptrace, PTRACE_PEEKUSER, tid, offsetof(struct user, regs.rip), ret);
}

static bool set_pc(pid_t tid, ms_addr pc)
{
	return !ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, regs.rip), pc);
}

/* Prefixes that may stand before a string instruction beside rep: size, segment, REX. */
static bool is_prefix(uint8_t byte)
{
	return byte == 0x66 || byte == 0x67 || (byte & 0xf0) == 0x40 || byte == 0x26 ||
	       byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0x64 || byte == 0x65;
}

/* ins, outs, movs, cmps, stos, lods, scas */
static bool is_string_operation(uint8_t opcode)
{
	return (opcode >= 0x6c && opcode <= 0x6f) || (opcode >= 0xa4 && opcode <= 0xa7) ||
	       (opcode >= 0xaa && opcode <= 0xaf);
}

static size_t repeats(const uint8_t *code, size_t len)
{
	bool rep = false;
	size_t i;

	for (i = 0; i < len && i < LONGEST_INSTRUCTION; i++) {
		if (code[i] == 0xf2 || code[i] == 0xf3)
			rep = true;
		else if (!is_prefix(code[i]))
			return rep && is_string_operation(code[i]) ? i + 1 : 0;
	}
	return 0;
}

enum { BREAKS = 4, DEBUG_CONTROL = 7 }; /* DR0 to DR3, and DR7 */

static size_t debug_offset(size_t index)
{
	return offsetof(struct user, u_debugreg) + index * sizeof(uint64_t);
}

static bool poke_debug(pid_t tid, size_t index, uint64_t value)
{
	return !ptrace(PTRACE_POKEUSER, tid, debug_offset(index), value);
}

static void clear_breaks(pid_t tid)
{
	(void)poke_debug(tid, DEBUG_CONTROL, 0);
	for (size_t i = 0; i < BREAKS; i++)
		(void)poke_debug(tid, i, 0);
}

static bool set_breaks(pid_t tid, const ms_addr *at, size_t n)
{
	uint64_t control = 1;
	bool ok = true;
	size_t i;

	/* Registers in use by someone else are left alone. */
	if (syscall(SYS_ptrace, PTRACE_PEEKUSER, tid, debug_offset(DEBUG_CONTROL), &control) ||
	    control)
		return false;
	for (i = 0; ok && i < n && i < BREAKS; i++) {
		ok = poke_debug(tid, i, at[i]);
		control |= (uint64_t)1 << (2 * i); /* enabled, for execution, in this thread */
	}
	ok = ok && i && poke_debug(tid, DEBUG_CONTROL, control);
	if (!ok)
		clear_breaks(tid);
	return ok;
}

/* e8 rel32; or ff /2 with all the forms of its operand, two to seven bytes. */
static bool is_call(const uint8_t *before, size_t len)
{
	enum { MODRM_REG = 0x38, MODRM_CALL = 0x10, SHORTEST = 2, LONGEST = 7 };

	if (len >= 5 && before[len - 5] == 0xe8)
		return true;
	for (size_t n = SHORTEST; n <= LONGEST && n <= len; n++)
		if (before[len - n] == 0xff && (before[len - n + 1] & MODRM_REG) == MODRM_CALL)
			return true;
	return false;
}

const struct ms_arch_stepping ms_stepping_x86 = {
	.trap = { .code = { 0xcc }, .len = 1, .behind = 1 }, /* int3 */
	.pc = pc,
	.set_pc = set_pc,
	.repeats = repeats,
	.set_breaks = set_breaks,
	.clear_breaks = clear_breaks,
	.is_call = is_call,
};

#define WORD(name) (offsetof(struct user_regs_struct, name) / sizeof(uint64_t))

const struct ms_arch ms_native_arch = {
	.name = "x86_64",
	.title = "x86-64",
	.elf_machine = EM_X86_64,
	/* System V ABI, AMD64 supplement, 3.2.2: the red zone */
	.abi = { .page_bytes = MS_PAGE_BYTES,
	         .red_zone_bytes = 128,
	         .word_bytes = 8,
	         /* The kernel's struct rt_sigframe; 0x33: the segment of 64-bit code */
	         .signal_frame = { .words = 25,
	                           .flags = 1,
	                           .most_flags = 7,
	                           .link = 2,
	                           .stack = 3,
	                           .stack_size = 5,
	                           .sp = 21,
	                           .mark = 24,
	                           .mark_mask = 0xffff,
	                           .mark_value = 0x33,
	                           .least_stack = 2048 } },
	.compat = &ms_arch_i386,
	.audit = AUDIT_ARCH_X86_64,
	.foreign_call = X32_BIT,
	.poll_call = SYS_poll,
	.call_bytes = SYSCALL_BYTES,
	.n_dwarf = DWARF_PC + 1,
	.dwarf_pc = DWARF_PC,
	.dwarf_sp = DWARF_SP,
	.pushes_returns = true,
	.guards_returns = guards_returns,
	/* System V ABI, AMD64 supplement, figure 3.36 */
	.dwarf = { WORD(rax), WORD(rdx), WORD(rcx), WORD(rbx), WORD(rsi), WORD(rdi), WORD(rbp),
	           WORD(rsp), WORD(r8), WORD(r9), WORD(r10), WORD(r11), WORD(r12), WORD(r13),
	           WORD(r14), WORD(r15), WORD(rip) },
	.dwarf_args = { 5, 4, 1, 10, 8, 9 },
	/* The segments of 64-bit code, cs to ss, in struct sigcontext; before them flags, ip, sp.
	 */
	.signal_mark = { .word = 0x002b000000000033, .pc = 2, .sp = 3 },
	.loaders_brk = 0x555555554000, /* ELF_ET_DYN_BASE */
	/* mov $131, %eax; syscall */
	.sigaltstack_code = { 7, { 0xb8, SYS_sigaltstack, 0, 0, 0, 0x0f, 0x05 } },
	.capture = capture,
	.note_registers = note_registers,
	.vector_note = NT_X86_XSTATE,
	.short_note = NT_FPREGSET,
	.short_bytes = sizeof(elf_fpregset_t),
	.take_noted = take_noted,
	.look = look,
	.rewind = rewind_call,
	.restart = restart,
	.timed = timed,
	.answer = answer,
	.takes_marks = takes_marks,
	.stepping = &ms_stepping_x86,
	.calls = &ms_calls_x86_64,
};
