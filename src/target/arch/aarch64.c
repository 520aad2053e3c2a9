/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stop by an interrupt does not show in which call the thread is: the kernel has forgotten its
 * number by then (forget_syscall()). What the stop leaves is
 *
 *	pc at a svc, all arguments in place      the kernel will make the call again
 *	pc behind a svc, -EINTR in x0            it will not; the first argument was in x0
 *
 * and the call's number is still in x8. The first looks the same when the thread has yet to make
 * the call, which comes to the same; but not for a call that never sleeps: such a thread is in
 * the middle of something. The second looks the same behind a handler that has just returned;
 * so it counts only for threads that were seen asleep in that call before.
 *
 * Source: do_signal(), arch/arm64/kernel/signal.c
 */
#include <asm/ptrace.h>
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "target/arch/aarch64.h"
#include "target/arch/restarts.h"
#include "target/code/calls.h"

enum {
	THREAD_POINTER = 0x401, /* NT_ARM_TLS */
	HW_BREAK = 0x402,       /* NT_ARM_HW_BREAK */
	SYSTEM_CALL = 0x404,    /* NT_ARM_SYSTEM_CALL */
	SVE = 0x405,            /* NT_ARM_SVE */
	GUARDED_STACK = 0x410,  /* NT_ARM_GCS */
	INSTRUCTION = 4,        /* bytes */
	ERESTARTSYS = 512,      /* include/linux/errno.h */
};

size_t ms_aarch64_read(pid_t tid, uintptr_t type, void *buf, size_t bytes)
{
	struct iovec iov = { buf, bytes };

	return ptrace(PTRACE_GETREGSET, tid, type, &iov) ? 0 : iov.iov_len;
}

bool ms_aarch64_write(pid_t tid, uintptr_t type, const void *buf, size_t bytes)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is only read, as its type cannot say */
	struct iovec iov = { (void *)(uintptr_t)buf, bytes };

	return !ptrace(PTRACE_SETREGSET, tid, type, &iov);
}

static bool read_regs(pid_t tid, uint64_t *words)
{
	return ms_aarch64_read(tid, NT_PRSTATUS, words, AARCH64_GENERAL * sizeof(*words)) ==
	       AARCH64_GENERAL * sizeof(*words);
}

static bool write_regs(pid_t tid, const uint64_t *words)
{
	return ms_aarch64_write(tid, NT_PRSTATUS, words, AARCH64_GENERAL * sizeof(*words));
}

static bool guards_returns(pid_t tid)
{
	uint64_t guarded[3] = { 0 };

	return ms_aarch64_read(tid, GUARDED_STACK, guarded, sizeof(guarded)) && guarded[0];
}

/* ---- which call ---- */

static bool is_svc(pid_t tid, ms_addr at)
{
	uint64_t code = 0;

	/* The raw call stores the word; the C library's function returns it. */
	return !syscall(SYS_ptrace, PTRACE_PEEKTEXT, tid, at, &code) &&
	       (uint32_t)code == AARCH64_SVC;
}

/* That of a stop at a system call; -1 in any other. */
static int32_t call_of_stop(pid_t tid)
{
	int32_t call = -1;

	(void)ms_aarch64_read(tid, SYSTEM_CALL, &call, sizeof(call));
	return call;
}

static bool waits_for_futex(uint64_t op)
{
	switch ((int)op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI:
		return true;
	default:
		return false;
	}
}

/* Whether a thread at the svc of this call may have been in it: those of malloc's end. */
static bool may_sleep(const uint64_t *words)
{
	int64_t call = (int64_t)words[AARCH64_X8];

	return call == SYS_futex ? waits_for_futex(words[1]) : !ms_malloc_calls(call);
}

static enum ms_restart restart(int64_t call)
{
	return ms_restart_in(ms_native_restarts, MS_NATIVE_RESTARTS, call);
}

static struct ms_timed timed(int64_t call)
{
	return ms_timed_in(ms_native_restarts, MS_NATIVE_RESTARTS, call);
}

