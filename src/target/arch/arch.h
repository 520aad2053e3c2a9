/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_ARCH_H
#define MS_TARGET_ARCH_H

/*
 * What must be known of the processor, and of Linux on it: no other file of this room's does.
 * It does not know what registers mean to the C library or to the allocator, and never runs
 * the target.
 *
 * To add an architecture:
 *	1. src/target/arch/foo.c, named as `cc -dumpmachine` begins there: `const struct ms_arch
 *	   ms_native_arch`. Files with other names are not built;
 *	2. capture(): every register that can hold a pointer, the vector ones too,
 *	   into at most MS_THREAD_WORDS words; pc, sp and tp beside them; take_noted():
 *	   the same from a core;
 *	3. look(), rewind() and restart(): how the kernel shows an interrupted
 *	   system call, and which calls it never restarts (signal(7)); timed(): which
 *	   of these have a time-out;
 *	4. stepping: leave the members NULL where the processor has no such thing;
 *	5. calls: leave NULL, and memory is copied instead of cloned;
 *	6. abi.signal_frame: leave zeros, and signal stacks within stacks are not seen;
 *	7. tests/unit/test_arch.c: a row for each call of the table.
 * One whose programs another's kernel runs, too, is that one's `compat`, and is built with it: a
 * line in the Makefile.
 * How its C libraries lay out a thread's control block is said in engine/libc/.
 *
 * All functions are called on a thread in a ptrace stop and answer false when
 * the kernel refuses, which means that the thread was killed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/procfs.h>
#include <sys/types.h>

#include "base/page.h"
#include "base/range.h"
#include "engine/abi.h"
#include "target/collection.h"

/* Where a stopped thread is. */
struct ms_cpu {
	ms_addr pc;
	ms_addr sp;
	ms_addr tp;
	int64_t result; /* of the system call that it was in; minus errno */
	int64_t call;   /* that call's number; -1 when it was in none */
	uint32_t mark;  /* as it was given with ms_again; 0: none */
	ms_addr link; /* where a function that has no frame yet returns to; 0: not in a register */
	uint64_t args[6]; /* that call's arguments; see ms_arch.result_is_first */
};

/* Note it of @ret, a thread that is frozen there. */
static inline void ms_cpu_put(const struct ms_cpu *cpu, struct ms_frozen_thread *ret)
{
	ret->pc = cpu->pc;
	ret->sp = cpu->sp;
	ret->tp = cpu->tp;
	ret->call = cpu->call;
	ret->result = cpu->result;
}

/* When a call that a stop broke off with EINTR may be made once more. */
enum ms_restart {
	MS_RESTART_NEVER,  /* the kernel restarts it itself, or its EINTR means something */
	MS_RESTART_ALWAYS, /* EINTR says that nothing was done */
	MS_RESTART_SOCKET, /* so it does when the first argument is a socket */
};

/* What a call that is made once more would begin anew. */
enum ms_timeout {
	MS_TIMEOUT_NONE,
	MS_TIMEOUT_MS,      /* an argument, int; negative: for ever */
	MS_TIMEOUT_SPEC,    /* an argument, address of a struct timespec; NULL: for ever */
	MS_TIMEOUT_SPEC32,  /* the same with numbers of 32 bits */
	MS_TIMEOUT_RECEIVE, /* SO_RCVTIMEO of the socket that is the first argument */
	MS_TIMEOUT_SEND,    /* SO_SNDTIMEO */
};

struct ms_timed {
	enum ms_timeout how;
	uint8_t arg; /* which argument */
};

enum { MS_MARK_LIMIT = INT32_MAX }; /* marks are from 1 to this */

/*
 * How a call is made once more.
 *
 * A mark lies beside the call's number, where the kernel does not look at it, as long as
 * the thread is in that very call: it is gone when the call returns.
 */
struct ms_again {
	bool changed; /* argument @arg is to be @value */
	uint8_t arg;
	uint64_t value;
	uint32_t mark;  /* 0: none */
	uint64_t first; /* the call's first argument; see ms_arch.result_is_first */
};

/* An instruction that stops every thread that comes to it. */
struct ms_trap {
	uint8_t code[4];
	uint8_t len;
	uint8_t behind; /* how far behind its begin the program counter is then */
};

/* How to get a thread out of malloc quickly. */
struct ms_arch_stepping {
	struct ms_trap trap;

	/* The program counter alone. */
	bool (*pc)(pid_t tid, ms_addr *ret);
	bool (*set_pc)(pid_t tid, ms_addr pc);

	/*
	 * Length of the instruction at @code when it traps once per iteration
	 * under single-stepping, else 0.
	 */
	size_t (*repeats)(const uint8_t *code, size_t len);

	/*
	 * Stop the thread when it comes to any of @n addresses, or of those that the
	 * processor has registers for. False when there are none to be had.
	 */
	bool (*set_breaks)(pid_t tid, const ms_addr *at, size_t n);
	void (*clear_breaks)(pid_t tid);

