/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_INPROC_SUPPRESS_H
#define MS_INPROC_SUPPRESS_H

/*
 * Which leaks a program wants suppressed: what its __lsan_default_suppressions()
 * says, and the files that LSAN_OPTIONS (suppressions=) and MEMUNREACHABLE_SUPPRESSIONS name.
 */

#include "engine/names/suppressions.h"

enum { MS_SUPPRESS_FILES = 2 };

struct ms_suppress_sources {
	const char *text;                     /* or NULL */
	const char *files[MS_SUPPRESS_FILES]; /* each a path, or NULL; borrowed */
};

/* Ask the program and its environment. In the program itself. */
void ms_suppress_ask(struct ms_suppress_sources *ret);

/*
 * Read them. In the collection process, which has descriptors for that.
 *
 * Returns MS_E_UNSUPPORTED or MS_E_SYS with file, line and what is wrong; MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_suppress_read(const struct ms_suppress_sources *sources,
                                              struct ms_arena *arena, struct ms_suppressions *ret,
                                              struct ms_error *err);

#endif
