/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "engine/lost/texts.h"
#include "fake.h"

enum { MOST = 6, ROOM = 128, TEXTS = 0x10000 };

/* Texts by address, and the patterns that they have: "COUNT pattern", the most frequent first. */
struct like_case {
	char title[64];
	char texts[MOST][ROOM];
	char patterns[MOST][ROOM];
};

static struct like_case like_cases[] = {
	{ "a number differs", { "img-07.png", "img-08.png", "img-19.png" }, { "3 img-….png" } },
	{ "a number is longer", { "item 9", "item 10", "item 1" }, { "3 item …" } },
	{ "a number is longer in front", { "9 of 70", "10 of 70" }, { "2 … of 70" } },
	{ "two numbers differ", { "7 to 1 ok", "81 to 2 ok" }, { "2 … to … ok" } },
	{ "a word differs", { "user al seen", "user bob seen" }, { "2 user … seen" } },
	{ "all are the same", { "twice", "twice" }, { "2 " } },
	{ "one is the beginning of another", { "/tmp/a", "/tmp/a/b" }, { "2 /tmp/a…" } },
	{ "nothing in common", { "alpha", "begin" }, { "1 ", "1 " } },
	{ "a few in common are too few", { "abcdefghij", "abczyxwvut" }, { "1 ", "1 " } },
	{ "an option among names",
	  { "-Dx=y", "n1.png", "n2.png", "n3.png" },
	  { "3 n….png", "1 " } },
	{ "an umlaut differs", { "gru\303\244n und", "gru\303\274n und" }, { "2 gru…n und" } },
	{ "a number that all have stays", { "v2 alpha", "v2 alto" }, { "2 v2 al…" } },
	{ "longer than what is compared",
	  { "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef-one",
	    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef-two" },
	  { "2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde…" } },
};

static struct ms_fake fake;
static struct ms_report report;
static struct ms_blocks blocks;
static struct ms_leak_list list;

static void set_up(void)
{
	ms_fake_init(&fake);
	ms_fake_map(&fake, TEXTS, 4096, MS_PROT_READ | MS_PROT_WRITE, "");
	memset(&report, 0, sizeof(report));
	ms_blocks_init(&blocks, &fake.base, &fake.arena);
	list = (struct ms_leak_list){ .blocks = &blocks, .arena = &fake.arena, .report = &report };
}

static void add(struct ms_text_sums *sums, const char *text, ms_addr at)
{
	size_t len = strlen(text) + 1;

	memcpy(ms_fake_at(&fake, at), text, len);
	ms_text_sums_add(sums, at, ms_fake_at(&fake, at), len);
}

ParameterizedTestParameters(leak_texts, are_alike)
{
	return cr_make_param_array(struct like_case, like_cases,
	                           sizeof(like_cases) / sizeof(like_cases[0]));
}

ParameterizedTest(struct like_case *c, leak_texts, are_alike)
{
	struct ms_text_sums sums = { 0 };
	struct ms_leak leak = { 0 };
	size_t n = 0;
	size_t wanted = 0;

	set_up();
	for (; n < MOST && c->texts[n][0]; n++)
		add(&sums, c->texts[n], TEXTS + n * ROOM);
	while (wanted < MOST && c->patterns[wanted][0])
		wanted++;
	cr_assert(ms_text_sums_write(&list, &sums, &leak));
	cr_expect_eq(leak.texts, n, "%s", c->title);
	cr_assert_eq(leak.n_likes, wanted, "%s: %u", c->title, leak.n_likes);
	for (size_t i = 0; i < wanted; i++) {
		char got[ROOM + 32];

		(void)snprintf(got, sizeof(got), "%u %s", (unsigned int)report.likes.at[i].count,
		               report.likes.at[i].pattern);
		cr_expect_str_eq(got, c->patterns[i], "%s: %s", c->title, got);
	}
	ms_fake_deinit(&fake);
}

Test(leak_texts, show_the_first_and_the_last_of_a_pattern)
{
	struct ms_text_sums sums = { 0 };
	struct ms_leak leak = { 0 };

	set_up();
	add(&sums, "rare", TEXTS);
	add(&sums, "a file name of more than 24 bytes 1", TEXTS + ROOM);
	add(&sums, "a file name 2", TEXTS + 2 * ROOM);
	cr_assert(ms_text_sums_write(&list, &sums, &leak));
	cr_expect_str_eq(report.likes.at[0].first, "a file name of more than");
	cr_expect_str_eq(report.likes.at[0].last, "a file name 2");
	cr_expect_str_eq(report.likes.at[1].first, "rare");
	cr_expect_str_eq(report.likes.at[1].last, "");
	ms_fake_deinit(&fake);
}

Test(leak_texts, of_binary_data_are_none)
{
	struct ms_text_sums sums = { 0 };

	set_up();
	add(&sums, "bin\001ary", TEXTS);
	cr_expect_eq(sums.count, 0);
	ms_fake_deinit(&fake);
}

/* Ten times more rare ones than there are patterns, before and among them. */
Test(leak_texts, that_most_have_are_found_behind_many_others)
{
	struct ms_text_sums sums = { 0 };
	struct ms_leak leak = { 0 };
	uint64_t counted = 0;

	set_up();
	for (unsigned int i = 0; i < 80; i++) {
		char text[] = { (char)('a' + i % 26), (char)('a' + i / 26), '/',
			        (char)('b' + i % 7), 0 };

		add(&sums, text, TEXTS);
		for (unsigned int j = 0; i > 10 && j < 5; j++)
			add(&sums, "GET /index", TEXTS + ROOM);
	}
	cr_assert(ms_text_sums_write(&list, &sums, &leak));
	cr_expect_eq(leak.texts, 80 + 69 * 5);
	cr_expect_eq(leak.n_likes, MS_LEAK_LIKES);
	cr_expect_str_eq(report.likes.at[0].first, "GET /index");
	cr_expect_gt(report.likes.at[0].count, 300);
	for (size_t i = 0; i < report.likes.n; i++)
		counted += report.likes.at[i].count;
	cr_expect_leq(counted, leak.texts);
	ms_fake_deinit(&fake);
}
