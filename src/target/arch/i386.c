/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of i386 on a 64-bit kernel.
 *
 * Registers are asked for as the tracer's own (PTRACE_GETREGS), in 64-bit words: what the
 * kernel gives as the tracee's (PTRACE_GETREGSET) has no segment bases, and is written back by
 * another path, which changes what is made of a broken-off call.
 *
 * A call is made by int 0x80, or by sysenter or syscall in the vdso. Of these the kernel makes
 * believe that it was the int 0x80 that lies behind them there: so in every stop the two bytes
 * before the program counter are an int 0x80, and to go back by two makes any call once more,
 * which is what the kernel itself does. Arguments are in registers by then, the sixth too.
 */
#include <elf.h>
#include <linux/audit.h>
#include <linux/net.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "base/page.h"

#include "target/arch/notes.h"
#include "target/arch/restarts.h"
#include "target/arch/x86_64.h"

enum {
	GENERAL_WORDS = sizeof(struct user_regs_struct) / sizeof(uint64_t),
	INT_BYTES = 2,       /* cd 80 */
	CODE_64 = 0x33,      /* the segment of 64-bit code, __USER_CS */
	NO_CALL = INT32_MAX, /* a number that no call has */
	CODE_32 = 0x23,      /* that of its own code, __USER32_CS */
	LOCAL_TABLE = 4,     /* of a selector: it is of the program's own table of segments */
	INDEX_SHIFT = 3,
	SHORT_BYTES = 512, /* of the vector registers, as fxsave writes them */
	AREA_FLAGS = 0x51, /* of 32 bits, in pages, for use: as the C library asks for one */
	AREA_LIMIT = 0xfffff,
};

/*
 * Numbers of calls. Source: arch/x86/entry/syscalls/syscall_32.tbl.
 *
 * Two of them stand for many, the first argument says which; that is above the number here.
 */
enum {
	I386_exit = 1,
	I386_read = 3,
	I386_write = 4,
	I386_close = 6,
	I386_execve = 11,
	I386_brk = 45,
	I386_mmap = 90,
	I386_munmap = 91,
	I386_socketcall = 102,
	I386_ipc = 117,
	I386_mprotect = 125,
	I386_readv = 145,
	I386_writev = 146,
	I386_sched_yield = 158,
	I386_mremap = 163,
	I386_prctl = 172,
	I386_rt_sigprocmask = 175,
	I386_rt_sigtimedwait = 177,
	I386_mmap2 = 192,
	I386_madvise = 219,
	I386_futex = 240,
	I386_sched_getaffinity = 242,
	I386_io_getevents = 247,
	I386_epoll_wait = 256,
	I386_clock_gettime = 265,
	I386_openat = 295,
	I386_epoll_pwait = 319,
	I386_recvmmsg = 337,
	I386_sendmmsg = 345,
	I386_getrandom = 355,
	I386_execveat = 358,
	I386_connect = 362,
	I386_accept4 = 364,
	I386_sendto = 369,
	I386_sendmsg = 370,
	I386_recvfrom = 371,
	I386_recvmsg = 372,
	I386_io_pgetevents = 385,
	I386_msgsnd = 400,
	I386_msgrcv = 401,
	I386_clock_gettime64 = 403,
	I386_io_pgetevents_time64 = 416,
	I386_recvmmsg_time64 = 417,
	I386_semtimedop_time64 = 420,
	I386_rt_sigtimedwait_time64 = 421,
	I386_futex_time64 = 422,
	I386_io_uring_enter = 426,
	I386_epoll_pwait2 = 441,
	WHICH_SHIFT = 16,
};

#define SOCKET_CALL(which) (I386_socketcall | (which) << WHICH_SHIFT)
#define IPC_CALL(which)    (I386_ipc | (which) << WHICH_SHIFT)

/* Source: include/uapi/linux/ipc.h */
enum { IPC_SEMOP = 1, IPC_SEMTIMEDOP = 4, IPC_MSGSND = 11, IPC_MSGRCV = 12 };

/*
 * The standard XSAVE image, in bytes: what 32-bit code cannot reach of it is left out, as far as
 * its place does not depend on the processor. See x86_64.c.
 */
enum {
	XSTATE_ST = 32,
	XSTATE_XMM_END = 288, /* xmm7 is the last */
	XSTATE_EXTENDED = 576,
	XSTATE_BYTES = 4096,
	HALF = 4,
};

static bool read_regs(pid_t tid, struct user_regs_struct *ret)
{
	return !ptrace(PTRACE_GETREGS, tid, NULL, ret);
}

