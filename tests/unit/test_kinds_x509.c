/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates of OpenSSL, and what hangs on them, in a program of any name. */
#include <criterion/criterion.h>
#include <string.h>

#include "named.h"

static void setup(void)
{
	drawn_kinds_init(&d, "/usr/bin/any");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds_x509, .init = setup, .fini = teardown);

struct certificate {
	ms_addr x509, version, serial, issuer, from, until, subject, key, signature, encoded;
	ms_addr entries, items, entry, value, public_key, algorithm, pkey;
	ms_addr buffer, encoded_name, sets, extensions, of_extensions, extension, octets;
};

/* A string of that kind, of ASN.1; @bytes: where its own are. */
static ms_addr draw_string(uint64_t kind, uint64_t len, ms_addr *bytes)
{
	ms_addr string = drawn_kinds_block(&d, 24);

	*bytes = drawn_kinds_block(&d, len);
	dk_put(&d, string, kind << 32 | len, *bytes);
	return string;
}

/* A block of @len bytes that begin with those of @head. */
static ms_addr draw_encoding(uint64_t len, const void *head, size_t n)
{
	ms_addr at = drawn_kinds_block(&d, len);

	memcpy(ms_fake_at(&d.fake, at), head, n);
	return at;
}

/* A sequence of two sets, as the issuer has it, and these by themselves. */
static void draw_encoded_name(struct certificate *c)
{
	c->encoded_name = draw_encoding(36, "\x30\x19\x31\x0a", 4);
	c->buffer = drawn_kinds_block(&d, 32);
	dk_put(&d, c->buffer, 27, c->encoded_name, 36, 0);
	c->sets = draw_encoding(60, "\x31\x0a----------\x31\x81\x2d", 15);
	dk_put(&d, c->issuer, 0, 0, c->buffer, c->sets, 60);
}

static void draw_extensions(struct certificate *c)
{
	c->extensions = drawn_kinds_block(&d, 32);
	c->of_extensions = drawn_kinds_block(&d, 32);
	c->extension = drawn_kinds_block(&d, 40);
	c->octets = drawn_kinds_block(&d, 31);
	dk_put(&d, c->extensions, 1, c->of_extensions, UINT64_C(4) << 32, 0);
	dk_put(&d, c->of_extensions, c->extension);
	dk_put(&d, c->extension, DK_CONSTANTS, 0, UINT64_C(4) << 32 | 31, c->octets, 0);
}

static void draw_certificate(struct certificate *c)
{
	ms_addr bytes;

	c->x509 = drawn_kinds_block(&d, 384);
	c->version = draw_string(2, 1, &bytes);
	c->serial = drawn_kinds_block(&d, 20);
	c->signature = drawn_kinds_block(&d, 256);
	c->issuer = drawn_kinds_block(&d, 40);
	c->subject = drawn_kinds_block(&d, 40);
	c->from = draw_string(23, 13, &bytes);
	c->until = draw_string(24, 15, &bytes);
	c->key = drawn_kinds_block(&d, 48);
	c->public_key = draw_string(3, 270, &bytes);
	c->algorithm = drawn_kinds_block(&d, 16);
	c->pkey = drawn_kinds_block(&d, 140);
	c->encoded = draw_encoding(600, "\x30\x82\x02\x54", 4);
	c->entries = drawn_kinds_block(&d, 32);
	c->items = drawn_kinds_block(&d, 32);
	c->entry = drawn_kinds_block(&d, 24);
	c->value = draw_string(12, 11, &bytes);
	draw_encoded_name(c);
	draw_extensions(c);
	dk_put(&d, c->x509, c->version, UINT64_C(2) << 32 | 20, c->serial, 0, DK_CONSTANTS, 0,
	       c->issuer, c->from, c->until, c->subject, c->key, 0, 0, c->extensions, c->encoded,
	       600, 0, DK_CONSTANTS, 0, UINT64_C(3) << 32 | 256, c->signature);
	dk_put(&d, c->subject, c->entries, 0, 0, 0, 0);
	dk_put(&d, c->entries, 1, c->items, UINT64_C(4) << 32, 0);
	dk_put(&d, c->items, c->entry);
	dk_put(&d, c->entry, DK_CONSTANTS, c->value, 0);
	dk_put(&d, c->key, c->algorithm, c->public_key, c->pkey);
}