	/* Whether the @len bytes in front of an address end with a call: it may be returned to. */
	bool (*is_call)(const uint8_t *before, size_t len);
};

/* A system call, by the number that this memscan's own machine has for it, and arguments. */
struct ms_call {
	int64_t nr;
	uint64_t args[6];
};

/*
 * The registers of a thread; what is where is the architecture's. With vectors where a signal
 * frame must have some.
 */
struct ms_registers {
	uint64_t words[104];
};

enum { MS_VECTORS_BYTES = 16 * 1024, MS_FRAME_BYTES = 1152 };

/* The vector registers as a signal frame holds them, to lie at a multiple of 64. */
struct ms_vectors {
	size_t n;        /* bytes */
	size_t n_ptrace; /* of them, what ptrace wants back */
	uint8_t bytes[MS_VECTORS_BYTES];
};

/*
 * How a thread is made to execute system calls of ours, so that it returns by itself
 * to where it was, whatever becomes of us: the call's return address leads to
 * rt_sigreturn, and behind it lies a signal frame.
 *
 *	sp ─▶ gadgets.restore, unless a register holds return addresses
 *	      frame: registers, signal mask, address of the vectors
 */
struct ms_arch_calls {
	/* Look for what @ret still lacks in @len bytes of code that lie at @at. */
	void (*find)(const uint8_t *code, size_t len, ms_addr at, struct ms_gadgets *ret);

	/* The number for what @own_call, SYS_*, does, of those that are used; NULL: the same. */
	int64_t (*number)(int64_t own_call);

	/* Without @vectors these are left alone. */
	bool (*save)(pid_t tid, struct ms_registers *registers, struct ms_vectors *vectors);
	bool (*restore)(pid_t tid, const struct ms_registers *registers,
	                struct ms_vectors *vectors);

	/*
	 * Write return address and frame, at most MS_FRAME_BYTES, from which a thread
	 * goes on with @registers; a call of its own that was broken off is made once more.
	 *
	 * @vectors: their address, MS_FRAME_BYTES behind the frame's; 0: none
	 * Returns how many bytes.
	 */
	size_t (*frame)(const struct ms_registers *registers, const struct ms_gadgets *gadgets,
	                uint64_t mask, ms_addr vectors, uint8_t *buf);

	/* Where in a frame the register of a call's first argument is; 32 bits may be put there. */
	size_t first_argument;

	/* Whether a stop at a system call keeps some register from being given back. */
	bool wants_parked;

	/* Change @registers so that their thread makes @call and returns to the frame at @sp. */
	void (*call)(struct ms_registers *registers, const struct ms_gadgets *gadgets,
	             const struct ms_call *call, ms_addr sp);
};

/*
 * A signal frame that the kernel has put on a stack: by a word in it that hardly anything
 * else has, with the registers of the interrupted code so many words before.
 */
struct ms_signal_mark {
	uint64_t word;
	uint8_t pc;
	uint8_t sp;
	uint8_t link; /* 0: no register has return addresses */
};

enum { MS_POINTER_NOTE_BYTES = 16 };

enum { MS_DWARF_REGISTERS = 33 }; /* at most */

/* The registers of a thread in the notes of a core; the bytes may be anything. */
struct ms_noted_registers {
	const void *general; /* as pr_reg of NT_PRSTATUS has them */
	size_t general_bytes;
	const void *vectors; /* as ptrace gives them; NULL: there are none */
	size_t vectors_bytes;
	const void *areas; /* NT_386_TLS; NULL: there is none */
	size_t areas_bytes;
};

/* Instructions that hardly anything else has. */
struct ms_code_bytes {
	uint8_t n;
	uint8_t bytes[15];
};

struct ms_arch {
	const char *name;     /* as uname() has it */
	const char *title;    /* for messages */
	uint16_t elf_machine; /* EM_* */
	struct ms_abi abi;    /* of its own programs */
	/* Of other programs that the same kernel runs; NULL: there are none, or none is known. */
	const struct ms_arch *compat;

	uint32_t audit;        /* how the kernel names the calling convention: AUDIT_ARCH_* */
	uint32_t foreign_call; /* numbers from this on are calls by another; 0: none are */
	uint32_t poll_call;    /* that the C library's poll() makes */
	uint8_t call_bytes;    /* of the instruction that makes a call */
	uint64_t code_bits; /* of a code address in a register or on a stack: may be a signature */

	/* Which of the words that capture() writes is the register that DWARF numbers so. */
	uint8_t dwarf[MS_DWARF_REGISTERS];
	uint8_t n_dwarf;
	uint8_t dwarf_pc, dwarf_sp; /* DWARF's numbers of these */
	uint8_t dwarf_args[6];      /* and of the registers that have a call's arguments */

	/* Whether a call of a function pushes where it came from on the stack. */
	bool pushes_returns;
	uint8_t link; /* else it is in this register, of the words that capture() writes */