static void find_call(pid_t tid, const uint64_t *words, struct ms_cpu *cpu)
{
	int32_t number = (int32_t)words[AARCH64_X8];

	cpu->call = call_of_stop(tid);
	cpu->result = (int64_t)words[0];
	if (cpu->call >= 0 || number < 0)
		return;
	if (is_svc(tid, words[AARCH64_PC]) && may_sleep(words)) {
		cpu->call = number;
		cpu->result = -ERESTARTSYS;
	} else if (cpu->result == -EINTR && restart(number) != MS_RESTART_NEVER &&
	           is_svc(tid, words[AARCH64_PC] - INSTRUCTION)) {
		cpu->call = number;
		cpu->args[0] = 0;
	}
}

/* ---- registers ---- */

static struct ms_cpu plain_cpu(const uint64_t *words)
{
	return (struct ms_cpu){
		.pc = words[AARCH64_PC],
		.sp = words[AARCH64_SP],
		.call = -1,
		.link = words[AARCH64_LINK],
		.args = { words[0], words[1], words[2], words[3], words[4], words[5] },
	};
}

static bool look_by(pid_t tid, const uint64_t *words, struct ms_cpu *ret)
{
	*ret = plain_cpu(words);
	find_call(tid, words, ret);
	return ms_aarch64_read(tid, THREAD_POINTER, &ret->tp, sizeof(ret->tp)) == sizeof(ret->tp);
}

static bool look(pid_t tid, struct ms_cpu *ret)
{
	uint64_t words[AARCH64_GENERAL];

	return read_regs(tid, words) && look_by(tid, words, ret);
}

/* Scalable vectors, of which the others are the low parts; only while they are in use. */
static size_t read_scalable(pid_t tid, uint64_t *words, size_t max)
{
	struct user_sve_header head = { 0 };
	size_t n = ms_aarch64_read(tid, SVE, words, max * sizeof(*words));

	if (n < sizeof(head))
		return 0;
	memcpy(&head, words, sizeof(head));
	return (head.flags & SVE_PT_REGS_MASK) == SVE_PT_REGS_SVE ? n / sizeof(*words) : 0;
}

static void fill(const struct ms_cpu *cpu, struct ms_frozen_thread *ret)
{
	ms_cpu_put(cpu, ret);
	ret->n_words = AARCH64_GENERAL;
}

static bool capture(pid_t tid, enum ms_captured what, struct ms_frozen_thread *ret,
                    struct ms_cpu *ret_cpu)
{
	const bool whole = what == MS_CAPTURED_WHOLE;
	uint64_t *vectors = ret->words + AARCH64_GENERAL;
	size_t bytes;

	if (!read_regs(tid, ret->words) || !look_by(tid, ret->words, ret_cpu))
		return false;
	fill(ret_cpu, ret);
	if (what == MS_CAPTURED_GENERAL)
		return true;
	bytes = ms_aarch64_read(tid, NT_FPREGSET, vectors, AARCH64_VECTORS * sizeof(*vectors));
	ret->n_words += bytes / sizeof(*vectors);
	ret->vector_bytes = whole ? bytes : 0;
	if (!whole)
		ret->n_words += read_scalable(tid, ret->words + ret->n_words,
		                              MS_THREAD_WORDS - ret->n_words);
	return true;
}

static size_t note_registers(const struct ms_frozen_thread *thread, elf_gregset_t *ret,
                             const uint8_t **ret_vectors)
{
	uint64_t words[AARCH64_GENERAL] = { 0 };

	static_assert(sizeof(elf_gregset_t) == sizeof(words), "NT_PRSTATUS layout");
	words[AARCH64_PC] = thread->pc;
	words[AARCH64_SP] = thread->sp;
	if (thread->stopped && thread->n_words >= AARCH64_GENERAL)
		memcpy(words, thread->words, sizeof(words));
	memcpy(ret, words, sizeof(words));
	*ret_vectors = (const uint8_t *)(thread->words + AARCH64_GENERAL);
	return (size_t)thread->vector_bytes;
}

/* The thread pointer has a note of its own, which is not asked for here. */
static bool take_noted(const struct ms_noted_registers *noted, struct ms_frozen_thread *ret)
{
	const size_t most = AARCH64_VECTORS * sizeof(*ret->words);
	size_t bytes = noted->vectors_bytes < most ? noted->vectors_bytes : most;
	struct ms_cpu cpu;

	if (noted->general_bytes < AARCH64_GENERAL * sizeof(*ret->words))
		return false;
	memcpy(ret->words, noted->general, AARCH64_GENERAL * sizeof(*ret->words));
	cpu = plain_cpu(ret->words);
	fill(&cpu, ret);
	if (bytes)
		memcpy(ret->words + AARCH64_GENERAL, noted->vectors, bytes);
	ret->n_words += bytes / sizeof(*ret->words);
	return true;
}

