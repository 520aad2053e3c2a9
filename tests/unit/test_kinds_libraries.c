/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of libraries. */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_kinds.h"

static struct drawn_kinds d;

/* A holder in the module's data, and other things there. */
#define HOLDER   (DK_DATA + 0x100)
#define TABLE    (DK_DATA + 0x200)
#define TABLE_2  (DK_DATA + 0x300)
#define A_METHOD (DK_CONSTANTS + 0x100)

static void setup(void)
{
	drawn_kinds_init(&d, "/usr/lib/libssl.so.3+libglib-2.0.so+libQt5Core.so+libstdc++.so");
}

static void setup_qt6(void)
{
	drawn_kinds_init(&d, "/usr/lib/libQt6Core.so.6");
}

static void setup_other(void)
{
	drawn_kinds_init(&d, "/usr/lib/libother.so.1");
}

static void setup_redis(void)
{
	drawn_kinds_init(&d, "/usr/bin/redis-check-rdb");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds_libraries, .init = setup, .fini = teardown);
TestSuite(kinds_qt6, .init = setup_qt6, .fini = teardown);
TestSuite(kinds_redis, .init = setup_redis, .fini = teardown);
TestSuite(kinds_other, .init = setup_other, .fini = teardown);

#define assert_name(block, wanted)                                      \
	cr_assert_str_eq(drawn_kinds_name(&d, (block)), (wanted), "%s", \
	                 drawn_kinds_name(&d, (block)))

/* The words at @at, of which there are @n, all matter to what @block is. */
static void assert_each_word_counts(ms_addr at, size_t n, ms_addr block)
{
	cr_assert_neq(drawn_kinds_name(&d, block)[0], '\0');
	cr_assert_eq(drawn_kinds_idle_word(&d, at, n, block), n, "word %zu",
	             drawn_kinds_idle_word(&d, at, n, block));
}

static ms_addr constant(ms_addr at, const char *text)
{
	strcpy(ms_fake_at(&d.fake, at), text);
	return at;
}

/* ---- OpenSSL ---- */

static void draw_ssl_method(void)
{
	dk_put(&d, A_METHOD, 0x10000, 0, DK_CODE, DK_CODE, DK_CODE, DK_CODE, DK_CODE, DK_CODE,
	       DK_CODE, DK_CODE, DK_CODE, DK_CODE, DK_CODE, DK_CODE);
}

Test(kinds_libraries, an_ssl_is_known_by_its_method)
{
	ms_addr ssl = drawn_kinds_block(&d, 1000);

	draw_ssl_method();
	dk_put(&d, ssl, 0x304, A_METHOD);
	drawn_kinds_find(&d);
	assert_name(ssl, "SSL");
	assert_each_word_counts(ssl, 2, ssl);
	assert_each_word_counts(A_METHOD, 14, ssl);
	/* As from 3.2 on. */
	dk_put(&d, ssl, 0, drawn_kinds_block(&d, 1000), A_METHOD, A_METHOD);
	drawn_kinds_find(&d);
	assert_name(ssl, "SSL");
	assert_each_word_counts(ssl, 4, ssl);
}

Test(kinds_libraries, what_an_ssl_is_made_from)
{
	ms_addr context = drawn_kinds_block(&d, 1000);

	draw_ssl_method();
	dk_put(&d, context, 0, A_METHOD);
	drawn_kinds_find(&d);
	assert_name(context, "SSL_CTX");
	assert_each_word_counts(context, 2, context);
	dk_put(&d, context, A_METHOD, 0);
	drawn_kinds_find(&d);
	assert_name(context, "SSL_CTX");
	assert_each_word_counts(context, 1, context);
}

/* ---- X509 ---- */

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

Test(kinds_libraries, a_certificate_and_what_hangs_on_it)
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