Test(kinds_x509, a_certificate_and_what_hangs_on_it)
{
	struct certificate c;

	draw_certificate(&c);
	drawn_kinds_find(&d);
	assert_name(c.x509, "X509");
	cr_assert_eq(drawn_kinds_type(&d, c.x509)->how, MS_HOW_OBJECT);
	assert_name(c.version, "ASN1_STRING");
	assert_name(c.until, "ASN1_STRING");
	assert_name(c.serial, "bytes of ASN1_STRING");
	assert_name(c.signature, "bytes of ASN1_STRING");
	assert_name(c.issuer, "X509_NAME");
	assert_name(c.subject, "X509_NAME");
	assert_name(c.entries, "STACK of OpenSSL");
	assert_name(c.items, "items of STACK");
	assert_name(c.entry, "X509_NAME_ENTRY");
	assert_name(c.value, "ASN1_STRING");
	assert_name(c.key, "X509_PUBKEY");
	assert_name(c.algorithm, "X509_ALGOR");
	assert_name(c.pkey, "EVP_PKEY");
	assert_name(c.public_key, "ASN1_STRING");
	assert_name(c.extensions, "STACK of OpenSSL");
	assert_name(c.extension, "X509_EXTENSION");
	assert_name(c.octets, "bytes of ASN1_STRING");
	assert_name(c.encoded, "encoding of X509");
	assert_name(c.buffer, "BUF_MEM");
	assert_name(c.encoded_name, "encoding of X509_NAME");
	assert_name(c.sets, "encoding of X509_NAME");
}

Test(kinds_x509, an_encoding_is_as_long_as_it_says)
{
	struct certificate c;

	draw_certificate(&c);
	for (ms_addr i = 0; i < 4; i++)
		check_byte_counts(c.encoded + i, c.encoded);
	for (ms_addr i = 0; i < 2; i++)
		check_byte_counts(c.encoded_name + i, c.encoded_name);
	check_byte_counts(c.encoded_name, c.buffer);
	/* Of two sets the second begins where the first ends. */
	for (ms_addr i = 0; i < 2; i++)
		check_byte_counts(c.sets + i, c.sets);
	for (ms_addr i = 12; i < 15; i++)
		check_byte_counts(c.sets + i, c.sets);
	assert_each_word_counts(c.x509 + 112, 2, c.encoded);
	assert_each_word_counts(c.issuer + 24, 2, c.sets);
	assert_each_word_counts(c.buffer, 3, c.encoded_name);
	/* The holder has it shorter by what its block is longer: that is not by the encoding. */
	ms_fake_put(&d.fake, c.x509 + 120, 596);
	drawn_kinds_find(&d);
	assert_name(c.encoded, "");
}

Test(kinds_x509, a_length_of_an_encoding_that_is_no_length)
{
	static const char *const heads[] = { "\x30\x80\x02\x54", "\x30\x85\x02\x54",
		                             "\x30\xff\x02\x54" };
	struct certificate c;

	draw_certificate(&c);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		memcpy(ms_fake_at(&d.fake, c.encoded), heads[i], 4);
		drawn_kinds_find(&d);
		assert_name(c.encoded, "");
		assert_name(c.x509, "X509");
	}
}

/* What hangs on it is of the size that it has there, or it is not named. */
Test(kinds_x509, what_hangs_on_a_certificate_has_its_size)
{
	struct certificate c;

	draw_certificate(&c);
	drawn_kinds_find(&d);
	assert_each_word_counts(c.entries, 3, c.items);
	assert_each_word_counts(c.items, 1, c.entry);
	assert_each_word_counts(c.entry + 8, 1, c.value);
	assert_each_word_counts(c.key, 2, c.algorithm);
	assert_each_word_counts(c.key + 8, 2, c.pkey);
	assert_each_word_counts(c.extension + 16, 2, c.octets);
	assert_each_word_counts(c.extension + 16, 1, c.extension);
	assert_each_word_counts(c.value, 2, c.value);
	dk_put(&d, c.key, c.encoded);
	drawn_kinds_find(&d);
	assert_name(c.algorithm, "");
	assert_name(c.encoded, "encoding of X509");
	/* More entries than there is room for. */
	ms_fake_put(&d.fake, c.entries, 5);
	drawn_kinds_find(&d);
	assert_name(c.entries, "");
	assert_name(c.items, "");
	assert_name(c.entry, "");
}

