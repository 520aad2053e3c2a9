/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/loaded/aims.h"

#include <elf.h>
#include <string.h>

#include "base/elf/frames.h"
#include "base/map.h"
#include "engine/ahead.h"
#include "engine/loaded/callbacks.h"

enum {
	STEPS = 1 << 22,                       /* from block to block, in all */
	WALK = 1 << 8,                         /* of these, in one direction */
	GAPS = 4,                              /* gaps looked at in one direction */
	LOOK = 64,                             /* steps that a look at one of them stands for */
	MOST_STEPS = 6 * (WALK + GAPS * LOOK), /* beside one group */
	NEARLY_ALL = 15,                       /* of 16 */
};

struct ms_aimer {
	struct ms_ahead ahead;
	const struct ms_abi *abi;
	const struct ms_regions *regions;
	const struct ms_blocks *blocks;
	struct ms_arena *arena;
	struct ms_map plain; /* of sizes: blocks of that size without a type, a stack or an aim */
	uint64_t left;       /* of STEPS */
	struct ms_aims last; /* of a block of last_size, as they were judged */
	uint64_t last_size;
};

struct ms_aimer *ms_aimer_new(const struct ms_blocks *blocks, const struct ms_regions *regions,
                              struct ms_arena *arena)
{
	struct ms_aimer *a = ms_arena_alloc(arena, sizeof(*a));

	if (a)
		*a = (struct ms_aimer){ .ahead.src = blocks->src,
			                .abi = &blocks->src->abi,
			                .regions = regions,
			                .blocks = blocks,
			                .arena = arena,
			                .left = STEPS };
	return a;
}

bool ms_aimer_add_plain(struct ms_aimer *a, uint64_t size, uint64_t n)
{
	uint64_t before = ms_map_find(&a->plain, size);

	if (before)
		ms_map_remove(&a->plain, size);
	return ms_map_add(&a->plain, a->arena, size, before + n);
}

/* ---- members ---- */

void ms_members_add(struct ms_members *members, ms_addr addr)
{
	uint64_t number = members->seen++;

	members->last = addr;
	if (number & (members->every - 1))
		return;
	if (members->n == MS_MEMBERS) {
		for (size_t i = 0; i < MS_MEMBERS / 2; i++)
			members->at[i] = members->at[2 * i];
		members->n = MS_MEMBERS / 2;
		members->every *= 2;
		if (number & (members->every - 1))
			return;
	}
	members->at[members->n++] = addr;
}

static uint64_t size_of(const struct ms_blocks *blocks, ms_addr addr)
{
	const struct ms_extent *extent = ms_blocks_extent_of(blocks, addr);

	return extent ? ms_block_size(blocks, extent, ms_granule_of(extent, addr)) : 0;
}

/* The first words of a block of @size at @addr, and how many; NULL when they cannot be read. */
static const unsigned char *words_of(struct ms_aimer *a, ms_addr addr, uint64_t size, size_t *ret_n)
{
	uint64_t n = size / a->abi->word_bytes;

	*ret_n = n < MS_AIM_WORDS ? (size_t)n : MS_AIM_WORDS;
	return ms_ahead_at(&a->ahead, addr, *ret_n * a->abi->word_bytes);
}

/*
 * Whether a module's ELF header or .eh_frame_hdr begins at @to. The tables of loaders and
 * unwinders point there, whatever module it is, and no module's own blocks do.
 */
static bool is_for_loaders(const struct ms_aimer *a, ms_addr to)
{
	struct ms_frame_header header;

	return to % sizeof(uint32_t) == 0 &&
	       ms_source_read(a->ahead.src, to, &header, sizeof(header)) == sizeof(header) &&
	       (!memcmp(&header, ELFMAG, SELFMAG) || ms_frame_is_searchable(&header));
}

/* The region of a module's code or constants that has @to, or NULL. */
static const struct ms_region *aimed_at(const struct ms_aimer *a, ms_addr to)
{
	const struct ms_region *region = ms_region_of(a->regions, to);

	if (!region || region->kind != MS_REGION_GLOBALS ||
	    (ms_region_mapping(a->ahead.src, region)->prot & MS_PROT_WRITE) ||
	    is_for_loaders(a, to))
		return NULL;
	return region;
}

/* Whether @words begin with a text that has the first of them to itself, and ends. */
static bool begins_with_text(const unsigned char *words, size_t len)
{
	size_t i = 0;

	while (i < len && words[i] >= ' ' && words[i] != 0x7f)
		i++;
	return i >= sizeof(uint64_t) && i < len && !words[i];
}

