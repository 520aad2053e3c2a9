/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of libraries. */
#include <criterion/criterion.h>
#include <string.h>

#include "named.h"

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

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds_libraries, .init = setup, .fini = teardown);
TestSuite(kinds_qt6, .init = setup_qt6, .fini = teardown);
TestSuite(kinds_other, .init = setup_other, .fini = teardown);

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
