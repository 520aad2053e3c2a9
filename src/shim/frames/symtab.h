/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SHIM_FRAMES_SYMTAB_H
#define MS_SHIM_FRAMES_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a file says of an offset in it. */
struct ms_symbol {
	uint64_t pc;     /* the address that it counts from */
	uint64_t offset; /* from the beginning of the function */
	char name[512];  /* of the function; empty when it has none */
};

/*
 * Name the function at byte @at of the ELF image that begins at @elf_offset in @path, by
 * its symbol table, or that for linking when it is stripped.
 *
 * False when the file is not there or no such image; a broken one has no names.
 */
bool ms_symtab_find(const char *path, uint64_t elf_offset, uint64_t at, struct ms_symbol *ret);

#endif
