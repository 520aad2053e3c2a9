/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_FILES_H
#define MS_SYM_FILES_H

/*
 * Names for addresses of ELF files that lie in a folder, such as the libraries of a
 * device that is not here. The processor is whatever elfutils knows.
 *
 * Separate debug information is looked for in the folder's usr/lib/debug, beside the
 * file and where this system has it; on debuginfod's servers only when that is asked for.
 *
 *	finder.h         how files are asked for
 *	opener.c         what answers: composes paths and opens files, reads none
 *	fetch.c          debuginfod's servers
 *	files.c          from a library to a file, from there to names
 *	codes.c          the same for the files of a process
 *	zip.c            libraries inside the package of an app
 *	elf/debug.c      separate debug information
 *	elf/functions.c  the functions at an address, inlined ones too
 *	elf/units.c      the compilation unit of an address
 *	elf/table.c      the symbol of an address
 *	types/types.h    types, and where variables are
 */

#include "base/arena.h"
#include "engine/report.h"
#include "sym/elf/debug.h"

/* Where files are looked for. */
struct ms_symbol_folder {
	const char *path;
	bool same_inode; /* only a file with the inode that was mapped will do */
	bool flat;       /* also a file of the library's name in the folder itself */
};

struct ms_symbol_folders {
	const struct ms_symbol_folder *at;
	size_t n;
	bool debuginfod; /* the servers of DEBUGINFOD_URLS are asked, too */
};

/* A file as it was mapped. */
struct ms_mapped_file {
	const char *path;
	uint64_t inode; /* 0: not known */
};

struct ms_symbol_file;

/* Open @mapped's file, whatever it is, in the first folder that has one; -1: none has. */
int ms_symbol_folders_open(const struct ms_symbol_folders *folders,
                           const struct ms_mapped_file *mapped);

/*
 * Open @mapped's file in the first folder that has it; NULL when none has an ELF file. It,
 * and all that it returns, is in @arena.
 */
struct ms_symbol_file *ms_symbol_file_open(const struct ms_symbol_folders *folders,
                                           const struct ms_mapped_file *mapped,
                                           struct ms_arena *arena);

/*
 * The same of the open ELF file @fd, which becomes the symbol file's, in every case.
 *
 * @finder: of its debug information; borrowed. There it is number @code
 */
struct ms_symbol_file *ms_symbol_file_take(int fd, const char *path, const struct ms_finder *finder,
                                           uint32_t code, struct ms_arena *arena);

/* Whether its debug information is to be had in the memory that there is for it. */
bool ms_symbol_file_fits(const struct ms_symbol_file *file);

/* Its path, as it was given. */
const char *ms_symbol_file_path(const struct ms_symbol_file *file);

void ms_symbol_file_close(struct ms_symbol_file *file);

/*
 * The functions of the code at @offset in the file, innermost first, in place of what
 * @ret had; none when nothing is known of it. Strings outlive @file.
 *
 * Returns false when no code is there: this is not the file that was mapped.
 */
bool ms_symbol_file_name(struct ms_symbol_file *file, uint64_t offset, struct ms_functions *ret);

/* The same, and the symbol with the address in the ELF file. */
bool ms_symbol_file_tell(struct ms_symbol_file *file, uint64_t offset, struct ms_named *ret);

/*
 * The variable at @addr of the ELF file's own addresses, its name in @arena; false when none
 * is known.
 */
bool ms_symbol_file_tell_data(struct ms_symbol_file *file, ms_addr addr, struct ms_arena *arena,
                              struct ms_symbol *ret);

/* The build-id's bytes; 0 of them when it has none. */
size_t ms_symbol_file_build_id(const struct ms_symbol_file *file, const unsigned char **ret);

/*
 * Its debug information, wherever that is; NULL: there is none.
 *
 * @ret_bias: what is added to an address there for that in the file
 */
Dwarf *ms_symbol_file_dwarf(struct ms_symbol_file *file, uint64_t *ret_bias);

/* What became of its separate debug information. */
const struct ms_debug *ms_symbol_file_debug(const struct ms_symbol_file *file);

#endif
