/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_MUSLHEAP_H
#define MS_TESTS_MUSLHEAP_H

/*
 * A fake process of musl's, its mallocng drawn in one line:
 *
 *	struct muslheap h;
 *
 *	muslheap_init(&h);
 *	muslheap_draw(&h, "c3 u50 f u64+0 a ; m200000+7 ; c15 u400 (1 u20 f ) ; d7 f");
 *	muslheap_break(&h, "slot0.head ^= 0x1000000");
 *	cr_expect_str_eq(muslheap_try(&h, true), "");
 *	muslheap_deinit(&h);
 *
 * The picture: groups, separated by ";", each a letter with its class and then its slots.
 *
 *	cN  a group with a mapping of its own
 *	dN  a group in the data of the library, given to malloc by the loader
 *	mN  a block of N bytes with a mapping of its own; mN+K begins K units later
 *	F   F100: so many free descriptors, no group
 *
 *	uN  used, malloc(N); uN+K begins K units later
 *	f   free           a   free, in the mask of those that are given out next
 *	p   used by the masks; free() has begun     z  the same; malloc() has not ended
 *	(N  holds a group of class N, whose slots follow up to ")"
 *
 * Classes 0 to 9, 15, 23, 31 and 39 can be drawn. No thread is.
 */

#include "engine/decoder.h"
#include "fake.h"

enum { MUSLHEAP_GROUPS = 512, MUSLHEAP_SLOTS = 512 };

struct muslheap_group {
	ms_addr descriptor;
	ms_addr at; /* 0: free */
	uint64_t map_bytes;
	uint64_t stride;
	uint32_t avail, freed;
	uint8_t class, n;
	bool given;
};

struct muslheap_slot {
	char kind;          /* its letter, or m */
	ms_addr begin, end; /* of the slot; end is where the next one begins */
	ms_addr at;         /* of the block */
	uint64_t size;
};

struct muslheap {
	struct ms_fake fake;
	struct muslheap_group groups[MUSLHEAP_GROUPS]; /* in the order of their descriptors */
	size_t n_groups;
	struct muslheap_slot slots[MUSLHEAP_SLOTS]; /* in the picture's order */
	size_t n_slots;
	size_t n_areas;

	/* What the decoder told; the blocks are sealed. */
	struct ms_arena arena;
	struct ms_regions regions;
	struct ms_blocks blocks;
	struct ms_heaps found;
	struct ms_notes evidence;
	struct ms_notes warnings;
	struct ms_decoding decoding;
	struct ms_error err;
	char wrong[MS_ERROR_TEXT]; /* what muslheap_try() returns */
};

void muslheap_init(struct muslheap *h);
void muslheap_deinit(struct muslheap *h);
void muslheap_draw(struct muslheap *h, const char *picture);

/*
 * Write into the fake process, for instance "ctx.usage3 += 1, slot2.head = 0". The operator is
 * = += -= |= ^=, the value a number or a place.
 *
 *	ctx    . secret init free unused n_unused first last activeN usageN
 *	areaN  . check next n
 *	descN  . prev next mem masks flags
 *	groupN . meta active
 *	slotN  . head tail at          head: the 8 bytes before the block, tail: the slot's last 8
 *
 * Without a field it is the thing's own address.
 */
void muslheap_break(struct muslheap *h, const char *damage);

/* The address of such a place. */
ms_addr muslheap_place(const struct muslheap *h, const char *name);

/* Classify, decode, seal. Forgets what an earlier call found. */
enum ms_status muslheap_decode(struct muslheap *h);

/* Every block told, as "begin:size" by address; good until the next decode. */
const char *muslheap_told(struct muslheap *h);

/*
 * Decode, with view() and without, and compare with the picture: u and m must be told, and
 * nothing else; or, where that is not @proved, no block, and all memory of groups not proved.
 * Returns "" or what is wrong, good until the next decode.
 */
const char *muslheap_try(struct muslheap *h, bool proved);

bool muslheap_says(const struct muslheap *h, const char *text);
bool muslheap_is_unproved(const struct muslheap *h, ms_addr addr);
bool muslheap_is_owned(const struct muslheap *h, ms_addr addr);

#endif
