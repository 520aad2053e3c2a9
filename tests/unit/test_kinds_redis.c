/* SPDX-License-Identifier: Apache-2.0 */
/* Values, dicts and lists of redis, in a program of any name. */
#include <criterion/criterion.h>
#include <string.h>

#include "named.h"

/* Functions in the module's data. */
#define TABLE (DK_DATA + 0x200)

static void setup(void)
{
	drawn_kinds_init(&d, "/usr/bin/any");
}

static void teardown(void)
{
	drawn_kinds_deinit(&d);
}

TestSuite(kinds_redis, .init = setup, .fini = teardown);

/* ---- values ---- */

/* Its type and encoding, when it was used, and its references. */
static uint64_t redis_head(uint64_t type, uint64_t encoding, uint64_t references)
{
	return references << 32 | 0x123400 | encoding << 4 | type;
}

/* Where the characters of a string are that has its length in one byte, or in @width bytes. */
static ms_addr draw_sds(const char *text, size_t width)
{
	size_t head = width ? 2 * width + 1 : 1;
	uint64_t len = strlen(text);
	ms_addr at = drawn_kinds_block(&d, head + len + 1);
	uint8_t *bytes = ms_fake_at(&d.fake, at);

	bytes[head - 1] = (uint8_t)(width ? (size_t)__builtin_ctzl(width) + 1 : len << 3);
	memcpy(bytes, &len, width);
	memcpy(bytes + width, &len, width);
	strcpy((char *)bytes + head, text);
	return at + head;
}

Test(kinds_redis, a_value_has_its_text_behind_it)
{
	ms_addr value = drawn_kinds_block(&d, 16 + 3 + 9 + 1);

	memcpy(ms_fake_at(&d.fake, value + 16), "\x09\x09\x01some text", 13);
	dk_put(&d, value, redis_head(0, 8, 1), value + 19);
	drawn_kinds_find(&d);
	assert_name(value, "redisObject");
	assert_each_word_counts(value, 2, value);
	/* The length that it says, and a room that its block has. */
	*(char *)ms_fake_at(&d.fake, value + 16) = 8;
	drawn_kinds_find(&d);
	assert_name(value, "");
	memcpy(ms_fake_at(&d.fake, value + 16), "\x09\x79", 2);
	drawn_kinds_find(&d);
	assert_name(value, "");
	memcpy(ms_fake_at(&d.fake, value + 16), "\x0a\x09", 2);
	drawn_kinds_find(&d);
	assert_name(value, "");
	memcpy(ms_fake_at(&d.fake, value + 16), "\x09\x09", 2);
	check_byte_counts(value + 18, value);
	/* A NUL is behind the next place, too. */
	ms_fake_put(&d.fake, value + 8, value + 20);
	drawn_kinds_find(&d);
	assert_name(value, "");
}

Test(kinds_redis, an_address_is_no_value)
{
	const ms_addr high = UINT64_C(0x561700000000);
	ms_addr block = drawn_kinds_block(&d, 16);

	dk_put(&d, block, high, draw_sds("a string", 1));
	drawn_kinds_find(&d);
	assert_name(block, "redisObject");
	ms_fake_map(&d.fake, high, 4096, MS_PROT_READ, "");
	drawn_kinds_find(&d);
	assert_name(block, "");
}

Test(kinds_redis, a_value_leads_to_a_string)
{
	for (size_t width = 0; width <= 8; width = width ? 2 * width : 1) {
		ms_addr raw = drawn_kinds_block(&d, 16);
		ms_addr text = draw_sds("\x01\x02 and some text", width);
		ms_addr string = text - (width ? 2 * width + 1 : 1);

		dk_put(&d, raw, redis_head(0, 0, 1), text);
		drawn_kinds_find(&d);
		assert_name(raw, "redisObject");
		assert_name(string, "sds string");
		assert_each_word_counts(raw, 2, raw);
		/* Its kind, its length, and the NUL where that ends. */
		for (size_t i = 0; i < width; i++)
			check_byte_counts(string + i, raw);
		check_byte_counts(text - 1, raw);
		check_byte_counts(text + 16, raw);
		ms_fake_put(&d.fake, raw, redis_head(0, 0, 1 << 17));
		drawn_kinds_find(&d);
		assert_name(raw, "");
		ms_fake_put(&d.fake, raw, redis_head(0, 0, 0));
		drawn_kinds_find(&d);
		assert_name(raw, "");
	}
}

