/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_RETAINED_FLOW_H
#define MS_ENGINE_RETAINED_FLOW_H

/*
 * The whole graph from one node down, as dominators need it:
 *
 *	top ─ cluster ─ word of a root ─ block ─ block …
 *
 * A cluster is what belongs together of the roots: neighbouring words of data, with two
 * other words between them at most (the header of a container, a table of pointers); all of
 * a thread's stack and its registers; all of a thread's TLS; what the kernel holds.
 *
 * A thread's stack and registers are weak holders: what data, TLS or the kernel hold, too,
 * counts as theirs alone. An iterator in some frame would else take the whole list that it
 * stands in from the variable that holds it, and only for the moment.
 *
 * Nodes are numbered: blocks as in the table of blocks, then words by cluster, then clusters,
 * then the top.
 *
 * Memory: what rows take; 24 bytes a word of a root that points to a block, 44 for a while.
 */

#include "engine/holding/rows.h"
#include "engine/holding/why.h"
#include "engine/roots.h"

struct ms_flow_word {
	ms_addr at;  /* 0: in no memory */
	uint32_t to; /* the block */
	uint32_t root;
	uint32_t cluster;
};

struct ms_flow_words MS_VEC(struct ms_flow_word);

struct ms_flow {
	struct ms_rows rows;
	const uint64_t *claimed;    /* a bit for each block: a stack lies in it, it leads nowhere */
	struct ms_flow_words words; /* by cluster */
	struct MS_VEC(struct ms_root) roots; /* that words are of */
	const uint32_t *cluster_first;       /* its first word, and one entry behind the last */
	uint32_t n_clusters;
	uint32_t n_strong; /* of these are no stacks */
	const uint32_t
		*numbers; /* of the words in order, then of the clusters: strong ones first */
};

/*
 * Find the words of roots that point to blocks of @why->rows, and put them into clusters.
 *
 * Returns MS_E_NOMEM.
 * Cost: one read of the roots.
 */
ms_must_check enum ms_status ms_flow_gather(struct ms_why *why, struct ms_arena *arena,
                                            struct ms_flow *ret, struct ms_error *err);

enum ms_flow_kind { MS_FLOW_BLOCK, MS_FLOW_WORD, MS_FLOW_CLUSTER, MS_FLOW_TOP };

static inline uint32_t ms_flow_top(const struct ms_flow *flow)
{
	return flow->rows.n + (uint32_t)flow->words.n + flow->n_clusters;
}

static inline enum ms_flow_kind ms_flow_kind_of(const struct ms_flow *flow, uint32_t node)
{
	if (node < flow->rows.n)
		return MS_FLOW_BLOCK;
	if (node - flow->rows.n < flow->words.n)
		return MS_FLOW_WORD;
	return node == ms_flow_top(flow) ? MS_FLOW_TOP : MS_FLOW_CLUSTER;
}

/* What @node leads to: @ret_n nodes. */
static inline const uint32_t *ms_flow_row(const struct ms_flow *flow, uint32_t node,
                                          uint32_t *ret_n)
{
	uint32_t i = node - flow->rows.n;

	if (node < flow->rows.n) {
		bool leads = !(flow->claimed[node / 64] >> node % 64 & 1);
		size_t n;
		const uint32_t *row = ms_rows_of(&flow->rows, node, &n);

		*ret_n = leads ? (uint32_t)n : 0;
		return row;
	}
	if (i < flow->words.n) {
		*ret_n = 1;
		return &flow->words.at[i].to;
	}
	i -= (uint32_t)flow->words.n;
	if (i < flow->n_clusters) {
		*ret_n = flow->cluster_first[i + 1] - flow->cluster_first[i];
		return flow->numbers + flow->cluster_first[i];
	}
	*ret_n = flow->n_clusters;
	return flow->numbers + flow->words.n;
}

#endif
