/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/choice.h"

/*
 * Ranges drawn by their begin and length in pages, in order: "0+3 5+2" are two. Verdicts
 * have a letter each: - in no set that agrees, ? in some, Y in all.
 */

static struct ms_arena arena;

static struct ms_choices draw(const char *picture)
{
	struct ms_choices choices = { 0 };

	while (*picture) {
		char *end;
		uint64_t begin = strtoull(picture, &end, 10);
		uint64_t len = strtoull(end + 1, &end, 10);
		struct ms_choice *slot = ms_vec_push(&arena, &choices);

		*slot = (struct ms_choice){ { begin << 12, (begin + len) << 12 }, 0 };
		picture = end + strspn(end, " ");
	}
	return choices;
}

static const char *verdicts(const struct ms_choices *choices, char *text)
{
	for (size_t i = 0; i < choices->n; i++)
		text[i] = "-?Y"[choices->at[i].verdict];
	text[choices->n] = '\0';
	return text;
}

struct row {
	char what[64];
	char picture[96];
	uint64_t count;
	uint64_t pages;
	char verdicts[32];
};

static const char *name_of(enum ms_agreement agreement)
{
	static const char *const names[] = { "none", "one", "several", "unknown" };

	return names[agreement];
}

ParameterizedTestParameters(choice, sets_of_ranges_must_meet_both_counters)
{
	static struct row rows[] = {
		{ "nothing", "", 0, 0, "" },
		{ "all", "0+3 5+2 9+1", 3, 6, "YYY" },
		{ "one too many", "0+3 5+2 9+1", 2, 4, "Y-Y" },
		{ "none is the program's all", "0+3 5+2", 0, 0, "--" },
		{ "two twins", "0+3 5+3", 1, 3, "??" },
		{ "twins beside another", "0+3 5+3 9+1", 2, 4, "??Y" },
		{ "two sums alike", "0+1 2+4 7+2 10+3", 2, 5, "????" },
		{ "the number decides", "0+1 2+4 7+5", 1, 5, "--Y" },
		{ "the number decides for two", "0+1 2+4 7+5", 2, 5, "YY-" },
		{ "overlapping", "0+3 1+2 3+1", 2, 4, "Y-Y" },
		{ "overlapping, both agree", "0+3 1+3", 1, 3, "??" },
		{ "a chain that overlaps", "0+2 1+2 2+2", 2, 4, "Y-Y" },
		{ "a long one over two", "0+9 0+4 4+5", 2, 9, "-YY" },
		{ "a long one over two, which has the number", "0+9 0+4 4+5", 1, 9, "Y--" },
		{ "one begin, two ends", "0+3 0+4 4+1", 2, 5, "-YY" },
		{ "taken past one that would do as well", "0+3 2+3 5+1", 2, 4, "??Y" },
		{ "exactly adjoining", "0+3 3+3 6+3", 3, 9, "YYY" },
		{ "as long as addresses go", "0+4503599627370495 1+1", 1, 1, "-Y" },
	};

	return cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct row *row, choice, sets_of_ranges_must_meet_both_counters)
{
	struct ms_choices choices = draw(row->picture);
	enum ms_agreement agreement;
	char text[32];

	cr_assert_eq(ms_choose(&choices, row->count, row->pages << 12, &agreement), MS_OK);
	cr_expect_str_eq(verdicts(&choices, text), row->verdicts, "%s: %s", row->what, text);
	cr_expect_str_eq(name_of(agreement), strchr(row->verdicts, '?') ? "several" : "one");
	ms_arena_deinit(&arena);
}

ParameterizedTestParameters(choice, where_no_set_agrees_no_range_is_believed)
{
	static struct row rows[] = {
		{ "too few", "0+3", 2, 3, "-" },
		{ "pages of none", "0+3 5+2", 1, 4, "--" },
		{ "number of none", "0+3 5+2", 1, 5, "--" },
		{ "only with an overlap", "0+3 2+2", 2, 5, "--" },
		{ "more pages than there are addresses", "0+3", 1, UINT64_C(1) << 51, "-" },
		{ "a number beyond all", "0+3", UINT64_C(1) << 40, 3, "-" },
	};

	return cr_make_param_array(struct row, rows, sizeof(rows) / sizeof(rows[0]));
}

ParameterizedTest(struct row *row, choice, where_no_set_agrees_no_range_is_believed)
{
	struct ms_choices choices = draw(row->picture);
	enum ms_agreement agreement;
	char text[32];

	cr_assert_eq(ms_choose(&choices, row->count, row->pages << 12, &agreement), MS_OK);
	cr_expect_str_eq(verdicts(&choices, text), row->verdicts, "%s: %s", row->what, text);
	cr_expect_str_eq(name_of(agreement), "none");
	ms_arena_deinit(&arena);
}

