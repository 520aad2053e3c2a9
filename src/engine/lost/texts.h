/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_ENGINE_LOST_TEXTS_H
#define MS_ENGINE_LOST_TEXTS_H

/*
 * The texts in the blocks of one entry. A group of leaks is not described by its lowest address:
 * among 5000 file names there can be one option of the same size. Texts that begin and end alike
 * are counted together, numbers in them aside:
 *
 *	"image-00017.png"                        "user alice logged in"
 *	"image-00018.png"   "image-….png"        "user bob logged in"     "user … logged in"
 *
 * Only MS_LIKES_KEPT patterns of an entry are counted at a time (Misra and Gries): one that more
 * than every ninth text has is among them at the end. A count is never too large; texts that are
 * counted to no pattern are in the total alone.
 */

#include "engine/lost/list.h"

enum {
	MS_LIKES_KEPT = 8,
	MS_LIKES_LOOKED = 64, /* bytes of a text that are compared */
};

/* Texts of one pattern. */
struct ms_like_sum {
	uint64_t count;
	uint64_t weight;       /* less, when others found no place */
	struct ms_range first; /* as far as it was compared */
	struct ms_range last;
	char pattern[MS_LIKES_LOOKED + 1]; /* with marks of texts.c */
};

struct ms_text_sums {
	uint64_t count; /* all */
	size_t n;
	struct ms_like_sum at[MS_LIKES_KEPT];
};

/*
 * Count the text at @addr, which begins with the @len bytes at @bytes, as far as it is known; one
 * with control characters is none.
 *
 * @sums: in/out; { 0 } is none
 */
void ms_text_sums_add(struct ms_text_sums *sums, ms_addr addr, const unsigned char *bytes,
                      size_t len);

/* Put the most frequent patterns of @sums into the report of @list; false without memory. */
bool ms_text_sums_write(struct ms_leak_list *list, struct ms_text_sums *sums, struct ms_leak *ret);

#endif
