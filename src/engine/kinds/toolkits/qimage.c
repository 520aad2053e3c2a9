/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * Qt's images, and their pixels, which may be the most of what a program with windows has:
 *
 *	│ references, width │ height, depth │ bytes │ ratio │ colors │ pixels │ format │ bytes of a
 *	line │ … │ bits: 1, 31: of others │ …
 *
 * The numbers are a product: so many lines of so many bytes.
 *
 * Source: Qt 5.15 src/gui/image/qimage_p.h.
 */

static const struct ms_kind_type image = { "QImageData", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type pixels = { "pixels of QImage", MS_HOW_CONTAINER, MS_SURE_CERTAIN };

enum { SIZE, DEPTH, BYTES, PIXELS = 5, FORMAT, LINE, OWNED = 12, IMAGE_WORDS = 18 };
enum { ROUNDED = 32, MOST_REFERENCES = 1 << 20, MOST_FORMAT = 64 };

/* How many bits a pixel may have, each a bit. */
#define DEPTHS UINT64_C(0x8000000080808081) /* 1, 8, 16, 24, 32 and 64 */

static bool is_depth(uint64_t bits)
{
	return bits && bits <= 64 && (DEPTHS >> (bits - 1) & 1);
}

static bool is_image(const struct ms_kind_block *b)
{
	uint32_t references = (uint32_t)ms_kind_word(b->bytes, SIZE);
	uint64_t width = ms_kind_word(b->bytes, SIZE) >> 32;
	uint64_t height = (uint32_t)ms_kind_word(b->bytes, DEPTH);
	uint64_t depth = ms_kind_word(b->bytes, DEPTH) >> 32;
	uint64_t line = ms_kind_word(b->bytes, LINE);

	return references && references <= MOST_REFERENCES && width && width <= INT32_MAX &&
	       height && height <= INT32_MAX && is_depth(depth) && line <= INT32_MAX &&
	       line >= (width * depth + 7) / 8 && ms_kind_word(b->bytes, BYTES) == line * height &&
	       (uint32_t)ms_kind_word(b->bytes, FORMAT) < MOST_FORMAT;
}

/* Pixels may be another's, or a constant. */
static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	const uint64_t asked = (uint64_t)IMAGE_WORDS * MS_KIND_WORD;
	struct ms_kind_block of;

	if (b->usable < asked || b->usable - asked >= ROUNDED || !is_image(b))
		return;
	ms_kinds_claim(k, b, &image, NULL);
	if ((ms_kind_word(b->bytes, OWNED) & 1) &&
	    ms_kinds_at(k, ms_kind_word(b->bytes, PIXELS), &of) &&
	    ms_kind_fits(of.usable, ms_kind_word(b->bytes, BYTES)))
		ms_kinds_claim(k, &of, &pixels, NULL);
}

static bool begin(struct ms_kinds *k)
{
	return ms_mapped_file(k->src, "libQt5Gui");
}

const struct ms_kind ms_kind_qimage = { .name = "QImage", .begin = begin, .block = block };
