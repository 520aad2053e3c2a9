/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_ELF_FUNCTIONS_H
#define MS_SYM_ELF_FUNCTIONS_H

#include "base/map.h"
#include "engine/backtrace.h"
#include "sym/elf/table.h"
#include "sym/elf/units.h"

/* Where a function that is not inlined has its code. */
struct ms_function_code {
	struct ms_range range; /* first: searched by it; in the file's own addresses */
	Dwarf_Die die;
};

/* Copies of libdw's strings. */
struct ms_kept {
	struct ms_map places; /* in strings, from 1 on */
	struct MS_VEC(const char *) strings;
};

/* All that is known of a file's code; begins as { .units, .table }. */
struct ms_function_source {
	struct ms_unit_source units;
	struct ms_symbol_table table;
	Dwarf_Die *unit; /* whose functions are listed: of addresses in order each once */
	struct MS_VEC(struct ms_function_code) functions;
	struct ms_kept plain;
	struct ms_kept readable; /* demangled */
};

/*
 * Add the functions at @addr to @ret, innermost first; strings and @ret are in the units' arena.
 * Returns whether debug information has them, and not a symbol alone.
 */
bool ms_functions_find(struct ms_function_source *source, ms_addr addr, struct ms_functions *ret);

#endif