static bool write_regs(pid_t tid, const struct user_regs_struct *regs)
{
	return !ptrace(PTRACE_SETREGS, tid, NULL, regs);
}

/* ---- registers as words ---- */

static size_t add_halves(uint64_t *words, size_t max, const uint8_t *bytes, size_t len)
{
	size_t n = len / HALF < max ? len / HALF : max;

	for (size_t i = 0; i < n; i++) {
		uint32_t half;

		memcpy(&half, bytes + i * HALF, sizeof(half));
		words[i] = half;
	}
	return n;
}

/* What is in an image of @len bytes, as halves. */
static size_t pack_vectors(const uint8_t *image, size_t len, uint64_t *words, size_t max)
{
	size_t n;

	if (len < XSTATE_XMM_END)
		return 0;
	n = add_halves(words, max, image + XSTATE_ST, XSTATE_XMM_END - XSTATE_ST);
	if (len > XSTATE_EXTENDED)
		n += add_halves(words + n, max - n, image + XSTATE_EXTENDED, len - XSTATE_EXTENDED);
	return n;
}

static size_t capture_vectors(pid_t tid, uint64_t *words, size_t max)
{
	uint8_t image[XSTATE_BYTES];
	struct iovec iov = { image, sizeof(image) };

	if (ptrace(PTRACE_GETREGSET, tid, (uintptr_t)NT_X86_XSTATE, &iov)) {
		/* What there was before XSAVE begins alike. */
		iov.iov_len = sizeof(image);
		if (ptrace(PTRACE_GETREGSET, tid, (uintptr_t)NT_PRXFPREG, &iov))
			return 0;
	}
	return pack_vectors(image, iov.iov_len, words, max);
}

/* All of them, each with its 32 bits: what is above says nothing. */
static size_t capture_general(const struct user_regs_struct *regs, uint64_t *words)
{
	memcpy(words, regs, sizeof(*regs));
	for (size_t i = 0; i < GENERAL_WORDS; i++)
		words[i] = (uint32_t)words[i];
	return GENERAL_WORDS;
}

/* ---- calls ---- */

/* Arguments of a socket's call lie in memory. */
static void take_socket_args(pid_t tid, struct ms_cpu *cpu)
{
	uint32_t args[6] = { 0 };
	struct iovec local = { args, sizeof(args) };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's interface wants it so */
	struct iovec remote = { (void *)(uintptr_t)cpu->args[1], sizeof(args) };

	/* As many as can be read: a call may have fewer, at the end of what is mapped. */
	if (process_vm_readv(tid, &local, 1, &remote, 1, 0) < (ssize_t)sizeof(args[0]))
		args[0] = UINT32_MAX;
	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
		cpu->args[i] = args[i];
}

int64_t ms_i386_call_of(const struct user_regs_struct *regs)
{
	/* Code of 64 bits makes calls by other numbers. */
	int64_t call = regs->cs == CODE_64 ? -1 : (int32_t)regs->orig_rax;

	if (call == I386_ipc || call == I386_socketcall)
		call |= (int64_t)(regs->rbx & 0xffff) << WHICH_SHIFT;
	return call;
}

/* But the arguments of a socket's call. */
static struct ms_cpu registers_of(const struct user_regs_struct *regs)
{
	return (struct ms_cpu){
		.pc = (uint32_t)regs->rip,
		.sp = (uint32_t)regs->rsp,
		.tp = (uint32_t)regs->gs_base,
		.result = (int32_t)regs->rax,
		.call = ms_i386_call_of(regs),
		.args = { (uint32_t)regs->rbx, (uint32_t)regs->rcx, (uint32_t)regs->rdx,
		          (uint32_t)regs->rsi, (uint32_t)regs->rdi, (uint32_t)regs->rbp },
	};
}

static struct ms_cpu cpu_of(pid_t tid, const struct user_regs_struct *regs)
{
	struct ms_cpu cpu = registers_of(regs);

	if (cpu.call >= 0 && (cpu.call & ((1 << WHICH_SHIFT) - 1)) == I386_socketcall)
		take_socket_args(tid, &cpu);
	return cpu;
}

static void fill_general(const struct user_regs_struct *regs, const struct ms_cpu *cpu,
                         struct ms_frozen_thread *ret)
{
	ms_cpu_put(cpu, ret);
	ret->n_words = capture_general(regs, ret->words);
}

