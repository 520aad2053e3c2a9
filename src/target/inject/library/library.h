/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_LIBRARY_H
#define MS_TARGET_LIBRARY_H

/*
 * The library of a running process whose malloc the calls of its program reach: of several the
 * first in the loader's order, or the program itself, where an allocator is linked into it and
 * its symbols say where. What stood in it before anyone changed it is what its file has.
 */

#include <sys/types.h>

#include "base/arena.h"
#include "base/status.h"
#include "engine/source.h"
#include "target/code/image.h"
#include "target/code/mapped_file.h"
#include "target/inject/control.h"
#include "target/inject/library/symtab.h"

enum ms_library_kind {
	MS_LIBRARY_GLIBC,
	MS_LIBRARY_MUSL,
	MS_LIBRARY_JEMALLOC,
	MS_LIBRARY_TCMALLOC, /* gperftools' */
};

struct ms_malloc_library {
	enum ms_library_kind kind;
	const struct ms_mapping *text; /* its instructions */
	struct ms_image image;
	const struct ms_control *control; /* what the C library keeps of a thread */
	bool is_program;                  /* it is found by @symbols */
	struct ms_symtab symbols;         /* of the program; or none */
	const char *prefix;   /* of the names that malloc and the like have there: "", "je_" */
	const uint8_t *bytes; /* the text, as the file has it */
	const char *in_front; /* the file of another that has a malloc; NULL: none */
	const char *beside;   /* that of an allocator which no call reaches; NULL: none */
	bool apart;           /* it is the program's own; other calls reach another malloc */
	char version[16];     /* the C library's: "2.36"; empty: it does not say */
	struct ms_range libc_text;
};

/*
 * Find it.
 *
 * Returns MS_E_UNSUPPORTED, with what to do, when no C library is there that is known, one of
 * another version than those that are, or two of them; when calls reach another allocator, or it
 * is not clear which; when the file cannot be read, or is that of a static program and stripped.
 */
ms_must_check enum ms_status ms_malloc_library_find(const struct ms_running *in,
                                                    struct ms_arena *arena,
                                                    struct ms_malloc_library *ret,
                                                    struct ms_error *err);

/* Find one of its functions by the whole name. Its length may be 0. */
bool ms_malloc_library_code(struct ms_malloc_library *library, const char *name,
                            struct ms_range *ret);

#endif
