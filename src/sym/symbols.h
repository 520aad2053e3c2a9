/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_SYMBOLS_H
#define MS_SYM_SYMBOLS_H

/*
 * Names for addresses of a process: module, build-id, function, source line.
 *
 * Reads the ELF files that the process has mapped, and separate debug information of
 * theirs, through elfutils. A file is asked for when the first address in it is named. They
 * may be anything: call this in a process that may die of it.
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
#include "sym/opener.h"

/* Have @ret, initialised, open the files of @maps for ms_symbols_call. */
void ms_symbols_opener(const struct ms_mappings *maps, struct ms_opener *ret);

struct ms_symbols;

/*
 * @call and @arena are borrowed for good: the files that were opened are closed when the
 * process ends. Returns MS_E_NOMEM only.
 */
ms_must_check enum ms_status ms_symbols_open(const struct ms_symbols_call *call,
                                             struct ms_arena *arena, struct ms_symbols **ret,
                                             struct ms_error *err);

/* Give what is known of @addr. */
void ms_symbols_name(struct ms_symbols *symbols, ms_addr addr, struct ms_symbol *ret);

/*
 * The readable form of a mangled C++ or Rust name, in @arena; @name itself when it is
 * none, or without memory. A version ("@@GLIBC_2.34") is cut off in both cases.
 */
const char *ms_readable_name(const char *name, struct ms_arena *arena);

#endif
