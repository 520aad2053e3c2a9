/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_DRAWN_CORE_H
#define MS_TESTS_DRAWN_CORE_H

/*
 * A core, drawn:
 *
 *	DRAWN_PROGRAM   its file's first page, in the core
 *	DRAWN_CODE      the next one, left out
 *	DRAWN_DATA      the third, in the core; behind it bss, left out
 *	DRAWN_BRK       memory, in the core
 *	DRAWN_MEMORY    in the core; behind it a page that nobody may use
 *	DRAWN_VVAR      left out; behind it the vdso
 *	DRAWN_STACK
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/range.h"

enum { DRAWN_PAGE = 4096, DRAWN_PAGES = 3, DRAWN_LOADS = 16, DRAWN_FILES = 8, DRAWN_TIDS = 4 };

#define DRAWN_PROGRAM UINT64_C(0x400000)
#define DRAWN_CODE    UINT64_C(0x401000)
#define DRAWN_DATA    UINT64_C(0x402000)
#define DRAWN_BSS     UINT64_C(0x403000)
#define DRAWN_BRK     UINT64_C(0x500000)
#define DRAWN_MEMORY  UINT64_C(0x7f0000000000)
#define DRAWN_VVAR    UINT64_C(0x7f0000100000)
#define DRAWN_VDSO    UINT64_C(0x7f0000101000)
#define DRAWN_STACK   UINT64_C(0x7ffffff00000)
#define DRAWN_PATH    "/drawn/program"

struct drawn_load {
	ms_addr at;
	uint64_t in_core; /* bytes */
	uint64_t bytes;
	uint32_t flags; /* PF_* */
	int file; /* 0: bytes of source_suite_byte(); 1: the program's from its page on; 2: zeros */
	uint64_t page;
};

struct drawn_file {
	struct ms_range range;
	uint64_t page;
	const char *path;
};

struct drawn_core {
	struct drawn_load loads[DRAWN_LOADS];
	size_t n_loads;
	struct drawn_file files[DRAWN_FILES];
	size_t n_files;
	uint64_t file_units; /* that NT_FILE counts pages in */
	int32_t tids[DRAWN_TIDS];
	size_t n_tids;
	uint64_t page_bytes; /* in its auxiliary vector */
	size_t shift;        /* of where bytes of memory lie in the core, as gdb's do */
	size_t notes;        /* out: where the notes begin */
	uint8_t program[DRAWN_PAGES * DRAWN_PAGE]; /* the file */
	uint8_t bytes[1 << 17];
	size_t n;
};

/* Fill in what is above, to be changed. */
void drawn_core_init(struct drawn_core *core);

/* Write core->bytes. */
void drawn_core_write(struct drawn_core *core);

/* Bytes in a file without a name. */
int drawn_memfd(const void *bytes, size_t n);

/* The number of the load at @at. */
struct drawn_load *drawn_core_load(struct drawn_core *core, ms_addr at);

#endif
