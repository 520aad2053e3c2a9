/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_STRICT_TAILS_H
#define MS_ENGINE_STRICT_TAILS_H

/*
 * Stale tails: bytes of a container's block that hold no element of it, and so nothing that
 * the program will use, but often a pointer to what was an element once.
 *
 *	vector     │ elements ─────┬─── tail ───┐     string   │ characters, NUL ─┬─ tail ─┐
 *	           begin           end          room
 *
 *	deque      │ tail ─┬─ elements ──┐   …   ┌── elements ─┬─ tail │
 *	           begin   cur                                 cur     end
 *	its map    │ tail ─┬─ node … node ─┬─ tail ─┐
 *
 * Words that look like a container may be what is left of one: a variable that went out of
 * use, whose block has long been given to something else. To hide words of that would make
 * leaks of what is in use. So the words must agree with each other and with the block, all
 * holders of a block count, the one that uses most decides, and they must be all that points
 * to the block: each word in all memory that does is counted, and one more than the holders
 * have leaves the block as it is. What is in use has a holder, and it would be that word. So
 * a kind that is in doubt need just say nothing.
 *
 * Three pointers are the least evidence, and so a vector's tail may have no pointer into
 * itself, nor into code: stacks of coroutines, which are in use from their middle on, do.
 */

#include "base/map.h"
#include "engine/graph/lookup.h"
#include "engine/report.h"

enum ms_tail_of { MS_TAIL_VECTOR, MS_TAIL_STRING, MS_TAIL_DEQUE, MS_TAIL_KINDS };

/* What one holder says of a block. In use are the bytes [front, back) of it. */
struct ms_tail_claim {
	ms_addr begin; /* of the block */
	uint64_t usable;
	uint32_t number;
	uint8_t of; /* enum ms_tail_of */
	uint64_t front;
	uint64_t back;
	unsigned words; /* of the holder and its parts that point into the block */
};

/* What all say. */
struct ms_tail {
	struct ms_tail_claim least; /* with the words of all */
	bool doubtful;              /* they contradict each other */
	uint64_t seen;              /* words that point into the block from elsewhere */
};

/* What was hidden. */
struct ms_tails_sums {
	uint64_t containers[MS_TAIL_KINDS];
	uint64_t pointers; /* words in them that point to blocks */
	uint64_t bytes;
};

struct ms_tails {
	struct ms_arena *arena;
	struct ms_map of; /* a block's number + 1: index + 1 */
	struct MS_VEC(struct ms_tail) all;
	bool failed; /* no memory */
	/* Once judged: */
	struct ms_ranges hidden; /* tidy */
	struct ms_tails_sums sums;
};

void ms_tails_claim(struct ms_tails *tails, const struct ms_tail_claim *claim);

/* Note that the word at @at points to @value. @lookup: of the blocks that claims are of */
void ms_tails_note(struct ms_tails *tails, struct ms_lookup *lookup, ms_addr at, ms_addr value);

/* Say in @warnings what was hidden. @wide: words have 8 bytes */
void ms_tails_warn(const struct ms_tails_sums *sums, bool wide, struct ms_arena *arena,
                   struct ms_notes *warnings);

/*
 * Decide which tails are hidden, once every word was noted.
 *
 * @is_code: whether an address is in a program's code
 *
 * Returns MS_E_NOMEM, of claims too.
 */
struct ms_tails_judge {
	struct ms_lookup *lookup;
	bool (*is_code)(const void *ctx, ms_addr addr);
	const void *ctx;
};

ms_must_check enum ms_status ms_tails_judge(struct ms_tails *tails,
                                            const struct ms_tails_judge *judge);

#endif
