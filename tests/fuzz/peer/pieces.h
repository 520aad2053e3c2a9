/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_TESTS_FUZZ_PIECES_H
#define MS_TESTS_FUZZ_PIECES_H

/*
 * What one process sends to another, kept in the pieces that it was sent in, so that an
 * input can say which number in which of them is another; five bytes for each change:
 *
 *	piece   which
 *	place   of its bytes, or of its words of 8, from the end when it is above 127
 *	factor  times so many more
 *	how     a byte, a word, half a word; what comes once more; what does not come
 *	value   which; words are mostly small, or at the borders of what they can be
 */

#include <string.h>

#include "fuzz.h"

enum { PIECES = 64, PIECE_BYTES = 16 * 1024, CHANGE_BYTES = 5 };

struct piece {
	size_t len;
	uint8_t bytes[PIECE_BYTES];
};

struct pieces {
	size_t n;
	struct piece at[PIECES];
	/* Of the reading. */
	size_t piece;
	size_t offset;
};

/* Appends one; a ms_wire_put. */
static inline bool pieces_put(void *ctx, const void *bytes, size_t len)
{
	struct pieces *pieces = ctx;
	struct piece *piece = &pieces->at[pieces->n];

	require(pieces->n < PIECES && len <= PIECE_BYTES, "what is sent is small");
	memcpy(piece->bytes, bytes, len);
	piece->len = len;
	pieces->n++;
	return true;
}

/* Take @len bytes of what was put, or false: a ms_wire_get. */
static inline bool pieces_get(void *ctx, void *bytes, size_t len)
{
	struct pieces *pieces = ctx;
	uint8_t *to = bytes;

	while (len) {
		const struct piece *piece = &pieces->at[pieces->piece];
		size_t n;

		if (pieces->piece == pieces->n)
			return false;
		n = piece->len - pieces->offset < len ? piece->len - pieces->offset : len;
		memcpy(to, piece->bytes + pieces->offset, n);
		pieces->offset += n;
		to += n;
		len -= n;
		if (pieces->offset == piece->len) {
			pieces->piece++;
			pieces->offset = 0;
		}
	}
	return true;
}

static inline uint64_t pieces_number(uint8_t n)
{
	static const uint64_t borders[] = { UINT64_MAX, UINT32_MAX, INT32_MAX, 1ull << 31,
		                            1ull << 63, INT64_MAX,  1 << 16,   1ull << 32,
		                            1 << 20,    1 << 26,    1 << 28,   1 << 30,
		                            4096,       256,        1024,      UINT16_MAX };

	return n < 128 ? n : borders[n % 16] + (n >= 192 ? n / 16 % 4 : 0) - (n < 160);
}

/* Again what stands in the piece; counts of entries are the piece before. */
static inline void pieces_repeat(struct piece *piece, unsigned times)
{
	size_t len = piece->len;

	while (times-- && piece->len + len <= PIECE_BYTES) {
		memcpy(piece->bytes + piece->len, piece->bytes, len);
		piece->len += len;
	}
}

static inline void pieces_change(struct pieces *pieces, const uint8_t change[CHANGE_BYTES])
{
	struct piece *piece = &pieces->at[change[0] % pieces->n];
	size_t place = (change[1] & 127) + change[2] * 128u;
	uint64_t number = pieces_number(change[4]);
	unsigned how = change[3] % 5;
	size_t unit = how == 1 ? 8 : how == 2 ? 4 : 1;

	if (how == 3) {
		pieces_repeat(piece, change[4]);
		return;
	}
	if (!piece->len || (how == 4 && change[4] > piece->len))
		return;
	if (how == 4) {
		piece->len -= change[4];
		return;
	}
	place = place * unit % piece->len;
	if (change[1] & 128)
		place = piece->len - 1 - place;
	place -= place % unit;
	unit = unit < piece->len - place ? unit : piece->len - place;
	memcpy(piece->bytes + place, &number, unit);
}

static inline void pieces_change_all(struct pieces *pieces, const uint8_t *data, size_t size)
{
	enum { MOST = 32 };

	for (size_t i = 0; i < MOST && (i + 1) * CHANGE_BYTES <= size && pieces->n; i++)
		pieces_change(pieces, data + i * CHANGE_BYTES);
}

#endif
