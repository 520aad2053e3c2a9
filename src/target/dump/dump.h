/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_DUMP_H
#define MS_TARGET_DUMP_H

/*
 * Writing the core of a process whose memory is held: what gdb opens and memscan core reads.
 *
 *	ELF header │ program headers │ notes: threads, auxv, files │ memory
 *
 *	segments.c   which memory is written, and where it goes in the file
 *	notes.c      what is said of the process and its threads
 *	write.c      the file, from its first byte to its last
 *
 * It knows a source and what was captured of the threads; how the memory is held, where the
 * bytes go and whether they are compressed is others' business. Nothing that the memory holds
 * is interpreted.
 *
 * Sources: core(5), elf(5); fs/binfmt_elf.c for the notes and their order.
 */

#include <sys/procfs.h>

#include "engine/report.h"
#include "engine/source.h"
#include "target/collection.h"

enum { MS_DUMP_AUXV_BYTES = 2048 };

/* What /proc says of a process, before it is frozen. */
struct ms_dump_process {
	struct elf_prpsinfo info;
	uint8_t auxv[MS_DUMP_AUXV_BYTES];
	size_t auxv_bytes;
};

/* Look it up. */
void ms_dump_look(pid_t pid, struct ms_dump_process *ret);

/* Where a core goes, from its first byte to its last. */
struct ms_dump_sink {
	/* False when it cannot be written; the sink knows why. */
	bool (*put)(void *ctx, const void *bytes, size_t len);
	/* The next @len bytes are zeros. */
	bool (*skip)(void *ctx, uint64_t len);
	bool (*finish)(void *ctx); /* that was all */
	void *ctx;
};

struct ms_dump_call {
	const struct ms_dump_process *process;
	const struct ms_collection *frozen; /* captured with registers as they are */
	struct ms_source *src;
	bool heap_only; /* omit what is shared, and what cannot be written to */
	const struct ms_dump_sink *sink;
};

/* A core that is wanted of a process, which is held by others. */
struct ms_dump_order {
	const struct ms_dump_process *process;
	const struct ms_dump_sink *sink;
	bool heap_only;
	struct ms_dump_done *done;
};

/* In memory that is shared with who waits for the core. */
struct ms_dump_done {
	_Atomic uint64_t total;   /* bytes of memory that are to be written */
	_Atomic uint64_t written; /* so far */
	_Atomic uint64_t lost;    /* of these: bytes that could not be read, and are zeros */
	_Atomic uint64_t length;  /* of the core, holes and all */
};

/*
 * Write the core.
 *
 * Returns MS_E_SYS when the sink refused, MS_E_UNSUPPORTED, with advice, when a core for words of
 * 4 bytes would be longer than that can say; MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_dump_write(const struct ms_dump_call *call, struct ms_arena *arena,
                                           struct ms_dump_done *done, struct ms_error *err);

/* ---- between these files ---- */

/* Whether the core is one of 32 bits, as its program is. */
static inline bool ms_dump_is_narrow(const struct ms_dump_call *call)
{
	return call->src->abi.word_bytes != sizeof(uint64_t);
}

/* A program header: memory in a row, of which the first bytes are written. */
struct ms_dump_segment {
	struct ms_range range;
	uint64_t bytes;  /* that are written */
	uint64_t offset; /* where in the core; 0 until all are placed */
	uint32_t flags;  /* PF_* */
	bool sparse;     /* what the source does not have present is zeros */
};

struct ms_dump_segments MS_VEC(struct ms_dump_segment);

/* False without memory. */
bool ms_dump_segments_find(const struct ms_dump_call *call, struct ms_arena *arena,
                           struct ms_dump_segments *ret);

struct ms_dump_bytes MS_VEC(uint8_t);

/* The notes, as they are in the file. False without memory. */
bool ms_dump_notes_make(const struct ms_dump_call *call, struct ms_arena *arena,
                        struct ms_dump_bytes *ret);

/*
 * A note of ours (name "memscan", type 1): what no other note has, and memscan core wants to
 * know.
 */
enum { MS_DUMP_NOTE = 1, MS_DUMP_NOTE_LEAST = 2, MS_DUMP_NOTE_VERSION = 3 };
#define MS_DUMP_NOTE_NAME "memscan"

enum {
	MS_DUMP_COMPLETE = 1,     /* what is not in the core is zeros, or the files' */
	MS_DUMP_SERVES_FILES = 2, /* as of a source; from version 3 on */
};

struct ms_dump_note {
	uint32_t version;
	uint32_t flags;               /* MS_DUMP_COMPLETE and the like */
	uint64_t unknown_stack_bytes; /* as of a source */
	uint64_t n_requests;          /* the same */
	uint64_t n_words;             /* that follow: values that only the kernel held */
};

#endif
