/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_BYPASS_H
#define MS_SHIM_BYPASS_H

/*
 * Libraries whose calls go past us: loaded with RTLD_DEEPBIND, as PHP loads its extensions,
 * they are bound to the C library's malloc() and free(). What they free of ours would stay in
 * the table, or has a header that the C library knows nothing of; what they make is foreign.
 *
 * Their references to these functions are redirected to ours, right after such a library was
 * loaded. What its constructors made is foreign: it is freed as it is.
 */

#include <stdbool.h>

/*
 * Redirect references in all libraries to the next allocator, as far as their values show
 * that they are such. Whether there are any, or ever were.
 */
bool ms_bypass_look(void);

/* The same for what was just loaded as @library, called @name, and the libraries after it. */
void ms_bypass_loaded(void *library, const char *name);

/* One is being loaded that cannot be looked at right after that. */
void ms_bypass_unseen(void);
#endif
