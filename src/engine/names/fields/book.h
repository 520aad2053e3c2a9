/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_NAMES_BOOK_H
#define MS_ENGINE_NAMES_BOOK_H

/*
 * The type book: what debug information says of a process's variables, and of the types
 * that their fields lead to. It is made where such files are read and used where memory is,
 * in two processes, so it is entries of fixed size without pointers.
 *
 *	variable   at an address of a module, holds
 *	field      at an offset of a type, holds
 *	             MS_BOOK_OBJECT    an object of a type
 *	             MS_BOOK_POINTER   a pointer to one, or to several in a row
 *	             MS_BOOK_TABLE     a pointer to pointers to such
 *	           and that n times in a row
 *
 * Only structures and classes are types here: pointers to anything else are left out.
 */

#include <stdbool.h>
#include <stdint.h>

#include "engine/report.h"

enum ms_book_what { MS_BOOK_OBJECT, MS_BOOK_POINTER, MS_BOOK_TABLE, MS_BOOK_WHATS };

/* In place of a number: as many as there is room for in the block. */
#define MS_BOOK_REST UINT32_MAX

enum {
	MS_BOOK_TYPES = 200000,
	MS_BOOK_FIELDS = 2000000,
	MS_BOOK_VARIABLES = 1000000,
	MS_BOOK_TEXT = 1 << 26,
	MS_BOOK_WARNINGS = 64,
};

enum ms_book_flags {
	MS_BOOK_GROWS = 1,   /* its end is an array of any length */
	MS_BOOK_VIRTUAL = 2, /* its objects begin with a pointer to a virtual table */
};

struct ms_book_field {
	uint32_t at;   /* bytes from the object's begin */
	uint32_t type; /* an index */
	uint32_t n;
	uint32_t what; /* enum ms_book_what */
};

struct ms_book_fields MS_VEC(struct ms_book_field);

struct ms_book_type {
	uint32_t name;   /* where it begins in the text; "": it has none */
	uint32_t module; /* that has it: an index in the code that was asked for */
	uint32_t size;   /* bytes, not 0 */
	uint32_t longer; /* bytes of the smallest type that begins with one; 0: none does */
	uint32_t flags;
	uint32_t first; /* of its fields */
	uint32_t n;
	uint32_t unused; /* 0 */
};

struct ms_book_types MS_VEC(struct ms_book_type);

struct ms_book_variable {
	uint64_t at;     /* the address in the module's file, or in its thread-local storage */
	uint32_t module; /* an index in the code that was asked for */
	uint32_t local;  /* 1: each thread has one; else 0 */
	uint32_t type;   /* as a field has it */
	uint32_t n;
	uint32_t what;
	uint32_t unused; /* 0 */
};

struct ms_book_variables MS_VEC(struct ms_book_variable);

struct ms_book_text MS_VEC(char);

struct ms_book {
	struct ms_book_types types;
	struct ms_book_fields fields;
	struct ms_book_variables variables;
	struct ms_book_text text; /* names, each with its NUL */
	struct ms_notes warnings; /* what could not be read, for the report */
};

/*
 * Whether every index and length of @book, which others wrote, is in bounds, and it is of
 * @n_code modules at most. Ends the warnings' texts.
 */
bool ms_book_check(struct ms_book *book, size_t n_code);

static inline const char *ms_book_name(const struct ms_book *book, uint32_t type)
{
	return &book->text.at[book->types.at[type].name];
}

/* Bytes that @n of what a field or variable holds take; @word: those of a pointer. */
static inline uint64_t ms_book_bytes(const struct ms_book *book, uint32_t what, uint32_t type,
                                     uint32_t word)
{
	return what == MS_BOOK_OBJECT ? book->types.at[type].size : word;
}

#endif
