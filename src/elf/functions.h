/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ELF_FUNCTIONS_H
#define MS_ELF_FUNCTIONS_H

/*
 * The functions that an ELF file names, and the variables if wanted: its symbol table, sorted.
 *
 * Read by pread() into an arena, so that it can be done where malloc must not be called
 * and where a file that is cut short meanwhile must not kill. Whatever a file holds, a
 * name that it does not have is the worst that comes of it. Nothing is known here of
 * processes, of debug information, and of what mangled names mean.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"

struct ms_elf_segment {
	uint64_t offset; /* in the image */
	uint64_t bytes;
	uint64_t address;
};

struct ms_elf_function {
	uint64_t begin;
	uint64_t end;
	const char *name; /* never empty */
};

struct ms_elf_image {
	bool variables; /* in: these, too */
	struct MS_VEC(struct ms_elf_segment) code;
	struct MS_VEC(struct ms_elf_function) functions; /* by begin; they may overlap */
};

/*
 * Read the image that begins at byte @begin of the file @fd of @bytes bytes.
 *
 * @ret: in: what is wanted
 *
 * False when there is none, or one of another architecture's class and order of bytes.
 * What it has in it that makes no sense is left out.
 */
bool ms_elf_read(int fd, uint64_t begin, uint64_t bytes, struct ms_arena *arena,
                 struct ms_elf_image *ret);

/* The address of byte @at. What no segment has is taken to be loaded where it stands. */
uint64_t ms_elf_address(const struct ms_elf_image *image, uint64_t at);

/* The function at @address, or NULL. */
const struct ms_elf_function *ms_elf_function_at(const struct ms_elf_image *image,
                                                 uint64_t address);

#endif
