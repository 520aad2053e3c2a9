/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_SYMTAB_H
#define MS_TARGET_SYMTAB_H

/*
 * The functions that the file of a program names for its debugger (.symtab), which no process
 * has in memory: all of one that is linked statically and was not stripped.
 */

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/range.h"

/*
 * The file is the target's to forge, so that no question may cost a walk over all symbols: names
 * are hashed and addresses sorted once. Longer names than MS_SYMTAB_NAME are not indexed, and of
 * one name, or one address, no more than MS_SYMTAB_ALIKE symbols are looked at.
 */
enum {
	MS_SYMTAB_NAME = 96,
	MS_SYMTAB_ALIKE = 4096,
	MS_SYMTAB_MOST = 1 << 22, /* symbols; a browser with all of its own has 1.5 million */
};

/* The symbol that stands at @begin; sorted by that. */
struct ms_symtab_place {
	uint64_t begin;
	uint32_t index;
};

struct ms_symtab {
	const Elf64_Sym *symbols;
	size_t n; /* 0: the file has none */
	const char *names;
	size_t names_bytes; /* the last one is a zero, unless there are none */
	bool too_large;     /* it has a table that is not read for its size */
	/* By the hash of a name: a symbol's number plus one, and those behind it; 0: no more. */
	uint32_t *first;
	uint32_t *next;
	unsigned first_bits;
	struct ms_symtab_place *places;
	size_t n_places;
};

/*
 * Read the table of the file @fd, of 64-bit x86.
 *
 * @ret: lives in @arena; n is 0 where the file has no table or one that makes no sense
 *
 * Cost: O(n), n symbols of MS_SYMTAB_MOST at most.
 */
void ms_symtab_read(int fd, struct ms_arena *arena, struct ms_symtab *ret);

/*
 * Sort the functions by address, for ms_symtab_has_at() and ms_symtab_around(), which find
 * nothing before. Nor do they without memory.
 *
 * Cost: O(n log n)
 */
void ms_symtab_sort(struct ms_symtab *table, struct ms_arena *arena);

/*
 * Find a function: the one that others can call by that name, or else the only local one.
 *
 * @ret: as the file has it, untouched where there is none; its length may be 0
 */
bool ms_symtab_find(const struct ms_symtab *table, const char *name, struct ms_range *ret);

/*
 * The name of its symbol @index, if that is a function of the file and its name no longer than
 * MS_SYMTAB_NAME; or NULL.
 */
const char *ms_symtab_function(const struct ms_symtab *table, size_t index);

/* Whether the function @name is one that no other of that name could replace. */
bool ms_symtab_is_strong(const struct ms_symtab *table, const char *name);

/* Whether a function at @at, as the file has it, has a name that begins with @prefix. */
bool ms_symtab_has_at(const struct ms_symtab *table, uint64_t at, const char *prefix);

/* Find the function around @at, as the file has both. */
bool ms_symtab_around(const struct ms_symtab *table, uint64_t at, struct ms_range *ret);

/* Whether which function is meant by @name is chosen when the program starts (IFUNC). */
bool ms_symtab_is_chosen(const struct ms_symtab *table, const char *name);

#endif
