/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_FILES_H
#define MS_SYM_FILES_H

/*
 * Names for addresses of ELF files that lie in a folder, such as the libraries of a
 * device that is not here. The processor is whatever elfutils knows.
 *
 * Separate debug information is looked for in the folder's usr/lib/debug, beside the
 * file and where this system has it; from debuginfod when DEBUGINFOD_URLS is set. It
 * counts when its build-id is the file's, which libdwfl sees to.
 *
 *	files.c      from a library to a file, from there to names
 *	zip.c        libraries inside the package of an app
 *	functions.c  the functions at an address, inlined ones too
 */

#include "base/arena.h"
#include "engine/backtrace.h"

/* Where files are looked for. */
struct ms_symbol_folder {
	const char *path;
	bool same_inode; /* only a file with the inode that was mapped will do */
	bool flat;       /* also a file of the library's name in the folder itself */
};

/* A file as it was mapped. */
struct ms_mapped_file {
	const char *path;
	uint64_t inode; /* 0: not known */
};

struct ms_symbol_file;

/* Open @mapped's file, whatever it is, in the first folder that has one; -1: none has. */
int ms_symbol_folders_open(const struct ms_symbol_folder *folders, size_t n,
                           const struct ms_mapped_file *mapped);

/*
 * Open @mapped's file in the first folder that has it; NULL when none has an ELF file. It,
 * and all that it tells, is in @arena.
 */
struct ms_symbol_file *ms_symbol_file_open(const struct ms_symbol_folder *folders, size_t n,
                                           const struct ms_mapped_file *mapped,
                                           struct ms_arena *arena);

void ms_symbol_file_close(struct ms_symbol_file *file);

/*
 * The functions of the code at @offset in the file, innermost first, in place of what
 * @ret had; none when nothing is known of it. Strings outlive @file.
 *
 * Returns false when no code is there: this is not the file that was mapped.
 */
bool ms_symbol_file_name(struct ms_symbol_file *file, uint64_t offset, struct ms_functions *ret);

#endif