/* The byte at @at is another: what @block is nobody knows then. */
static void check_byte_counts(ms_addr at, ms_addr block)
{
	uint8_t *byte = ms_fake_at(&d.fake, at);

	*byte ^= 1;
	drawn_kinds_find(&d);
	assert_name(block, "");
	*byte ^= 1;
	drawn_kinds_find(&d);
	cr_assert_neq(drawn_kinds_name(&d, block)[0], '\0');
}

Test(kinds_libraries, an_encoding_is_as_long_as_it_says)
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

Test(kinds_libraries, a_length_of_an_encoding_that_is_no_length)
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
Test(kinds_libraries, what_hangs_on_a_certificate_has_its_size)
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

Test(kinds_libraries, each_word_of_a_certificate_counts)
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

/* ---- SQLite ---- */

/* A block with @front bytes before what SQLite has of it, which are its length. */
static ms_addr sqlite_block(uint64_t len, uint64_t front)
{
	ms_addr at = drawn_kinds_block(&d, len + front);

	if (front)
		ms_fake_put(&d.fake, at, len);
	return at + front;
}

static void check_sqlite(uint64_t front)
{
	ms_addr handle = sqlite_block(704, front);
	ms_addr btree = sqlite_block(72, front);
	ms_addr shared = sqlite_block(152, front);
	ms_addr pager = sqlite_block(400, front);
	ms_addr schema = sqlite_block(112, front);
	ms_addr statement[2] = { sqlite_block(304, front), sqlite_block(304, front) };

	dk_put(&d, TABLE, 3, 512, 0, constant(DK_CONSTANTS, "unix"), 0, DK_CODE, DK_CODE, DK_CODE,
	       DK_CODE);
	dk_put(&d, handle, TABLE, statement[0], 0, 0, handle + 400, 2);
	dk_put(&d, handle + 400, constant(DK_CONSTANTS + 16, "main"), btree, 0, schema,
	       constant(DK_CONSTANTS + 24, "temp"));
	dk_put(&d, btree, handle, shared);
	dk_put(&d, shared, pager, handle);
	dk_put(&d, pager, TABLE);
	dk_put(&d, statement[0], handle, 0, statement[1]);
	dk_put(&d, statement[1], handle, statement[0], 0);
	drawn_kinds_find(&d);
	assert_name(handle - front, "sqlite3");
	assert_name(btree - front, "Btree of SQLite");
	assert_name(schema - front, "Schema of SQLite");
	assert_name(statement[1] - front, "sqlite3_stmt");
	assert_each_word_counts(handle, 1, handle - front);
	assert_each_word_counts(handle + 32, 2, handle - front);
	assert_each_word_counts(handle + 432, 1, handle - front);
	assert_each_word_counts(TABLE + 24, 1, handle - front);
	assert_each_word_counts(TABLE + 40, 4, handle - front);
	assert_each_word_counts(btree, 1, btree - front);
	assert_each_word_counts(shared + 8, 1, shared - front);
	assert_each_word_counts(pager, 1, pager - front);
	assert_each_word_counts(statement[1], 1, statement[1] - front);
	/* The second database has a name that is always the same. */
	(void)constant(DK_CONSTANTS + 24, "temq");
	drawn_kinds_find(&d);
	assert_name(handle - front, "");
	(void)constant(DK_CONSTANTS + 24, "temp");
	/* A ring of statements ends, too. */
	ms_fake_put(&d.fake, statement[1] + 16, statement[0]);
	drawn_kinds_find(&d);
	assert_name(handle - front, "sqlite3");
}

Test(kinds_libraries, a_connection_of_sqlite_leads_to_what_it_has)
{
	check_sqlite(0);
}

Test(kinds_libraries, blocks_of_sqlite_can_have_their_length_in_front)
{
	check_sqlite(8);
}

Test(kinds_libraries, a_page_of_sqlite_has_its_own_address_behind)
{
	ms_addr page = drawn_kinds_block(&d, 4096 + 56 + 136);

	dk_put(&d, page + 4096, page, page + 4096 + 56);
	drawn_kinds_find(&d);
	assert_name(page, "pages of SQLite");
	assert_each_word_counts(page + 4096, 2, page);
}

