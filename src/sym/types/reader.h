/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_TYPES_READER_H
#define MS_SYM_TYPES_READER_H

/* What is between the files of this room. */

#include <elfutils/libdw.h>

#include "base/map.h"
#include "sym/types/types.h"

/* Of one name, the type that is complete. */
struct ms_type_definition {
	Dwarf_Die die;
	uint64_t size;
	bool ambiguous; /* there is one of another size, too */
};

/* A variable with an address. */
struct ms_type_variable {
	Dwarf_Die die;
	uint64_t at;
	bool local; /* to each thread: at is the place in its storage */
};

/* A type with whose object those of another begin, which have so many bytes. */
struct ms_type_front {
	Dwarf_Die die;
	const char *by_name;
	uint64_t size;
};

/* A type of the book whose fields were not looked at. */
struct ms_type_pending {
	Dwarf_Die die;
	uint32_t type;
};

struct ms_type_reader {
	struct ms_arena *arena;
	uint64_t deadline_ns;
	struct ms_book book;
	struct ms_map prints; /* of the book's types: the index + 1 */
	bool full;            /* what is missing is not for lack of debug information */

	/* Of the present file; */
	struct ms_arena own; /* what is in here goes with it. */
	uint32_t module;
	struct ms_map known;       /* by entry: the type's index + 1, or UNUSABLE */
	struct ms_map scopes;      /* by entry: the name of what it is in, a const char * */
	struct ms_map definitions; /* by hash of a name: the index + 1 */
	struct MS_VEC(struct ms_type_definition) defined;
	struct MS_VEC(struct ms_type_front) fronts;
	struct ms_map longer; /* by hash of a name: bytes of the smallest that begins with one */
	struct MS_VEC(Dwarf_Die) classes; /* with virtual functions */
	struct MS_VEC(struct ms_type_variable) variables;
	struct MS_VEC(struct ms_type_pending) pending;
	size_t done; /* of these */
};

/* What a variable or member holds. */
struct ms_type_what {
	enum ms_book_what what;
	uint32_t n;
	bool open;           /* it is an array without a length, or of one: it may go on */
	Dwarf_Die type;      /* a structure, class or union */
	const char *by_name; /* a typedef's; NULL: none */
};

/* An entry's place, the same wherever it is referred to. */
static inline uint64_t ms_die_key(const Dwarf_Die *die)
{
	return (uintptr_t)die->addr;
}

/* Whether there is time and memory to go on; else the book is marked as not full. */
bool ms_type_reader_goes_on(struct ms_type_reader *r);

/* The name of @die with its namespaces and classes; "" when it has none. */
const char *ms_type_name(const struct ms_type_reader *r, Dwarf_Die *die, const char *by_name,
                         char ret[MS_TYPE_TEXT]);

/* List the variables and types of @dwarf. */
void ms_type_scan(struct ms_type_reader *r, Dwarf *dwarf);

/* What @die, which has a type, holds. False when that is nothing for a book; open is set yet. */
bool ms_type_what(Dwarf_Die *die, struct ms_type_what *ret);

/* The book's type of @die, which is a structure, class or union; false when it has none. */
bool ms_type_of(struct ms_type_reader *r, Dwarf_Die *die, const char *by_name, uint32_t *ret);

/* Append the fields of @pending's type to the book. */
void ms_type_fill(struct ms_type_reader *r, const struct ms_type_pending *pending);

/* What tells types of one name and size apart: their members. */
uint64_t ms_type_print(Dwarf_Die *die, uint64_t hash);

/* The type with whose object those of @die begin; false when it begins otherwise. */
bool ms_type_front(Dwarf_Die *die, struct ms_type_front *ret);

/* Whether objects of the class @die begin with a pointer to a virtual table. */
bool ms_type_is_virtual(Dwarf_Die *die);

#endif
