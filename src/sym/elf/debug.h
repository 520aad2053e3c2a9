/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_ELF_DEBUG_H
#define MS_SYM_ELF_DEBUG_H

/*
 * Separate debug information of an ELF file, looked for here and not by libdwfl: what
 * stands in its place may be the target's to choose. Only regular files are opened, and
 * never waited for; paths stay in the root they are looked for in; a file counts when its
 * build-id is the wanted one, or, of a file that has none, its checksum.
 *
 * In each place, in this order: by build-id (.build-id/xx/yyyy.debug), then by the name
 * that the ELF file has for it (.gnu_debuglink).
 */

#include <elfutils/libdwfl.h>

#include "base/arena.h"

enum { MS_DEBUG_ROOTS = 2 };

/* Where to look. */
struct ms_debug_places {
	const char *folder; /* the user's, first; NULL: none */
	/* Folders with a usr/lib/debug, in which the ELF file has its path; NULL: no more. */
	const char *roots[MS_DEBUG_ROOTS];
	bool debuginfod; /* at last, ask the servers of DEBUGINFOD_URLS */
};

/* The separate debug information of one file; begins as { .places, .path, .arena }. */
struct ms_debug {
	const struct ms_debug_places *places;
	const char *path; /* of the ELF file */
	struct ms_arena *arena;
	const char *found;   /* NULL: none */
	const char *refused; /* the last that is damaged or of another build; NULL: none */
};

/*
 * A find_debuginfo of libdwfl: @link is what it was given as debuglink_file.
 *
 * Returns a descriptor that the caller owns, or -1; @ret_name: by malloc(), for the caller
 */
int ms_debug_find(struct ms_debug *debug, Dwfl_Module *mod, const char *link, char **ret_name);

/*
 * For the debuginfo_path of libdwfl's callbacks: it asks servers, but looks at no folder.
 * What is there must not exist: after any other error no server is asked.
 */
#define MS_DEBUG_NO_FOLDERS "/proc/self/none"

#endif