	/*
	 * Whether the processor checks the thread's return addresses, so that it cannot be made
	 * to return by a frame of ours.
	 */
	bool (*guards_returns)(pid_t tid);

	struct ms_signal_mark signal_mark;

	/* The type of a note that alone has the thread pointer, which gdb does not write; 0: none.
	 */
	uint32_t pointer_note;

	/* Where the loader has its break when it is executed as a program. */
	ms_addr loaders_brk;

	/* How a C library's sigaltstack() makes its system call. */
	struct ms_code_bytes sigaltstack_code;

	/*
	 * Fill @ret except its tid; @ret is shared memory, zeroed. @ret_cpu is as from look().
	 */
	bool (*capture)(pid_t tid, enum ms_captured what, struct ms_frozen_thread *ret,
	                struct ms_cpu *ret_cpu);
	bool (*look)(pid_t tid, struct ms_cpu *ret);

	/*
	 * The general registers of @thread, captured whole, as NT_PRSTATUS has them: as many of
	 * the first bytes of @ret.
	 *
	 * @ret_vectors: the others as ptrace gives them, the first bytes as short_note has them
	 *
	 * Returns how many bytes these are; 0: they are not known.
	 */
	size_t (*note_registers)(const struct ms_frozen_thread *thread, elf_gregset_t *ret,
	                         const uint8_t **ret_vectors);
	uint32_t vector_note; /* the type of a note with them */
	uint32_t short_note;  /* and of one with the first bytes; by "CORE": NT_FPREGSET */
	uint32_t short_bytes;

	/* The thread pointer as pointer_note has it; returns how many bytes. NULL: none does. */
	size_t (*note_pointer)(const struct ms_frozen_thread *thread,
	                       uint8_t ret[MS_POINTER_NOTE_BYTES]);

	/*
	 * As capture() of a thread that is in a core; false when the notes are too short. Without
	 * a thread pointer where notes do not have it.
	 */
	bool (*take_noted)(const struct ms_noted_registers *noted, struct ms_frozen_thread *ret);

	/*
	 * Make the thread enter the call that it came from, or was about to make, once
	 * more when it goes on; @again may be NULL.
	 */
	bool (*rewind)(pid_t tid, const struct ms_again *again);
	enum ms_restart (*restart)(int64_t call);
	struct ms_timed (*timed)(int64_t call);

	/*
	 * Whether the result of a call that was broken off with EINTR stands where its first
	 * argument was. What that was is known then of threads only that were seen asleep in the
	 * call before they were stopped (freeze/sleepers.h), and look() cannot give it.
	 */
	bool result_is_first;

	/*
	 * Whether the kernel goes on with @cpu's call, by what it has noted of it, only where
	 * nothing else was done in between; resume() has it do so always. It is for threads that
	 * were in the call for certain. NULL: the kernel needs no help.
	 */
	bool (*resumes)(const struct ms_cpu *cpu);
	bool (*resume)(pid_t tid);

	/*
	 * The number that this memscan's own machine has for what @call does, SYS_*; -1 for -1; -2
	 * when none is known. NULL: numbers are its own.
	 */
	int64_t (*own_call)(int64_t call);

	/* Have the call that the thread came from return minus @error. */
	bool (*answer)(pid_t tid, int error);

	/* Whether this kernel lets a mark pass. Asked of it, not of a thread. */
	bool (*takes_marks)(void);
	const struct ms_arch_stepping *stepping;
	const struct ms_arch_calls *calls;
};

/* That of this memscan. */
extern const struct ms_arch ms_native_arch;

/* That of programs for @elf_machine with words of @word_bytes; NULL: this kernel runs none. */
static inline const struct ms_arch *ms_arch_of(uint16_t elf_machine, uint8_t word_bytes)
{
	const struct ms_arch *arch = &ms_native_arch;

	while (arch && (arch->elf_machine != elf_machine || arch->abi.word_bytes != word_bytes))
		arch = arch->compat;
	return arch;
}

/* The ABI of programs of @arch on this machine, whose kernel says how large a page is. */
static inline struct ms_abi ms_arch_abi(const struct ms_arch *arch)
{
	struct ms_abi abi = arch->abi;

	abi.page_bytes = (uint32_t)ms_page_bytes();
	return abi;
}

/* A word that may be the address of an instruction, without its signature. */
static inline ms_addr ms_arch_code(const struct ms_arch *arch, uint64_t word)
{
	return word & ~arch->code_bits;
}

/* SYS_* for a call's number of @arch; see own_call. */
static inline int64_t ms_arch_own_call(const struct ms_arch *arch, int64_t call)
{
	return arch->own_call ? arch->own_call(call) : call;
}

/* And back; see ms_arch_calls.number. */
static inline int64_t ms_arch_call(const struct ms_arch *arch, int64_t own_call)
{
	return arch->calls->number ? arch->calls->number(own_call) : own_call;
}

#endif
