/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_GRAPH_SLOTS_H
#define MS_ENGINE_GRAPH_SLOTS_H

/*
 * Evidence that a word is a pointer relative to itself or to the block that holds it.
 *
 * A slot is one word of all blocks of one size, together with what it is added to. Numbers
 * (lengths, counts, indexes, hashes) lead to blocks by chance, and as often to marked ones
 * and to places where no block begins; or they are few different ones; or all are multiples
 * of what divides the heap into equal parts. So a slot is believed in two cases, in both of
 * which an eighth of the distances are neither an even number of granules nor a multiple of
 * the holder's own length:
 *
 *	keeps    of the marked holders, whose targets would be marked if anything else kept
 *	         them: at least MS_SLOT_FEWEST values lead to unmarked blocks, those that lead
 *	         elsewhere are at most three times as many, and of those that lead to a block so
 *	         many would not lead to unmarked ones by chance (1e-6), though a quarter of all
 *	         blocks were unmarked, or as many as are. Other blocks of this size may hold
 *	         numbers there.
 *	points   of all holders: at least MS_SLOT_FEWEST_POINT values lead to a block, and hardly
 *	         any elsewhere.
 *
 * Beside a slot that points, so that all blocks of this size are of one kind, another one
 * with the same base is believed if of its words hardly any leads elsewhere than to a block,
 * be they all alike.
 *
 * Each value counts once. What leads less than MS_SLOT_NEAR away is no evidence: more often
 * than not it is a size or a count, and the block the next one, or that behind it.
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
	MS_SLOT_FEWEST_POINT = 32,
	MS_SLOT_SET = 8, /* words */
};

/* What a word is added to. */
enum ms_slot_base { MS_BASE_BLOCK, MS_BASE_WORD };

/* Where it leads then. */
enum ms_slot_end { MS_END_UNMARKED, MS_END_MARKED, MS_END_NOWHERE };

/* A set of values, by a bit of each one's hash: they are counted a little too low. */
struct ms_slot_set {
	uint64_t bits[MS_SLOT_SET];
};

/* Uneven: so far as no array would have it. */
struct ms_slot {
	struct ms_slot_set uneven; /* of marked holders: lead to an unmarked block */
	struct ms_slot_set even;
	struct ms_slot_set marked; /* lead to a marked one */
	struct ms_slot_set nowhere;
	struct ms_slot_set points_uneven; /* of all holders: lead to a block */
	struct ms_slot_set points_even;
	uint32_t hits;   /* of all, each time: lead to a block, */
	uint32_t misses; /* to none */
};

/* The index of the slot of word @word of blocks of @granules. */
static inline uint32_t ms_slot_index(uint64_t granules, uint64_t word, enum ms_slot_base base)
{
	return (uint32_t)(((granules - 1) * MS_SLOT_WORDS + word) * MS_SLOT_BASES + base);
}

/* What a word of a block leads to. */
struct ms_slot_lead {
	uint64_t granules; /* of the block */
	int64_t distance;  /* from its begin, granules; one to one with the value, in a slot */
	enum ms_slot_end end;
};

/* Note what a word of a marked block leads to; once or more. */
void ms_slot_note(struct ms_slot *slot, const struct ms_slot_lead *lead);

/* Note what a word of any block leads to; once. */
void ms_slot_note_any(struct ms_slot *slot, const struct ms_slot_lead *lead);

/* Add what @from knows to @slot. */
void ms_slot_join(struct ms_slot *slot, const struct ms_slot *from);

/* Whether the values keep blocks. @share: of all blocks, how many are unmarked; 0 to 1. */
bool ms_slot_keeps(const struct ms_slot *slot, double share);

/* Whether they point to blocks. */
bool ms_slot_points(const struct ms_slot *slot);

/* Whether they may, beside a slot that does. */
bool ms_slot_may_point(const struct ms_slot *slot);

#endif