/* ---- GLib ---- */

#define QUARKS_AT (DK_DATA + 0x80)

enum { QUARKS = 2048 };

static ms_addr draw_quarks(void)
{
	ms_addr quarks = drawn_kinds_block(&d, QUARKS * 8);

	for (unsigned i = 1; i < 8; i++)
		ms_fake_put(&d.fake, quarks + i * 8, constant(DK_CONSTANTS, "GThing"));
	ms_fake_put(&d.fake, QUARKS_AT, quarks);
	return quarks;
}

Test(kinds_libraries, an_object_of_glib_has_the_name_of_its_type)
{
	ms_addr object = drawn_kinds_block(&d, 32 + 40);
	ms_addr class = drawn_kinds_block(&d, 136);
	ms_addr node = drawn_kinds_block(&d, 104);
	ms_addr data = drawn_kinds_block(&d, 80);
	ms_addr quarks = draw_quarks();

	dk_put(&d, object + 32, class, 1, 0);
	dk_put(&d, class, node);
	dk_put(&d, node, 1, 0, UINT64_C(1) << 32, 0, data, 3, 0, 0, 0, node, 80);
	dk_put(&d, data, 0, 0, 0, 0, 0, 0, 0, class, UINT64_C(32) << 16 | 40);
	drawn_kinds_find(&d);
	assert_name(object, "GThing");
	assert_name(class, "GTypeClass");
	assert_name(node, "node of a GType");
	cr_assert_eq(drawn_kinds_type(&d, object)->how, MS_HOW_OBJECT);
	assert_each_word_counts(object + 32, 1, object);
	assert_each_word_counts(class, 1, object);
	assert_each_word_counts(node + 16, 1, object);
	assert_each_word_counts(node + 32, 2, object);
	assert_each_word_counts(node + 72, 2, object);
	assert_each_word_counts(data + 56, 1, object);
	assert_each_word_counts(QUARKS_AT, 1, object);
	assert_each_word_counts(quarks, 8, object);
	/* What is private stands in front, and is as long as the type says. */
	ms_fake_put(&d.fake, data + 64, UINT64_C(16) << 16 | 40);
	drawn_kinds_find(&d);
	assert_name(object, "");
	ms_fake_put(&d.fake, data + 64, UINT64_C(32) << 16 | 80);
	drawn_kinds_find(&d);
	assert_name(object, "");
	ms_fake_put(&d.fake, data + 64, UINT64_C(32) << 16 | 40);
	ms_fake_put(&d.fake, object + 40, 0);
	drawn_kinds_find(&d);
	assert_name(object, "");
}

Test(kinds_libraries, a_hash_table_of_glib_names_its_columns)
{
	ms_addr table = drawn_kinds_block(&d, 96);
	ms_addr keys = drawn_kinds_block(&d, 128 * 8);
	ms_addr hashes = drawn_kinds_block(&d, 128 * 4);
	ms_addr values = drawn_kinds_block(&d, 128 * 4);

	dk_put(&d, table, 128, UINT64_C(127) << 32 | 127, UINT64_C(9) << 32 | 8, 0, keys, hashes,
	       values, DK_CODE, DK_CODE, 1);
	drawn_kinds_find(&d);
	assert_name(table, "GHashTable");
	assert_name(keys, "keys of GHashTable");
	assert_name(hashes, "hashes of GHashTable");
	assert_name(values, "values of GHashTable");
	assert_each_word_counts(table, 3, hashes);
	assert_each_word_counts(table + 32, 5, hashes);
	/* A set has its keys as values; and in a slice the table is no block. */
	dk_put(&d, table, 0, 0, 0, 0, 0, 0, 0);
	dk_put(&d, HOLDER, 128, UINT64_C(127) << 32 | 127, UINT64_C(8) << 32 | 8, 0, keys, hashes,
	       keys, DK_CODE, 0, 1);
	drawn_kinds_find(&d);
	assert_name(keys, "keys of GHashTable");
	assert_name(table, "");
	assert_name(values, "");
	/* More are used than there is room for; and numbers that are not of this size. */
	for (unsigned i = 0; i < 3; i++) {
		static const uint64_t wrong[][2] = {
			{ UINT64_C(127) << 32 | 127, UINT64_C(129) << 32 | 8 },
			{ UINT64_C(127) << 32 | 63, UINT64_C(8) << 32 | 8 },
			{ UINT64_C(126) << 32 | 127, UINT64_C(8) << 32 | 8 },
		};

		dk_put(&d, HOLDER + 8, wrong[i][0], wrong[i][1]);
		drawn_kinds_find(&d);
		assert_name(hashes, "");
	}
}

