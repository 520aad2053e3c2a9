/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_KINDS_PIECES_H
#define MS_ENGINE_KINDS_PIECES_H

/*
 * The words of memory that kinds look at, cut into pieces by address.
 *
 * Kinds are shown one word after the other, in order: what one has claimed the next goes by.
 * But to read memory, to find the words in it that point to blocks, and to see of most of
 * these that no kind can make anything of them takes no claim. So all workers look through
 * some pieces, while one of them shows what was found in those before:
 *
 *	pieces       0 1 2 … 15    16 17 18 … 31    32 …
 *	looked into  ├─────────┤   ├───────────┤    ├─── …
 *	shown                      0 1 2 … 15       16 …
 *
 * Memory: a piece and what was found in it, for each of those that are under way.
 */

#include "engine/kinds/kinds.h"

#define MS_PIECE_NO_BLOCK UINT32_MAX

struct ms_piece {
	struct ms_range range;
	struct ms_range memory; /* of which it is a part */
	uint32_t extent;        /* of a heap that it is in; MS_PIECE_NO_BLOCK: none */
	uint64_t value;         /* of a root that is no memory */
};

/* A word that points to a block, or, with wants_all, to where one may be. */
struct ms_piece_word {
	ms_addr at;
	const uint8_t *bytes;
	struct ms_range memory; /* that has it */
	uint32_t holder;        /* the number of the block that this is; MS_PIECE_NO_BLOCK: none */
	uint32_t offset;        /* in the block that it points to */
	uint32_t number;        /* of that block */
	uint64_t usable;        /* bytes of it */
};

/* What is found in one piece; good until the next is shown. */
struct ms_piece_found {
	const struct ms_piece *piece;
	struct MS_VEC(struct ms_piece_word) words;
	struct ms_arena arena; /* of these */
	uint8_t *buffer;       /* its bytes, where they cannot be viewed */
	bool out_of_memory;
};

typedef void ms_piece_show(struct ms_kinds *k, const struct ms_piece_found *found);

/* Whether something could come of the word at @spot, whose owner is not known here. */
typedef bool ms_piece_may(const struct ms_kinds *k, const struct ms_kind_spot *spot);

struct ms_pieces {
	struct ms_kinds *k;
	struct ms_workers *workers;
	ms_piece_may *may; /* of words that point to blocks; NULL: all are shown, and others, too */
	struct MS_VEC(struct ms_piece) all;
};

/* List those of the heap's blocks, and with @roots_too those of roots and mappings behind. */
ms_must_check bool ms_pieces_list(struct ms_pieces *pieces, bool roots_too);

/*
 * Show what is in all of them, one after the other.
 *
 * False without memory.
 * Cost: one read of what they have.
 */
ms_must_check bool ms_pieces_show(const struct ms_pieces *pieces, ms_piece_show *show);

/* The word as kinds see it, without an owner. */
struct ms_kind_spot ms_piece_spot(const struct ms_kinds *k, const struct ms_piece_word *word);

#endif
