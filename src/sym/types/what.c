/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <limits.h>

#include "sym/types/reader.h"

/* Longer chains of typedefs and qualifiers no program has. */
enum { LONGEST_CHAIN = 64 };

/* How many entries @subrange has; 0 when it does not say. */
static uint64_t length_of(Dwarf_Die *subrange)
{
	Dwarf_Attribute attr;
	Dwarf_Word n = 0;

	if (dwarf_formudata(dwarf_attr(subrange, DW_AT_count, &attr), &n) == 0)
		return n;
	if (dwarf_formudata(dwarf_attr(subrange, DW_AT_upper_bound, &attr), &n) == 0)
		return n + 1;
	return 0;
}

/* The entries of an array, of all its dimensions; 0: as many as there are. */
static uint64_t length_of_all(Dwarf_Die *array)
{
	Dwarf_Die child;
	uint64_t n = 1;

	if (dwarf_child(array, &child) != 0)
		return 0;
	do {
		uint64_t length = length_of(&child);

		if (dwarf_tag(&child) != DW_TAG_subrange_type)
			continue;
		if (!length || length > INT_MAX || n > INT_MAX)
			return 0;
		n *= length;
	} while (dwarf_siblingof(&child, &child) == 0);
	return n < INT_MAX ? n : 0;
}

/* What is on the way to a structure. */
struct way {
	unsigned pointers;
	uint64_t n;
	bool arrayed;
	struct ms_type_what *ret;
};

/* Take the step over @die; false when there can be no structure behind it. */
static bool step_over(struct way *w, Dwarf_Die *die)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_typedef:
		w->ret->by_name = dwarf_diename(die);
		return true;
	case DW_TAG_const_type:
	case DW_TAG_volatile_type:
	case DW_TAG_restrict_type:
	case DW_TAG_atomic_type:
	case DW_TAG_packed_type:
		return true;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		w->ret->by_name = NULL;
		w->pointers++;
		return true;
	case DW_TAG_array_type:
		w->ret->by_name = NULL;
		/* What a pointer to an array leads to is objects in a row all the same. */
		if (w->pointers)
			return true;
		w->n = w->n <= INT_MAX ? w->n * length_of_all(die) : 0;
		w->arrayed = true;
		return true;
	default:
		return false;
	}
}

static bool is_structure(int tag)
{
	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

static bool next_type(Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute attr;

	return dwarf_attr_integrate(die, DW_AT_type, &attr) && dwarf_formref_die(&attr, ret);
}

bool ms_type_what(Dwarf_Die *die, struct ms_type_what *ret)
{
	struct way way = { .n = 1, .ret = ret };
	Dwarf_Die at = *die;
	bool found = false;

	*ret = (struct ms_type_what){ .by_name = NULL };
	for (int i = 0; i < LONGEST_CHAIN && next_type(&at, &at); i++) {
		found = is_structure(dwarf_tag(&at));
		if (found || !step_over(&way, &at))
			break;
	}
	ret->open = way.arrayed && way.n <= 1;
	ret->n = way.n && way.n < MS_BOOK_REST ? (uint32_t)way.n : MS_BOOK_REST;
	ret->type = at;
	ret->what = way.pointers == 0   ? MS_BOOK_OBJECT
	            : way.pointers == 1 ? MS_BOOK_POINTER
	                                : MS_BOOK_TABLE;
	/* A union may hold whatever its members do not say. */
	return found && way.pointers <= 2;
}