Test(kinds_libraries, an_array_of_pointers_that_frees_them)
{
	ms_addr items = drawn_kinds_block(&d, 32 * 8);

	dk_put(&d, HOLDER, items, UINT64_C(32) << 32 | 20, 1, DK_CODE);
	drawn_kinds_find(&d);
	assert_name(items, "items of GPtrArray");
	cr_assert_eq(drawn_kinds_type(&d, items)->sure, MS_SURE_LIKELY);
	assert_each_word_counts(HOLDER, 2, items);
	assert_each_word_counts(HOLDER + 24, 1, items);
	/* Room is a power of two, and at least the length. */
	for (uint64_t room = 31; room < 33; room++) {
		ms_fake_put(&d.fake, HOLDER + 8, room << 32 | (room == 31 ? 20 : 33));
		drawn_kinds_find(&d);
		assert_name(items, "");
	}
	dk_put(&d, HOLDER + 8, UINT64_C(32) << 32 | 20, 0);
	drawn_kinds_find(&d);
	assert_name(items, "");
}

/* ---- Qt ---- */

static void put_wide(ms_addr at, const char *text)
{
	uint16_t *to = ms_fake_at(&d.fake, at);

	while (*text)
		*to++ = (uint8_t)*text++;
}

Test(kinds_libraries, a_string_of_qt_is_of_wide_characters)
{
	ms_addr data = drawn_kinds_block(&d, 24 + 32 * 2);

	put_wide(data + 24, "characters");
	dk_put(&d, data, UINT64_C(10) << 32 | 1, 32, 24);
	drawn_kinds_find(&d);
	assert_name(data, "data of QString");
	assert_each_word_counts(data, 3, data);
	/* With one that is longer, or shorter, than it says, it is none. */
	for (uint64_t len = 8; len < 13; len++) {
		ms_fake_put(&d.fake, data, len << 32 | 1);
		drawn_kinds_find(&d);
		assert_name(data, len == 10 ? "data of QString" : "QArrayData");
	}
	ms_fake_put(&d.fake, data, UINT64_C(10) << 32);
	drawn_kinds_find(&d);
	assert_name(data, "");
	/* Its room is the block's. */
	dk_put(&d, data, UINT64_C(10) << 32 | 1, 14);
	drawn_kinds_find(&d);
	assert_name(data, "QArrayData");
	dk_put(&d, data, UINT64_C(10) << 32 | 1, 9);
	drawn_kinds_find(&d);
	assert_name(data, "");
}

Test(kinds_libraries, a_vector_of_qt_has_its_header_alone)
{
	ms_addr data = drawn_kinds_block(&d, 24 + 10 * 16);

	dk_put(&d, data, UINT64_C(4) << 32 | 1, 10, 24);
	drawn_kinds_find(&d);
	assert_name(data, "QArrayData");
	cr_assert_eq(drawn_kinds_type(&d, data)->sure, MS_SURE_LIKELY);
	assert_each_word_counts(data, 3, data);
}

