/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_ROOTS_H
#define MS_ENGINE_ROOTS_H

/*
 * Step 5: what is alive by itself, and what becomes alive when it is reached.
 *
 *	roots   globals and break memory, less what allocators own; the live part of
 *	        every stack; registers; values that the kernel holds; heap memory
 *	        whose blocks could not be proved
 *	nodes   all other readable memory, less heap and stacks: one block of the
 *	        graph for each stretch, read once something points into it
 *
 * A root is a range of memory, every word of which counts, or a single word. What it is
 * called is found only for the one that is asked for.
 */

#include "engine/decoder.h"
#include "engine/graph/walk.h"
#include "engine/stacks.h"

struct ms_roots {
	struct ms_ranges ranges; /* globals and break memory, then what is unproved or in hand */
	size_t unproved0;        /* the first of these */
	struct ms_stacks stacks;
	const struct ms_regions *regions;
	const struct ms_source *src;
};

/* What is visited. */
struct ms_root {
	struct ms_range range; /* its words are roots; empty: value is one */
	uint64_t value;
	enum ms_root_kind kind; /* of the list that has it; a word's name may have another */
	size_t index;           /* of value, in that list */
	const struct ms_thread *thread; /* of a register */
};

typedef void ms_root_fn(void *ctx, const struct ms_root *root);

/* A root's name. */
struct ms_root_name {
	enum ms_root_kind kind;
	ms_addr at;       /* where the word stands; 0: in no memory */
	int32_t tid;      /* of STACK, TLS, REGISTER: its thread; 0: one that ended */
	uint32_t mapping; /* of GLOBALS, BREAK, UNPROVED: where it counts from, in src->mappings */
	int64_t offset;   /* as its kind counts */
};

/*
 * Find the roots, and add the nodes to the table of blocks, which is not sealed
 * yet. d->owned is tidy.
 */
ms_must_check enum ms_status ms_roots_find(struct ms_decoding *d, const struct ms_libc_view *libc,
                                           struct ms_roots *ret);

/* Call @visit for every root. */
void ms_roots_visit(const struct ms_roots *roots, ms_root_fn *visit, void *ctx);

/*
 * Name @root, of which a word stands at @at if it is memory.
 *
 * On a stack that its thread has left, as for a signal's, offsets count from the lowest
 * address in use. Memory of a stack from the thread pointer on is TLS; what lies below may
 * be, too, where the ABI has variables there (x86_64): the modules' program headers say how
 * many. A thread's table of dynamic TLS, and what lies beside a stack that the program gave,
 * are single words, and have no offset.
 *
 * Cost: O(threads), O(log mappings).
 */
struct ms_root_name ms_root_name(const struct ms_roots *roots, const struct ms_root *root,
                                 ms_addr at);

/* Give every root to @walk. */
void ms_roots_walk(const struct ms_roots *roots, struct ms_walk *walk);

#endif
