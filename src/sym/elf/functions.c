/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/elf/functions.h"

#include <dwarf.h>
#include <string.h>

#include "base/sort.h"
#include "sym/symbols.h"

enum { LONGEST = 64 * 1024 };

/* Deeper than that no program nests namespaces, classes and inlined calls. */
enum { DEEPEST_SCOPE = 64, DEEPEST_CALL = 256 };

/* What is being named, and from where. */
struct lookup {
	struct ms_function_source *source;
	struct ms_arena *arena;
	struct ms_functions *functions;
	Dwarf_Die *unit; /* the compilation unit of the address; NULL: none is known */
	ms_addr addr;    /* as the unit has it */
};

/* The calls at an address: a function, and what was inlined in it. */
struct calls {
	Dwarf_Die at[DEEPEST_CALL]; /* from the outside in */
	size_t n;
};

static const char *keep(struct ms_arena *arena, const char *s)
{
	return s ? ms_arena_strndup(arena, s, LONGEST) : NULL;
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
		return dwarf_formstring(&attr);
	return NULL;
}

/* A copy of libdw's string @s, one for all times that it is used; readable unless @as_is. */
static const char *keep_once(struct lookup *l, const char *s, bool as_is)
{
	struct ms_kept *kept = as_is ? &l->source->plain : &l->source->readable;
	const uint64_t key = (uintptr_t)s;
	uint64_t at = s ? ms_map_find(&kept->places, key) : 0;
	const char **string;

	if (!s)
		return NULL;
	if (at)
		return kept->strings.at[at - 1];
	string = ms_vec_push(l->arena, &kept->strings);
	if (!string)
		return NULL;
	*string = as_is ? s : ms_readable_name(s, l->arena);
	/* What is not mangled is handed back. */
	if (*string == s)
		*string = keep(l->arena, s);
	return ms_map_add(&kept->places, l->arena, key, kept->strings.n) ? *string : NULL;
}

static struct ms_function *add(struct lookup *l, const char *linkage, const char *plain)
{
	struct ms_function *function = ms_vec_push(l->arena, l->functions);

	if (!function)
		return NULL;
	/* The vector may have been used before. */
	*function = (struct ms_function){ 0 };
	function->name = keep_once(l, linkage ? linkage : plain, !linkage);
	if (linkage && function->name && strcmp(function->name, linkage) != 0)
		function->mangled = keep_once(l, linkage, true);
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
	ret->file = keep_once(l, file, true);
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
	ret->file = keep_once(l, name, true);
	ret->line = (uint32_t)line;
}

/* Add what stands at the address, from the inside to the function that is not inlined. */
static void add_calls(struct lookup *l, struct calls *calls)
{
	for (size_t i = calls->n; i-- > 0;) {
		Dwarf_Die *die = &calls->at[i];
		struct ms_function *function = add(l, linkage_name(die), dwarf_diename(die));

		if (!function)
			return;
		if (i + 1 < calls->n)
			tell_call(l, die + 1, function);
		else
			tell_line(l, function);
	}
}

/* ---- which functions there are ---- */

static void list_function(struct ms_function_source *source, Dwarf_Die *die)
{
	Dwarf_Addr base = 0;
	Dwarf_Addr begin;
	Dwarf_Addr end;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &begin, &end)) > 0) {
		struct ms_function_code *code;

		if (begin >= end)
			continue;
		code = ms_vec_push(source->units.arena, &source->functions);
		if (!code)
			return;
		*code = (struct ms_function_code){ { begin, end }, *die };
	}
}

static bool has_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

/* The functions in @parent, and in the scopes inside of it. */
static void list_scope(struct ms_function_source *source, Dwarf_Die *parent)
{
	Dwarf_Die stack[DEEPEST_SCOPE];
	size_t depth = 0;
	bool more = dwarf_child(parent, &stack[0]) == 0;

	while (more) {
		Dwarf_Die *die = &stack[depth];
		int tag = dwarf_tag(die);

		if (tag == DW_TAG_subprogram)
			list_function(source, die);
		if (depth + 1 < DEEPEST_SCOPE && has_functions(tag) &&
		    dwarf_child(die, &stack[depth + 1]) == 0) {
			depth++;
			continue;
		}
		while (more && dwarf_siblingof(&stack[depth], &stack[depth]) != 0) {
			more = depth > 0;
			if (more)
				depth--;
		}
	}
}

static bool code_before(const void *a, const void *b)
{
	const struct ms_function_code *x = a;
	const struct ms_function_code *y = b;

	return x->range.begin < y->range.begin;
}

static void list_functions(struct ms_function_source *source, Dwarf_Die *unit)
{
	source->unit = unit;
	source->functions.n = 0;
	list_scope(source, unit);
	if (!ms_sort(source->units.arena, source->functions.at, source->functions.n,
	             sizeof(*source->functions.at), code_before))
		source->functions.n = 0;
}

/* The child of @die that has the address: a call that was inlined, or a block of code. */
static bool step_in(const struct lookup *l, Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Die child;

	if (dwarf_child(die, &child) != 0)
		return false;
	do {
		int tag = dwarf_tag(&child);

		if ((tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
		    dwarf_haspc(&child, l->addr) == 1) {
			*ret = child;
			return true;
		}
	} while (dwarf_siblingof(&child, &child) == 0);
	return false;
}

/*
 * Not by dwarf_getscopes(), which goes through all of the unit for each address, and
 * from an inlined function on to where that was written.
 */
static void add_from_debug_info(struct lookup *l)
{
	const struct ms_function_code *code;
	struct calls calls = { .n = 0 };
	Dwarf_Die die;

	if (l->source->unit != l->unit)
		list_functions(l->source, l->unit);
	code = ms_range_find(&l->source->functions, l->addr);
	if (!code)
		return;
	die = code->die;
	calls.at[calls.n++] = die;
	while (calls.n < DEEPEST_CALL && step_in(l, &die, &die))
		if (dwarf_tag(&die) == DW_TAG_inlined_subroutine)
			calls.at[calls.n++] = die;
	add_calls(l, &calls);
}

/*
 * An entry without a name is of code that the compiler made; one without the linker's
 * name, of a static function, lacks its namespaces, which the symbol has.
 */
static void rename_outermost(struct lookup *l, const char *symbol, struct ms_function *function)
{
	const char *readable = keep_once(l, symbol, false);

	/* Of several symbols at one address this may be another one's. */
	if (!readable || (function->name &&
	                  (strcmp(readable, symbol) == 0 || !strstr(readable, function->name))))
		return;
	function->name = readable;
	if (strcmp(readable, symbol) != 0)
		function->mangled = keep_once(l, symbol, true);
}

bool ms_functions_find(struct ms_function_source *source, ms_addr addr, struct ms_functions *ret)
{
	struct lookup l = { .source = source, .arena = source->units.arena, .functions = ret };
	const struct ms_table_entry *symbol = ms_symbol_table_find(&source->table, addr);
	struct ms_function *function;

	l.unit = ms_unit_find(&source->units, addr, &l.addr);
	if (l.unit)
		add_from_debug_info(&l);
	if (ret->n) {
		function = &ret->at[ret->n - 1];
		if (symbol && !function->mangled)
			rename_outermost(&l, symbol->name, function);
		return true;
	}
	function = symbol ? add(&l, symbol->name, NULL) : NULL;
	if (function)
		tell_line(&l, function);
	return false;
}