Test(kinds_redis, what_a_value_says_that_leads_to_no_string)
{
	ms_addr raw = drawn_kinds_block(&d, 16);
	ms_addr other = drawn_kinds_block(&d, 24);
	ms_addr large = drawn_kinds_block(&d, 88);

	/* One without characters, one of a kind that there is not, one in a larger block. */
	dk_put(&d, raw, redis_head(0, 0, 1), other + 1);
	dk_put(&d, large, redis_head(0, 0, 1), draw_sds("a string", 1));
	drawn_kinds_find(&d);
	assert_name(raw, "");
	assert_name(large, "");
	*(uint8_t *)ms_fake_at(&d.fake, other) = 5;
	drawn_kinds_find(&d);
	assert_name(raw, "");
	dk_put(&d, raw, redis_head(1, 9, 1), other);
	drawn_kinds_find(&d);
	assert_name(raw, "");
	/* A list that leads to a string; a string in a block for more, or of more than there is. */
	dk_put(&d, raw, redis_head(1, 9, 1), draw_sds("a string", 1));
	drawn_kinds_find(&d);
	assert_name(raw, "");
	*(uint8_t *)ms_fake_at(&d.fake, large) = 8 << 3;
	strcpy(ms_fake_at(&d.fake, large + 1), "a string");
	dk_put(&d, raw, redis_head(0, 0, 1), large + 1);
	drawn_kinds_find(&d);
	assert_name(raw, "");
	dk_put(&d, raw, redis_head(0, 0, 1), draw_sds("a string", 8));
	ms_fake_put(&d.fake, d.at[d.n - 1] + 8, UINT64_MAX - 17);
	drawn_kinds_find(&d);
	assert_name(raw, "");
}