Test(choice, bytes_of_no_whole_pages_agree_with_nothing)
{
	struct ms_choices choices = draw("0+1");
	enum ms_agreement agreement;

	cr_assert_eq(ms_choose(&choices, 1, 4096 + 16, &agreement), MS_OK);
	cr_expect_eq(agreement, MS_AGREE_NONE);
	ms_arena_deinit(&arena);
}

/* ---- held against all sets there are ---- */

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static bool agrees(const struct ms_choices *choices, uint32_t set, uint64_t count, uint64_t bytes)
{
	ms_addr end = 0;

	for (size_t i = 0; i < choices->n; i++) {
		const struct ms_range *r = &choices->at[i].range;

		if (!(set >> i & 1))
			continue;
		if (r->begin < end)
			return false;
		end = r->end;
		count--;
		bytes -= ms_range_len(*r);
	}
	return !count && !bytes;
}

/* What trying every set says. */
static void try_all(const struct ms_choices *choices, uint64_t count, uint64_t bytes, char *text)
{
	uint32_t some = 0;
	uint32_t all = UINT32_MAX;

	for (uint32_t set = 0; set < 1u << choices->n; set++)
		if (agrees(choices, set, count, bytes)) {
			some |= set;
			all &= set;
		}
	for (size_t i = 0; i < choices->n; i++)
		text[i] = !(some >> i & 1) ? '-' : all >> i & 1 ? 'Y' : '?';
	text[choices->n] = '\0';
}

static void draw_random(uint32_t *state, struct ms_choices *ret)
{
	uint64_t begin = 0;
	size_t n = 1 + next_random(state) % 9;

	for (size_t i = 0; i < n; i++) {
		struct ms_choice *slot = ms_vec_push(&arena, ret);

		begin += next_random(state) % 5;
		*slot = (struct ms_choice){
			{ begin << 12, (begin + 1 + next_random(state) % 5) << 12 }, 0
		};
	}
}

Test(choice, verdicts_are_those_of_trying_every_set, .timeout = 60)
{
	for (uint32_t seed = 0; seed < 3000; seed++) {
		uint32_t state = seed;
		struct ms_choices choices = { 0 };
		enum ms_agreement agreement;
		uint64_t count;
		uint64_t bytes;
		char text[32];
		char expected[32];

		draw_random(&state, &choices);
		count = next_random(&state) % (choices.n + 1);
		bytes = (uint64_t)(next_random(&state) % 20) << 12;
		try_all(&choices, count, bytes, expected);
		cr_assert_eq(ms_choose(&choices, count, bytes, &agreement), MS_OK);
		cr_expect_str_eq(verdicts(&choices, text), expected, "seed %u: %s", seed, text);
		ms_arena_deinit(&arena);
	}
}

/* ---- many ---- */

static struct ms_choices draw_many(size_t n, uint64_t (*pages_of)(size_t))
{
	struct ms_choices choices = { 0 };
	uint64_t begin = 1;

	for (size_t i = 0; i < n; i++) {
		struct ms_choice *slot = ms_vec_push(&arena, &choices);

		*slot = (struct ms_choice){ { begin << 12, (begin + pages_of(i)) << 12 }, 0 };
		begin += pages_of(i);
	}
	return choices;
}

static uint64_t all_pages(const struct ms_choices *choices)
{
	const struct ms_choice *c;
	uint64_t pages = 0;

	ms_vec_for_each (c, choices)
		pages += ms_range_len(c->range) >> 12;
	return pages;
}

static uint64_t rising(size_t i)
{
	return i + 1;
}

static uint64_t scattered(size_t i)
{
	return 1 + i * UINT64_C(2654435761) % 1000003;
}

Test(choice, one_too_many_of_thousands_is_found)
{
	struct ms_choices choices = draw_many(20000, rising);
	enum ms_agreement agreement;
	uint64_t pages = all_pages(&choices) - 4711;

	cr_assert_eq(ms_choose(&choices, choices.n - 1, pages << 12, &agreement), MS_OK);
	cr_expect_eq(agreement, MS_AGREE_ONE);
	cr_expect_eq(choices.at[4710].verdict, MS_VERDICT_NONE);
	cr_expect_eq(choices.at[4709].verdict, MS_VERDICT_ALL);
	ms_arena_deinit(&arena);
}

/* So many partial results that nobody can go through them: no guess, and an end. */
Test(choice, too_many_sets_leave_all_in_doubt, .timeout = 20)
{
	struct ms_choices choices = draw_many(4000, scattered);
	enum ms_agreement agreement;
	const struct ms_choice *c;

	cr_assert_eq(ms_choose(&choices, 2000, all_pages(&choices) / 2 << 12, &agreement), MS_OK);
	cr_expect_eq(agreement, MS_AGREE_UNKNOWN);
	ms_vec_for_each (c, &choices)
		cr_expect_eq(c->verdict, MS_VERDICT_MAYBE);
	ms_arena_deinit(&arena);
}
