/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_SYM_FINDER_H
#define MS_SYM_FINDER_H

/*
 * How what reads ELF and DWARF comes by files: it asks for them by what they are, never by
 * a path, and gets descriptors. Another process may answer (opener.h says how it
 * is answered), so questions and answers are plain bytes.
 *
 *	CODE     the file that was mapped as number @code
 *	DEBUG    separate debug information of that file: by build-id, or of the name @name
 *	         beside it, which has no slash
 *	COMMON   what several files' debug information has in common (dwz): by build-id, or
 *	         of the name @name below /usr/lib/debug
 *	SERVER   what debuginfod's servers have of a build-id
 */

#include <limits.h>
#include <stdint.h>

#include "engine/source.h"

enum ms_file_kind { MS_FILE_CODE, MS_FILE_DEBUG, MS_FILE_COMMON, MS_FILE_SERVER };

enum { MS_FILE_ID = 64, MS_FILE_NAME = 256 };

struct ms_file_question {
	uint32_t kind;  /* enum ms_file_kind */
	uint32_t code;  /* number of a mapped file */
	uint32_t place; /* of the places where it may be, those before this one are left out */
	uint32_t id_len;
	unsigned char id[MS_FILE_ID];
	char name[MS_FILE_NAME]; /* "": none is known */
};

struct ms_file_answer {
	uint32_t place;      /* where the file is */
	char path[PATH_MAX]; /* its name, for people */
};

struct ms_finder {
	/*
	 * Returns the first file, a descriptor of the caller's with @ret filled; -1 when there
	 * is none from that place on. It may be anything but what blocks.
	 */
	int (*find)(void *ctx, const struct ms_file_question *question, struct ms_file_answer *ret);
	void *ctx;
};

/* What names of a process are made of. */
struct ms_symbols_call {
	/* Opens files, whose numbers are those of maps' entries; NULL: none are read. */
	const struct ms_finder *finder;
	const struct ms_mappings *maps;
	/* Reads the process's memory; returns how many bytes from @addr on were readable. */
	size_t (*read)(const void *ctx, ms_addr addr, void *buf, size_t len);
	const void *ctx;
};

#endif
