/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc in a static program, without any symbol.
 *
 * An empty bin of glibc's main_arena points to itself twice, and of its 127 bins the
 * last is always empty, others nearly always: a run of such words in the program's
 * writable data is main_arena. Instructions that refer to it are malloc's, and the linker put them
 * side by side:
 *
 *	.text   ───x──────[ xx x xx  x xxx x x ]─────────x──     x: a reference
 *	                  the largest cluster
 *
 * There is no table of functions to go by: a static program has .eh_frame, but,
 * unless it is position-independent, no .eh_frame_hdr. So the ends are guessed,
 * with a margin for functions that do without main_arena.
 */
#include "target/code/static_code.h"

#include <string.h>

#include "target/code/piece.h"

enum {
	MIN_PAIRS = 3,
	BINS = 127,
	MAX_GAP = 0x1000,
	MARGIN = 0x400,
	LEAST_REFERENCES = 20, /* glibc 2.36 has some 100, on i386 38 */
};

/* Of main_arena; glibc 2.27 to 2.42. */
struct layout {
	uint8_t word_bytes;
	uint16_t bins;
	uint16_t bytes;
};

static const struct layout layouts[] = {
	{ 8, 0x70, 0x898 },
	{ 4, 0x40, 0x45c },
};

static uint64_t word_at(const struct layout *layout, const unsigned char *bytes)
{
	uint64_t wide = 0;

	memcpy(&wide, bytes, layout->word_bytes); /* of little end, as all that is read here */
	return wide;
}

static bool is_empty_bin(const struct layout *layout, const struct ms_piece *data, size_t at)
{
	const uint8_t word = layout->word_bytes;
	uint64_t first = word_at(layout, data->bytes + at);

	return first == word_at(layout, data->bytes + at + word) &&
	       first == data->range.begin + at - (ms_addr)2 * word;
}

/* main_arena, reckoned from the last of its bins; the largest is as good as always empty. */
static bool find_arena(const struct layout *layout, const struct ms_piece *data,
                       struct ms_range *ret)
{
	const size_t word = layout->word_bytes;
	const size_t pair = 2 * word;
	size_t len = ms_range_len(data->range);
	size_t first = 0;
	size_t last = 0;
	size_t n = 0;

	for (size_t at = 0; at + pair <= len; at += word) {
		if (!is_empty_bin(layout, data, at))
			continue;
		if (!n || at - first >= (size_t)BINS * pair) {
			if (n >= MIN_PAIRS)
				break;
			first = at;
			n = 0;
		}
		last = at;
		n++;
	}
	if (n < MIN_PAIRS)
		return false;
	ret->begin = data->range.begin + last - (size_t)(BINS - 1) * pair - layout->bins;
	/* An immediate behind the operand shifts what it seems to refer to down by up to 4. */
	ret->end = ret->begin + layout->bytes - 8;
	return true;
}

static bool find_arena_in_data(const struct ms_image *image, const struct ms_mappings *maps,
                               struct ms_arena *arena, struct ms_range *ret)
{
	const struct layout *layout = &layouts[image->object.word_bytes == 4];
	const struct ms_mapping *map;
	struct ms_piece data;

	ms_vec_for_each (map, maps) {
		struct ms_range part = ms_range_common(map->range, image->object.span);

		if (map->prot & MS_PROT_WRITE && part.begin < part.end &&
		    ms_piece_read(image, part, arena, &data) && find_arena(layout, &data, ret))
			return true;
	}
	return false;
}

/* The program's instructions, and how they refer to data. */
struct code {
	struct ms_piece text;
	ms_addr table; /* on i386, where no instruction says where it is: to this; 0: not known */
};

static int32_t number_at(const struct ms_piece *text, size_t at)
{
	int32_t value;

	memcpy(&value, text->bytes + at, sizeof(value));
	return value;
}

enum { LEA = 2 };

/*
 * Whether the @bytes before an operand make the address that lies so far behind a register (8d, mod
 * 2, no SIB). Others read and write there: so far lie members of structures, too.
 */
static bool is_lea(const unsigned char *bytes)
{
	return bytes[0] == 0x8d && (bytes[1] & 0xc0) == 0x80 && (bytes[1] & 7) != 4;
}

static bool refers_to(const struct code *code, size_t at, struct ms_range to)
{
	int32_t value = number_at(&code->text, at);

	/* Relative to the next instruction, or absolute in a program at a fixed place. */
	if (ms_range_has(to, code->text.range.begin + at + 4 + (uint64_t)(int64_t)value) ||
	    ms_range_has(to, (uint32_t)value))
		return true;
	return code->table && at >= LEA && is_lea(code->text.bytes + at - LEA) &&
	       ms_range_has(to, (uint32_t)(code->table + (uint64_t)(int64_t)value));
}

/*
 * What position-independent code of i386 adds to the address that a call returned to (e8, then 81
 * /0 or 05) gives the program's table of addresses, always the same one: the one that most such
 * places give.
 */
static ms_addr find_table(const struct ms_piece *text)
{
	enum { CALL = 5 };
	size_t len = ms_range_len(text->range);
	uint32_t best = 0;
	size_t n = 0;

	for (size_t i = 0; i + CALL + 6 <= len; i++) {
		const unsigned char *add = text->bytes + i + CALL;
		size_t operand = add[0] == 0x05 ? 1 : 2;
		uint32_t table;

		if (text->bytes[i] != 0xe8 ||
		    !(add[0] == 0x05 || (add[0] == 0x81 && (add[1] & 0xf8) == 0xc0)))
			continue;
		table = (uint32_t)(text->range.begin + i + CALL) +
		        (uint32_t)number_at(text, i + CALL + operand);
		if (!n)
			best = table;
		n = table == best ? n + 1 : n - 1;
	}
	return best;
}

/* References to main_arena that are near each other. */
struct cluster {
	struct ms_range range; /* from the first to the last */
	size_t n;
};

static struct cluster largest_cluster(const struct code *code, struct ms_range to)
{
	const struct ms_piece *text = &code->text;
	struct cluster best = { 0 };
	struct cluster now = { 0 };

	for (size_t i = 0; i + 4 <= ms_range_len(text->range); i++) {
		ms_addr at = text->range.begin + i;

		if (!refers_to(code, i, to))
			continue;
		if (!now.n || at - now.range.end > MAX_GAP)
			now = (struct cluster){ .range = { at, at } };
		now.range.end = at;
		now.n++;
		if (now.n > best.n)
			best = now;
	}
	return best;
}

bool ms_static_code_find(const struct ms_image *image, const struct ms_mappings *maps,
                         struct ms_arena *arena, struct ms_range *ret)
{
	struct ms_range main_arena;
	struct cluster cluster;
	struct code code = { 0 };

	if (!find_arena_in_data(image, maps, arena, &main_arena) ||
	    !ms_piece_read_text(image, maps, arena, &code.text))
		return false;
	if (image->object.word_bytes == 4)
		code.table = find_table(&code.text);
	cluster = largest_cluster(&code, main_arena);
	if (cluster.n < LEAST_REFERENCES)
		return false;
	ret->begin = cluster.range.begin - MARGIN;
	ret->end = cluster.range.end + MARGIN;
	return true;
}
