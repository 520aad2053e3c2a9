/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "sym/types/reader.h"

enum { DEEPEST = 64 };

/* One entry in another. */
struct level {
	Dwarf_Die die;
	const char *scope; /* the name of what it is in; "" */
};

struct scan {
	struct ms_type_reader *reader;
	bool flat; /* in C no type is in another */
	size_t depth;
	struct level levels[DEEPEST];
};

const char *ms_type_name(const struct ms_type_reader *r, Dwarf_Die *die, const char *by_name,
                         char ret[MS_TYPE_TEXT])
{
	uint64_t scope = ms_map_find(&r->scopes, ms_die_key(die));
	const char *name = dwarf_diename(die);

	name = name ? name : by_name;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is kept in a map of numbers */
	(void)snprintf(ret, MS_TYPE_TEXT, "%s%s%s", scope ? (const char *)(uintptr_t)scope : "",
	               scope ? "::" : "", name ? name : "");
	if (!name)
		*ret = '\0';
	return ret;
}

/* ---- what is listed ---- */

static bool is_c(Dwarf_Die *unit)
{
	switch (dwarf_srclang(unit)) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
		return true;
	default:
		return false;
	}
}

static void take_front(struct scan *s, Dwarf_Die *die, uint64_t size)
{
	struct ms_type_front front = { .size = size };
	struct ms_type_front *slot;

	if (dwarf_tag(die) == DW_TAG_union_type || !ms_type_front(die, &front))
		return;
	slot = ms_vec_push(&s->reader->own, &s->reader->fronts);
	if (slot)
		*slot = front;
}

static void take_type(struct scan *s, const struct level *level)
{
	struct ms_type_reader *r = s->reader;
	Dwarf_Die die = level->die;
	struct ms_type_definition *slot;
	char name[MS_TYPE_TEXT];
	Dwarf_Attribute attr;
	Dwarf_Word size = 0;
	uint64_t key;
	uint64_t index;

	if (*level->scope)
		(void)ms_map_add(&r->scopes, &r->own, ms_die_key(&die), (uintptr_t)level->scope);
	if (dwarf_hasattr(&die, DW_AT_declaration) ||
	    dwarf_formudata(dwarf_attr(&die, DW_AT_byte_size, &attr), &size) != 0)
		return;
	take_front(s, &die, size);
	if (!dwarf_diename(&die))
		return;
	(void)ms_type_name(r, &die, NULL, name);
	key = ms_hash(MS_HASH_BASIS, name, strlen(name));
	index = ms_map_find(&r->definitions, key);
	if (index) {
		r->defined.at[index - 1].ambiguous |= r->defined.at[index - 1].size != size;
		return;
	}
	slot = ms_vec_push(&r->own, &r->defined);
	if (!slot)
		return;
	*slot = (struct ms_type_definition){ die, size, false };
	(void)ms_map_add(&r->definitions, &r->own, key, r->defined.n);
}

static void take_class(struct scan *s, const struct level *level)
{
	Dwarf_Die die = level->die;
	Dwarf_Die *slot;

	take_type(s, level);
	if (s->flat || dwarf_hasattr(&die, DW_AT_declaration) || !ms_type_is_virtual(&die))
		return;
	slot = ms_vec_push(&s->reader->own, &s->reader->classes);
	if (slot)
		*slot = die;
}

static bool is_place(uint8_t first)
{
	return first == DW_OP_addr || first == DW_OP_const8u || first == DW_OP_const4u;
}

/* Where a variable is, if that is an address, or a place in each thread's storage. */
static void take_variable(struct scan *s, Dwarf_Die *die)
{
	struct ms_type_variable *slot;
	Dwarf_Attribute attr;
	Dwarf_Block block;
	Dwarf_Op *ops;
	size_t n;
	bool local;

	/* Most variables are in a function's frame: libdw would keep what it reads of each. */
	if (!dwarf_attr(die, DW_AT_location, &attr) || dwarf_formblock(&attr, &block) != 0 ||
	    !block.length || !is_place(block.data[0]) || dwarf_getlocation(&attr, &ops, &n) != 0 ||
	    !n)
		return;
	local = n == 2 && (ops[1].atom == DW_OP_GNU_push_tls_address ||
	                   ops[1].atom == DW_OP_form_tls_address);
	if (!(n == 1 && ops[0].atom == DW_OP_addr && ops[0].number) &&
	    !(local && ops[0].atom != DW_OP_addr))
		return;
	slot = ms_vec_push(&s->reader->own, &s->reader->variables);
	if (slot)
		*slot = (struct ms_type_variable){ *die, ops[0].number, local };
}

/* ---- from entry to entry ---- */

/* What is in @level is called after it, too. */
static const char *scope_in(struct scan *s, const struct level *level)
{
	Dwarf_Die die = level->die;
	char name[MS_TYPE_TEXT];
	const char *own = dwarf_diename(&die);
	const char *kept;

	(void)snprintf(name, sizeof(name), "%s%s%s", level->scope, *level->scope ? "::" : "",
	               own ? own : "(anonymous namespace)");
	kept = ms_arena_strndup(&s->reader->own, name, sizeof(name));
	return kept ? kept : "";
}

/* Take what is there. Whether something in it is wanted, which is called after @ret_scope. */
static bool take(struct scan *s, const struct level *level, const char **ret_scope)
{
	Dwarf_Die die = level->die;

	*ret_scope = "";
	switch (dwarf_tag(&die)) {
	case DW_TAG_variable:
		take_variable(s, &die);
		return false;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
		take_class(s, level);
		if (s->flat || !dwarf_haschildren(&die))
			return false;
		*ret_scope = scope_in(s, level);
		return true;
	case DW_TAG_union_type:
		take_type(s, level);
		return false;
	case DW_TAG_namespace:
	case DW_TAG_module:
		*ret_scope = scope_in(s, level);
		return true;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return true;
	default:
		return false;
	}
}

/* Into what was taken if @in, else to the next entry; false behind the last. */
static bool step(struct scan *s, bool in, const char *scope)
{
	if (in && s->depth + 1 < DEEPEST &&
	    dwarf_child(&s->levels[s->depth].die, &s->levels[s->depth + 1].die) == 0) {
		s->levels[++s->depth].scope = scope;
		return true;
	}
	while (dwarf_siblingof(&s->levels[s->depth].die, &s->levels[s->depth].die) != 0) {
		if (!s->depth)
			return false;
		s->depth--;
	}
	return true;
}

static void scan_unit(struct scan *s, Dwarf_Die *unit)
{
	const char *scope;
	bool in;

	s->flat = is_c(unit);
	s->depth = 0;
	s->levels[0].scope = "";
	if (dwarf_child(unit, &s->levels[0].die) != 0)
		return;
	do
		in = take(s, &s->levels[s->depth], &scope);
	while (step(s, in, scope));
}

void ms_type_scan(struct ms_type_reader *r, Dwarf *dwarf)
{
	struct scan *s = ms_arena_alloc(&r->own, sizeof(*s));
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;

	if (!s)
		return;
	s->reader = r;
	while (ms_type_reader_goes_on(r) &&
	       dwarf_get_units(dwarf, unit, &unit, NULL, NULL, &die, NULL) == 0)
		scan_unit(s, &die);
}
