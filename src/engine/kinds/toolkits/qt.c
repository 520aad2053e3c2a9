/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * What strings and containers of Qt keep their characters and elements in:
 *
 *	Qt 5   │ references, length │ room │ 24 │ characters │ NUL │          all in one block
 *	Qt 6   │ references, flags │ room │ characters │ NUL │
 *	         the holder has │ block │ characters │ length │
 *
 * Room and length are counted in characters: of 16 bits in a QString, of 8 in a QByteArray. Of the
 * two it is the one whose room the block has, and whose NUL stands where the length ends and
 * nowhere before.
 *
 * Of a vector, and of what is empty, only the header is evidence. In Qt 5 lists and hash tables are
 * blocks of their own:
 *
 *	QList   │ references, room │ first, end │ pointers … │
 *	QHash   │ … │ buckets │ references, number │ bytes of a node, bits │ buckets' number │ …
 *	node    │ next, at last the QHash │ hash, … │
 *
 * Source: Qt 5.15 src/corelib/tools/qarraydata.h, qlist.h, qhash.h; Qt 6.4 qarraydata.h,
 * qarraydatapointer.h.
 */

static const struct ms_kind_type string = { "data of QString", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type bytes_of = { "data of QByteArray", MS_HOW_CONTAINER,
	                                      MS_SURE_CERTAIN };

static const struct ms_kind_type array = { "QArrayData", MS_HOW_CONTAINER, MS_SURE_LIKELY };
static const struct ms_kind_type list = { "data of QList", MS_HOW_CONTAINER, MS_SURE_LIKELY };
static const struct ms_kind_type hash_data = { "data of QHash", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type buckets = { "buckets of QHash", MS_HOW_CONTAINER,
	                                     MS_SURE_CERTAIN };
static const struct ms_kind_type node = { "node of QHash", MS_HOW_CONTAINER, MS_SURE_CERTAIN };

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

static bool is_referenced(uint64_t word)
{
	return (uint32_t)word && (uint32_t)word <= MOST_REFERENCES;
}

/* Text if it is that; else the data of anything. */
static void look_for_array(struct ms_kinds *k, const struct ms_kind_block *b)
{
	const struct data data = { .of = *b,
		                   .header = HEADER_5,
		                   .room = (uint32_t)ms_kind_word(b->bytes, 1) & INT32_MAX,
		                   .len = ms_kind_word(b->bytes, 0) >> 32 };

	if (ms_kind_word(b->bytes, 2) != HEADER_5 || !is_referenced(ms_kind_word(b->bytes, 0)))
		return;
	claim(k, &data, NULL);
	if (data.room && data.len <= data.room && data.room <= b->usable - HEADER_5)
		ms_kinds_claim(k, b, &array, NULL);
}

/* ---- lists and hash tables of Qt 5 ---- */

enum { LIST_BYTES = 16, MOST_ITEMS = 64 };

/* Items that are no addresses say nothing. */
static void look_for_list(struct ms_kinds *k, const struct ms_kind_block *b)
{
	const uint64_t room = ms_kind_word(b->bytes, 0) >> 32;
	const uint64_t first = (uint32_t)ms_kind_word(b->bytes, 1);
	const uint64_t end = ms_kind_word(b->bytes, 1) >> 32;
	const uint64_t bytes = LIST_BYTES + room * MS_KIND_WORD;

	if (!is_referenced(ms_kind_word(b->bytes, 0)) || first >= end || end > room ||
	    bytes > b->usable || b->usable - bytes >= ROUNDED)
		return;
	for (uint64_t i = first; i < end && i < first + MOST_ITEMS; i++) {
		size_t word = LIST_BYTES / MS_KIND_WORD + (size_t)i;

		if (word < b->n / MS_KIND_WORD &&
		    !ms_region_of(k->regions, ms_kind_word(b->bytes, word)))
			return;
	}
	ms_kinds_claim(k, b, &list, NULL);
}

/* Words of a hash table. */
enum { BUCKETS = 1, COUNT, NODE_SIZE, N_BUCKETS, HASH_WORDS = 6, NODE_BYTES = 16 };

struct hash {
	ms_addr at;
	ms_addr buckets;
	uint64_t n_buckets;
	uint64_t count;
	uint64_t node_bytes;
};

/* The nodes of a bucket lead to the table at last. */
static bool take_bucket(struct ms_kinds *k, const struct hash *h, ms_addr at, uint64_t *left,
                        bool claim_them)
{
	struct ms_kind_block found;

	for (; at != h->at; --*left) {
		if (!*left || !ms_kinds_step(k) || !ms_kinds_at(k, at, &found) ||
		    !ms_kind_fits(found.usable, h->node_bytes))
			return false;
		if (claim_them)
			ms_kinds_claim(k, &found, &node, NULL);
		if (!ms_kinds_words(k, at, &at, 1))
			return false;
	}
	return true;
}

static bool take_hash(struct ms_kinds *k, const struct hash *h, bool claim_them)
{
	uint64_t left = h->count;
	ms_addr at;

	for (uint64_t i = 0; i < h->n_buckets; i++)
		if (!ms_kinds_words(k, h->buckets + i * MS_KIND_WORD, &at, 1) ||
		    !take_bucket(k, h, at, &left, claim_them))
			return false;
	return !left;
}

static void look_for_hash(struct ms_kinds *k, const struct ms_kind_block *b)
{
	struct ms_kind_block of_buckets;
	struct hash h;

	if (b->n < HASH_WORDS * MS_KIND_WORD || !is_referenced(ms_kind_word(b->bytes, COUNT)))
		return;
	h = (struct hash){ .at = b->begin,
		           .buckets = ms_kind_word(b->bytes, BUCKETS),
		           .n_buckets = (uint32_t)ms_kind_word(b->bytes, N_BUCKETS),
		           .count = ms_kind_word(b->bytes, COUNT) >> 32,
		           .node_bytes = (uint32_t)ms_kind_word(b->bytes, NODE_SIZE) };
	if (!h.count || h.node_bytes < NODE_BYTES || !h.n_buckets ||
	    !ms_kinds_at(k, h.buckets, &of_buckets) ||
	    !ms_kind_fits(of_buckets.usable, h.n_buckets * MS_KIND_WORD) ||
	    !take_hash(k, &h, false))
		return;
	ms_kinds_claim(k, b, &hash_data, NULL);
	ms_kinds_claim(k, &of_buckets, &buckets, NULL);
	(void)take_hash(k, &h, true);
}

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (b->n < HEADER_5)
		return;
	look_for_array(k, b);
	look_for_list(k, b);
	look_for_hash(k, b);
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
	return ms_mapped_file(k->src, "libQt5Core") || ms_mapped_file(k->src, "libQt6Core");
}

const struct ms_kind ms_kind_qt = {
	.name = "Qt", .begin = begin, .block = block, .pointer = pointer
};
