/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * What Qt keeps of an object beside the object and its private part, which have virtual tables:
 *
 *	QObject         │ table │ private │                     QObjectPrivate  │ table │ object │ …
 *	ExtraData       │ 6 × data of a list, of an array or a string │
 *	ConnectionData  │ number, references │ SignalVector │ senders │ current │ orphaned │
 *	SignalVector    │ next orphan │ n │ (n + 1) × (first, last Connection) │
 *	Connection      │ next │ who leads here │ next │ previous │ sender │ receiver │ its thread │
 *	                │ function or slot │ arguments │ references, number │ method, signal, bits │
 *	slot            │ references │ function │ …
 *
 * A connection is known by the word that leads to it, and by its two objects, which their private
 * parts lead back to; the others by their connections, or by a size that says how many there are.
 *
 * Source: Qt 5.15 src/corelib/kernel/qobject_p.h, qobjectdefs_impl.h.
 */

static const struct ms_kind_type connection = { "QObjectPrivate::Connection", MS_HOW_OBJECT,
	                                        MS_SURE_CERTAIN };
static const struct ms_kind_type data = { "QObjectPrivate::ConnectionData", MS_HOW_OBJECT,
	                                  MS_SURE_CERTAIN };
static const struct ms_kind_type signals = { "QObjectPrivate::SignalVector", MS_HOW_OBJECT,
	                                     MS_SURE_CERTAIN };
static const struct ms_kind_type extra = { "QObjectPrivate::ExtraData", MS_HOW_OBJECT,
	                                   MS_SURE_CERTAIN };
static const struct ms_kind_type slot = { "QtPrivate::QSlotObjectBase", MS_HOW_OBJECT,
	                                  MS_SURE_CERTAIN };
static const struct ms_kind_type arguments = { "argument types of QObjectPrivate::Connection",
	                                       MS_HOW_CONTAINER, MS_SURE_CERTAIN };

enum { ROUNDED = 32, MOST_REFERENCES = 1 << 20 };

static bool is_asked_for(const struct ms_kind_block *b, uint64_t words)
{
	return b->usable >= words * MS_KIND_WORD && b->usable - words * MS_KIND_WORD < ROUNDED;
}

/* ---- objects ---- */

/* Words of an object, and of its private part. */
enum { TABLE, OTHER, OBJECT_WORDS };

static bool is_private(struct ms_kinds *k, ms_addr at, ms_addr object)
{
	uint64_t words[OBJECT_WORDS];

	return ms_kinds_words(k, at, words, OBJECT_WORDS) && words[OTHER] == object &&
	       ms_kinds_is_constant(k, words[TABLE]);
}

static bool is_object(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[OBJECT_WORDS];

	return ms_kinds_words(k, at, words, OBJECT_WORDS) &&
	       ms_kinds_is_constant(k, words[TABLE]) && is_private(k, words[OTHER], at);
}

/* ---- connections ---- */

enum { NEXT, BEFORE, SENDER = 4, RECEIVER, CALLED = 7, ARGUMENTS, COUNTED, SIGNAL, LINK_WORDS };

/* Bits of the half word with a signal's number. */
#define IS_SLOT        (UINT64_C(1) << 62)
#define OWNS_ARGUMENTS (UINT64_C(1) << 63)

static bool is_connection(struct ms_kinds *k, const uint64_t words[LINK_WORDS], ms_addr at)
{
	uint32_t references = (uint32_t)words[COUNTED];
	ms_addr back;

	return references && references <= MOST_REFERENCES &&
	       ms_kinds_words(k, words[BEFORE], &back, 1) && back == at &&
	       is_object(k, words[SENDER]) && is_object(k, words[RECEIVER]);
}

static bool is_connection_at(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[LINK_WORDS];
	struct ms_kind_block of;

	return ms_kinds_at(k, at, &of) && is_asked_for(&of, LINK_WORDS) &&
	       ms_kinds_words(k, at, words, LINK_WORDS) && is_connection(k, words, at);
}

static void look_for_connection(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint64_t words[LINK_WORDS];
	uint64_t called[2];

	memcpy(words, b->bytes, sizeof(words));
	if (!is_connection(k, words, b->begin))
		return;
	ms_kinds_claim(k, b, &connection, NULL);
	if ((words[SIGNAL] & IS_SLOT) && ms_kinds_words(k, words[CALLED], called, 2) &&
	    ms_kinds_is_code(k, called[1]))
		ms_kinds_claim_at(k, words[CALLED], &slot, NULL);
	if (words[SIGNAL] & OWNS_ARGUMENTS)
		ms_kinds_claim_at(k, words[ARGUMENTS], &arguments, NULL);
}

/* ---- what an object has of them ---- */

