/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_STACKS_H
#define MS_TARGET_STACKS_H

/*
 * The stacks of a running process.
 *
 *	take.c      freeze it, copy registers and stacks, let it run again
 *	unwind.c    from registers and stacks to return addresses, by libunwind
 *	compat.c    the same of programs for other machines that this kernel runs
 *	tables.c    where the unwind tables of its code are
 *
 * What unwinding needs beside a stack is code and unwind tables, which do not
 * change while they are in use; so the process stands for as long as it takes to
 * copy some kilobytes a thread, and runs while its stacks are unwound.
 */

#include <sys/types.h>

#include "base/arena.h"
#include "base/status.h"
#include "engine/backtrace.h"
#include "engine/source.h"
#include "target/collection.h"

enum {
	MS_MAX_FRAMES = 256,
	MS_MAIN_STACK_BYTES = 8 << 20, /* that are copied at most */
	MS_STACK_BYTES = 1 << 20,
	MS_LEAST_STACK_BYTES = 16 << 10,
	MS_ALL_STACK_BYTES = 16 << 20, /* some 5 ms, in which all threads stand */
};

struct ms_arch;

/* Registers, stacks and mappings of a process at one moment. */
struct ms_frozen_stacks {
	pid_t pid;
	const struct ms_arch *arch; /* of its program */
	pid_t living;               /* a thread of it by which /proc answers */
	struct ms_mappings maps;
	struct ms_threads threads;
	struct ms_ranges copied; /* tidy; their bytes one behind the other in `bytes` */
	uint64_t *copied_at;     /* where in `bytes` those of each range are */
	char *bytes;
	uint64_t room;            /* for so many */
	struct ms_ranges missing; /* tidy: of stacks that are larger than what is copied */
	int mem;                  /* /proc/PID/mem, for all else */
	/* Opens the file of that entry of maps, for the unwinder; NULL: none is read. */
	int (*open)(const void *ctx, size_t entry);
	const void *open_ctx;
	char (*names)[MS_THREAD_NAME]; /* of the threads, in their order */
	struct ms_collection *shared;
};

/*
 * Freeze process @pid, copy, and let it run again.
 *
 * @ret: borrows from @arena; to be closed, also on failure
 *
 * Returns what ms_collection_freeze() and ms_maps_read() may return.
 * Context: forks a process, which has ended when this returns.
 */
ms_must_check enum ms_status ms_stacks_take(pid_t pid, uint64_t timeout_ns, struct ms_arena *arena,
                                            struct ms_frozen_stacks *ret, struct ms_error *err);
void ms_stacks_close(struct ms_frozen_stacks *stacks);

/*
 * Read the process's memory: its stacks as they were copied, all else as it is now.
 * Returns how many bytes from @addr on were readable.
 */
size_t ms_stacks_read(const struct ms_frozen_stacks *stacks, ms_addr addr, void *buf, size_t len);

/*
 * Unwind every thread: pid's own first, the others by their ids. Frames are not named.
 *
 * @deadline_ns: of ms_now_ns(); what is not done then is reported as a failure
 *
 * Returns MS_E_NOMEM only. A thread whose stack cannot be followed to its end has the
 * frames that could, and the reason in its failure.
 */
ms_must_check enum ms_status ms_stacks_unwind(const struct ms_frozen_stacks *stacks,
                                              uint64_t deadline_ns, struct ms_arena *arena,
                                              struct ms_backtraces *ret, struct ms_error *err);

struct ms_compat_unwinder;

/* NULL without memory. It goes with the arena. */
struct ms_compat_unwinder *ms_compat_unwinder_new(const struct ms_frozen_stacks *stacks,
                                                  struct ms_arena *arena);

/* Follow the calls of a thread whose registers are known. False without memory. */
ms_must_check bool ms_compat_unwind(struct ms_compat_unwinder *u, const struct ms_thread *thread,
                                    struct ms_arena *arena, struct ms_backtrace *trace);

/* One function and where its unwind information is; relative to the table's base. */
struct ms_unwind_entry {
	int32_t pc;
	int32_t frame;
};

/* Where no process can have memory: a table that we made is read as if it were there. */
#define MS_MADE_TABLE ((ms_addr)1 << 63)

/* The unwind table of a program or library: entries sorted by pc. */
struct ms_unwind_table {
	bool looked; /* all else is known */
	bool found;
	ms_addr base;
	ms_addr entries; /* in the process's memory, or MS_MADE_TABLE */
	uint64_t n;
	const struct ms_unwind_entry *made; /* in ours */
};

/*
 * Make the table over @frames, an .eh_frame, of which @bytes is a copy.
 *
 * @ret: room for as many bytes as @frames has
 *
 * Returns the number of its entries.
 */
size_t ms_unwind_table_make(struct ms_range frames, const char *bytes, ms_addr base,
                            struct ms_unwind_entry *ret);

/* Find the table for the code in @map, one of stacks->maps; what is made of it is in @arena. */
void ms_unwind_table_find(const struct ms_frozen_stacks *stacks, const struct ms_mapping *map,
                          struct ms_arena *arena, struct ms_unwind_table *ret);

#endif
