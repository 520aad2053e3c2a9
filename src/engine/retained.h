/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_RETAINED_H
#define MS_ENGINE_RETAINED_H

/*
 * The model of what holds memory (memscan.retained/1): what would be free if a root, a block,
 * or all blocks of a type went away. Plain data in vectors, bounded like an answer (answer.h).
 *
 * What roots retain and what several of them share is all that is reachable.
 */

#include "engine/answer.h"

enum {
	MS_RETAINED_ENTRIES = 10000, /* of a list */
	MS_RETAINED_STEPS = 20       /* of a chain */
};

struct ms_weight {
	uint64_t count; /* heap blocks */
	uint64_t bytes;
};

/* A block or a mapping; the steps of a chain are each dominated by the one before. */
struct ms_retained_step {
	struct ms_answer_step block;
	struct ms_weight retained;
	uint8_t direct; /* block.offset is where it points to the next */
};

/* Entries of ms_retained.steps. */
struct ms_retained_chain {
	uint64_t length; /* those that are not listed included */
	uint32_t first;
	uint32_t n;
};

/* Words of a root that hold something together. */
struct ms_retained_root {
	struct ms_spot spot; /* the first of them */
	uint64_t words;
	struct ms_weight retained;
	struct ms_retained_chain below;
};

struct ms_retained_block {
	uint64_t places; /* that several holders share it from: words and blocks; 0: of none */
	struct ms_retained_chain chain; /* itself is the first step */
};

struct ms_retained_type {
	uint32_t type; /* its entry in ms_report.types, from 1 on; 0: a size, or all others */
	uint64_t size; /* of each block, when the type is not known; 0: of all other sizes */
	struct ms_weight own;
	struct ms_weight retained;
};

struct ms_retained_facts {
	struct ms_weight reachable;
	struct ms_weight unreachable;
	struct ms_weight by_root;
	struct ms_weight shared;
	uint64_t n_roots; /* entries that there are; the lists have the largest */
	uint64_t n_shared;
	uint64_t n_types;
};

struct ms_retained {
	struct ms_retained_facts facts;
	struct MS_VEC(struct ms_retained_root) roots;
	struct MS_VEC(struct ms_retained_block) shared;
	struct MS_VEC(struct ms_retained_type) types;
	struct MS_VEC(struct ms_retained_block) blocks;
	struct MS_VEC(struct ms_retained_step) steps;
};

#endif