Test(kinds_redis, a_number_that_is_made_once)
{
	ms_addr number = drawn_kinds_block(&d, 16);

	dk_put(&d, number, redis_head(0, 1, INT32_MAX), 9999);
	drawn_kinds_find(&d);
	assert_name(number, "redisObject");
	assert_each_word_counts(number, 2, number);
	dk_put(&d, number, redis_head(0, 1, INT32_MAX), 10000);
	drawn_kinds_find(&d);
	assert_name(number, "");
	dk_put(&d, number, redis_head(0, 1, 1), 7);
	drawn_kinds_find(&d);
	assert_name(number, "");
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

/* A dict of two entries, and what these have: two keys, then two values. */
static ms_addr draw_dict(const uint64_t words[4])
{
	ms_addr dict = drawn_kinds_block(&d, 56);
	ms_addr table = drawn_kinds_block(&d, 32);
	ms_addr entries[2] = { drawn_kinds_block(&d, 24), drawn_kinds_block(&d, 24) };

	ms_fake_put(&d.fake, TABLE, DK_CODE);
	dk_put(&d, dict, TABLE, table, 0, 2, 0, UINT64_MAX, 0xff020000);
	dk_put(&d, table, 0, entries[0], entries[1]);
	for (size_t i = 0; i < 2; i++)
		dk_put(&d, entries[i], words[i], words[2 + i]);
	return entries[1];
}

Test(kinds_redis, all_keys_of_a_dict_are_strings_or_none_is)
{
	ms_addr keys[2] = { draw_sds("short", 0), draw_sds("\x01\x02 longer", 1) };
	ms_addr value = draw_sds("\x03\x04", 0);
	ms_addr entry = draw_dict((uint64_t[]){ keys[0], keys[1], value, 0 });

	drawn_kinds_find(&d);
	assert_name(keys[0] - 1, "sds string");
	assert_name(keys[1] - 3, "sds string");
	assert_name(value - 1, "sds string");
	assert_each_word_counts(entry, 1, keys[0] - 1);
	/* The number of a value is none of them; keys are what they were. */
	ms_fake_put(&d.fake, entry + 8, 77);
	drawn_kinds_find(&d);
	assert_name(keys[0] - 1, "sds string");
	assert_name(value - 1, "");
}

Test(kinds_redis, all_values_of_a_dict_are_objects_or_none_is)
{
	ms_addr list = drawn_kinds_block(&d, 16);
	ms_addr number = drawn_kinds_block(&d, 16);
	ms_addr other = drawn_kinds_block(&d, 40);
	ms_addr entry = draw_dict((uint64_t[]){ 1, 2, list, number });

	dk_put(&d, list, redis_head(1, 9, 1), other);
	dk_put(&d, number, redis_head(0, 1, 1), 7);
	drawn_kinds_find(&d);
	assert_name(list, "redisObject");
	assert_name(number, "redisObject");
	assert_each_word_counts(list, 2, list);
	assert_each_word_counts(number, 1, list);
	assert_each_word_counts(entry + 8, 1, list);
	/* A list is no integer, and is there. */
	ms_fake_put(&d.fake, list, redis_head(1, 1, 1));
	drawn_kinds_find(&d);
	assert_name(number, "");
}

Test(kinds_redis, a_sorted_set_is_a_dict_and_a_list)
{
	ms_addr value = drawn_kinds_block(&d, 16);
	ms_addr sorted = drawn_kinds_block(&d, 16);

	(void)draw_dict((uint64_t[]){ 1, 2, value, value });
	dk_put(&d, value, redis_head(3, 7, 1), sorted);
	dk_put(&d, sorted, drawn_kinds_block(&d, 56), drawn_kinds_block(&d, 32));
	drawn_kinds_find(&d);
	assert_name(value, "redisObject");
	assert_name(sorted, "zset");
	assert_each_word_counts(sorted, 2, sorted);
	ms_fake_put(&d.fake, value, redis_head(3, 11, 1));
	drawn_kinds_find(&d);
	assert_name(value, "redisObject");
	assert_name(sorted, "");
	/* It is of two words. */
	sorted = drawn_kinds_block(&d, 72);
	dk_put(&d, sorted, value, value);
	dk_put(&d, value, redis_head(3, 7, 1), sorted);
	drawn_kinds_find(&d);
	assert_name(sorted, "");
}

Test(kinds_redis, a_dict_is_not_large_and_its_functions_are_a_variable)
{
	ms_addr dict = drawn_kinds_block(&d, 200);
	ms_addr functions = drawn_kinds_block(&d, 56);
	ms_addr table = drawn_kinds_block(&d, 32);

	ms_fake_put(&d.fake, TABLE, DK_CODE);
	ms_fake_put(&d.fake, functions, DK_CODE);
	ms_fake_put(&d.fake, table, drawn_kinds_block(&d, 24));
	dk_put(&d, dict, TABLE, table, 0, 1, 0, UINT64_MAX, 0xff020000);
	drawn_kinds_find(&d);
	assert_name(dict, "");
	dict = drawn_kinds_block(&d, 56);
	dk_put(&d, dict, functions, table, 0, 1, 0, UINT64_MAX, 0xff020000);
	drawn_kinds_find(&d);
	assert_name(dict, "");
	ms_fake_put(&d.fake, dict, TABLE);
	drawn_kinds_find(&d);
	assert_name(dict, "dict");
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

Test(kinds_redis, a_loop_has_room_for_32_at_least_and_all_tables_for_as_many)
{
	ms_addr loop = drawn_kinds_block(&d, 88);
	ms_addr state = drawn_kinds_block(&d, 16);
	ms_addr large = drawn_kinds_block(&d, 88);
	ms_addr tables[2] = { drawn_kinds_block(&d, 32 * 32), drawn_kinds_block(&d, 32 * 8) };
	ms_addr polled = drawn_kinds_block(&d, 32 * 12);

	dk_put(&d, state, 5, polled);
	dk_put(&d, large, 5, polled);
	dk_put(&d, loop, UINT64_C(32) << 32 | 9, 1, tables[0], tables[1], 0, 0, state, DK_CODE,
	       DK_CODE);
	drawn_kinds_find(&d);
	assert_name(loop, "aeEventLoop");
	ms_fake_put(&d.fake, loop, UINT64_C(31) << 32 | 9);
	drawn_kinds_find(&d);
	assert_name(loop, "");
	ms_fake_put(&d.fake, loop, UINT64_C(32) << 32 | 9);
	ms_fake_put(&d.fake, loop + 48, large);
	drawn_kinds_find(&d);
	assert_name(loop, "");
	ms_fake_put(&d.fake, loop + 48, state);
	ms_fake_put(&d.fake, state + 8, tables[0]);
	drawn_kinds_find(&d);
	assert_name(loop, "");
}

/* ---- lists ---- */

/* Numbers of 7, 13, 16, 24, 32 and 64 bits, and strings of 6, 12 and 32 bits' lengths. */
#define ELEMENTS                                   \
	"\x7f\x01"                                 \
	"\xc1\x02\x02"                             \
	"\xf1\x01\x02\x03"                         \
	"\xf2\x01\x02\x03\x04"                     \
	"\xf3\x01\x02\x03\x04\x05"                 \
	"\xf4\x01\x02\x03\x04\x05\x06\x07\x08\x09" \
	"\x83"                                     \
	"abc\x04"                                  \
	"\xe0\x04"                                 \
	"abcd\x06"                                 \
	"\xf0\x02\x00\x00\x00"                     \
	"ab\x07"

static ms_addr draw_pack(const char *elements, size_t n, uint64_t count)
{
	ms_addr at = drawn_kinds_block(&d, n + 7);
	uint8_t *bytes = ms_fake_at(&d.fake, at);
	uint32_t len = (uint32_t)n + 7;

	memcpy(bytes, &len, sizeof(len));
	memcpy(bytes + 4, &count, 2);
	memcpy(bytes + 6, elements, n);
	bytes[n + 6] = 0xff;
	return at;
}

Test(kinds_redis, a_listpack_is_walked_to_its_end)
{
	static const uint8_t counting[] = { 1,  4,  5,  8,  9,  13, 14, 19, 20, 29, 30,
		                            34, 35, 36, 41, 42, 43, 44, 45, 46, 49, 50 };
	ms_addr pack = draw_pack(ELEMENTS, sizeof(ELEMENTS) - 1, 9);
	ms_addr empty = draw_pack("", 0, 0);

	drawn_kinds_find(&d);
	assert_name(pack, "listpack");
	assert_name(empty, "listpack");
	/* Its length and number, each encoding and each length; of numbers and texts no byte. */
	for (ms_addr i = 0; i < 7; i++)
		check_byte_counts(empty + i, empty);
	for (ms_addr i = 0; i < 6; i++)
		check_byte_counts(pack + i, pack);
	for (size_t i = 0; i < sizeof(counting); i++)
		check_byte_counts(pack + 6 + counting[i], pack);
}

Test(kinds_redis, a_length_behind_an_element_takes_more_bytes_for_more)
{
	static char elements[20010];

	/* The last of two bytes is written as three. */
	static const size_t lengths[] = { 100, 122, 123, 5000, 16377, 16378, 16379, 19000 };

	for (size_t j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++) {
		const size_t len = lengths[j];
		ms_addr pack;
		size_t behind = len + 5 < 128 ? 1 : len + 5 < 16383 ? 2 : 3;
		uint32_t n = (uint32_t)len;

		elements[0] = (char)0xf0;
		memcpy(elements + 1, &n, sizeof(n));
		for (size_t i = 0; i < behind; i++)
			elements[len + 5 + i] =
				(char)(((len + 5) >> (7 * (behind - 1 - i)) & 0x7f) |
			               (i ? 0x80 : 0));
		pack = draw_pack(elements, len + 5 + behind, 1);
		drawn_kinds_find(&d);
		assert_name(pack, "listpack");
		for (size_t i = 0; i < behind; i++)
			check_byte_counts(pack + 6 + len + 5 + i, pack);
	}
}

Test(kinds_redis, a_listpack_fills_its_block)
{
	ms_addr many = draw_pack("\x7f\x01", 2, UINT16_MAX);
	ms_addr other = draw_pack("\xf5\x01", 2, 1);
	ms_addr large = drawn_kinds_block(&d, 88);

	memcpy(ms_fake_at(&d.fake, large), ms_fake_at(&d.fake, many), 24);
	drawn_kinds_find(&d);
	assert_name(many, "listpack");
	assert_name(other, "");
	assert_name(large, "");
}

static void draw_quick(ms_addr list, ms_addr nodes[2], ms_addr packs[2])
{
	for (int i = 0; i < 2; i++) {
		nodes[i] = drawn_kinds_block(&d, 40);
		packs[i] = draw_pack("\x7f\x01", 2, 1);
	}
	dk_put(&d, list, nodes[0], nodes[1], 2, 2, 0);
	dk_put(&d, nodes[0], 0, nodes[1], packs[0], 9, 1);
	dk_put(&d, nodes[1], nodes[0], 0, packs[1], 9, 1);
}

Test(kinds_redis, a_quick_list_is_walked_both_ways)
{
	ms_addr list = drawn_kinds_block(&d, 40);
	ms_addr nodes[2];
	ms_addr packs[2];

	draw_quick(list, nodes, packs);
	drawn_kinds_find(&d);
	assert_name(list, "quicklist");
	assert_name(nodes[0], "quicklistNode");
	assert_name(nodes[1], "quicklistNode");
	assert_each_word_counts(list, 2, list);
	assert_each_word_counts(list + 24, 1, nodes[0]);
	assert_each_word_counts(nodes[0], 4, nodes[1]);
	assert_each_word_counts(nodes[1], 4, nodes[0]);
	/* Fewer elements than nodes. */
	ms_fake_put(&d.fake, list + 16, 1);
	drawn_kinds_find(&d);
	assert_name(list, "");
}

Test(kinds_redis, what_a_quick_list_has_is_of_its_size)
{
	ms_addr list = drawn_kinds_block(&d, 40);
	ms_addr large = drawn_kinds_block(&d, 104);
	ms_addr nodes[2];
	ms_addr packs[2];

	draw_quick(list, nodes, packs);
	check_byte_counts(packs[0], list);
	ms_fake_put(&d.fake, large, 9);
	ms_fake_put(&d.fake, nodes[0] + 16, large);
	drawn_kinds_find(&d);
	assert_name(list, "");
	ms_fake_put(&d.fake, nodes[0] + 16, packs[0]);
	dk_put(&d, large, 0, nodes[1], packs[0], 9, 1);
	ms_fake_put(&d.fake, list, large);
	ms_fake_put(&d.fake, nodes[1], large);
	drawn_kinds_find(&d);
	assert_name(list, "");
	draw_quick(large, nodes, packs);
	drawn_kinds_find(&d);
	assert_name(large, "");
}

static uint64_t score(double value)
{
	uint64_t word;

	memcpy(&word, &value, sizeof(word));
	return word;
}

Test(kinds_redis, a_skip_list_is_walked_both_ways)
{
	ms_addr list = drawn_kinds_block(&d, 32);
	ms_addr head = drawn_kinds_block(&d, 24 + 32 * 16);
	ms_addr nodes[3] = { drawn_kinds_block(&d, 40), drawn_kinds_block(&d, 56),
		             drawn_kinds_block(&d, 40) };

	dk_put(&d, list, head, nodes[2], 3, 2);
	dk_put(&d, head, 0, 0, 0, nodes[0], 1);
	dk_put(&d, nodes[0], 0, score(-7), 0, nodes[1], 1);
	dk_put(&d, nodes[1], 0, score(2.5), nodes[0], nodes[2], 1);
	dk_put(&d, nodes[2], 0, score(2.5), nodes[1], 0, 0);
	drawn_kinds_find(&d);
	assert_name(list, "zskiplist");
	assert_name(head, "zskiplistNode");
	for (int i = 0; i < 3; i++)
		assert_name(nodes[i], "zskiplistNode");
	assert_each_word_counts(list, 4, list);
	assert_each_word_counts(head, 4, list);
	for (int i = 0; i < 3; i++)
		assert_each_word_counts(nodes[i] + 16, 2, list);
	/* Scores go up. */
	ms_fake_put(&d.fake, nodes[1] + 8, score(-8));
	drawn_kinds_find(&d);
	assert_name(list, "");
	assert_name(nodes[0], "");
}

Test(kinds_redis, what_a_skip_list_has_is_of_its_size)
{
	static const uint64_t heads[][2] = { { 24 + 31 * 16, 40 }, { 536, 24 }, { 2048, 40 } };

	for (size_t i = 0; i < 3; i++) {
		ms_addr list = drawn_kinds_block(&d, 32);
		ms_addr head = drawn_kinds_block(&d, heads[i][0]);
		ms_addr node = drawn_kinds_block(&d, heads[i][1]);

		dk_put(&d, list, head, node, 1, 1);
		ms_fake_put(&d.fake, head + 24, node);
		drawn_kinds_find(&d);
		assert_name(list, "");
		assert_name(node, "");
	}
}
