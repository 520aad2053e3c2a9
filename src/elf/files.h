/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ELF_FILES_H
#define MS_ELF_FILES_H

/*
 * The files that a process has mapped, by what it maps: each is opened once, and read when
 * it is first asked.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/range.h"
#include "base/vec.h"
#include "elf/functions.h"

/* A file as it is mapped in this process. */
struct ms_elf_mapped {
	const char *path;       /* as the kernel prints it; lives as long as the files */
	uint64_t inode;         /* which the file must have, lest it is another one now */
	uint64_t begin;         /* where in it the image begins */
	struct ms_range memory; /* a whole mapping of it */
};

struct ms_elf_file {
	struct ms_elf_mapped mapped;
	int fd; /* -1: read, or not there */
	uint64_t bytes;
	bool is_image;
	struct ms_elf_image image;
};

struct ms_elf_files {
	struct ms_arena *arena; /* of all that is read */
	bool sealed;            /* no file may be opened any more */
	bool variables;         /* they are named as well as functions */
	struct MS_VEC(struct ms_elf_file) list;
};

/*
 * The file of @mapped, opened if it is not yet; NULL when there is none any more, or one of
 * that name which is another. Good until the next call.
 */
struct ms_elf_file *ms_elf_files_open(struct ms_elf_files *files,
                                      const struct ms_elf_mapped *mapped);

/* Close those that were never asked. What was read is the arena's. */
void ms_elf_files_close(struct ms_elf_files *files);

struct ms_elf_place {
	uint64_t pc;      /* as the file counts addresses */
	uint64_t offset;  /* from the beginning of the function */
	const char *name; /* of the function, as it is linked; any bytes */
	size_t name_len;  /* without its version; 0: there is no function */
};

/* What the file says of byte @at of its image. False when there is no image; @ret is written. */
bool ms_elf_find(struct ms_elf_files *files, struct ms_elf_file *file, uint64_t at,
                 struct ms_elf_place *ret);

/* The same of @address, as the file counts: data need not stand in the file at all. */
bool ms_elf_find_address(struct ms_elf_files *files, struct ms_elf_file *file, uint64_t address,
                         struct ms_elf_place *ret);

#endif