static void list_aims(struct ms_aimer *a, const struct ms_aimed *aimed, struct ms_aims *ret)
{
	size_t n;
	const unsigned char *words = words_of(a, aimed->address, aimed->size, &n);
	bool text = words && begins_with_text(words, n * a->abi->word_bytes);

	ret->n = 0;
	for (size_t i = 0; words && i < n; i++) {
		uint64_t word = ms_abi_word(a->abi, words + i * a->abi->word_bytes);
		ms_addr to = ms_abi_address(a->abi, word);
		const struct ms_region *region = aimed_at(a, to);

		if (region)
			ret->at[ret->n++] = (struct ms_aim){
				.word = word,
				.to = to,
				.region = region,
				.at = (uint8_t)i,
				.standing = text ? MS_AIM_SHARED : MS_AIM_OWN,
			};
	}
}

/* ---- what members have in common ---- */

/* How many members have the same at the place of an aim. */
struct agreeing {
	size_t word;
	size_t module;
};

static void compare_member(struct ms_aimer *a, ms_addr member, const struct ms_aims *aims,
                           struct agreeing *agreeing)
{
	size_t n;
	const unsigned char *words = words_of(a, member, size_of(a->blocks, member), &n);

	for (size_t i = 0; words && i < aims->n && aims->at[i].at < n; i++) {
		const struct ms_aim *aim = &aims->at[i];
		uint64_t word = ms_abi_word(a->abi, words + (size_t)aim->at * a->abi->word_bytes);
		const struct ms_region *region = aim->region;

		if (word != aim->word)
			region = aimed_at(a, ms_abi_address(a->abi, word));
		agreeing[i].word += word == aim->word;
		agreeing[i].module += region && region->module == aim->region->module;
	}
}

static void compare_members(struct ms_aimer *a, const struct ms_members *members,
                            struct ms_aims *aims)
{
	struct agreeing agreeing[MS_AIM_WORDS] = { 0 };

	for (size_t i = 0; i < members->n; i++)
		compare_member(a, members->at[i], aims, agreeing);
	for (size_t i = 0; i < aims->n; i++) {
		const size_t most = members->n * NEARLY_ALL;

		if (agreeing[i].module * MS_MEMBERS < most)
			aims->at[i].standing = MS_AIM_SEEN;
		else if (agreeing[i].word * MS_MEMBERS < most)
			aims->at[i].standing = MS_AIM_SHARED;
	}
}

/* ---- what former users have left ---- */

/* From now on, nothing is proved that was not shown to be false. */
static void doubt_all(struct ms_aims *aims)
{
	for (size_t i = 0; i < aims->n; i++)
		if (aims->at[i].standing == MS_AIM_OWN)
			aims->at[i].standing = MS_AIM_SHARED;
}

static bool any_own(const struct ms_aims *aims)
{
	for (size_t i = 0; i < aims->n; i++)
		if (aims->at[i].standing == MS_AIM_OWN)
			return true;
	return false;
}

/* A look for former users of a group's memory. */
struct look {
	struct ms_aimer *a;
	const struct ms_aimed *aimed;
	struct ms_aims *aims;
};

/* The word at @at of the free memory @gap: doubt the aims that a block there would have, too. */
static void doubt_alike(const struct look *l, struct ms_range gap, ms_addr at, uint64_t word)
{
	const uint64_t word_bytes = l->a->abi->word_bytes;

	for (size_t i = 0; i < l->aims->n; i++) {
		struct ms_aim *aim = &l->aims->at[i];
		ms_addr before = aim->at * word_bytes;
		ms_addr begin = at - before;

		/* Allocators align blocks to two words. */
		if (aim->word == word && aim->standing == MS_AIM_OWN && at - gap.begin >= before &&
		    l->aimed->size <= gap.end - begin &&
		    (begin - l->aimed->address) % (2 * word_bytes) == 0)
			aim->standing = MS_AIM_SHARED;
	}
}

static void look_at(const struct look *l, struct ms_range gap, struct ms_range window)
{
	const uint8_t word_bytes = l->a->abi->word_bytes;
	const unsigned char *bytes =
		ms_ahead_at(&l->a->ahead, window.begin, (size_t)ms_range_len(window));

	for (ms_addr at = window.begin; bytes && at + word_bytes <= window.end; at += word_bytes) {
		uint64_t word = ms_abi_word(l->a->abi, bytes + (at - window.begin));

		if (word)
			doubt_alike(l, gap, at, word);
	}
}

/* Of large gaps their ends: blocks lie beside them. */
static void look_at_gap(const struct look *l, struct ms_range gap)
{
	const uint64_t word_bytes = l->a->abi->word_bytes;
	ms_addr begin = gap.begin + (-gap.begin & (word_bytes - 1));
	struct ms_range head = { begin, gap.end };
	struct ms_range tail = { gap.end, gap.end };

	if (ms_range_len(head) > MS_AHEAD_BYTES) {
		head.end = begin + MS_AHEAD_BYTES;
		tail.begin = ms_align_down(gap.end, word_bytes) - MS_AHEAD_BYTES;
		if (tail.begin < head.end)
			tail.begin = head.end;
	}
	look_at(l, gap, head);
	look_at(l, gap, tail);
}

