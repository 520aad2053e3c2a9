/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_FUNCTIONS_H
#define MS_SYM_FUNCTIONS_H

#include <elfutils/libdwfl.h>

#include "base/arena.h"
#include "engine/backtrace.h"

/* Code of a compilation unit. */
struct ms_unit {
	struct ms_range range; /* first: searched by it; in the file's own addresses */
	Dwarf_Die *die;
};

struct ms_units MS_VEC(struct ms_unit);

/* A file whose functions are asked for; begins as { .mod, .arena }. */
struct ms_function_source {
	Dwfl_Module *mod;
	struct ms_arena *arena; /* all that is told is in it */
	struct ms_units units;  /* listed when an address is in no table of the file's */
	bool listed;
};

/* Add the functions at @addr to @ret, innermost first. */
void ms_functions_find(struct ms_function_source *source, ms_addr addr, struct ms_functions *ret);

#endif
