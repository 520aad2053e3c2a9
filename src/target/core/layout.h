/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_CORE_LAYOUT_H
#define MS_TARGET_CORE_LAYOUT_H

/*
 * What an ELF core says of its process: program headers and notes, checked and in order, but
 * not yet understood.
 *
 *	ELF header │ program headers │ notes                │ bytes of the segments
 *	                               threads, auxv, files
 *
 * The file may be anything: every count, length and offset is bounded before it is used, and
 * what the notes say is copied out of them.
 */

#include "base/arena.h"
#include "base/range.h"
#include "base/reader.h"
#include "base/status.h"
#include "engine/source.h"

/* A mapping of the process as a program header has it. */
struct ms_core_segment {
	struct ms_range range; /* first: searched by it */
	uint64_t offset;       /* of its first byte in the core */
	uint64_t bytes;        /* that the core was to have of it; the length of range at most */
	uint64_t cut;          /* of these, the last ones, which are behind the core's end */
	uint8_t prot;          /* enum ms_prot */
};

/* A mapping of a file (NT_FILE). */
struct ms_core_mapped {
	struct ms_range range; /* first: searched by it */
	uint64_t offset;       /* into the file */
	const char *path;      /* as the kernel prints it */
};

/* At most: of vm.max_map_count's default, with a stack and its guard each, one has half as many. */
enum { MS_CORE_THREADS = 1 << 16 };

enum { MS_CORE_FILE_TEXT = 16, MS_CORE_ARGS_TEXT = 80 }; /* of NT_PRPSINFO, cut off */

/* The registers of a thread, in the notes' own form. */
struct ms_core_thread {
	int32_t tid;
	const void *general; /* NT_PRSTATUS */
	size_t general_bytes;
	/* The best of NT_X86_XSTATE, NT_PRXFPREG, NT_FPREGSET; NULL. */
	const void *vectors;
	size_t vectors_bytes;
	uint8_t rank;      /* how good that is */
	const void *areas; /* NT_386_TLS; NULL */
	size_t areas_bytes;
};

struct ms_core_auxv {
	uint64_t type;
	uint64_t value;
};

struct ms_arch;

struct ms_core_layout {
	const struct ms_arch *arch;                     /* of the program; not NULL */
	struct MS_VEC(struct ms_core_segment) segments; /* by address, no overlap */
	struct MS_VEC(struct ms_core_mapped) mapped;    /* the same */
	struct MS_VEC(struct ms_core_thread) threads;
	struct MS_VEC(struct ms_core_auxv) auxv;
	uint32_t page_bytes;              /* of the machine that wrote it */
	struct ms_words kernel_words;     /* that signals carried (NT_SIGINFO), or memscan noted */
	int32_t pid;                      /* 0: not known */
	char name[MS_CORE_FILE_TEXT + 1]; /* the program's, cut off; "": not known */
	char args[MS_CORE_ARGS_TEXT + 1]; /* its command line, with blanks, cut off */
	bool by_debugger;                 /* gdb wrote it, not the kernel */
	bool by_memscan;                  /* which asked the kernel for what only that knew */
	bool complete;                    /* of memory nothing is left out but what files have */
	uint64_t unknown_stack_bytes;     /* as of a source; by memscan */
	uint64_t n_requests;              /* the same */
	bool serves_files;                /* the same */
	bool damaged;                     /* some notes make no sense, and were left out */
};

struct ms_core_input {
	struct ms_reader from;        /* "addresses" are offsets in the file */
	uint64_t bytes;               /* its length */
	const struct ms_ranges *data; /* of it, without its holes; tidy; NULL: all is */
	const char *path;             /* for messages */
};

/*
 * Read the layout of the core @input, in @arena.
 *
 * Returns MS_E_UNSUPPORTED for what is no core, or of another machine, MS_E_CORRUPT for one
 * that lacks what it takes, both with advice; MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_core_layout_read(const struct ms_core_input *input,
                                                 struct ms_arena *arena, struct ms_core_layout *ret,
                                                 struct ms_error *err);

/* The value of the auxiliary vector's entry @type; 0: it has none. */
uint64_t ms_core_auxv_value(const struct ms_core_layout *layout, uint64_t type);

/* ---- between these files ---- */

/* Take @len bytes of notes, which stay where they are, to @ret. False without memory. */
bool ms_core_notes_take(const uint8_t *bytes, uint64_t len, struct ms_arena *arena,
                        struct ms_core_layout *ret);

#endif