static struct ms_range block_at(const struct ms_blocks *blocks, uint32_t number)
{
	struct ms_block block = ms_block_numbered(blocks, number);
	const struct ms_extent *extent = &blocks->extents.at[block.extent];
	ms_addr begin = ms_block_begin(extent, block.granule);

	return (struct ms_range){ begin, begin + ms_block_usable(blocks, extent, block.granule) };
}

/*
 * Free memory beside @block up to the @next one in that direction, or to its mapping's end; empty
 * when there is none.
 */
static struct ms_range gap_beside(const struct ms_aimer *a, struct ms_range block,
                                  const struct ms_range *next, bool up)
{
	const struct ms_range none = { block.end, block.end };
	struct ms_range gap = up ? (struct ms_range){ block.end, next ? next->begin : UINT64_MAX }
	                         : (struct ms_range){ next ? next->end : 0, block.begin };
	const struct ms_mapping *mapping;

	/* Blocks are side by side as a rule. */
	if (gap.begin >= gap.end || ms_range_len(gap) < (uint64_t)2 * a->abi->word_bytes)
		return none;
	mapping = ms_range_find(&a->ahead.src->mappings, up ? block.end - 1 : block.begin);
	if (!mapping)
		return none;
	if (gap.begin < mapping->range.begin)
		gap.begin = mapping->range.begin;
	if (gap.end > mapping->range.end)
		gap.end = mapping->range.end;
	return gap.begin < gap.end ? gap : none;
}

/* Look at free memory from the block of @number on, upwards or downwards. */
static void walk(const struct look *l, uint32_t number, bool up)
{
	const struct ms_blocks *blocks = l->a->blocks;
	const uint32_t last = up ? ms_blocks_numbers(blocks) - 1 : 0;
	struct ms_range block = block_at(blocks, number);
	unsigned gaps = 0;
	bool more = true;

	for (unsigned i = 0; i < WALK && gaps < GAPS && more && any_own(l->aims); i++) {
		struct ms_range next = { 0 };
		struct ms_range gap;

		l->a->left--;
		more = number != last;
		if (more)
			next = block_at(blocks, up ? ++number : --number);
		gap = gap_beside(l->a, block, more ? &next : NULL, up);
		block = next;
		if (ms_range_len(gap) < l->aimed->size)
			continue;
		l->a->left -= LOOK;
		gaps++;
		look_at_gap(l, gap);
	}
}

static void walk_from(const struct look *l, ms_addr member)
{
	const struct ms_blocks *blocks = l->a->blocks;
	const struct ms_extent *extent = ms_blocks_extent_of(blocks, member);
	struct ms_block block;
	uint32_t number;

	if (!extent)
		return;
	block = (struct ms_block){ (uint32_t)(extent - blocks->extents.at),
		                   ms_granule_of(extent, member) };
	number = ms_block_number(blocks, block);
	walk(l, number, true);
	walk(l, number, false);
}

static void look_around(struct ms_aimer *a, const struct ms_aimed *aimed, struct ms_aims *aims)
{
	const struct look look = { a, aimed, aims };
	const struct ms_members *members = aimed->members;

	walk_from(&look, aimed->address);
	if (members) {
		walk_from(&look, members->at[members->n / 2]);
		walk_from(&look, members->last);
	}
	a->last = *aims;
	a->last_size = aimed->size;
}

static bool same_words(const struct ms_aims *a, const struct ms_aims *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->at[i].at != b->at[i].at || a->at[i].word != b->at[i].word)
			return false;
	return true;
}

/* No steps are left: judge a block that has the size and the words of the last one as that. */
static void judge_as_last(const struct ms_aimer *a, const struct ms_aimed *aimed,
                          struct ms_aims *aims)
{
	if (aimed->size != a->last_size || !same_words(aims, &a->last)) {
		doubt_all(aims);
		return;
	}
	for (size_t i = 0; i < aims->n; i++)
		if (aims->at[i].standing > a->last.at[i].standing)
			aims->at[i].standing = a->last.at[i].standing;
}

void ms_aims_find(struct ms_aimer *a, const struct ms_aimed *aimed, struct ms_aims *ret)
{
	list_aims(a, aimed, ret);
	if (!ret->n)
		return;
	if (aimed->members)
		compare_members(a, aimed->members, ret);
	if (ms_map_find(&a->plain, aimed->size) * NEARLY_ALL > aimed->n)
		doubt_all(ret);
	if (a->left > MOST_STEPS)
		look_around(a, aimed, ret);
	else
		judge_as_last(a, aimed, ret);
}

ms_addr ms_aims_callback(const struct ms_aims *aims, struct ms_peek *peek,
                         const struct ms_regions *regions, ms_addr *begin)
{
	for (size_t i = 0; i < aims->n && aims->at[i].at < MS_CALLBACK_WORDS; i++)
		if (aims->at[i].standing == MS_AIM_OWN &&
		    ms_callback_is(peek, regions, aims->at[i].to, begin))
			return aims->at[i].to;
	return 0;
}
