/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "drawn_kinds.h"

/* Blocks by their own words. */

static struct drawn_kinds d;

static void setup(void)
{
	drawn_kinds_init(&d, "/usr/lib/libcrypto.so.3");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds, .init = setup, .fini = teardown);

#define assert_name(block, wanted)                                      \
	cr_assert_str_eq(drawn_kinds_name(&d, (block)), (wanted), "%s", \
	                 drawn_kinds_name(&d, (block)))

/* The words at @at, of which there are @n, all matter to what @block is. */
static void assert_each_word_counts(ms_addr at, size_t n, ms_addr block)
{
	cr_assert_eq(drawn_kinds_idle_word(&d, at, n, block), n);
}

static ms_addr constant(ms_addr at, const char *text)
{
	strcpy(ms_fake_at(&d.fake, at), text);
	return at;
}

/* ---- CPython ---- */

#define TYPE_TYPE (DK_DATA + 0x200)
#define DICT_TYPE (DK_DATA + 0x400)

enum { TYPE_BYTES = 408, DICT_FLAG = 29 };

static void draw_python(void)
{
	dk_put(&d, TYPE_TYPE, 1, TYPE_TYPE, 0, constant(DK_CONSTANTS, "type"), TYPE_BYTES);
	dk_put(&d, DICT_TYPE, 1, TYPE_TYPE, 0, constant(DK_CONSTANTS + 16, "dict"), 48);
	ms_fake_put(&d.fake, DICT_TYPE + 21 * 8, UINT64_C(1) << DICT_FLAG);
}

Test(kinds, an_object_of_cpython_has_the_name_of_its_type)
{
	ms_addr dict = drawn_kinds_block(&d, 64);
	ms_addr keys = drawn_kinds_block(&d, 128);

	draw_python();
	dk_put(&d, dict, 0, 0, 3, DICT_TYPE, 1, 0, keys, 0);
	drawn_kinds_find(&d);
	assert_name(dict, "dict");
	assert_name(keys, "keys of dict");
	cr_assert_eq(drawn_kinds_type(&d, dict)->how, MS_HOW_OBJECT);
	cr_assert_str_eq(drawn_kinds_type(&d, dict)->module, "/usr/lib/libcrypto.so.3");
	assert_each_word_counts(dict + 16, 2, dict);
	assert_each_word_counts(DICT_TYPE + 8, 1, dict);
	assert_each_word_counts(DICT_TYPE + 24, 1, dict);
	assert_each_word_counts(TYPE_TYPE + 8, 1, dict);
}

Test(kinds, a_pointer_is_no_count_of_references)
{
	ms_addr block = drawn_kinds_block(&d, 64);

	draw_python();
	dk_put(&d, block, UINT64_C(0x7f1234567000), DICT_TYPE);
	drawn_kinds_find(&d);
	assert_name(block, "");
	dk_put(&d, block, 1, DICT_TYPE);
	drawn_kinds_find(&d);
	assert_name(block, "dict");
	/* One of a program that is not where others are, in the lowest 4 GiB, is none either. */
	dk_put(&d, block, DK_DATA + 8, DICT_TYPE);
	drawn_kinds_find(&d);
	assert_name(block, "");
	dk_put(&d, block, DK_DATA + 9, DICT_TYPE);
	drawn_kinds_find(&d);
	assert_name(block, "dict");
}

/* ---- the C library ---- */

Test(kinds, a_file_and_its_buffer)
{
	ms_addr file = drawn_kinds_block(&d, 472);
	ms_addr buffer = drawn_kinds_block(&d, 4096);

	ms_fake_put(&d.fake, file, 0xfbad2484);
	dk_put(&d, file + 56, buffer, buffer + 4096);
	ms_fake_put(&d.fake, file + 27 * 8, DK_CONSTANTS);
	drawn_kinds_find(&d);
	assert_name(file, "FILE");
	assert_name(buffer, "buffer of FILE");
	assert_each_word_counts(file + 27 * 8, 1, file);
	assert_each_word_counts(file + 56, 2, buffer);
	ms_fake_put(&d.fake, file, 0xfbac2484);
	drawn_kinds_find(&d);
	assert_name(file, "");
	assert_name(buffer, "");
}

Test(kinds, a_directory)
{
	ms_addr dir = drawn_kinds_block(&d, 48 + 32768);

	dk_put(&d, dir, 5, 32768, 1024, 48);
	drawn_kinds_find(&d);
	assert_name(dir, "DIR");
	assert_each_word_counts(dir, 4, dir);
}