Test(kinds_libraries, a_list_of_qt_has_addresses)
{
	ms_addr data = drawn_kinds_block(&d, 16 + 5 * 8);
	ms_addr item = drawn_kinds_block(&d, 32);

	dk_put(&d, data, UINT64_C(5) << 32 | 1, UINT64_C(3) << 32 | 1, 7, item, DK_CONSTANTS, 7);
	drawn_kinds_find(&d);
	assert_name(data, "data of QList");
	cr_assert_eq(drawn_kinds_type(&d, data)->sure, MS_SURE_LIKELY);
	assert_each_word_counts(data, 2, data);
	assert_each_word_counts(data + 24, 2, data);
	/* It ends where its room does, and its room where the block does. */
	ms_fake_put(&d.fake, data, UINT64_C(2) << 32 | 1);
	drawn_kinds_find(&d);
	assert_name(data, "");
}

Test(kinds_libraries, a_hash_table_of_qt_names_its_nodes)
{
	ms_addr hash = drawn_kinds_block(&d, 48);
	ms_addr buckets = drawn_kinds_block(&d, 4 * 8);
	ms_addr node[3] = { drawn_kinds_block(&d, 24), drawn_kinds_block(&d, 24),
		            drawn_kinds_block(&d, 24) };

	dk_put(&d, hash, 0, buckets, UINT64_C(3) << 32 | 1, UINT64_C(4) << 32 | 24, 4, 0);
	dk_put(&d, buckets, hash, node[0], node[1], hash);
	dk_put(&d, node[0], hash);
	dk_put(&d, node[1], node[2]);
	dk_put(&d, node[2], hash);
	drawn_kinds_find(&d);
	assert_name(hash, "data of QHash");
	assert_name(buckets, "buckets of QHash");
	for (int i = 0; i < 3; i++)
		assert_name(node[i], "node of QHash");
	assert_each_word_counts(hash + 8, 2, hash);
	assert_each_word_counts(hash + 32, 1, hash);
	assert_each_word_counts(buckets, 4, hash);
	for (int i = 0; i < 3; i++)
		assert_each_word_counts(node[i], 1, hash);
}

Test(kinds_libraries, an_array_of_bytes_of_qt)
{
	ms_addr data = drawn_kinds_block(&d, 24 + 64);

	constant(data + 24, "\x01\x02 some bytes");
	dk_put(&d, data, UINT64_C(13) << 32 | 1, 64, 24);
	drawn_kinds_find(&d);
	assert_name(data, "data of QByteArray");
	assert_each_word_counts(data, 3, data);
}

Test(kinds_qt6, a_string_is_known_by_its_holder)
{
	ms_addr data = drawn_kinds_block(&d, 16 + 32 * 2);

	put_wide(data + 16, "characters");
	dk_put(&d, data, 1, 31);
	dk_put(&d, HOLDER, data, data + 16, 10);
	drawn_kinds_find(&d);
	assert_name(data, "data of QString");
	assert_each_word_counts(HOLDER, 3, data);
	assert_each_word_counts(data, 2, data);
}

Test(kinds_qt6, an_array_of_bytes_is_known_by_its_holder)
{
	ms_addr data = drawn_kinds_block(&d, 16 + 64);

	constant(data + 16, "\x01\x02 some bytes");
	dk_put(&d, data, 1, 63);
	dk_put(&d, HOLDER, data, data + 16, 13);
	drawn_kinds_find(&d);
	assert_name(data, "data of QByteArray");
	assert_each_word_counts(HOLDER, 3, data);
}

/* ---- redis ---- */

/* Its type and encoding, when it was used, and its references. */
static uint64_t redis_head(uint64_t type, uint64_t encoding, uint64_t references)
{
	return references << 32 | 0x123400 | encoding << 4 | type;
}

