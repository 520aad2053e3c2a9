/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mallocng keeps its state in one structure, __malloc_context, known by a secret that the first
 * page of metadata begins with as well (alloc/musl/context.c has more of it). Nearly all of
 * malloc's functions refer to it before they change anything, so what lies between such
 * references, or not far behind one, is malloc:
 *
 *	.text   ──────[ x x  xxx x  x ...]─────────[ x ...]──     x: a reference
 *
 * What does not is what calls these functions, and what they call.
 *
 * The older malloc keeps its state in its bins, one after another; one that is empty points to
 * itself twice, and a map says which are not (alloc/musl/oldbins.c).
 */
#include "target/code/musl_code.h"

#include <string.h>

#include "target/code/piece.h"

enum {
	SECRET = 0,
	INIT_DONE = 8,
	FIRST_AREA = 56,
	CONTEXT_BYTES = 928,
	AREA_ALIGN = 4096,
	BINS = 64,
	FIRST_BIN = 16,
	BIN = 24,
	BIN_AS_CHUNK = 16, /* below its first word */
	BINS_BYTES = 1552,
	MAX_CHANGING = 6,
	BEFORE = 0x10,
	BEHIND = 0x500, /* realloc's first reference is its last one */
	OPERAND = 4,
};

static uint64_t word_at(const struct ms_piece *piece, size_t offset)
{
	uint64_t word;

	memcpy(&word, piece->bytes + offset, sizeof(word));
	return word;
}

static bool is_context(const struct ms_image *image, const struct ms_piece *data, size_t at)
{
	uint64_t secret = word_at(data, at + SECRET);
	ms_addr area = word_at(data, at + FIRST_AREA);
	uint64_t check;

	return secret && area && !(area % AREA_ALIGN) &&
	       (uint32_t)word_at(data, at + INIT_DONE) == 1 &&
	       ms_image_read(image, area, &check, sizeof(check)) && check == secret;
}

/* Whether the bin whose first word is at @at in @data is as the map says, @used or empty. */
static bool is_bin(const struct ms_piece *data, size_t at, bool used)
{
	ms_addr self = data->range.begin + at - BIN_AS_CHUNK;
	ms_addr head = word_at(data, at);
	ms_addr tail = word_at(data, at + 8);

	if (used)
		return head && tail && head != self && tail != self;
	return head == tail && (!head || head == self);
}

/* How many of 64 bins behind the map at @at are not as it says. */
static unsigned int count_others(const struct ms_piece *data, size_t at)
{
	uint64_t map = word_at(data, at);
	unsigned int n = 0;

	for (size_t i = 0; i < BINS; i++)
		n += !is_bin(data, at + FIRST_BIN + i * BIN, map >> i & 1);
	return map ? n : BINS;
}

/*
 * The bins' begin, when one that is empty is at @pair: where most are as the map says. The
 * process runs meanwhile, so a few may be just changing.
 */
static bool find_bins(const struct ms_piece *data, size_t pair, size_t *ret)
{
	ms_addr self = data->range.begin + pair - BIN_AS_CHUNK;
	unsigned int least = MAX_CHANGING + 1;

	if (word_at(data, pair) != self || word_at(data, pair + 8) != self)
		return false;
	for (size_t i = 0; i < BINS && FIRST_BIN + i * BIN <= pair; i++) {
		size_t at = pair - FIRST_BIN - i * BIN;
		unsigned int others = least;

		if (at + BINS_BYTES <= ms_range_len(data->range))
			others = count_others(data, at);
		if (others < least) {
			least = others;
			*ret = at;
		}
	}
	return least <= MAX_CHANGING;
}

/* What malloc keeps in @data. */
static bool find_in(const struct ms_image *image, const struct ms_piece *data, struct ms_range *ret)
{
	size_t len = ms_range_len(data->range);

	for (size_t at = 0; at + 2 * sizeof(uint64_t) <= len; at += sizeof(uint64_t)) {
		size_t begin = at;
		size_t bytes = CONTEXT_BYTES;

		if (at + CONTEXT_BYTES > len || !is_context(image, data, at)) {
			if (!find_bins(data, at, &begin))
				continue;
			bytes = BINS_BYTES;
		}
		ret->begin = data->range.begin + begin;
		ret->end = ret->begin + bytes;
		return true;
	}
	return false;
}

/* The image's writable memory from @map on, as far as it has no gap: .data and .bss. */
static struct ms_range data_from(const struct ms_mappings *maps, const struct ms_mapping *map)
{
	struct ms_range data = map->range;

	while (++map < maps->at + maps->n && map->range.begin == data.end &&
	       map->prot & MS_PROT_WRITE)
		data.end = map->range.end;
	return data;
}

static bool find_state(const struct ms_image *image, const struct ms_mappings *maps,
                       struct ms_arena *arena, struct ms_range *ret)
{
	const struct ms_mapping *map;
	struct ms_piece data;

	ms_vec_for_each (map, maps) {
		struct ms_range part = ms_range_common(data_from(maps, map), image->object.span);

		if (map->prot & MS_PROT_WRITE && part.begin < part.end &&
		    ms_piece_read(image, part, arena, &data) && find_in(image, &data, ret))
			return true;
	}
	return false;
}

/*
 * Whether the 4 bytes at @at are an operand, by the bytes before it: relative to the next
 * instruction, an address beside a scaled index, or a constant for a register.
 */
static bool refers_to(const struct ms_piece *text, size_t at, struct ms_range to)
{
	const unsigned char *before = text->bytes + at;
	int32_t value;

	memcpy(&value, text->bytes + at, sizeof(value));
	if ((before[-1] & 0xc7) == 0x05)
		return ms_range_has(to,
		                    text->range.begin + at + OPERAND + (uint64_t)(int64_t)value);
	return ms_range_has(to, (uint32_t)value) &&
	       ((before[-1] & 0xf8) == 0xb8 ||
	        ((before[-1] & 0x07) == 0x05 && (before[-2] & 0xc7) == 0x04));
}

size_t ms_musl_code_find(const struct ms_image *image, const struct ms_mappings *maps,
                         struct ms_arena *arena, struct ms_range ret[MS_MUSL_CODE_RANGES])
{
	struct ms_range state;
	struct ms_piece text;
	size_t n = 0;

	if (!find_state(image, maps, arena, &state) ||
	    !ms_piece_read_text(image, maps, arena, &text))
		return 0;
	for (size_t i = 2; i + OPERAND <= ms_range_len(text.range); i++) {
		ms_addr at = text.range.begin + i;

		if (!refers_to(&text, i, state))
			continue;
		if (n && at <= ret[n - 1].end) {
			ret[n - 1].end = at + BEHIND;
			continue;
		}
		if (n == MS_MUSL_CODE_RANGES)
			break;
		ret[n++] = (struct ms_range){ at - BEFORE, at + BEHIND };
	}
	return n;
}
