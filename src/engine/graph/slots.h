/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_SLOTS_H
#define MS_ENGINE_GRAPH_SLOTS_H

/*
 * Evidence that a word is a pointer relative to itself or to the block that holds it.
 *
 * A slot is one word of all blocks of one size, together with what it is added to. Of
 * each slot it is kept which distinct values, added so, lead to the first byte of an
 * unmarked block, of a marked one, or to a granule where no block begins. A pointer that
 * alone keeps its target leads to unmarked blocks and to nothing else. Numbers (lengths,
 * counts, indexes, hashes) that lead to blocks by chance lead to marked ones and to
 * none as well, or are of a few values, or are all multiples of what divides the heap
 * into equal parts. So a slot is believed when
 *
 *	- at least MS_SLOT_FEWEST distinct values lead to unmarked blocks,
 *	- an eighth of these go a distance that is neither an even number of granules nor a
 *	  multiple of the holder's own length,
 *	- those that lead elsewhere are at most three times as many, and
 *	- among values that lead to a block, so many would not lead to unmarked ones by
 *	  chance (1e-6), though a quarter of all blocks were unmarked, or as many as are.
 *
 * What leads less than MS_SLOT_NEAR away says nothing: more often than not it is a size
 * or a count, and the block the next one, or that behind it. A slot whose values are all alike is
 * never believed, for an equal number would look the same to the byte.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
	MS_SLOT_GRANULES = 64, /* larger blocks are not looked at */
	MS_SLOT_WORDS = 2 * MS_SLOT_GRANULES,
	MS_SLOT_BASES = 2,
	MS_SLOTS = MS_SLOT_GRANULES * MS_SLOT_WORDS * MS_SLOT_BASES,
	MS_SLOT_NEAR = 64, /* granules */
	MS_SLOT_FEWEST = 15,
	MS_SLOT_HITS = 4,
	MS_SLOT_OTHERS = 8,
};

/* What a word is added to. */
enum ms_slot_base { MS_BASE_BLOCK, MS_BASE_WORD };

/* Where it leads then. */
enum ms_slot_end { MS_END_UNMARKED, MS_END_MARKED, MS_END_NOWHERE };

/* Sets of values, by a bit of each one's hash: they are counted a little too low. */
struct ms_slot {
	uint64_t uneven[MS_SLOT_HITS]; /* lead to an unmarked block, so far as no array would */
	uint64_t even[MS_SLOT_HITS];   /* and all others that lead to one */
	uint64_t marked[MS_SLOT_OTHERS];
	uint64_t nowhere[MS_SLOT_OTHERS];
};

/* The index of the slot of word @word of blocks of @granules. */
static inline uint32_t ms_slot_index(uint64_t granules, uint64_t word, enum ms_slot_base base)
{
	return (uint32_t)(((granules - 1) * MS_SLOT_WORDS + word) * MS_SLOT_BASES + base);
}

/*
 * Note that the word of a block of @granules leads to @end, @distance granules from the
 * block's begin. That and the value are one to one in a slot.
 */
void ms_slot_note(struct ms_slot *slot, uint64_t granules, int64_t distance, enum ms_slot_end end);

/* Add what @from knows to @slot. */
void ms_slot_join(struct ms_slot *slot, const struct ms_slot *from);

/* Whether the values are pointers. @share: of all blocks, how many are unmarked; 0 to 1. */
bool ms_slot_convinces(const struct ms_slot *slot, double share);

#endif
