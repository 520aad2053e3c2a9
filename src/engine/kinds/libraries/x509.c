/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/kinds/kinds.h"

/*
 * OpenSSL: an X509 and what hangs on it. Its first words are what ASN.1 has of a certificate, and
 * many of them agree: each string says its kind and its length, and has a block of that length.
 *
 *	X509             │ version │ serial … │ algorithm … │ issuer │ times │ subject │ key │ …
 *	X509_NAME        │ stack of entries │ changed │ BUF_MEM │ bytes │ length │
 *	X509_NAME_ENTRY  │ object │ string │ set, size │
 *	X509_PUBKEY      │ algorithm │ string │ EVP_PKEY │ …
 *	X509_EXTENSION   │ object │ critical │ string … │
 *	ASN1_STRING      │ length, kind │ bytes │ flags │
 *
 * What an encoding is it says itself: DER begins with a tag and the length of what follows, and
 * that is the length which its holder has. For comparisons a name has its sets alone.
 *
 * It is looked for in every program: OpenSSL may be linked into it.
 *
 * Source: OpenSSL 1.1.1 to 3.2 include/crypto/x509.h, include/crypto/asn1.h,
 * include/openssl/asn1.h, crypto/x509/x_pubkey.c, crypto/stack/stack.c.
 */

static const struct ms_kind_type x509 = { "X509", MS_HOW_OBJECT, MS_SURE_CERTAIN };
static const struct ms_kind_type string = { "ASN1_STRING", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type bytes = { "bytes of ASN1_STRING", MS_HOW_CONTAINER,
	                                   MS_SURE_CERTAIN };
static const struct ms_kind_type name = { "X509_NAME", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type entry = { "X509_NAME_ENTRY", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type encoded = { "encoding of X509", MS_HOW_CONTAINER,
	                                     MS_SURE_CERTAIN };
static const struct ms_kind_type encoded_name = { "encoding of X509_NAME", MS_HOW_CONTAINER,
	                                          MS_SURE_CERTAIN };
static const struct ms_kind_type stack = { "STACK of OpenSSL", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type items = { "items of STACK", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type extension = { "X509_EXTENSION", MS_HOW_CONTAINER,
	                                       MS_SURE_CERTAIN };
static const struct ms_kind_type key = { "X509_PUBKEY", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type pkey = { "EVP_PKEY", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type algorithm = { "X509_ALGOR", MS_HOW_CONTAINER, MS_SURE_CERTAIN };
static const struct ms_kind_type buffer = { "BUF_MEM", MS_HOW_CONTAINER, MS_SURE_CERTAIN };

/* Words of an X509. */
enum {
	VERSION,
	SERIAL,
	ALGORITHM = 4,
	ISSUER = 6,
	FROM,
	UNTIL,
	SUBJECT,
	KEY,
	EXTENSIONS = 13,
	ENCODED,
	ENCODED_BYTES,
	ALGORITHM_AGAIN = 17,
	SIGNATURE = 19,
	X509_WORDS = 22
};

/* Kinds of strings, as ASN.1 numbers them; a negative number is one of its own. */
enum { INTEGER = 2, BITS, OCTETS, NEGATIVE = 0x102, UTC_TIME = 23, TIME, MOST_KIND = 30 };

enum { STRING_WORDS = 3, STRING_BYTES = 24, MOST_ITEMS = 1024 };
enum { STACK_WORDS = 4, NAME_WORDS = 5, ENTRY_WORDS = 3, EXTENSION_WORDS = 5, KEY_WORDS = 3 };
enum { NAME_BUFFER = 2, NAME_BYTES, NAME_LENGTH, BUFFER_WORDS = 4, ALGORITHM_BYTES = 16 };

/* The block at @at that @words are the first of, and that was asked for with so many bytes. */
static bool read_block(struct ms_kinds *k, ms_addr at, size_t asked, struct ms_kind_block *ret,
                       uint64_t *words)
{
	return ms_kinds_step(k) && ms_kinds_at(k, at, ret) && ms_kind_fits(ret->usable, asked) &&
	       ms_kinds_words(k, at, words, asked / MS_KIND_WORD);
}

/* The bytes of the string whose words are at @words; false when they cannot be one's. */
static bool has_bytes(struct ms_kinds *k, const uint64_t *words, struct ms_kind_block *ret)
{
	uint64_t length = (uint32_t)words[0];

	return length && ms_kinds_at(k, words[1], ret) && ms_kind_fits(ret->usable, length);
}

static uint32_t kind_of(const uint64_t *words)
{
	return (uint32_t)(words[0] >> 32);
}

static bool is_string(struct ms_kinds *k, ms_addr at, uint32_t least, uint32_t most)
{
	uint64_t words[STRING_WORDS];
	struct ms_kind_block found;

	return read_block(k, at, STRING_BYTES, &found, words) && kind_of(words) >= least &&
	       kind_of(words) <= most && has_bytes(k, words, &found);
}

/* ---- encodings ---- */

/* Tags, and how a length is written that is more than one byte's: by how many it takes. */
enum { SEQUENCE = 0x30, SET = 0x31, HEAD_BYTES = 2, MOST_LENGTH = 4, LONG = 0x80 };

/* Bytes of what is encoded at @at with that tag, its head included; 0: nothing is. */
static uint64_t encoded_bytes(struct ms_kinds *k, ms_addr at, uint8_t tag)
{
	uint8_t head[HEAD_BYTES + MOST_LENGTH];
	size_t got = ms_peek_read(&k->peek, at, head, sizeof(head));
	uint64_t length = 0;
	size_t more;

	if (got < HEAD_BYTES || head[0] != tag)
		return 0;
	if (head[1] < LONG)
		return (uint64_t)HEAD_BYTES + head[1];
	more = head[1] - (size_t)LONG;
	if (!more || HEAD_BYTES + more > got)
		return 0;
	for (size_t i = 0; i < more; i++)
		length = length << 8 | head[HEAD_BYTES + i];
	return HEAD_BYTES + more + length;
}

/* Whether the block at @at has an encoding of @length bytes: one of a sequence. */
static bool is_encoding(struct ms_kinds *k, ms_addr at, uint64_t length, struct ms_kind_block *ret)
{
	return length && ms_kinds_at(k, at, ret) && encoded_bytes(k, at, SEQUENCE) == length;
}

/* The same of sets in a row. */
static bool are_sets(struct ms_kinds *k, ms_addr at, uint64_t length, struct ms_kind_block *ret)
{
	uint64_t left = length;

	if (!length || !ms_kinds_at(k, at, ret) || !ms_kind_fits(ret->usable, length))
		return false;
	while (left) {
		uint64_t of_set = ms_kinds_step(k) ? encoded_bytes(k, at, SET) : 0;

		if (!of_set || of_set > left)
			return false;
		at += of_set;
		left -= of_set;
	}
	return true;
}

/* ---- claims ---- */

/* The bytes of a string whose words are at @words. */
static void take_bytes(struct ms_kinds *k, const uint64_t *words)
{
	struct ms_kind_block found;

	if (has_bytes(k, words, &found))
		ms_kinds_claim(k, &found, &bytes, NULL);
}

static bool is_kind(uint32_t kind)
{
	return kind && (kind <= MOST_KIND || kind == NEGATIVE);
}

/* One of no length may have no bytes. */
static void take_string(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[STRING_WORDS];
	struct ms_kind_block found;
	struct ms_kind_block of_bytes;

	if (!read_block(k, at, STRING_BYTES, &found, words) || !is_kind(kind_of(words)) ||
	    ((uint32_t)words[0] && !has_bytes(k, words, &of_bytes)))
		return;
	ms_kinds_claim(k, &found, &string, NULL);
	take_bytes(k, words);
}

typedef void take_fn(struct ms_kinds *k, ms_addr at);

/* A stack whose items are all @take's, with room for as many as it says. */
static void take_stack(struct ms_kinds *k, ms_addr at, take_fn *take)
{
	uint64_t words[STACK_WORDS];
	struct ms_kind_block found;
	struct ms_kind_block of_items;
	uint64_t item;
	uint64_t room;

	if (!read_block(k, at, sizeof(words), &found, words))
		return;
	room = words[2] >> 32;
	if (words[0] > room || room > MOST_ITEMS || !ms_kinds_at(k, words[1], &of_items) ||
	    !ms_kind_fits(of_items.usable, room * MS_KIND_WORD))
		return;
	ms_kinds_claim(k, &found, &stack, NULL);
	ms_kinds_claim(k, &of_items, &items, NULL);
	for (uint64_t i = 0; i < words[0]; i++)
		if (ms_kinds_words(k, words[1] + i * MS_KIND_WORD, &item, 1))
			take(k, item);
}

static void take_entry(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[ENTRY_WORDS];
	struct ms_kind_block found;

	if (!read_block(k, at, sizeof(words), &found, words))
		return;
	ms_kinds_claim(k, &found, &entry, NULL);
	take_string(k, words[1]);
}

static void take_buffer(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[BUFFER_WORDS];
	struct ms_kind_block found;
	struct ms_kind_block of_bytes;

	if (!read_block(k, at, sizeof(words), &found, words) || words[0] > words[2] ||
	    !is_encoding(k, words[1], words[0], &of_bytes) ||
	    !ms_kind_fits(of_bytes.usable, words[2]))
		return;
	ms_kinds_claim(k, &found, &buffer, NULL);
	ms_kinds_claim(k, &of_bytes, &encoded_name, NULL);
}

static void take_name(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[NAME_WORDS];
	struct ms_kind_block found;

	if (!read_block(k, at, sizeof(words), &found, words))
		return;
	ms_kinds_claim(k, &found, &name, NULL);
	take_stack(k, words[0], take_entry);
	take_buffer(k, words[NAME_BUFFER]);
	if (are_sets(k, words[NAME_BYTES], (uint32_t)words[NAME_LENGTH], &found))
		ms_kinds_claim(k, &found, &encoded_name, NULL);
}

static void take_extension(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[EXTENSION_WORDS];
	struct ms_kind_block found;

	if (!read_block(k, at, sizeof(words), &found, words) || kind_of(&words[2]) != OCTETS)
		return;
	ms_kinds_claim(k, &found, &extension, NULL);
	take_bytes(k, &words[2]);
}

static void take_key(struct ms_kinds *k, ms_addr at)
{
	uint64_t words[KEY_WORDS];
	uint64_t of_algorithm[ALGORITHM_BYTES / sizeof(uint64_t)];
	struct ms_kind_block found;

	if (!ms_kinds_at(k, at, &found) || !ms_kinds_words(k, at, words, KEY_WORDS) ||
	    !is_string(k, words[1], BITS, BITS))
		return;
	ms_kinds_claim(k, &found, &key, NULL);
	if (read_block(k, words[0], ALGORITHM_BYTES, &found, of_algorithm))
		ms_kinds_claim(k, &found, &algorithm, NULL);
	take_string(k, words[1]);
	ms_kinds_claim_at(k, words[2], &pkey, NULL);
}

/* ---- a certificate ---- */

static bool is_x509(struct ms_kinds *k, const uint64_t *words)
{
	struct ms_kind_block found;

	return (kind_of(&words[SERIAL]) == INTEGER || kind_of(&words[SERIAL]) == NEGATIVE) &&
	       kind_of(&words[SIGNATURE]) == BITS && words[ALGORITHM] &&
	       words[ALGORITHM] == words[ALGORITHM_AGAIN] && words[ISSUER] != words[SUBJECT] &&
	       has_bytes(k, &words[SERIAL], &found) && has_bytes(k, &words[SIGNATURE], &found) &&
	       ms_kinds_at(k, words[ISSUER], &found) && ms_kinds_at(k, words[SUBJECT], &found) &&
	       ms_kinds_at(k, words[KEY], &found) && is_string(k, words[FROM], UTC_TIME, TIME) &&
	       is_string(k, words[UNTIL], UTC_TIME, TIME);
}

static void take_x509(struct ms_kinds *k, const struct ms_kind_block *b, const uint64_t *words)
{
	struct ms_kind_block found;

	ms_kinds_claim(k, b, &x509, NULL);
	take_string(k, words[VERSION]);
	take_bytes(k, &words[SERIAL]);
	take_bytes(k, &words[SIGNATURE]);
	take_string(k, words[FROM]);
	take_string(k, words[UNTIL]);
	take_name(k, words[ISSUER]);
	take_name(k, words[SUBJECT]);
	take_key(k, words[KEY]);
	take_stack(k, words[EXTENSIONS], take_extension);
	if (is_encoding(k, words[ENCODED], words[ENCODED_BYTES], &found) &&
	    ms_kind_fits(found.usable, words[ENCODED_BYTES]))
		ms_kinds_claim(k, &found, &encoded, NULL);
}

/* ---- the kind ---- */

static void block(struct ms_kinds *k, const struct ms_kind_block *b)
{
	uint64_t words[X509_WORDS];

	if (b->n < sizeof(words))
		return;
	memcpy(words, b->bytes, sizeof(words));
	if (is_x509(k, words))
		take_x509(k, b, words);
}

const struct ms_kind ms_kind_x509 = { .name = "X509", .block = block };