Test(kinds, what_the_loader_keeps_of_a_library)
{
	ms_addr map = drawn_kinds_block(&d, 1200);

	dk_put(&d, map, DK_LIBRARY, 0, DK_DATA, 0, 0, map);
	drawn_kinds_find(&d);
	assert_name(map, "struct link_map");
	assert_each_word_counts(map, 1, map);
	assert_each_word_counts(map + 16, 1, map);
	assert_each_word_counts(map + 40, 1, map);
}

Test(kinds, an_obstack_names_its_chunks)
{
	ms_addr first = drawn_kinds_block(&d, 4064);
	ms_addr second = drawn_kinds_block(&d, 4064);
	ms_addr holder = DK_DATA + 0x100;

	dk_put(&d, first, first + 4064, 0);
	dk_put(&d, second, second + 4064, first);
	dk_put(&d, holder, 4064, second, second + 100, second + 200, second + 4064);
	drawn_kinds_find(&d);
	assert_name(first, "chunk of obstack");
	assert_name(second, "chunk of obstack");
	assert_each_word_counts(holder + 8, 4, first);
	/* A ring of chunks ends, too. */
	ms_fake_put(&d.fake, first + 8, second);
	drawn_kinds_find(&d);
	assert_name(first, "chunk of obstack");
}

/* ---- libraries ---- */

Test(kinds, a_stream_of_zlib)
{
	ms_addr state = drawn_kinds_block(&d, 7160);
	ms_addr stream = DK_DATA + 0x100;

	dk_put(&d, state, stream, 16191);
	ms_fake_put(&d.fake, stream + 56, state);
	drawn_kinds_find(&d);
	assert_name(state, "zlib inflate state");
	assert_each_word_counts(state, 2, state);
	assert_each_word_counts(stream + 56, 1, state);
	ms_fake_put(&d.fake, state + 8, 113);
	drawn_kinds_find(&d);
	assert_name(state, "zlib deflate state");
}

Test(kinds, a_hash_table_of_openssl)
{
	ms_addr hash = drawn_kinds_block(&d, 168);
	ms_addr buckets = drawn_kinds_block(&d, 128);
	ms_addr nodes[2] = { drawn_kinds_block(&d, 24), drawn_kinds_block(&d, 24) };

	dk_put(&d, hash, buckets, DK_CODE, DK_CODE + 64, UINT64_C(16) << 32 | 8, 8, 512, 256, 2);
	dk_put(&d, buckets + 24, nodes[0]);
	dk_put(&d, nodes[0], 0, nodes[1], 7);
	drawn_kinds_find(&d);
	assert_name(hash, "LHASH of OpenSSL");
	assert_name(buckets, "buckets of LHASH");
	assert_name(nodes[1], "node of LHASH");
	assert_each_word_counts(hash, 3, hash);
	assert_each_word_counts(hash + 40, 2, hash);
	/* Its nodes are a ring. */
	ms_fake_put(&d.fake, nodes[1] + 8, nodes[0]);
	drawn_kinds_find(&d);
	assert_name(hash, "LHASH of OpenSSL");
}

Test(kinds, a_bio)
{
	ms_addr bio = drawn_kinds_block(&d, 136);
	ms_addr method = DK_CONSTANTS + 0x40;

	dk_put(&d, method, 0x505, constant(DK_CONSTANTS, "socket"), DK_CODE, DK_CODE, DK_CODE, 0,
	       DK_CODE, 0);
	dk_put(&d, bio, 0, method);
	drawn_kinds_find(&d);
	assert_name(bio, "BIO");
	assert_each_word_counts(bio + 8, 1, bio);
	assert_each_word_counts(method, 8, bio);
}

Test(kinds, a_memory_context_of_postgresql_and_its_blocks)
{
	ms_addr context = drawn_kinds_block(&d, 1024);
	ms_addr block = drawn_kinds_block(&d, 8192);
	ms_addr methods = DK_CONSTANTS + 0x40;
	ms_addr parent = drawn_kinds_block(&d, 1024);

	dk_put(&d, methods, DK_CODE, DK_CODE + 16);
	dk_put(&d, context, 430, 8192, methods, parent, 0, 0, 0,
	       constant(DK_CONSTANTS, "CacheContext"));
	dk_put(&d, block, context, 0, 0, block + 4000, block + 8192);
	drawn_kinds_find(&d);
	assert_name(context, "memory context CacheContext");
	assert_name(block, "memory context CacheContext");
	assert_each_word_counts(block, 1, block);
	assert_each_word_counts(block + 24, 2, block);
	assert_each_word_counts(context + 16, 1, context);
	assert_each_word_counts(context + 56, 1, context);
}

