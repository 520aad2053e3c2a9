/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_RETAINED_HOLDERS_H
#define MS_ENGINE_RETAINED_HOLDERS_H

/*
 * Which words of roots are one holder.
 *
 * Words of a cluster belong together when they share what they lead to: the header of a tree
 * points to its first, its last and its middle node, and all three lead everywhere. Two
 * pointers side by side that share nothing, or next to nothing, are two holders. Of a long
 * cluster in which nothing stands out, as a table of lists, the whole is one.
 *
 * So what a cluster retains falls apart into groups: the words and shared blocks that
 * pointers from one to the other connect. Of each, either the whole is a holder, or each
 * word, and then what they share is shared between holders like what clusters share.
 */

#include "engine/retained/ranking.h"
#include "engine/retained/weights.h"

enum ms_holder_form {
	MS_HOLDER_WORD,    /* each of the group by itself */
	MS_HOLDER_GROUP,   /* the group */
	MS_HOLDER_CLUSTER, /* the cluster */
};

/* By the index of a word in the flow: those of the holder that it stands for (ms_holders_is()). */
struct ms_holder {
	uint64_t bytes;
	uint64_t count;
	uint64_t own_bytes; /* of a group: what its words retain each by itself */
	uint32_t words;
	uint32_t number;   /* of the word, among the dominators */
	uint32_t group;    /* the first word of the group that this one is in */
	uint32_t heaviest; /* that the holder dominates, by the dominators' numbers */
	uint8_t form;      /* enum ms_holder_form; of the group */
};

struct ms_holders {
	const struct ms_weights *w;
	struct ms_holder *at;
	uint32_t *tops;   /* of each node: itself or what dominates it right below a cluster, or
	                   * the top */
	uint32_t *groups; /* of each of these: the next towards the one that stands for all */
};

/*
 * Find the holders. Uses both spare arrays of @w until ms_holders_share() was called last.
 *
 * Returns MS_E_NOMEM.
 * Memory: 48 bytes a word of the roots.
 */
ms_must_check enum ms_status ms_holders_find(const struct ms_weights *w, struct ms_arena *arena,
                                             struct ms_holders *ret, struct ms_error *err);

/* Whether word @i stands for a holder. */
bool ms_holders_is(const struct ms_holders *holders, uint32_t i);

/* Whether several holders share node @i, by the dominators' numbers, and nothing dominates it
 * that they share. */
bool ms_holders_share(const struct ms_holders *holders, uint32_t i);

#endif
