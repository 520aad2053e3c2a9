/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/names/suppressions.h"

/* As LeakSanitizer's TemplateMatch() answers, the odd ones too. */
static const struct {
	const char *pattern;
	const char *name;
	bool matches;
} templates[] = {
	{ "foo", "foo", true },
	{ "foo", "a foo b", true },
	{ "foo", "fo", false },
	{ "foo", "fofoo", true },
	{ "Foo", "foo", false },
	{ "", "foo", true },
	{ "", "", false },
	{ "foo", "", false },
	{ "*", "", false },
	{ "$", "", false },
	{ "^", "foo", true },
	{ "^$", "foo", false },
	{ "$", "foo", false },
	{ "*", "foo", true },
	{ "**", "foo", true },
	{ "*$", "foo", true },
	{ "^*$", "foo", true },
	{ "^foo", "foobar", true },
	{ "^foo", "a foo", false },
	{ "^foo$", "foo", true },
	{ "^foo$", "foobar", false },
	{ "^foo$", "a foo", false },
	{ "bar$", "foobar", true },
	{ "bar$", "bars", false },
	{ "a$", "aba", false }, /* the first "a" is not the last */
	{ "^a$", "aba", false },
	{ "*a$", "aba", false },
	{ "^a*a$", "aba", true },
	{ "^a*a$", "abaa", false },
	{ "foo*bar", "foobar", true },
	{ "foo*bar", "a foo and bar b", true },
	{ "foo*bar", "bar foo", false },
	{ "foo*foo", "foo", false },
	{ "foo*", "foo", true },
	{ "*foo", "a foo", true },
	{ "^*foo", "a foo", true },
	{ "foo*$", "foobar", true },
	{ "^foo*$", "foobar", true },
	{ "^foo*bar$", "foo::bar", true },
	{ "^foo*bar$", "foo::bars", false },
	{ "foo$bar", "foo", true }, /* nothing counts behind the end */
	{ "foo$bar", "foo$bar", false },
	{ "foo*$bar", "foo", true },
	{ "a^b", "a^b", true }, /* not at the beginning it is itself */
	{ "a^b", "ab", false },
	{ "*^a", "a", false },
	{ "^^a", "^a", true },
	{ "^^a", "a", false },
	{ "a**b", "a and b", true },
	{ " foo", "foo", false },
	{ "a.b", "axb", false },
	{ "std::vector<int, *>::push", "std::vector<int, A>::push_back()", true },
};

Test(suppressions, match_as_leaksanitizers_do)
{
	for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
		cr_expect_eq(ms_suppression_matches(templates[i].pattern, templates[i].name),
		             templates[i].matches, "\"%s\" and \"%s\"", templates[i].pattern,
		             templates[i].name);
}

static struct ms_arena arena;
static struct ms_suppressions parsed;
static struct ms_error err;

static void setup(void)
{
	ms_arena_init(&arena);
	memset(&parsed, 0, sizeof(parsed));
	memset(&err, 0, sizeof(err));
}

static void teardown(void)
{
	ms_arena_deinit(&arena);
}

TestSuite(suppressions, .init = setup, .fini = teardown);

static enum ms_status parse_more(const char *path, const char *text, size_t len)
{
	const struct ms_suppression_file file = { path, text, len };

	return ms_suppressions_parse(&file, &arena, &parsed, &err);
}

static enum ms_status parse_bytes(const char *text, size_t len)
{
	parsed.n = 0;
	return parse_more("known.txt", text, len);
}

/* The patterns with their lines: "1 foo|3 bar", or the error. */
static const char *parse(const char *text)
{
	static char told[512];
	size_t used = 0;

	if (parse_bytes(text, strlen(text)))
		return err.text;
	told[0] = '\0';
	for (size_t i = 0; i < parsed.n; i++)
		used += (size_t)snprintf(told + used, sizeof(told) - used, "%s%zu %s", i ? "|" : "",
		                         parsed.at[i].line, parsed.at[i].pattern);
	return told;
}

