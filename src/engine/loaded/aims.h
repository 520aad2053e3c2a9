/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOADED_AIMS_H
#define MS_ENGINE_LOADED_AIMS_H

/*
 * The words of a group of blocks that point to code or constants of a program or library, and
 * whether the owner of the memory wrote them. A block keeps the words of its former user where its
 * owner wrote nothing, so that a pointer to a function alone does not show who allocated it:
 *
 *	seen     other members have something else there
 *	shared   nearly all members have it, or another of the same module; it may be residual
 *	own      nearly all members have this very word, and nothing shows a former user
 *
 * A former user is seen where free memory near the members could be a block of that size and has
 * the same word at the same place. One is assumed behind a text that a block begins with. It is
 * assumed, too, where more than every 16th leak of that size has no known type and no such word:
 * the group may then be those of the same leak that lie over old data.
 *
 * An owner whose other blocks were freed nearby is not distinguished from a former user. Then its
 * words are shared, and nobody is accused.
 */

#include "engine/blocks.h"
#include "engine/loaded/peek.h"
#include "engine/mapping.h"

enum { MS_AIM_WORDS = 64 };

enum ms_aim_standing { MS_AIM_SEEN, MS_AIM_SHARED, MS_AIM_OWN };

struct ms_aim {
	uint64_t word;
	ms_addr to;
	const struct ms_region *region;
	uint8_t at;       /* the word's number in the block */
	uint8_t standing; /* enum ms_aim_standing */
};

/* Of the first block of a group, in order. */
struct ms_aims {
	size_t n;
	struct ms_aim at[MS_AIM_WORDS];
};

enum { MS_MEMBERS = 16 };

/* Some members of a group, at even distances. Begins as { .every = 1 }. */
struct ms_members {
	uint64_t seen;
	uint64_t every; /* how many stand for one that is kept: a power of two */
	size_t n;
	ms_addr at[MS_MEMBERS];
	ms_addr last; /* kept or not */
};

/* Blocks of one group. */
struct ms_aimed {
	ms_addr address; /* the first of them */
	uint64_t size;
	uint64_t n;                       /* how many there are */
	const struct ms_members *members; /* the others; NULL: none */
};

/* Add the member at @addr, which is behind those that are there. */
void ms_members_add(struct ms_members *members, ms_addr addr);

struct ms_aimer;

/* For groups of sealed @blocks, over @regions of their source; NULL without memory. */
struct ms_aimer *ms_aimer_new(const struct ms_blocks *blocks, const struct ms_regions *regions,
                              struct ms_arena *arena);

/* There are @n leaks of @size, of no known type, without an aim; false without memory. */
ms_must_check bool ms_aimer_add_plain(struct ms_aimer *aimer, uint64_t size, uint64_t n);

/*
 * The aims of @aimed.
 *
 * Cost: a read of 64 words. Where there are aims: of 64 words of 16 members, and of 192 KiB of
 * free memory at most. After 4 million steps from block to block no more is looked at: groups like
 * the last are judged as that, and others are doubted.
 */
void ms_aims_find(struct ms_aimer *aimer, const struct ms_aimed *aimed, struct ms_aims *ret);

/* The first of the owner's words that has a function, as ms_callback_of(). */
ms_addr ms_aims_callback(const struct ms_aims *aims, struct ms_peek *peek,
                         const struct ms_regions *regions, ms_addr *begin);

#endif