Test(kinds, a_memory_context_that_is_kept_for_the_next_has_no_name)
{
	ms_addr context = drawn_kinds_block(&d, 1024);
	ms_addr other = drawn_kinds_block(&d, 1024);
	ms_addr methods = DK_CONSTANTS + 0x40;

	dk_put(&d, methods, DK_CODE, DK_CODE + 16);
	dk_put(&d, context, 430, 1024, methods, 0, 0, 0, other, constant(DK_CONSTANTS, "OldName"));
	drawn_kinds_find(&d);
	assert_name(context, "unused memory context");
	/* What is above all others. */
	ms_fake_put(&d.fake, context + 32, other);
	drawn_kinds_find(&d);
	assert_name(context, "memory context OldName");
}

Test(kinds, a_trait_object_of_rust)
{
	ms_addr object = drawn_kinds_block(&d, 56);
	ms_addr table = DK_CONSTANTS + 0x40;
	ms_addr holder = DK_DATA + 0x100;

	dk_put(&d, table, DK_CODE, 56, 8, DK_CODE + 16);
	dk_put(&d, holder, object, table);
	drawn_kinds_find(&d);
	assert_name(object, "Rust trait object");
	assert_each_word_counts(holder, 2, object);
	assert_each_word_counts(table, 4, object);
}

/* ---- text ---- */

static ms_addr text(const char *bytes, uint64_t len)
{
	ms_addr at = drawn_kinds_block(&d, len);

	strcpy(ms_fake_at(&d.fake, at), bytes);
	return at;
}

Test(kinds, text_is_printable_and_fills_its_block)
{
	ms_addr plain = text("some text", 10);
	ms_addr utf8 = text("\xc3\xbc"
	                    "ber \xe2\x82\xac",
	                    10);
	ms_addr broken = text("some\xc3(text", 12);
	ms_addr control = text("some\x01text", 12);
	ms_addr shorter = text("some text", 600);
	char preview[MS_PREVIEW_TEXT];

	ms_fake_put(&d.fake, shorter + 500, 1);
	drawn_kinds_find(&d);
	assert_name(plain, "text");
	assert_name(utf8, "text");
	assert_name(broken, "");
	assert_name(control, "");
	assert_name(shorter, "");
	ms_types_preview(d.types, ms_types_of_block(d.types, plain, 24), plain, preview);
	cr_assert_str_eq(preview, "some text");
	ms_types_preview(d.types, 0, plain, preview);
	cr_assert_str_eq(preview, "");
}

/* What looks like four characters and a NUL is where something is mapped. */
Test(kinds, an_address_is_no_text)
{
	ms_addr block = drawn_kinds_block(&d, 24);

	ms_fake_map(&d.fake, 0x41424000, 0x1000, MS_PROT_READ, "");
	ms_fake_put(&d.fake, block, 0x41424344);
	drawn_kinds_find(&d);
	assert_name(block, "");
	ms_fake_put(&d.fake, block, 0x51424344);
	drawn_kinds_find(&d);
	assert_name(block, "text");
}

Test(kinds, a_structure_that_begins_with_a_name_is_no_text)
{
	ms_addr user = text("alice", 40);
	ms_addr group = text("wheel", 24);

	ms_fake_put(&d.fake, user + 32, group + 8);
	drawn_kinds_find(&d);
	assert_name(user, "text");
	ms_fake_put(&d.fake, user + 32, group);
	drawn_kinds_find(&d);
	assert_name(user, "");
	assert_name(group, "text");
}

Test(kinds, a_string_of_redis_has_its_length)
{
	char preview[MS_PREVIEW_TEXT];
	ms_addr sds = drawn_kinds_block(&d, 3 + 20 + 1);

	memcpy(ms_fake_at(&d.fake, sds), "\x09\x14\x01some text", 13);
	drawn_kinds_find(&d);
	assert_name(sds, "sds string");
	ms_types_preview(d.types, ms_types_of_block(d.types, sds, 24), sds, preview);
	cr_assert_str_eq(preview, "some text");
	memcpy(ms_fake_at(&d.fake, sds), "\x08\x14\x01some text", 13);
	drawn_kinds_find(&d);
	assert_name(sds, "");
}