Test(kinds_redis, a_value_has_its_text_behind_it)
{
	ms_addr value = drawn_kinds_block(&d, 16 + 3 + 9 + 1);

	memcpy(ms_fake_at(&d.fake, value + 16), "\x09\x09\x01some text", 13);
	dk_put(&d, value, redis_head(0, 8, 1), value + 19);
	drawn_kinds_find(&d);
	assert_name(value, "redisObject");
	assert_each_word_counts(value, 2, value);
	/* The length that it says. */
	*(char *)ms_fake_at(&d.fake, value + 16) = 8;
	drawn_kinds_find(&d);
	assert_name(value, "");
}

Test(kinds_redis, an_address_is_no_value)
{
	const ms_addr high = UINT64_C(0x561700000000);
	ms_addr block = drawn_kinds_block(&d, 16);
	ms_addr other = drawn_kinds_block(&d, 100);

	dk_put(&d, block, high, other + 3);
	drawn_kinds_find(&d);
	assert_name(block, "redisObject");
	ms_fake_map(&d.fake, high, 4096, MS_PROT_READ, "");
	drawn_kinds_find(&d);
	assert_name(block, "");
}

Test(kinds_redis, a_value_leads_to_what_its_type_says)
{
	ms_addr raw = drawn_kinds_block(&d, 16);
	ms_addr list = drawn_kinds_block(&d, 16);
	ms_addr number = drawn_kinds_block(&d, 16);
	ms_addr other = drawn_kinds_block(&d, 100);

	dk_put(&d, raw, redis_head(0, 0, 1), other + 3);
	dk_put(&d, list, redis_head(1, 9, 1), other);
	dk_put(&d, number, redis_head(0, 1, INT32_MAX), 7);
	drawn_kinds_find(&d);
	assert_name(raw, "redisObject");
	assert_name(list, "redisObject");
	assert_name(number, "redisObject");
	assert_each_word_counts(raw, 2, raw);
	assert_each_word_counts(list, 2, list);
	/* A list is no integer, and a string is not where a list would be. */
	ms_fake_put(&d.fake, list, redis_head(1, 1, 1));
	ms_fake_put(&d.fake, raw + 8, other);
	drawn_kinds_find(&d);
	assert_name(list, "");
	assert_name(raw, "");
}

static void draw_entries(ms_addr table, ms_addr entries[3])
{
	for (int i = 0; i < 3; i++)
		entries[i] = drawn_kinds_block(&d, 24);
	dk_put(&d, table, 0, entries[0], 0, entries[2]);
	dk_put(&d, entries[0], 1, 2, entries[1]);
}

static void check_dict(ms_addr dict, ms_addr table, const ms_addr entries[3])
{
	drawn_kinds_find(&d);
	assert_name(dict, "dict");
	assert_name(table, "table of dict");
	for (int i = 0; i < 3; i++)
		assert_name(entries[i], "dictEntry");
	assert_each_word_counts(dict, 1, dict);
	assert_each_word_counts(TABLE, 1, dict);
	/* Another entry than it counts. */
	ms_fake_put(&d.fake, entries[2] + 16, entries[0]);
	drawn_kinds_find(&d);
	assert_name(dict, "");
	assert_name(entries[1], "");
}

Test(kinds_redis, a_dict_names_its_entries)
{
	ms_addr dict = drawn_kinds_block(&d, 56);
	ms_addr table = drawn_kinds_block(&d, 32);
	ms_addr entries[3];

	draw_entries(table, entries);
	ms_fake_put(&d.fake, TABLE, DK_CODE);
	dk_put(&d, dict, TABLE, table, 0, 3, 0, UINT64_MAX, 0xff020000);
	drawn_kinds_find(&d);
	assert_each_word_counts(dict, 5, dict);
	/* A table of another size than its block has. */
	ms_fake_put(&d.fake, dict + 48, 0xff050000);
	drawn_kinds_find(&d);
	assert_name(dict, "");
	ms_fake_put(&d.fake, dict + 48, 0xff020000);
	check_dict(dict, table, entries);
}

