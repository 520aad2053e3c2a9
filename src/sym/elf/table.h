/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_ELF_TABLE_H
#define MS_SYM_ELF_TABLE_H

/* The symbols of a file by address, which libdwfl goes through one by one. */

#include <elfutils/libdwfl.h>

#include "base/arena.h"
#include "base/range.h"

struct ms_table_entry {
	struct ms_range range; /* first: searched by it */
	const char *name;      /* as the linker has it; libdwfl's */
	uint8_t rank;          /* of two at one address the one with more is used */
};

/* Begins as { .mod, .arena, .data }. */
struct ms_symbol_table {
	Dwfl_Module *mod;
	struct ms_arena *arena;
	struct MS_VEC(struct ms_table_entry) entries;
	bool data;         /* of variables; else of functions */
	Elf_Data *frames;  /* the table over the file's frames; NULL: it has none */
	ms_addr frames_at; /* where that is loaded */
	bool listed;
};

/*
 * The symbol of the function, or variable, at @addr, as the module is loaded; NULL when none is
 * known. One without a size has all up to the next symbol, and no other function's code.
 */
const struct ms_table_entry *ms_symbol_table_find(struct ms_symbol_table *table, ms_addr addr);

/* Whether it says how far the function goes. */
bool ms_table_entry_is_sized(const struct ms_table_entry *entry);

#endif
