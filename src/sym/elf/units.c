/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/elf/units.h"

#include "base/sort.h"

static void list_unit(struct ms_unit_source *source, Dwarf_Die *die)
{
	Dwarf_Addr base = 0;
	Dwarf_Addr begin;
	Dwarf_Addr end;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &begin, &end)) > 0) {
		struct ms_unit *unit;

		/* Code that the linker left out stands at 0 or 1. */
		if (begin <= 1 || begin >= end)
			continue;
		unit = ms_vec_push(source->arena, &source->units);
		if (!unit)
			return;
		*unit = (struct ms_unit){ { begin, end }, die };
	}
}

static bool unit_before(const void *a, const void *b)
{
	const struct ms_unit *x = a;
	const struct ms_unit *y = b;

	return x->range.begin < y->range.begin;
}

/* clang, and so all of Android, writes no table of them (.debug_aranges). */
static void list_units(struct ms_unit_source *source)
{
	struct ms_units *units = &source->units;
	Dwarf_Die *die = NULL;
	Dwarf_Addr bias;

	source->listed = true;
	while ((die = dwfl_module_nextcu(source->mod, die, &bias)))
		list_unit(source, die);
	if (!ms_sort(source->arena, units->at, units->n, sizeof(*units->at), unit_before))
		units->n = 0;
}

Dwarf_Die *ms_unit_find(struct ms_unit_source *source, ms_addr addr, ms_addr *ret)
{
	Dwarf_Addr bias = 0;
	Dwarf_Die *die = dwfl_module_addrdie(source->mod, addr, &bias);
	const struct ms_unit *unit;

	*ret = addr - bias;
	/* In a gap between units libdwfl answers with the one before it. */
	if (die && dwarf_haspc(die, addr - bias) == 0)
		die = NULL;
	if (die || !dwfl_module_getdwarf(source->mod, &bias))
		return die;
	if (!source->listed)
		list_units(source);
	*ret = addr - bias;
	unit = ms_range_find(&source->units, *ret);
	return unit ? unit->die : NULL;
}
