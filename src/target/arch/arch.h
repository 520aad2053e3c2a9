/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_ARCH_H
#define MS_TARGET_ARCH_H

/*
 * What freezing must know of a processor. It does not know what registers mean
 * to the C library or to the allocator, and never runs the target.
 *
 * To add an architecture:
 *	1. src/target/arch/foo.c: a `const struct ms_arch ms_arch_foo`;
 *	2. capture(): every register that can hold a pointer, the vector ones too,
 *	   into at most MS_THREAD_WORDS words; pc, sp and tp beside them;
 *	3. look(), rewind() and restart(): how the kernel shows an interrupted
 *	   system call, and which calls it never restarts (signal(7));
 *	4. stepping: leave the members NULL where the processor has no such thing;
 *	5. ms_arch_native() and check_machine() in process/check.c know it by its
 *	   ELF machine;
 *	6. tests/unit/test_arch.c: a row for each call of the table.
 *
 * All functions are called on a thread in a ptrace stop and answer false when
 * the kernel refuses, which means that the thread was killed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/range.h"
#include "target/collection.h"

/* Where a stopped thread is. */
struct ms_cpu {
	ms_addr pc;
	ms_addr sp;
	int64_t result; /* of the system call that it was in; minus errno */
	int64_t call;   /* that call's number; -1 when it was in none */
	uint64_t arg;   /* that call's first argument */
};

/* When a call that a stop broke off with EINTR may be made once more. */
enum ms_restart {
	MS_RESTART_NEVER,  /* the kernel restarts it itself, or its EINTR means something */
	MS_RESTART_ALWAYS, /* EINTR says that nothing was done */
	MS_RESTART_SOCKET, /* so it does when the first argument is a socket */
};

/* How to get a thread out of malloc quickly. */
struct ms_arch_stepping {
	/* The program counter alone. */
	bool (*pc)(pid_t tid, ms_addr *ret);

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

struct ms_arch {
	const char *name;

	/* Fill @ret except its tid; @ret is shared memory, zeroed. */
	bool (*capture)(pid_t tid, struct ms_frozen_thread *ret);
	bool (*look)(pid_t tid, struct ms_cpu *ret);

	/* Make the thread enter the call that it came from once more when it goes on. */
	bool (*rewind)(pid_t tid);
	enum ms_restart (*restart)(int64_t call);
	const struct ms_arch_stepping *stepping;
};

extern const struct ms_arch ms_arch_x86_64;

#endif