Test(suppressions, are_lines)
{
	static const struct {
		const char *text;
		const char *told;
	} cases[] = {
		{ "", "" },
		{ "\n\n", "" },
		{ "leak:foo", "1 foo" },
		{ "leak:foo\n", "1 foo" },
		{ "leak:foo\nleak:bar", "1 foo|2 bar" },
		{ "# why\n\nleak:foo\n#leak:bar\nleak:baz\n", "3 foo|5 baz" },
		{ " \t leak:foo \t \n", "1 foo" },
		{ "leak:foo\r\nleak:bar\r\n", "1 foo|2 bar" },
		{ "\r\nleak:foo\r\n \t\r\n", "2 foo" },
		{ "  # a comment\n", "" },
		{ "leak: foo\n", "1  foo" }, /* blanks behind the colon belong to it */
		{ "leak:foo # no comment\n", "1 foo # no comment" },
		{ "leak:a:b\n", "1 a:b" },
		{ "leak:\n", "1 " },
		{ "leak:a b\n", "1 a b" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_str_eq(parse(cases[i].text), cases[i].told, "\"%s\": %s", cases[i].text,
		                 err.text);
}

Test(suppressions, that_are_wrong_are_told_with_their_line)
{
	static const struct {
		const char *text;
		const char *told;
	} cases[] = {
		{ "foo", "known.txt:1: leak: is missing before 'foo'" },
		{ "leak:a\n\nrace:foo\n",
		  "known.txt:3: the only kind of suppression is leak:, not 'race:'" },
		{ "leak :a\n", "known.txt:1: the only kind of suppression is leak:, not 'leak :'" },
		{ "Leak:a\n", "known.txt:1: the only kind of suppression is leak:, not 'Leak:'" },
		{ ":a\n", "known.txt:1: the only kind of suppression is leak:, not ':'" },
		{ "#\nleak\n", "known.txt:2: leak: is missing before 'leak'" },
		{ "leak:a\n  and so on\n", "known.txt:2: leak: is missing before 'and so on'" },
		{ "what is all this text in here?\n",
		  "known.txt:1: leak: is missing before 'what is all this text in'..." },
		{ "\xef\xbb\xbfleak:a\n",
		  "known.txt:1: the only kind of suppression is leak:, not '\xef\xbb\xbfleak:'" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_str_eq(parse(cases[i].text), cases[i].told, "%s", err.text);
		cr_expect_eq(err.status, MS_E_UNSUPPORTED);
		cr_expect(err.advice[0]);
	}
}

Test(suppressions, hold_no_byte_of_value_zero)
{
	static const char text[] = "leak:a\nleak:b\0c\n";

	cr_assert_eq(parse_bytes(text, sizeof(text) - 1), MS_E_UNSUPPORTED);
	cr_assert_str_eq(err.text, "known.txt:2: a byte of value 0 in 'leak:b'");
}

Test(suppressions, end_where_the_text_does)
{
	cr_assert_eq(parse_bytes("leak:foobar", 8), MS_OK);
	cr_assert_str_eq(parsed.at[0].pattern, "foo");
}

Test(suppressions, of_a_long_path_are_wrong_in_few_words)
{
	char path[400];

	memset(path, 'd', sizeof(path));
	strcpy(path + 300, "/known.txt");
	cr_assert_eq(parse_more(path, "race:x", 6), MS_E_UNSUPPORTED);
	cr_assert_not_null(strstr(err.text, "/known.txt:1: the only kind"), "%s", err.text);
	cr_assert_eq(err.text[strlen(err.text) - 1], '\'');
}

Test(suppressions, of_several_files_follow_each_other)
{
	cr_assert_eq(parse_bytes("leak:a", 6), MS_OK);
	cr_assert_eq(parse_more("other", "\nleak:b", 7), MS_OK);
	cr_assert_eq(parsed.n, 2);
	cr_assert_str_eq(parsed.at[1].file, "other");
	cr_assert_eq(parsed.at[1].line, 2);
}

Test(suppressions, are_not_more_than_the_report_has_room_for)
{
	static char text[6 * (MS_SUPPRESSIONS_MOST + 1)];

	for (size_t i = 0; i < sizeof(text); i += 6)
		memcpy(text + i, "leak:\n", 6);
	cr_assert_eq(parse_bytes(text, sizeof(text) - 6), MS_OK);
	cr_assert_eq(parsed.n, MS_SUPPRESSIONS_MOST);
	cr_assert_eq(parse_bytes(text, sizeof(text)), MS_E_UNSUPPORTED);
	cr_assert_str_eq(err.text, "known.txt:65537: too many suppressions, from here on: 'leak:'");
}

Test(suppressions, are_found_in_order_by_any_name)
{
	static const char *const names[] = { "main", "", "/usr/lib/libfoo.so" };
	static const char *const none[] = { "", "" };

	cr_assert_str_eq(parse("leak:x\nleak:libfoo\nleak:^main$\n"), "1 x|2 libfoo|3 ^main$");
	cr_assert_eq(ms_suppressions_find(&parsed, names, 3), 1);
	cr_assert_eq(ms_suppressions_find(&parsed, names, 1), 2);
	cr_assert_eq(ms_suppressions_find(&parsed, names, 0), 3);
	cr_assert_eq(ms_suppressions_find(&parsed, none, 2), 3);
}