/* ---- calls that were broken off ---- */

static bool rewind_call(pid_t tid, const struct ms_again *again)
{
	uint64_t words[AARCH64_GENERAL];
	bool begins;
	bool refused;

	if (!read_regs(tid, words))
		return false;
	begins = call_of_stop(tid) >= 0;
	refused = !begins && again && (int64_t)words[0] == -EINTR;
	if (begins || refused) {
		if (!is_svc(tid, words[AARCH64_PC] - INSTRUCTION))
			return false;
		words[AARCH64_PC] -= INSTRUCTION;
	}
	if (refused)
		words[0] = again->first;
	if (again && again->changed)
		words[again->arg] = again->value;
	return write_regs(tid, words);
}

static bool answer(pid_t tid, int error)
{
	uint64_t words[AARCH64_GENERAL];

	if (!read_regs(tid, words))
		return false;
	words[0] = (uint64_t)(int64_t)-error;
	return write_regs(tid, words);
}

/*
 * A number's upper half is not looked at, and would be free for one. But x8 keeps what it holds
 * when the call returns, so that the next call made without setting it anew had the mark, too.
 */
static bool takes_marks(void)
{
	return false;
}

/* Source: -ERESTART_RESTARTBLOCK in kernel/time/ and kernel/futex/. */
static bool resumes(const struct ms_cpu *cpu)
{
	if (cpu->result != -ERESTARTSYS)
		return false;
	switch (cpu->call) {
	case SYS_nanosleep:
		return true;
	case SYS_clock_nanosleep:
		return !(cpu->args[1] & TIMER_ABSTIME);
	case SYS_futex:
		return ((int)cpu->args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && cpu->args[3];
	default:
		return false;
	}
}

static bool resume(pid_t tid)
{
	uint64_t words[AARCH64_GENERAL];

	if (!read_regs(tid, words))
		return false;
	words[AARCH64_X8] = SYS_restart_syscall;
	return write_regs(tid, words);
}

/* ---- stepping ---- */

static bool pc(pid_t tid, ms_addr *ret)
{
	uint64_t words[AARCH64_GENERAL];

	if (!read_regs(tid, words))
		return false;
	*ret = words[AARCH64_PC];
	return true;
}

static bool set_pc(pid_t tid, ms_addr pc)
{
	uint64_t words[AARCH64_GENERAL];

	if (!read_regs(tid, words))
		return false;
	words[AARCH64_PC] = pc;
	return write_regs(tid, words);
}

static size_t repeats(const uint8_t *code, size_t len)
{
	(void)code;
	(void)len;
	return 0;
}

enum {
	BREAKS_HEAD = offsetof(struct user_hwdebug_state, dbg_regs),
	BREAK_BYTES = sizeof(((struct user_hwdebug_state *)NULL)->dbg_regs[0]),
	BREAK_MOST = 16,
	BREAK_CONTROL =
		0xf << 5 | 2 << 1 | 1, /* four bytes, for execution, in user mode, enabled */
};

/* How many there are; 0 when they cannot be had. */
static size_t read_breaks(pid_t tid, struct user_hwdebug_state *ret)
{
	size_t n;

	memset(ret, 0, sizeof(*ret));
	if (ms_aarch64_read(tid, HW_BREAK, ret, sizeof(*ret)) < BREAKS_HEAD)
		return 0;
	n = ret->dbg_info & 0xff;
	return n < BREAK_MOST ? n : BREAK_MOST;
}

static void clear_breaks(pid_t tid)
{
	struct user_hwdebug_state state;
	size_t n = read_breaks(tid, &state);

	memset(state.dbg_regs, 0, sizeof(state.dbg_regs));
	(void)ms_aarch64_write(tid, HW_BREAK, &state, BREAKS_HEAD + n * BREAK_BYTES);
}

static bool set_breaks(pid_t tid, const ms_addr *at, size_t n)
{
	struct user_hwdebug_state state;
	size_t slots = read_breaks(tid, &state);
	size_t i;

	/* Registers in use by someone else are left alone. */
	for (i = 0; i < slots; i++)
		if (state.dbg_regs[i].ctrl & 1)
			return false;
	for (i = 0; i < n && i < slots; i++) {
		state.dbg_regs[i].addr = at[i];
		state.dbg_regs[i].ctrl = BREAK_CONTROL;
	}
	if (i && ms_aarch64_write(tid, HW_BREAK, &state, BREAKS_HEAD + slots * BREAK_BYTES))
		return true;
	clear_breaks(tid);
	return false;
}

/* bl; blr, or with a signature that is checked: blraa, blrab, blraaz, blrabz */
static bool is_call(const uint8_t *before, size_t len)
{
	uint32_t code;

	if (len < sizeof(code))
		return false;
	memcpy(&code, before + len - sizeof(code), sizeof(code));
	return code >> 26 == 0x25 || (code & 0xfffffc1f) == 0xd63f0000 ||
	       (code & 0xfefff800) == 0xd63f0800;
}

static const struct ms_arch_stepping stepping = {
	.trap = { .code = { 0x00, 0x00, 0x20, 0xd4 }, .len = 4 }, /* brk #0 */
	.pc = pc,
	.set_pc = set_pc,
	.repeats = repeats,
	.set_breaks = set_breaks,
	.clear_breaks = clear_breaks,
	.is_call = is_call,
};

/* The head of the record that is the first in every signal frame. */
#define FRAME_MARK (AARCH64_FPSIMD | (uint64_t)AARCH64_FPSIMD_BYTES << 32)

const struct ms_arch ms_native_arch = {
	.name = "aarch64",
	.title = "aarch64",
	.elf_machine = EM_AARCH64,
	.abi = { .page_bytes = MS_PAGE_BYTES,
	         .word_bytes = 8,
	         .stays_anywhere = true,
	         .tls_above = true,
	         /* The processor does not look at them (TBI); MTE has its tags there. */
	         .tag_bits = (uint64_t)0xff << 56,
	         /* The kernel's struct ucontext, with struct sigcontext from word 22 on. */
	         .signal_frame = { .words = 59,
	                           .flags = 0,
	                           .most_flags = 0,
	                           .link = 1,
	                           .stack = 2,
	                           .stack_size = 4,
	                           .sp = 54,
	                           .mark = 58,
	                           .mark_mask = UINT64_MAX,
	                           .mark_value = FRAME_MARK,
	                           .least_stack = 5120 } },
	.audit = AUDIT_ARCH_AARCH64,
	.poll_call = SYS_ppoll,
	.call_bytes = INSTRUCTION,
	/* Signatures take what addresses of 48 bits leave, and the tag's place with it. */
	.code_bits = (uint64_t)0xffff << 48,
	.n_dwarf = AARCH64_PC + 1,
	.dwarf_pc = AARCH64_PC,
	.dwarf_sp = AARCH64_SP,
	.link = AARCH64_LINK,
	.guards_returns = guards_returns,
	/* DWARF for the Arm 64-bit Architecture, 4.1; pc as libunwind numbers it */
	.dwarf = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
	           17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32 },
	.dwarf_args = { 0, 1, 2, 3, 4, 5 },
	/* Before that record, 16-aligned, pstate, pc, sp */
	.signal_mark = { .word = FRAME_MARK, .pc = 3, .sp = 4, .link = 5 },
	.loaders_brk = 0x555555554000, /* not tried: that of x86-64 */
	/* mov x8, #132; svc #0 */
	.sigaltstack_code = { 8, { 0x88, 0x10, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 } },
	.capture = capture,
	.note_registers = note_registers,
	.vector_note = NT_FPREGSET,
	.short_note = NT_FPREGSET,
	.short_bytes = sizeof(elf_fpregset_t),
	.take_noted = take_noted,
	.look = look,
	.rewind = rewind_call,
	.restart = restart,
	.timed = timed,
	.result_is_first = true,
	.resumes = resumes,
	.resume = resume,
	.answer = answer,
	.takes_marks = takes_marks,
	.stepping = &stepping,
	.calls = &ms_calls_aarch64,
};
