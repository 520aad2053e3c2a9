/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/kinds/kinds.h"

/*
 * Text: printable characters and a NUL, that fill the block as far as its size was asked for;
 * and the strings of redis (sds), which have their length in front, in as many bytes as it
 * needs:
 *
 *	│ characters … │ NUL │           │ length │ room │ flags │ characters … │ NUL │
 *
 * An address can look like text of six characters, and so an address is none. A structure may
 * begin with a name: where a pointer to a block stands behind the NUL, it is no text.
 *
 * Source: redis 7.0 src/sds.h.
 */

enum { LEAST = 4, SDS_LEAST = 3 };

static const struct ms_kind_type text = { "text", MS_HOW_TEXT, MS_SURE_LIKELY };
static const struct ms_kind_type sds = { "sds string", MS_HOW_OBJECT, MS_SURE_LIKELY };

static bool is_address(const struct ms_kinds *k, const struct ms_kind_block *b)
{
	return b->n >= MS_KIND_WORD && ms_region_of(k->regions, ms_kind_word(b->bytes, 0));
}

static bool are_zeros(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i])
			return false;
	return true;
}

/* Whether a word behind the first @len bytes leads to the begin of a block. */
static bool leads_on(struct ms_kinds *k, const struct ms_kind_block *b, size_t len)
{
	struct ms_kind_block found;

	for (size_t i = (len + MS_KIND_WORD - 1) / MS_KIND_WORD; i < b->n / MS_KIND_WORD; i++)
		if (ms_kinds_at(k, ms_kind_word(b->bytes, i), &found))
			return true;
	return false;
}

/* What is behind the NUL is nothing, or what an allocator leaves. */
static bool is_text(struct ms_kinds *k, const struct ms_kind_block *b)
{
	size_t len = ms_kind_printable(b->bytes, b->n);

	if (len < LEAST || len == b->n || b->bytes[len])
		return false;
	if (len < MS_KIND_WORD && is_address(k, b))
		return false;
	if (ms_kind_fits(b->usable, len + 1))
		return !leads_on(k, b, len + 1);
	return len >= MS_KIND_WORD && are_zeros(b->bytes + len + 1, b->n - len - 1);
}

/* Its flags say which header it is. */
static bool is_sds(const struct ms_kind_block *b, struct ms_kind_text *ret)
{
	static const size_t widths[] = { 1, 2, 4, 8 };

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		size_t w = widths[i];
		size_t head = 2 * w + 1;
		uint64_t len = 0;
		uint64_t room = 0;

		if (b->n <= head || b->bytes[2 * w] != i + 1)
			continue;
		memcpy(&len, b->bytes, w);
		memcpy(&room, b->bytes + w, w);
		if (len >= SDS_LEAST && len <= room && room < b->usable && len < b->n - head &&
		    ms_kind_fits(b->usable, head + room + 1) && !b->bytes[head + len] &&
		    ms_kind_printable(b->bytes + head, (size_t)len) == len) {
			*ret = (struct ms_kind_text){ .offset = head, .len = len };
			return true;
		}
	}
	return false;
}

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	struct ms_kind_text of;

	if (is_text(k, b))
		ms_kinds_claim(k, b, &text, NULL);
	else if (is_sds(b, &of))
		ms_kinds_claim_text(k, b, &sds, NULL, of);
}

const struct ms_kind ms_kind_text = { .name = "text", .block = block };