static bool capture(pid_t tid, enum ms_captured what, struct ms_frozen_thread *ret,
                    struct ms_cpu *ret_cpu)
{
	const bool whole = what == MS_CAPTURED_WHOLE;
	struct user_regs_struct regs;
	uint64_t *vectors = ret->words + GENERAL_WORDS;
	const size_t max = MS_THREAD_WORDS - GENERAL_WORDS;

	if (!read_regs(tid, &regs))
		return false;
	*ret_cpu = cpu_of(tid, &regs);
	fill_general(&regs, ret_cpu, ret);
	if (what == MS_CAPTURED_GENERAL)
		return true;
	ret->vector_bytes = whole ? ms_vectors_capture_x86(tid, vectors, max) : 0;
	ret->n_words +=
		whole ? ret->vector_bytes / sizeof(*vectors) : capture_vectors(tid, vectors, max);
	return true;
}

/* ---- in cores ---- */

#define WORD(name) (offsetof(struct user_regs_struct, name) / sizeof(uint64_t))

/* The registers of struct user_regs_struct32. Source: arch/x86/include/asm/user32.h */
static const uint8_t noted_words[MS_NARROW_REGISTERS] = {
	WORD(rbx), WORD(rcx), WORD(rdx),    WORD(rsi), WORD(rdi), WORD(rbp),
	WORD(rax), WORD(ds),  WORD(es),     WORD(fs),  WORD(gs),  WORD(orig_rax),
	WORD(rip), WORD(cs),  WORD(eflags), WORD(rsp), WORD(ss),
};

/* The base of the segment that @selector selects; 0: it is not noted. */
static uint32_t noted_base(const struct ms_noted_registers *noted, uint32_t selector)
{
	const uint8_t *areas = noted->areas;
	struct ms_narrow_area area;

	for (size_t at = 0; areas && at + sizeof(area) <= noted->areas_bytes; at += sizeof(area)) {
		memcpy(&area, areas + at, sizeof(area));
		if (!(selector & LOCAL_TABLE) && area.number == selector >> INDEX_SHIFT)
			return area.base;
	}
	return 0;
}

static size_t note_registers(const struct ms_frozen_thread *thread, elf_gregset_t *ret,
                             const uint8_t **ret_vectors)
{
	struct user_regs_struct regs = { .orig_rax = (uint64_t)thread->call,
		                         .rip = thread->pc,
		                         .rsp = thread->sp };
	uint64_t general[GENERAL_WORDS];
	uint32_t words[MS_NARROW_REGISTERS];

	memcpy(general, &regs, sizeof(general));
	if (thread->stopped && thread->n_words >= GENERAL_WORDS)
		memcpy(general, thread->words, sizeof(general));
	for (size_t i = 0; i < MS_NARROW_REGISTERS; i++)
		words[i] = (uint32_t)general[noted_words[i]];
	memcpy(ret, words, sizeof(words));
	*ret_vectors = (const uint8_t *)(thread->words + GENERAL_WORDS);
	return (size_t)thread->vector_bytes;
}

/* The segment that gs selects, of those in NT_386_TLS. */
static size_t note_pointer(const struct ms_frozen_thread *thread,
                           uint8_t ret[MS_POINTER_NOTE_BYTES])
{
	struct ms_narrow_area area = { .base = (uint32_t)thread->tp,
		                       .limit = AREA_LIMIT,
		                       .flags = AREA_FLAGS };
	uint32_t selector;

	static_assert(sizeof(area) == MS_POINTER_NOTE_BYTES, "one segment");
	if (!thread->tp || thread->n_words < GENERAL_WORDS)
		return 0;
	selector = (uint32_t)thread->words[WORD(gs)];
	if (selector & LOCAL_TABLE)
		return 0;
	area.number = selector >> INDEX_SHIFT;
	memcpy(ret, &area, sizeof(area));
	return sizeof(area);
}

static bool take_noted(const struct ms_noted_registers *noted, struct ms_frozen_thread *ret)
{
	uint32_t words[MS_NARROW_REGISTERS];
	uint64_t general[GENERAL_WORDS] = { 0 };
	struct user_regs_struct regs;
	struct ms_cpu cpu;

	if (noted->general_bytes < sizeof(words))
		return false;
	memcpy(words, noted->general, sizeof(words));
	for (size_t i = 0; i < MS_NARROW_REGISTERS; i++)
		general[noted_words[i]] = words[i];
	memcpy(&regs, general, sizeof(regs));
	regs.gs_base = noted_base(noted, (uint32_t)regs.gs);
	cpu = registers_of(&regs);
	fill_general(&regs, &cpu, ret);
	if (noted->vectors)
		ret->n_words +=
			pack_vectors(noted->vectors, noted->vectors_bytes,
		                     ret->words + ret->n_words, MS_THREAD_WORDS - ret->n_words);
	return true;
}

