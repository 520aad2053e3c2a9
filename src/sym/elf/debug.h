/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_ELF_DEBUG_H
#define MS_SYM_ELF_DEBUG_H

/*
 * Separate debug information of an ELF file, asked for here and not by libdwfl: what
 * stands in its place may be the target's to choose. A file counts when its build-id is the
 * wanted one, or, of a file that has none, its checksum.
 */

#include <elfutils/libdwfl.h>
#include <stdbool.h>

#include "base/arena.h"
#include "sym/finder.h"

/* The separate debug information of one file; begins as { .finder, .code, .arena }. */
struct ms_debug {
	const struct ms_finder *finder;
	uint32_t code; /* the file's number for the finder */
	struct ms_arena *arena;
	const char *found;   /* NULL: none */
	const char *refused; /* the last that is damaged or of another build; NULL: none */
	bool too_large;      /* that is why */
};

/*
 * A find_debuginfo of libdwfl: @link is what it was given as debuglink_file.
 *
 * Returns a descriptor that the caller owns, or -1; @ret_name: by malloc(), for the caller
 */
int ms_debug_find(struct ms_debug *debug, Dwfl_Module *mod, const char *link, char **ret_name);

#endif
