/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_KINDS_PYTHON_COLLECTOR_H
#define MS_ENGINE_KINDS_PYTHON_COLLECTOR_H

/*
 * CPython's collector of cycles owns nothing. It has all objects that can be part of a cycle in
 * rings, one for each generation, by two words in front of each; the interpreter's own data has
 * a member in each ring:
 *
 *	interpreter        block                       block
 *	┌──────────┐     ┌──────────┬──────────────┐  ┌──────────┬──────────────┐
 *	│ next    ─┼────▶│ next    ─┼──────────────┼─▶│ next    ─┼─▶ …          │
 *	│ previous │◀────┼ previous │ refs, type … │◀─┼ previous │ refs, type … │
 *	└──────────┘     └──────────┴──────────────┘  └──────────┴──────────────┘
 *
 * Followed as pointers, they would make every such object reachable, and each the owner of all
 * others. These words are hidden (ms_veil). An object that is reachable then by nothing else is
 * one of two:
 *
 *	- its count of references is that of the pointers to it which unreachable blocks have: the
 *	  collector finds the same, and frees it when it runs next: a possible leak;
 *	- its count is higher: the collector leaves it alone for good. Someone has taken a reference
 *	  and lost it: a leak, with all that it leads to.
 *
 * An object is known by its type, which says that the collector looks after its objects, and by
 * its ring: each member leads back to the one before it, all the way round to the interpreter's
 * own. While the collector runs they do not, or the ring begins on its stack; then these words
 * count as they would elsewhere.
 *
 * 3.8 to 3.14 with a global lock; in the lower two bits of the links are flags. 3.7 has two more
 * words there, and without a global lock there are no links: nothing is hidden.
 *
 * Source: Include/internal/pycore_gc.h, Include/cpython/objimpl.h, Modules/gcmodule.c,
 * Python/gc.c of these versions.
 */

#include "engine/graph/walk.h"
#include "engine/kinds/kinds.h"

/* An object in a ring. */
struct ms_collected {
	ms_addr head; /* of its links: its own words are behind these */
	uint64_t next;
	uint64_t previous;
};

/* An object that nothing leads to but the collector. */
struct ms_uncollected {
	struct ms_block block;
	ms_addr object;
	uint64_t references; /* its own count */
	uint64_t found;      /* pointers to it, in unreachable blocks */
};

struct ms_collector {
	struct MS_VEC(struct ms_collected) objects; /* by address */
	struct MS_VEC(struct ms_uncollected) lost;  /* by address */
};

/* Add the object behind the links at @words, at @head, if they are any. False: no memory. */
bool ms_collector_add(struct ms_collector *collector, struct ms_arena *arena, ms_addr head,
                      const uint8_t *words);

/*
 * Keep those alone that are in a ring of the interpreter's, and add their links to @hidden.
 * False: no memory.
 */
bool ms_collector_link(struct ms_collector *collector, struct ms_kinds *k,
                       struct ms_ranges *hidden);

/*
 * Once every other root was followed without the links: mark what the collector would free, with
 * what that leads to, and leave what it would not.
 *
 * @like: how blocks are followed
 * @kept: out; how many blocks were marked, and their bytes
 *
 * Returns MS_E_NOMEM; marks are then incomplete.
 * Cost: one read of the unmarked blocks.
 */
ms_must_check enum ms_status ms_collector_mark(struct ms_collector *collector,
                                               struct ms_blocks *blocks,
                                               const struct ms_walk_options *like,
                                               struct ms_walk_count *kept, struct ms_error *err);

/* What is known of the object in the block at @begin, or NULL. */
const struct ms_uncollected *ms_collector_of(const struct ms_collector *collector,
                                             const struct ms_blocks *blocks, ms_addr begin);

#endif