static bool look(pid_t tid, struct ms_cpu *ret)
{
	struct user_regs_struct regs;

	if (!read_regs(tid, &regs))
		return false;
	*ret = cpu_of(tid, &regs);
	return true;
}

static void set_arg(struct user_regs_struct *regs, uint8_t arg, uint64_t value)
{
	static const size_t args[] = {
		offsetof(struct user_regs_struct, rbx), offsetof(struct user_regs_struct, rcx),
		offsetof(struct user_regs_struct, rdx), offsetof(struct user_regs_struct, rsi),
		offsetof(struct user_regs_struct, rdi), offsetof(struct user_regs_struct, rbp),
	};

	memcpy((char *)regs + args[arg], &value, sizeof(value));
}

static bool rewind_call(pid_t tid, const struct ms_again *again)
{
	struct user_regs_struct regs;

	if (!read_regs(tid, &regs) || regs.cs == CODE_64)
		return false;
	regs.rip -= INT_BYTES;
	regs.rax = (uint32_t)regs.orig_rax;
	if (again && again->changed)
		set_arg(&regs, again->arg, (uint32_t)again->value);
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

/* There are no shadow stacks for code of 32 bits. */
static bool guards_returns(pid_t tid)
{
	(void)tid;
	return false;
}

/* What is above a number in its register is gone when the call begins. */
static bool takes_marks(void)
{
	return false;
}

/*
 * The calls of x86_64.c by their other numbers and ways; there is why, and what is left out.
 * Times are of 64 bits in the calls that say so; connect() is not timed, as there.
 *
 * Of the two that stand for many only the number is known of a thread that runs.
 */
static const struct ms_restart_row restarts[] = {
	{ I386_epoll_wait, MS_RESTART_ALWAYS, MS_TIMEOUT_MS, 3 },
	{ I386_epoll_pwait, MS_RESTART_ALWAYS, MS_TIMEOUT_MS, 3 },
	{ I386_epoll_pwait2, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC, 3 },
	{ I386_ipc, MS_RESTART_NEVER, MS_TIMEOUT_SPEC32, 5 },
	{ IPC_CALL(IPC_SEMOP), MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ IPC_CALL(IPC_SEMTIMEDOP), MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC32, 5 },
	{ IPC_CALL(IPC_MSGSND), MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ IPC_CALL(IPC_MSGRCV), MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ I386_semtimedop_time64, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC, 3 },
	{ I386_msgsnd, MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ I386_msgrcv, MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ I386_rt_sigtimedwait, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC32, 2 },
	{ I386_rt_sigtimedwait_time64, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC, 2 },
	{ I386_io_getevents, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC32, 4 },
	{ I386_io_pgetevents, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC32, 4 },
	{ I386_io_pgetevents_time64, MS_RESTART_ALWAYS, MS_TIMEOUT_SPEC, 4 },
	{ I386_io_uring_enter, MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ I386_socketcall, MS_RESTART_NEVER, MS_TIMEOUT_RECEIVE, 0 },
	{ SOCKET_CALL(SYS_CONNECT), MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ SOCKET_CALL(SYS_ACCEPT), MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SOCKET_CALL(SYS_ACCEPT4), MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SOCKET_CALL(SYS_RECV), MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SOCKET_CALL(SYS_RECVFROM), MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SOCKET_CALL(SYS_RECVMSG), MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SOCKET_CALL(SYS_RECVMMSG), MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ SOCKET_CALL(SYS_SEND), MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ SOCKET_CALL(SYS_SENDTO), MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ SOCKET_CALL(SYS_SENDMSG), MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ SOCKET_CALL(SYS_SENDMMSG), MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ I386_connect, MS_RESTART_ALWAYS, MS_TIMEOUT_NONE, 0 },
	{ I386_accept4, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ I386_recvfrom, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ I386_recvmsg, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ I386_recvmmsg, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ I386_recvmmsg_time64, MS_RESTART_ALWAYS, MS_TIMEOUT_RECEIVE, 0 },
	{ I386_sendto, MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ I386_sendmsg, MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ I386_sendmmsg, MS_RESTART_ALWAYS, MS_TIMEOUT_SEND, 0 },
	{ I386_read, MS_RESTART_SOCKET, MS_TIMEOUT_RECEIVE, 0 },
	{ I386_readv, MS_RESTART_SOCKET, MS_TIMEOUT_RECEIVE, 0 },
	{ I386_write, MS_RESTART_SOCKET, MS_TIMEOUT_SEND, 0 },
	{ I386_writev, MS_RESTART_SOCKET, MS_TIMEOUT_SEND, 0 },
};

enum { N_RESTARTS = sizeof(restarts) / sizeof(restarts[0]) };

static enum ms_restart restart(int64_t call)
{
	return ms_restart_in(restarts, N_RESTARTS, call);
}

static struct ms_timed timed(int64_t call)
{
	return ms_timed_in(restarts, N_RESTARTS, call);
}

/* Those that anyone asks for. */
static int64_t own_call(int64_t call)
{
	static const struct {
		uint16_t call;
		uint16_t own;
	} same[] = {
		{ I386_exit, SYS_exit },
		{ I386_execve, SYS_execve },
		{ I386_execveat, SYS_execveat },
		{ I386_brk, SYS_brk },
		{ I386_clock_gettime, SYS_clock_gettime },
		{ I386_clock_gettime64, SYS_clock_gettime },
		{ I386_futex, SYS_futex },
		{ I386_futex_time64, SYS_futex },
		{ I386_getrandom, SYS_getrandom },
		{ I386_madvise, SYS_madvise },
		{ I386_mmap, SYS_mmap },
		{ I386_mmap2, SYS_mmap },
		{ I386_mprotect, SYS_mprotect },
		{ I386_mremap, SYS_mremap },
		{ I386_munmap, SYS_munmap },
		{ I386_openat, SYS_openat },
		{ I386_read, SYS_read },
		{ I386_close, SYS_close },
		{ I386_rt_sigprocmask, SYS_rt_sigprocmask },
		{ I386_prctl, SYS_prctl },
		{ I386_sched_getaffinity, SYS_sched_getaffinity },
		{ I386_sched_yield, SYS_sched_yield },
	};

	if (call < 0)
		return call;
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		if (same[i].call == call)
			return same[i].own;
	return NO_CALL;
}

const struct ms_arch ms_arch_i386 = {
	.name = "i386",
	.title = "i386",
	.elf_machine = EM_386,
	.abi = { .page_bytes = MS_PAGE_BYTES,
	         .word_bytes = 4,
	         /*
	          * The kernel's struct ucontext_ia32, in the frame of a handler with SA_SIGINFO.
	          * The frame of another does not say on which stack it is.
	          */
	         .signal_frame = { .words = 21,
	                           .flags = 0,
	                           .most_flags = 1,
	                           .link = 1,
	                           .stack = 2,
	                           .stack_size = 4,
	                           .sp = 12,
	                           .mark = 20,
	                           .mark_mask = 0xffff,
	                           .mark_value = CODE_32,
	                           .least_stack = 2048 } },
	.audit = AUDIT_ARCH_I386,
	.call_bytes = INT_BYTES,
	.guards_returns = guards_returns,
	.dwarf = { WORD(rax), WORD(rcx), WORD(rdx), WORD(rbx), WORD(rsp), WORD(rbp), WORD(rsi),
	           WORD(rdi), WORD(rip) },
	.n_dwarf = 9,
	.dwarf_pc = 8,
	.dwarf_sp = 4,
	.dwarf_args = { 3, 1, 2, 6, 7, 5 },
	.pushes_returns = true,
	/* The segment of its code, in struct sigcontext_32, which both kinds of frames have. */
	.signal_mark = { .word = CODE_32, .pc = 1, .sp = 8 },
	.pointer_note = NT_386_TLS,
	.loaders_brk = 0x56555000,
	/* mov $186, %eax; call *%gs:0x10 */
	.sigaltstack_code = { 12, { 0xb8, 0xba, 0, 0, 0, 0x65, 0xff, 0x15, 0x10, 0, 0, 0 } },
	.capture = capture,
	.note_registers = note_registers,
	.vector_note = NT_X86_XSTATE,
	.short_note = NT_PRXFPREG,
	.short_bytes = SHORT_BYTES,
	.note_pointer = note_pointer,
	.take_noted = take_noted,
	.look = look,
	.rewind = rewind_call,
	.restart = restart,
	.timed = timed,
	.own_call = own_call,
	.answer = answer,
	.takes_marks = takes_marks,
	.stepping = &ms_stepping_x86,
	.calls = &ms_calls_i386,
};