enum { VECTOR = 1, SENDERS, CURRENT, ORPHANED, DATA_WORDS };
enum { VECTOR_HEAD = 2, STEP = 8, MOST_SIGNALS = 1 << 16 };

#define IS_VECTOR UINT64_C(1) /* of a pointer to what is orphaned */

static bool is_end(struct ms_kinds *k, ms_addr at)
{
	struct ms_kind_block of;

	return ms_kinds_at(k, at, &of) && is_asked_for(&of, LINK_WORDS);
}

/* Its size is that of the lists, of which each has no end or two. */
static bool is_vector(struct ms_kinds *k, ms_addr at, uint64_t words[VECTOR_HEAD],
                      struct ms_kind_block *ret)
{
	uint64_t ends[2];

	if (!ms_kinds_at(k, at, ret) || !ms_kinds_words(k, at, words, VECTOR_HEAD) || !words[1] ||
	    words[1] % STEP || words[1] > MOST_SIGNALS ||
	    !is_asked_for(ret, VECTOR_HEAD + 2 * (words[1] + 1)))
		return false;
	for (uint64_t i = 0; i <= words[1]; i++) {
		ms_addr list = at + (VECTOR_HEAD + 2 * i) * MS_KIND_WORD;

		if (!ms_kinds_step(k) || !ms_kinds_words(k, list, ends, 2) ||
		    !ends[0] != !ends[1] ||
		    (ends[0] && (!is_end(k, ends[0]) || !is_end(k, ends[1]))))
			return false;
	}
	return true;
}

/* Connections and vectors that are not needed any more lead to each other. */
static void take_orphaned(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[VECTOR_HEAD];
	struct ms_kind_block of;

	for (; at && ms_kinds_step(k); at = words[NEXT]) {
		if (!(at & IS_VECTOR)) {
			if (!is_end(k, at) || !ms_kinds_words(k, at, words, VECTOR_HEAD))
				return;
			continue;
		}
		if (!is_vector(k, at & ~IS_VECTOR, words, &of))
			return;
		ms_kinds_claim(k, &of, &signals, NULL);
	}
}

static void look_for_data(struct ms_kinds *k, const struct ms_kind_block *b)
{
	ms_addr senders = ms_kind_word(b->bytes, SENDERS);
	uint64_t references = ms_kind_word(b->bytes, 0) >> 32;
	ms_addr at = ms_kind_word(b->bytes, VECTOR);
	uint64_t words[VECTOR_HEAD];
	uint64_t first[2];
	struct ms_kind_block of;

	if (!references || references > MOST_REFERENCES || (!at && !senders) ||
	    (at && (!is_vector(k, at, words, &of) || words[0])) ||
	    (senders && (!is_connection_at(k, senders) || !ms_kinds_words(k, senders, first, 2) ||
	                 first[BEFORE] != b->begin + (ms_addr)SENDERS * MS_KIND_WORD)))
		return;
	ms_kinds_claim(k, b, &data, NULL);
	if (at)
		ms_kinds_claim(k, &of, &signals, NULL);
	take_orphaned(k, ms_kind_word(b->bytes, ORPHANED));
}

/* ---- the kind ---- */

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	if (is_asked_for(b, LINK_WORDS))
		look_for_connection(k, b);
	if (is_asked_for(b, DATA_WORDS))
		look_for_data(k, b);
}

/* Words of what an object has rarely, and of it in the private part. */
enum { EXTRA_WORDS = 6, EXTRA = 6 };

static bool may(const struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	return !spot->offset && spot->before >= EXTRA && is_asked_for(&spot->to, EXTRA_WORDS) &&
	       ms_kinds_is_constant(k, ms_kind_near(spot, TABLE - EXTRA));
}

/* Each word is data of a container: of none, a constant; else a block. */
static void pointer(struct ms_kinds *k, const struct ms_kind_spot *spot)
{
	uint64_t words[EXTRA_WORDS];
	struct ms_kind_block of;

	if (!may(k, spot) || !ms_kinds_words(k, spot->to.begin, words, EXTRA_WORDS) ||
	    !is_object(k, ms_kind_near(spot, OTHER - EXTRA)) ||
	    !is_private(k, spot->at - (ms_addr)EXTRA * MS_KIND_WORD,
	                ms_kind_near(spot, OTHER - EXTRA)))
		return;
	for (size_t i = 0; i < EXTRA_WORDS; i++)
		if (!ms_kinds_is_constant(k, words[i]) && !ms_kinds_at(k, words[i], &of))
			return;
	ms_kinds_claim(k, &spot->to, &extra, NULL);
}

static bool begin(struct ms_kinds *k)
{
	return ms_mapped_file(k->src, "libQt5Core");
}

const struct ms_kind ms_kind_qobject = {
	.name = "QObject", .begin = begin, .block = block, .pointer = pointer, .may = may
};