Test(kinds_x509, each_word_of_a_certificate_counts)
{
	struct certificate c;

	draw_certificate(&c);
	drawn_kinds_find(&d);
	assert_each_word_counts(c.x509 + 8, 2, c.x509);
	assert_each_word_counts(c.x509 + 32, 1, c.x509);
	assert_each_word_counts(c.x509 + 48, 5, c.x509);
	assert_each_word_counts(c.x509 + 136, 1, c.x509);
	assert_each_word_counts(c.x509 + 152, 2, c.x509);
	assert_each_word_counts(c.from, 2, c.x509);
	assert_each_word_counts(c.until, 2, c.x509);
}

static void check_x509_without(ms_addr at, uint64_t word, const struct certificate *c)
{
	uint64_t *place = ms_fake_at(&d.fake, at);
	uint64_t old = *place;

	*place = word;
	drawn_kinds_find(&d);
	assert_name(c->x509, "");
	*place = old;
	drawn_kinds_find(&d);
	assert_name(c->x509, "X509");
}

Test(kinds_x509, what_is_near_a_certificate_is_none)
{
	struct certificate c;
	ms_addr large = drawn_kinds_block(&d, 200);

	draw_certificate(&c);
	/* A serial number without bytes, or in a block for more; times of the kinds beside theirs.
	 */
	check_x509_without(c.x509 + 8, UINT64_C(2) << 32, &c);
	check_x509_without(c.x509 + 16, large, &c);
	check_x509_without(c.x509 + 8, UINT64_C(4) << 32 | 20, &c);
	check_x509_without(c.x509 + 152, UINT64_C(4) << 32 | 256, &c);
	check_x509_without(c.from, UINT64_C(22) << 32 | 13, &c);
	check_x509_without(c.until, UINT64_C(25) << 32 | 15, &c);
	check_x509_without(c.x509 + 48, 77, &c);
	check_x509_without(c.x509 + 72, 77, &c);
	check_x509_without(c.x509 + 80, 77, &c);
	check_x509_without(c.x509 + 48, c.subject, &c);
	ms_fake_put(&d.fake, c.x509 + 8, UINT64_C(0x102) << 32 | 20);
	drawn_kinds_find(&d);
	assert_name(c.x509, "X509");
	dk_put(&d, c.x509 + 32, 0);
	dk_put(&d, c.x509 + 136, 0);
	drawn_kinds_find(&d);
	assert_name(c.x509, "");
}

Test(kinds_x509, sets_in_a_row_fill_their_block)
{
	ms_addr large = draw_encoding(200, "\x31\x3a", 2);
	ms_addr open = draw_encoding(2, "\x31\x80", 2);
	struct certificate c;

	draw_certificate(&c);
	dk_put(&d, c.issuer + 24, large, 60);
	drawn_kinds_find(&d);
	assert_name(large, "");
	dk_put(&d, c.issuer + 24, open, 2);
	drawn_kinds_find(&d);
	assert_name(open, "");
	dk_put(&d, c.issuer + 24, open, 0);
	drawn_kinds_find(&d);
	assert_name(open, "");
}

Test(kinds_x509, a_string_without_bytes_is_one)
{
	struct certificate c;

	draw_certificate(&c);
	dk_put(&d, c.value, UINT64_C(12) << 32, 0);
	drawn_kinds_find(&d);
	assert_name(c.value, "ASN1_STRING");
	for (uint64_t kind = 0; kind < 62; kind += 31) {
		ms_fake_put(&d.fake, c.value, kind << 32);
		drawn_kinds_find(&d);
		assert_name(c.value, "");
	}
	ms_fake_put(&d.fake, c.value, UINT64_C(0x102) << 32);
	drawn_kinds_find(&d);
	assert_name(c.value, "ASN1_STRING");
}

Test(kinds_x509, a_stack_or_a_buffer_with_room_for_more_is_none)
{
	struct certificate c;

	draw_certificate(&c);
	ms_fake_put(&d.fake, c.entries + 16, UINT64_C(30) << 32);
	ms_fake_put(&d.fake, c.buffer + 16, 136);
	drawn_kinds_find(&d);
	assert_name(c.items, "");
	assert_name(c.entry, "");
	assert_name(c.buffer, "");
	/* What is encoded is longer than the room for it. */
	ms_fake_put(&d.fake, c.buffer + 16, 26);
	drawn_kinds_find(&d);
	assert_name(c.buffer, "");
	assert_name(c.x509, "X509");
}
