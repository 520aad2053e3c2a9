/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_SYMBOLS_H
#define MS_SYM_SYMBOLS_H

/*
 * Names for addresses of a process: module, build-id, function, source line.
 *
 * Reads the ELF files that the process has mapped, and separate debug information
 * where the distribution puts it, in the process's root and then in ours, through
 * elfutils; from debuginfod's servers only when that is asked for. A file is opened when the first
 *address in it is named. The files are those of the process's mount namespace and may be anything:
 *call this in a process that may die of it.
 *
 *	symbols.c   the questions, asked of libdwfl
 *	modules.c   which mappings are one ELF file, and how to get at it
 *	demangle.c  C++ and Rust
 */

#include <sys/types.h>

#include "base/arena.h"
#include "base/status.h"
#include "engine/backtrace.h"
#include "engine/source.h"

struct ms_symbols_call {
	pid_t tid; /* a living thread, through whose /proc entry files are opened; 0: they are not
	            */
	const struct ms_mappings *maps;
	/* Reads the process's memory; returns how many bytes from @addr on were readable. */
	size_t (*read)(const void *ctx, ms_addr addr, void *buf, size_t len);
	const void *ctx;
	const char *debug_folder; /* where separate debug information is, too; or NULL */
	bool debuginfod;          /* the servers of DEBUGINFOD_URLS are asked, too */
};

struct ms_symbols;

/* @call and @arena are borrowed until ms_symbols_close(). Returns MS_E_NOMEM only. */
ms_must_check enum ms_status ms_symbols_open(const struct ms_symbols_call *call,
                                             struct ms_arena *arena, struct ms_symbols **ret,
                                             struct ms_error *err);
void ms_symbols_close(struct ms_symbols *symbols);

/* Tell what is known of @addr. Strings in @ret live until ms_symbols_close(). */
void ms_symbols_name(struct ms_symbols *symbols, ms_addr addr, struct ms_symbol *ret);

/*
 * The readable form of a mangled C++ or Rust name, in @arena; @name itself when it is
 * none, or without memory. A version ("@@GLIBC_2.34") is cut off in both cases.
 */
const char *ms_demangle(const char *name, struct ms_arena *arena);

#endif
