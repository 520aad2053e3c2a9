/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_CORE_PARTS_H
#define MS_TARGET_CORE_PARTS_H

/* Between the files of this room: see core.h. */

#include "target/core/core.h"
#include "target/core/layout.h"

enum { MS_CORE_HEAD_BYTES = 4096 }; /* of a file, by which it is known */

/* What is known of a file that was mapped. */
enum ms_core_file_state {
	MS_CORE_FILE_UNASKED, /* nothing is wanted of it */
	MS_CORE_FILE_DATA,   /* it is no program or library; what was left out was not written to */
	MS_CORE_FILE_ABSENT, /* there is none, or it cannot be opened */
	MS_CORE_FILE_OTHER,  /* what has its name is another build */
	MS_CORE_FILE_UNPROVED, /* there is one, and nothing in the core says which it was */
	MS_CORE_FILE_PROVED,
};

struct ms_core_file {
	const char *path;
	void *map;            /* the file, mapped; NULL: it is not there */
	const uint8_t *bytes; /* the same */
	uint64_t len;
	ms_addr head;           /* where its first byte was mapped; 0: nowhere */
	bool code;              /* some of it was executable */
	bool program;           /* it is the program that was executed */
	uint8_t state;          /* enum ms_core_file_state */
	uint64_t missing_bytes; /* that are neither in the core nor in the file */
};

struct ms_core_files MS_VEC(struct ms_core_file);

/* A piece of a segment, of one file or of none; or of a file alone, where there is no segment. */
struct ms_core_cell {
	struct ms_range range;                 /* first: sorted by it */
	const struct ms_core_segment *segment; /* NULL: there is none */
	uint64_t offset;                       /* into the file */
	uint32_t file;                         /* its number in the files, from 1 on; 0: none */
};

struct ms_core_cells MS_VEC(struct ms_core_cell);

enum ms_core_where {
	MS_CORE_IN_CORE,
	MS_CORE_IN_HOLE, /* in the core, where its file has a hole: zeros */
	MS_CORE_IN_FILE,
	MS_CORE_ZERO,    /* nobody wrote there */
	MS_CORE_NOWHERE, /* not readable */
};

struct ms_core_part {
	struct ms_range range; /* first: searched by it */
	uint64_t at;           /* offset in the core or file */
	uint32_t file;
	enum ms_core_where where;
};

struct ms_core_parts MS_VEC(struct ms_core_part);

struct ms_core {
	struct ms_source base;
	struct ms_core_layout layout;
	struct ms_core_files files;
	struct ms_core_cells cells; /* those of base.mappings have the same numbers */
	struct ms_core_parts parts; /* by address, no overlap */
	struct ms_ranges present;   /* what can be other than zeros and file content; tidy */
	void *map;                  /* the core */
	const uint8_t *bytes;       /* the same */
	uint64_t len;
	struct ms_ranges data; /* of it, without its holes; tidy */
	struct ms_arena *arena;
	struct ms_notes *warnings;
	uint64_t cut_bytes; /* that are behind the end of the core */
};

static inline const struct ms_core_file *ms_core_file_of(const struct ms_core *core,
                                                         const struct ms_core_cell *cell)
{
	return cell->file ? &core->files.at[cell->file - 1] : NULL;
}

/* Set @run to the data of the core behind @run->end; false when there is none. */
bool ms_core_next_data(int fd, uint64_t len, struct ms_range *run);

/*
 * Cut segments and mapped files into cells, list the files and name the mappings. False without
 * memory, as all that follow.
 */
ms_must_check bool ms_core_cells_make(struct ms_core *core);

/* The first mapping of the program that was executed; 0: not known. */
ms_addr ms_core_program(const struct ms_core *core);

/* Name what the kernel and brk() mapped; once programs and libraries can be read. */
void ms_core_name_special(struct ms_core *core);

/* Say where the bytes of all cells are. Called again, when files were opened. */
ms_must_check bool ms_core_parts_make(struct ms_core *core);

/* Open the files of which bytes are not in the core. */
void ms_core_files_open(struct ms_core *core, const struct ms_core_call *call);

/* Find thread pointers that no note has. */
ms_must_check bool ms_core_pointers_find(struct ms_core *core, struct ms_collection *frozen);

/* Find out what of the kernel's may be missing: base.unknown_stack_bytes, and warnings. */
ms_must_check bool ms_core_kernels_ask(struct ms_core *core);

/* Find what is nowhere and could hold pointers: base.unseen. Warn of all that is missing. */
ms_must_check bool ms_core_doubts_find(struct ms_core *core);

#endif
