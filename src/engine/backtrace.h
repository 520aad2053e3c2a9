/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_BACKTRACE_H
#define MS_ENGINE_BACKTRACE_H

/*
 * The model of named addresses: what src/sym fills in and src/report writes.
 * Strings are the target's, any bytes but NUL; they live in the arena of the code that
 * made the model.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/range.h"

/* What an address is called. Nothing is known of what is NULL or 0. */
struct ms_symbol {
	const char *module;   /* as the kernel prints it; "": memory without a file */
	ms_addr map_begin;    /* of the mapping that has it */
	uint64_t rel_pc;      /* as an address in the ELF file; in other memory, from its begin */
	uint64_t elf_offset;  /* where in the file the ELF starts */
	const char *build_id; /* hexadecimal */
	const char *function; /* demangled */
	uint64_t function_offset;
	bool unsized;     /* by a label alone, which does not say how far the function goes */
	const char *file; /* source, as the debug information has it */
	uint32_t line;
	bool unloaded; /* the module was, since */
};

/* A function at an address. Where calls were inlined several stand at one. */
struct ms_function {
	const char *name;    /* demangled */
	const char *mangled; /* as the linker has it; NULL: the same */
	const char *file;    /* source of the line that is being executed, or that makes the call */
	uint32_t line;
};

struct ms_functions MS_VEC(struct ms_function);

/* One call on a stack. */
struct ms_frame {
	ms_addr pc; /* in the calling instruction, which the return address stands behind */
	struct ms_symbol symbol;
};

struct ms_frames MS_VEC(struct ms_frame);

enum { MS_THREAD_NAME = 64, MS_BACKTRACE_FAILURE = 120 };

/* The calls of a thread, innermost first. */
struct ms_backtrace {
	int32_t tid;
	char name[MS_THREAD_NAME]; /* "": the thread ended before it could be asked */
	struct ms_frames frames;
	char failure[MS_BACKTRACE_FAILURE]; /* why there are not more; "": there are none */
};

struct ms_backtraces MS_VEC(struct ms_backtrace);

/* The stacks of a process at one moment. */
struct ms_stack_dump {
	pid_t pid;
	const char *time;    /* of that moment, as it is to be printed */
	const char *cmdline; /* arguments, each with a NUL behind it */
	size_t cmdline_len;
	const char *abi;
	uint8_t word_bytes; /* of its addresses */
	struct ms_backtraces threads;
};

#endif
