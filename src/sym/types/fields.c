/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <string.h>

#include "base/hash.h"
#include "sym/types/reader.h"

/* A member's name is looked at no further, and no more than so many of them. */
enum { MOST_PRINTED = 256, VPTR_LETTERS = 5 };

bool ms_type_is_virtual(Dwarf_Die *die)
{
	Dwarf_Die child;

	if (dwarf_hasattr(die, DW_AT_containing_type))
		return true;
	if (dwarf_child(die, &child) != 0)
		return false;
	/* It is the first member, behind the bases. */
	do {
		const char *name = dwarf_diename(&child);

		if (dwarf_tag(&child) == DW_TAG_member)
			return name && strncmp(name, "_vptr", VPTR_LETTERS) == 0;
	} while (dwarf_tag(&child) == DW_TAG_inheritance && dwarf_siblingof(&child, &child) == 0);
	return false;
}

static bool is_member(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_member || tag == DW_TAG_inheritance;
}

/* Where @member is; false when it has no place of its own: a bit field, a virtual base. */
static bool place_of(Dwarf_Die *member, bool in_union, uint64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Word at = 0;

	if (dwarf_hasattr(member, DW_AT_bit_size) || dwarf_hasattr(member, DW_AT_external) ||
	    dwarf_hasattr(member, DW_AT_declaration))
		return false;
	if (!dwarf_attr(member, DW_AT_data_member_location, &attr)) {
		*ret = 0;
		return in_union;
	}
	if (dwarf_whatform(&attr) == DW_FORM_exprloc || dwarf_formudata(&attr, &at) != 0 ||
	    at > UINT32_MAX)
		return false;
	*ret = at;
	return true;
}

uint64_t ms_type_print(Dwarf_Die *die, uint64_t hash)
{
	Dwarf_Die child;
	unsigned n = 0;

	if (dwarf_child(die, &child) != 0)
		return hash;
	do {
		const char *name = dwarf_diename(&child);
		struct ms_type_what what;
		uint64_t at = 0;

		if (!is_member(&child))
			continue;
		(void)place_of(&child, false, &at);
		if (name)
			hash = ms_hash(hash, name, strlen(name));
		hash = ms_hash(hash, &at, sizeof(at));
		name = ms_type_what(&child, &what) ? dwarf_diename(&what.type) : NULL;
		if (name)
			hash = ms_hash(hash, name, strlen(name));
	} while (++n < MOST_PRINTED && dwarf_siblingof(&child, &child) == 0);
	return hash;
}

bool ms_type_front(Dwarf_Die *die, struct ms_type_front *ret)
{
	struct ms_type_what what;
	uint64_t at = 0;
	Dwarf_Die child;

	if (dwarf_child(die, &child) != 0 || !is_member(&child) || !place_of(&child, false, &at) ||
	    at || !ms_type_what(&child, &what) || what.what != MS_BOOK_OBJECT)
		return false;
	ret->die = what.type;
	ret->by_name = what.by_name;
	return true;
}

/* What @member holds, as a field; false when that is nothing for a book. */
static bool read_member(struct ms_type_reader *r, Dwarf_Die *member, bool in_union,
                        struct ms_book_field *ret, bool *open)
{
	struct ms_type_what what;
	uint64_t at;
	bool found;

	*open = false;
	if (!is_member(member) || !place_of(member, in_union, &at))
		return false;
	found = ms_type_what(member, &what);
	*open = what.open;
	*ret = (struct ms_book_field){ .at = (uint32_t)at, .n = what.n, .what = what.what };
	return found && ms_type_of(r, &what.type, what.by_name, &ret->type);
}

static void append(struct ms_type_reader *r, uint32_t type, const struct ms_book_field *field)
{
	struct ms_book_field *slot;

	if (r->book.fields.n == MS_BOOK_FIELDS) {
		r->full = true;
		return;
	}
	slot = ms_vec_push(r->arena, &r->book.fields);
	if (!slot)
		return;
	*slot = *field;
	r->book.types.at[type].n++;
}

static bool same(const struct ms_book_field *a, const struct ms_book_field *b)
{
	return a->at == b->at && a->type == b->type && a->n == b->n && a->what == b->what;
}

/* Which of a union's members is the one that counts nobody knows: all have to be the same. */
static void fill_union(struct ms_type_reader *r, const struct ms_type_pending *pending)
{
	struct ms_book_field first = { .type = 0 };
	Dwarf_Die die = pending->die;
	Dwarf_Die child;
	size_t n = 0;
	bool open;

	if (dwarf_child(&die, &child) != 0)
		return;
	do {
		struct ms_book_field field = { .type = 0 };

		if (!read_member(r, &child, true, &field, &open))
			return;
		if (n++ && !same(&first, &field))
			return;
		first = field;
	} while (dwarf_siblingof(&child, &child) == 0);
	append(r, pending->type, &first);
}

static void fill_structure(struct ms_type_reader *r, const struct ms_type_pending *pending)
{
	Dwarf_Die die = pending->die;
	bool is_last = false; /* the last member is the last field */
	bool is_open = false; /* and goes on to the end of the block */
	Dwarf_Die child;
	bool more = dwarf_child(&die, &child) == 0;

	for (; more; more = dwarf_siblingof(&child, &child) == 0) {
		struct ms_book_field field;

		if (!is_member(&child))
			continue;
		is_last = read_member(r, &child, false, &field, &is_open);
		if (is_last)
			append(r, pending->type, &field);
	}
	if (!is_open)
		return;
	r->book.types.at[pending->type].flags |= MS_BOOK_GROWS;
	if (is_last && r->book.fields.n)
		r->book.fields.at[r->book.fields.n - 1].n = MS_BOOK_REST;
}

void ms_type_fill(struct ms_type_reader *r, const struct ms_type_pending *pending)
{
	Dwarf_Die die = pending->die;

	r->book.types.at[pending->type].first = (uint32_t)r->book.fields.n;
	if (dwarf_tag(&die) == DW_TAG_union_type)
		fill_union(r, pending);
	else
		fill_structure(r, pending);
}