Test(kinds_redis, a_dict_of_before_redis_7_names_its_entries)
{
	ms_addr dict = drawn_kinds_block(&d, 96);
	ms_addr table = drawn_kinds_block(&d, 32);
	ms_addr entries[3];

	draw_entries(table, entries);
	ms_fake_put(&d.fake, TABLE, DK_CODE);
	dk_put(&d, dict, TABLE, 0, table, 4, 3, 3, 0, 0, 0, 0, UINT64_MAX, 0);
	drawn_kinds_find(&d);
	assert_each_word_counts(dict + 16, 8, dict);
	check_dict(dict, table, entries);
}

Test(kinds_redis, a_loop_over_events_names_its_tables)
{
	ms_addr loop = drawn_kinds_block(&d, 88);
	ms_addr events = drawn_kinds_block(&d, 100 * 32);
	ms_addr fired = drawn_kinds_block(&d, 100 * 8);
	ms_addr state = drawn_kinds_block(&d, 16);
	ms_addr polled = drawn_kinds_block(&d, 100 * 12);

	dk_put(&d, state, 5, polled);
	for (int old = 0; old < 2; old++) {
		dk_put(&d, loop, UINT64_C(100) << 32 | 9, 1, 1);
		dk_put(&d, loop + 16 + (ms_addr)old * 8, events, fired, 0, 0, state, DK_CODE,
		       DK_CODE);
		drawn_kinds_find(&d);
		assert_name(loop, "aeEventLoop");
		assert_name(events, "aeFileEvent[]");
		assert_name(fired, "aeFiredEvent[]");
		assert_name(state, "aeApiState");
		assert_name(polled, "epoll_event[]");
		assert_each_word_counts(loop, 1, events);
		assert_each_word_counts(loop + 16 + (ms_addr)old * 8, 2, events);
		assert_each_word_counts(loop + 56 + (ms_addr)old * 8, 2, events);
		assert_each_word_counts(state + 8, 1, polled);
	}
	/* More descriptors than there is room for; and tables with room for others. */
	ms_fake_put(&d.fake, loop, UINT64_C(100) << 32 | 100);
	drawn_kinds_find(&d);
	assert_name(events, "");
	ms_fake_put(&d.fake, loop, UINT64_C(150) << 32 | 9);
	drawn_kinds_find(&d);
	assert_name(events, "");
}

Test(kinds_redis, a_short_string_has_its_length_in_a_byte)
{
	ms_addr string = drawn_kinds_block(&d, 1 + 9 + 1);

	memcpy(ms_fake_at(&d.fake, string), "\x48some text", 11);
	drawn_kinds_find(&d);
	assert_name(string, "sds string");
	memcpy(ms_fake_at(&d.fake, string), "\x18some text", 11);
	drawn_kinds_find(&d);
	assert_name(string, "");
}

Test(kinds_other, nothing_is_of_redis_where_that_is_not)
{
	ms_addr value = drawn_kinds_block(&d, 16);

	dk_put(&d, value, redis_head(0, 1, INT32_MAX), 7);
	drawn_kinds_find(&d);
	assert_name(value, "");
}

/* ---- without the library ---- */

Test(kinds_other, of_a_library_that_is_not_there_nothing_is_known)
{
	ms_addr ssl = drawn_kinds_block(&d, 1000);
	ms_addr items = drawn_kinds_block(&d, 32 * 8);
	ms_addr data = drawn_kinds_block(&d, 24 + 64);

	constant(data + 24, "\x01\x02 some bytes");
	dk_put(&d, data, UINT64_C(13) << 32 | 1, 64, 24);
	draw_ssl_method();
	dk_put(&d, ssl, 0x304, A_METHOD);
	dk_put(&d, HOLDER, items, UINT64_C(32) << 32 | 20, 1, DK_CODE);
	drawn_kinds_find(&d);
	assert_name(ssl, "");
	assert_name(items, "");
	assert_name(data, "");
}
