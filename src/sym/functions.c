/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/functions.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "sym/symbols.h"

enum { LONGEST = 64 * 1024 };

/* What is being told, and from where. */
struct lookup {
	struct ms_arena *arena;
	struct ms_functions *functions;
	Dwarf_Die *unit; /* the compilation unit of the address; NULL: none is known */
	ms_addr addr;    /* as the unit has it */
};

static const char *keep(struct ms_arena *arena, const char *s)
{
	return s ? ms_arena_strndup(arena, s, LONGEST) : NULL;
}

static const char *die_name(struct lookup *l, Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
		name = dwarf_formstring(&attr);
	if (!name)
		name = dwarf_diename(die);
	return name ? keep(l->arena, ms_demangle(name, l->arena)) : NULL;
}

static struct ms_function *add(struct lookup *l, const char *name)
{
	struct ms_function *function = ms_vec_push(l->arena, l->functions);

	if (function)
		function->name = name;
	return function;
}

/* Where the innermost function is. */
static void tell_line(struct lookup *l, struct ms_function *ret)
{
	Dwarf_Line *line = l->unit ? dwarf_getsrc_die(l->unit, l->addr) : NULL;
	const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
	int number = 0;

	/* Line 0 is the compiler's word for code that stands in no source. */
	if (!file || dwarf_lineno(line, &number) != 0 || number <= 0)
		return;
	ret->file = keep(l->arena, file);
	ret->line = (uint32_t)number;
}

/* Where the inlined function @die was called from, which is in the next function out. */
static void tell_call(struct lookup *l, Dwarf_Die *die, struct ms_function *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Files *files;
	Dwarf_Word file = 0;
	Dwarf_Word line = 0;
	const char *name;
	size_t n;

	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attr), &file) != 0 ||
	    dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attr), &line) != 0 ||
	    dwarf_getsrcfiles(l->unit, &files, &n) != 0 || file >= n)
		return;
	name = dwarf_filesrc(files, file, NULL, NULL);
	if (!name || !line || line > UINT32_MAX)
		return;
	ret->file = keep(l->arena, name);
	ret->line = (uint32_t)line;
}

/* Add what encloses the address, from the inside to the function that is not inlined. */
static void add_scopes(struct lookup *l, Dwarf_Die *scopes, int n)
{
	Dwarf_Die *inlined = NULL; /* the one before */

	for (int i = 0; i < n; i++) {
		int tag = dwarf_tag(&scopes[i]);
		struct ms_function *function;

		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
			continue;
		function = add(l, die_name(l, &scopes[i]));
		if (!function)
			return;
		if (inlined)
			tell_call(l, inlined, function);
		else
			tell_line(l, function);
		inlined = &scopes[i];
		if (tag == DW_TAG_subprogram)
			return;
	}
}

/*
 * dwarf_getscopes() goes on from an inlined function to where that was written; the
 * parents of the innermost entry are where it was inlined to.
 */
static void add_from_debug_info(struct lookup *l)
{
	Dwarf_Die *scopes = NULL;
	Dwarf_Die *parents = NULL;
	int n = dwarf_getscopes(l->unit, l->addr, &scopes);

	if (n > 0) {
		Dwarf_Die innermost = scopes[0];

		n = dwarf_getscopes_die(&innermost, &parents);
		add_scopes(l, parents, n);
	}
	free(scopes);
	free(parents);
}

void ms_functions_find(struct ms_unit_source *units, ms_addr addr, struct ms_functions *ret)
{
	struct lookup l = { .arena = units->arena, .functions = ret };
	struct ms_function *function;
	const char *symbol;

	l.unit = ms_unit_find(units, addr, &l.addr);
	if (l.unit)
		add_from_debug_info(&l);
	symbol = dwfl_module_addrname(units->mod, addr);
	if (symbol)
		symbol = keep(l.arena, ms_demangle(symbol, l.arena));
	if (ret->n) {
		/* An entry without a name is of code that the compiler made. */
		function = &ret->at[ret->n - 1];
		if (!function->name)
			function->name = symbol;
		return;
	}
	if (!symbol)
		return;
	function = add(&l, symbol);
	if (function)
		tell_line(&l, function);
}
