/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_STACKS_H
#define MS_ENGINE_STACKS_H

/*
 * Which memory is stack, and which part of it lives.
 *
 * Knows stack pointers and thread pointers, and what the C library says of its threads:
 *
 *	stackblock                     sp            tp                      end
 *	├── guard ──┬── dead ───────────┬── live ─────┼── control block ──────┤
 *	                                 frames, TLS
 *
 * A C library may keep the stacks of threads that ended for the next thread. What
 * their frames and thread-local storage held is dead, but looks like pointers; such
 * stacks are found by their control block and taken out of the roots.
 */

#include "base/range.h"
#include "base/status.h"
#include "engine/decoder.h"
#include "engine/libc/libc.h"

/* A live part of a stack, and the thread that it is of. */
struct ms_stack_part {
	struct ms_range range;
	int32_t tid; /* 0: it ended */
	bool open;   /* nothing says where its stack ends, only where the memory does */
};

/* The thread that a word is of. */
struct ms_stack_word {
	int32_t tid; /* 0: it ended */
	bool tls;    /* its table of dynamic TLS; else what lies beside the stack it was given */
};

struct ms_stacks {
	struct ms_ranges live;     /* roots; tidy */
	struct ms_ranges whole;    /* all memory that is stack, alive or dead; tidy */
	struct ms_ranges doubtful; /* dead, or in use: what only these hold is no certain leak;
	                              tidy, and nothing of live */
	struct ms_words words; /* roots: each thread's table of dynamic TLS, as malloc gave it */
	uint32_t n_dead;       /* stacks of threads that ended */
	/*
	 * Which threads these are of: live's parts, by where they begin (of overlapping ones, the
	 * inner is behind), and words, one each.
	 */
	struct MS_VEC(struct ms_stack_part) parts;
	struct MS_VEC(struct ms_stack_word) word_owners;
};

/*
 * Find the stacks of d->src's threads and of threads that ended. None of the latter is looked
 * for in d->owned, and nothing of d->own_words lives; both are tidy.
 */
ms_must_check enum ms_status ms_stacks_find(const struct ms_decoding *d,
                                            const struct ms_libc_view *libc, struct ms_stacks *ret);

/*
 * Once d->blocks are sealed: a stack in a block ends with it. What else of that block is no
 * stack lives with it; where it is not known what is, all below the stack pointer is doubtful.
 */
ms_must_check enum ms_status ms_stacks_fit(const struct ms_decoding *d, struct ms_stacks *stacks);

/*
 * The part of live that has @at, or NULL; the inner one where they overlap.
 * Cost: O(log parts) where no part lies in another.
 */
const struct ms_stack_part *ms_stacks_part(const struct ms_stacks *stacks, ms_addr at);

#endif
