/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_UNITS_H
#define MS_SYM_UNITS_H

#include <elfutils/libdwfl.h>

#include "base/arena.h"
#include "base/range.h"

/* Code of a compilation unit. */
struct ms_unit {
	struct ms_range range; /* first: searched by it; in the file's own addresses */
	Dwarf_Die *die;
};

struct ms_units MS_VEC(struct ms_unit);

/* The units of a file; begins as { .mod, .arena }. */
struct ms_unit_source {
	Dwfl_Module *mod;
	struct ms_arena *arena;
	struct ms_units units; /* listed when an address is in no table of the file's */
	bool listed;
};

/* The unit of @addr, NULL when none is known. @ret: the address as the unit has it */
Dwarf_Die *ms_unit_find(struct ms_unit_source *source, ms_addr addr, ms_addr *ret);

#endif
