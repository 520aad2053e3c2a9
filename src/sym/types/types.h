/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_TYPES_H
#define MS_SYM_TYPES_H

/*
 * A type book (engine/names/fields/book.h) out of DWARF, file by file: variables with an
 * address, and the structures and classes that their fields lead to. Classes with virtual
 * functions are listed whatever leads to them: their objects say themselves what they are.
 *
 *	types.c   one file after the other; what is in the book already
 *	scan.c    all that a file has: where variables are, which types are complete
 *	what.c    what a variable or a member holds
 *	fields.c  the members of a type
 *
 * It knows C and C++, and of other languages what they write down in the same way. Unions
 * are left out, unless all their members are the same; and so are types of which a program has
 * only the name, or two that have one name and different sizes.
 *
 * The files may be anything: call this in a process that may die of it.
 */

#include "engine/names/fields/book.h"
#include "sym/files.h"

struct ms_type_reader;

/* What became of a file. */
enum ms_types_read {
	MS_TYPES_READ,
	MS_TYPES_NONE,     /* it has no debug information */
	MS_TYPES_TOO_MANY, /* not all of it is in the book: that is full, or took too long */
};

/* NULL without memory. It works until @deadline_ns, as ms_now_ns(). */
struct ms_type_reader *ms_type_reader_new(struct ms_arena *arena, uint64_t deadline_ns);

/* Add what @file has, which is number @module of the code that was asked for. */
enum ms_types_read ms_type_reader_add(struct ms_type_reader *reader, struct ms_symbol_file *file,
                                      uint32_t module);

/* The book so far, in the arena; its warnings are the caller's. */
struct ms_book *ms_type_reader_book(struct ms_type_reader *reader);

#endif
