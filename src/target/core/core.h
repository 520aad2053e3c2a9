/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_CORE_H
#define MS_TARGET_CORE_H

/*
 * A source that is the core of a process: of one that crashed, by the kernel, or of a running
 * one, by gcore. No process is needed.
 *
 *	layout.c, notes.c   what the file says: segments, threads, mapped files
 *	cells.c             mappings, as the engine has them: where the heap and the stack are
 *	files.c             programs and libraries that the mappings are of, proved to be those
 *	parts.c             where the bytes of each mapping are: in the core, in a file, nowhere
 *	doubts.c            what is nowhere, and could hold pointers
 *	pointers.c          thread pointers that no note has
 *	kernels.c           what only the kernel knew
 *	core.c              the source
 *
 * A core has what the process wrote, and of files hardly more than their headers; the rest of
 * these is read from the files themselves. Which memory the kernel leaves out is said in
 * core(5), "Controlling which mappings are written to the core dump".
 */

#include "engine/report.h"
#include "engine/source.h"
#include "target/collection.h"

/* A program or library that the process had mapped. */
struct ms_core_wanted {
	const char *path; /* as the process had it */
	ms_addr at;       /* of the first mapping of it */
	bool program;     /* that was executed */
};

struct ms_core_call {
	int fd;           /* the core, a regular file; borrowed */
	const char *path; /* its name, for messages */
	/*
	 * Open the file of @wanted at the @place-th place where it may be, or a later one;
	 * @place is set behind that. -1: there is none.
	 */
	int (*open)(void *ctx, const struct ms_core_wanted *wanted, uint32_t *place);
	void *ctx;
	struct ms_notes *warnings; /* in the arena: what is missing, and what that means */
};

/* What is known of the process beside what a source shows. */
struct ms_core_process {
	struct ms_target_facts facts;
	struct ms_collection *frozen; /* its threads as if they had been frozen, in the arena */
	ms_addr program;              /* of the first mapping of its program; 0: not known */
	uint64_t bytes;               /* of its memory in the core */
	uint64_t missing_bytes;       /* that were cut off */
};

/*
 * Open a core, in @arena, and the files that it needs.
 *
 * Returns what ms_core_layout_read() does, MS_E_SYS when the file cannot be read.
 * Context: everything is hostile, and it is read through mapped memory: a file that is made
 * shorter meanwhile ends this process by SIGBUS. So a process of its own calls this, with limits.
 */
ms_must_check enum ms_status ms_core_open(const struct ms_core_call *call, struct ms_arena *arena,
                                          struct ms_core_process *ret_process,
                                          struct ms_source **ret, struct ms_error *err);

/* How many bytes of the core @fd are there: a hole of its file is not. Reads none of them. */
uint64_t ms_core_data_bytes(int fd);

/*
 * Check the first @n bytes of a core: magic, type and machine, as ms_core_open() does.
 *
 * Returns MS_E_UNSUPPORTED for another file, MS_E_CORRUPT when it ends too early.
 */
ms_must_check enum ms_status ms_core_check(const void *bytes, size_t n, const char *path,
                                           struct ms_error *err);

#endif
