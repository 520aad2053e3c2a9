/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TARGET_MIRROR_H
#define MS_TARGET_MIRROR_H

/*
 * Memory of ours that stands for ranges of the target.
 *
 *	target   ──[ heap ][ bss ]────────[ anonymous ]────[ stack ]──
 *	                │        gap is no mapping │            │
 *	ours     [ mirror 0      ][ mirror 1       ][ mirror 2  ]
 *
 * A mirror stands for mappings that adjoin each other, so that a block which
 * crosses from one to the next can be shown in one piece. Its pages are zeros
 * until they are filled, which is what untouched memory reads as. All lie in one
 * mapping without reserved memory, cheap however much address space the target
 * keeps. A mirror ends SLACK behind the last page to copy.
 */

#include <stdatomic.h>

#include "target/hold/wanted.h"

struct ms_mirror {
	struct ms_range range; /* of the target */
	struct ms_range need;  /* in it, from the first page to copy to the last */
	char *at;              /* the same bytes as range, here */
};

struct ms_mirror_list MS_VEC(struct ms_mirror);

enum { MS_MIRROR_MEMORIES = 2 }; /* made before the freeze, and what that does not cover */

struct ms_mirrors {
	struct ms_mirror_list list; /* by address */
	char *memory[MS_MIRROR_MEMORIES];
	size_t memory_len[MS_MIRROR_MEMORIES];
	size_t n_memories;
	atomic_size_t last; /* where the last search ended */
};

/* What of a process is to be mirrored. */
struct ms_mirror_plan {
	const struct ms_mappings *maps;
	const struct ms_wanted_list *wanted;
	struct ms_arena *arena;
};

/*
 * Make mirrors in which all of plan->wanted has a place. Called again, after the
 * process changed, it keeps the memory of those that still fit; nothing may have
 * been written to them.
 *
 * Returns MS_E_NOMEM.
 */
ms_must_check enum ms_status ms_mirrors_create(struct ms_mirrors *mirrors,
                                               const struct ms_mirror_plan *plan,
                                               struct ms_error *err);
void ms_mirrors_destroy(struct ms_mirrors *mirrors);

/* The mirror that has @addr, or NULL. */
const struct ms_mirror *ms_mirrors_find(struct ms_mirrors *mirrors, ms_addr addr);

/* Our place for @addr, which is in a mirror. */
char *ms_mirrors_at(struct ms_mirrors *mirrors, ms_addr addr);

/* Touch the places of @wanted, so that copying there does not fault. */
void ms_mirrors_populate(struct ms_mirrors *mirrors, const struct ms_wanted_list *wanted);

#endif
