/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_UNWIND_H
#define MS_ENGINE_UNWIND_H

/*
 * From the registers and the first bytes of a stack, kept at a call, to the calls that led
 * there, by the unwind tables in the memory of the modules.
 *
 * It knows tables, code mappings and the bytes that were kept, and must not read the stack
 * itself, which is another by now, open a file, or call a library: so it runs in the sealed
 * process that searches, and in a program that searches itself.
 *
 *	rows of tables     base/elf/rows.h
 *	expression.c       what some rows calculate
 *	unwind.c           from frame to frame
 *
 * Code without a table (a compiler at run time makes such) is passed by the frame pointer.
 * All of it is the target's to forge: each frame lies above the one before, and the work on all
 * stacks together has a limit: bytes of tables, pieces of memory that are read, and frames.
 */

#include "base/elf/rows.h"
#include "engine/decoder.h"
#include "engine/source.h"

struct ms_kept_stack {
	uint64_t
		registers[MS_ROW_REGISTERS]; /* by DWARF's numbers; the last: where it returns to */
	uint32_t known;                      /* a bit for each */
	bool interrupted; /* the last is where it is itself, not where it returns to */
	uint8_t word_bytes;
	ms_addr at; /* of the bytes */
	const uint8_t *bytes;
	size_t n;
	struct ms_source *rest; /* has what is not among the bytes; NULL: nothing has */
	uint32_t number;        /* of the stack, as ms_unloaded_move() has it */
};

struct ms_unwinder;

/* NULL without memory. It goes with the arena. */
struct ms_unwinder *ms_unwinder_new(struct ms_source *src, struct ms_arena *arena);

/* The unwind table of a library that was unloaded. */
struct ms_former_table {
	struct ms_range code; /* where it was moved to (origins/unloaded.h) */
	struct ms_range at;   /* where the table was, from its .eh_frame_hdr on */
	const uint8_t *bytes; /* of it */
};

struct ms_former_tables MS_VEC(struct ms_former_table);

/*
 * Have @u pass frames of @origins' unloaded libraries, which it then lists as they were moved.
 *
 * @tables: by code; borrowed, as @origins
 */
void ms_unwinder_remember(struct ms_unwinder *u, const struct ms_origins *origins,
                          const struct ms_former_tables *tables);

/*
 * List the calls that led to @stack's function, and where it is if @stack is interrupted, innermost
 * first: addresses in the calling instructions, which return addresses stand behind. The list ends
 * where the bytes do.
 *
 * Returns how many there are, @max at most.
 */
size_t ms_unwind(struct ms_unwinder *u, const struct ms_kept_stack *stack, ms_addr *pcs,
                 size_t max);

/* Whether the stack that was unwound last ended where stacks begin. */
bool ms_unwinder_was_whole(const struct ms_unwinder *u);

/* Whether it goes on, but by bytes behind those that were kept, or for more than the most calls. */
bool ms_unwinder_was_cut(const struct ms_unwinder *u);

/*
 * Whether the stacks so far cost more work than all together may: then of each there is no more
 * than its first call.
 */
bool ms_unwinder_over_budget(const struct ms_unwinder *u);

#endif
