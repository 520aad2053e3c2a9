/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * What strings of Qt keep their characters in:
 *
 *	Qt 5   │ references, length │ room │ 24 │ characters │ NUL │          all in one block
 *	Qt 6   │ references, flags │ room │ characters │ NUL │
 *	         the holder has │ block │ characters │ length │
 *
 * Room and length are counted in characters: of 16 bits in a QString, of 8 in a QByteArray. Of the
 * two it is the one whose room the block has, and whose NUL stands where the length ends and
 * nowhere before.
 *
 * Source: Qt 5.15 src/corelib/tools/qarraydata.h; Qt 6.4 qarraydata.h, qarraydatapointer.h.
 */

static const struct ms_kind_type string = { "data of QString", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type bytes_of = { "data of QByteArray", MS_HOW_CONTAINER,
	                                      MS_SURE_CERTAIN };

enum {
	HEADER_5 = 24,
	HEADER_6 = 16,
	MOST_REFERENCES = 1 << 20,
	MOST_FLAGS = 16,
	ROUNDED = 32,
	LOOKED_AT = 512
};

/* What may be a string's. */
struct data {
	struct ms_kind_block of;
	uint64_t header;
	uint64_t room; /* characters, and the NUL */
	uint64_t len;
};

/* Whether none of @len characters of @width bytes is a NUL, and the next is; long ones' ends count.
 */
static bool is_terminated(struct ms_kinds *k, const struct data *d, uint64_t width)
{
	uint64_t n = d->len < LOOKED_AT ? d->len : (uint64_t)LOOKED_AT;
	ms_addr at = d->of.begin + d->header + (d->len - n) * width;
	uint8_t text[(LOOKED_AT + 1) * sizeof(uint16_t)];

	if (ms_peek_read(&k->peek, at, text, (size_t)((n + 1) * width)) != (n + 1) * width)
		return false;
	for (uint64_t i = 0; i <= n; i++) {
		bool nul = width == 1 ? !text[i] : !text[2 * i] && !text[2 * i + 1];

		if (nul != (i == n))
			return false;
	}
	return true;
}

static bool is_of(struct ms_kinds *k, const struct data *d, uint64_t width)
{
	uint64_t bytes = d->header + d->room * width;

	return bytes <= d->of.usable && d->of.usable - bytes < ROUNDED &&
	       is_terminated(k, d, width);
}

/* What both would have is neither. */
static void claim(struct ms_kinds *k, const struct data *d, const struct ms_kind_spot *spot)
{
	bool wide;
	bool narrow;

	if (d->len < 2 || d->len >= d->room || d->room > d->of.usable)
		return;
	wide = is_of(k, d, 2);
	narrow = is_of(k, d, 1);
	if (wide != narrow)
		ms_kinds_claim(k, &d->of, wide ? &string : &bytes_of, spot);
}

/* Qt 5. */
static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint32_t references;

	if (b->n < HEADER_5 + 2 || ms_kind_word(b->bytes, 2) != HEADER_5)
		return;
	references = (uint32_t)ms_kind_word(b->bytes, 0);
	if (!references || references > MOST_REFERENCES)
		return;
	claim(k,
	      &(struct data){ .of = *b,
	                      .header = HEADER_5,
	                      .room = (uint32_t)ms_kind_word(b->bytes, 1) & INT32_MAX,
	                      .len = ms_kind_word(b->bytes, 0) >> 32 },
	      NULL);
}

/* Qt 6, where room is without the NUL. */
static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t words[2];

	if (spot->offset || spot->behind < 3 ||
	    ms_kind_near(spot, 1) != spot->to.begin + HEADER_6 ||
	    !ms_kinds_words(k, spot->to.begin, words, 2) || !(uint32_t)words[0] ||
	    (uint32_t)words[0] > MOST_REFERENCES || words[0] >> 32 >= MOST_FLAGS ||
	    words[1] > spot->to.usable)
		return;
	claim(k,
	      &(struct data){ .of = spot->to,
	                      .header = HEADER_6,
	                      .room = words[1] + 1,
	                      .len = ms_kind_near(spot, 2) },
	      spot);
}

static bool begin(struct ms_kinds *k)
{
	return ms_kinds_file(k, "libQt5Core") || ms_kinds_file(k, "libQt6Core");
}

const struct ms_kind ms_kind_qt = {
	.name = "Qt", .begin = begin, .block = block, .pointer = pointer
};
