/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"

/* A toy command, its command lines, and what its options say then. */

struct toy {
	bool quick;
	bool help;
	char taken[64];
};

static bool take(struct toy *toy, const char *name, const char *arg)
{
	size_t used = strlen(toy->taken);

	(void)snprintf(toy->taken + used, sizeof(toy->taken) - used, "%s=%s ", name,
	               arg ? arg : "none");
	return true;
}

static bool take_size(void *to, const char *arg, struct ms_error *err)
{
	return strcmp(arg, "bad") != 0 ? take(to, "size", arg)
	                               : ms_args_wrong(err, "advice", "size is %s", arg);
}

static bool take_wait(void *to, const char *arg, struct ms_error *err)
{
	(void)err;
	return take(to, "wait", arg);
}

static const struct ms_option rows[] = {
	{ 's', "size", "BYTES", "how large\nit may be", .take = take_size },
	{ 0, "wait", "[=SECONDS]", "how long", .take = take_wait },
	{ 'q', "quick", NULL, "in a hurry", .flag = offsetof(struct toy, quick) },
	{ 0, "quarter", NULL, "not here", .take = take_wait, .instead = "use --quick" },
	{ 0, "a-name-that-is-long", "ARGUMENT", "below", .take = take_wait },
	{ 'h', "help", NULL, "this", .flag = offsetof(struct toy, help), .last = true },
};

static struct ms_option_table table;
static struct toy toy;
static struct ms_error err;

static void setup(void)
{
	table = (struct ms_option_table){ .command = "toy",
		                          .usage = "Usage: toy\n",
		                          .notes = "Notes.\n",
		                          .see = "see toy --help",
		                          .at = rows,
		                          .n = sizeof(rows) / sizeof(rows[0]) };
}

TestSuite(args, .init = setup);

/* Take @line; what is no option, joined, or the error with "!" before. */
static const char *parse(const char *line)
{
	static char words[256];
	static char rest[512];
	char *argv[16] = { (char[]){ "toy" } };
	char *state = NULL;
	int argc = 1;
	int at;

	(void)snprintf(words, sizeof(words), "%s", line);
	for (char *word = strtok_r(words, " ", &state); word; word = strtok_r(NULL, " ", &state))
		argv[argc++] = word;
	memset(&toy, 0, sizeof(toy));
	memset(&err, 0, sizeof(err));
	at = ms_args_take(argc, argv, &table, &toy, &err);
	(void)snprintf(rest, sizeof(rest), "%s%s", at < 0 ? "!" : "", at < 0 ? err.text : "");
	for (; at >= 0 && at < argc; at++)
		(void)strcat(strcat(rest, argv[at]), " ");
	return rest;
}

Test(args, options_may_stand_anywhere)
{
	cr_expect_str_eq(parse("a --size 5 b -q"), "a b ");
	cr_expect_str_eq(toy.taken, "size=5 ");
	cr_expect(toy.quick && !toy.help);
	cr_expect_str_eq(parse("-qs7 --wait --wait=2 -- --size"), "--size ");
	cr_expect_str_eq(toy.taken, "size=7 wait=none wait=2 ");
}

Test(args, or_before_the_first_word_alone)
{
	table.leading = true;
	cr_expect_str_eq(parse("-q a --size 5"), "a --size 5 ");
	cr_expect(toy.quick);
	cr_expect_str_eq(toy.taken, "");
}

Test(args, names_may_be_shortened_where_that_is_unambiguous)
{
	cr_expect_str_eq(parse("--si 5"), "");
	cr_expect_str_eq(toy.taken, "size=5 ");
	cr_expect_str_eq(parse("--qu"), "!--qu is short for several options: --quick, --quarter");
}

Test(args, behind_the_last_nothing_is_looked_at)
{
	cr_expect_neq(parse("--help --nonsense")[0], '!');
	cr_expect(toy.help);
	cr_expect_eq(parse("--quick --nonsense")[0], '!');
}

static const char *const wrong[][3] = {
	{ "--nonsense", "!there is no option --nonsense", "see toy --help" },
	{ "-qx", "!there is no option -x", "see toy --help" },
	{ "--size", "!--size needs its argument, BYTES", "see toy --help" },
	{ "-qs", "!--size needs its argument, BYTES", "see toy --help" },
	{ "--quick=5", "!--quick takes no argument", "see toy --help" },
	{ "--quarter", "!--quarter is not for toy", "use --quick" },
	{ "--size bad", "!size is bad", "advice" },
};

Test(args, wrong_calls_are_reported_and_advised)
{
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect_str_eq(parse(wrong[i][0]), wrong[i][1]);
		cr_expect_str_eq(err.advice, wrong[i][2]);
	}
}

static const struct {
	const char *text;
	uint64_t most;
	uint64_t bytes; /* UINT64_MAX: it is refused */
} sizes[] = {
	{ "0", 9, 0 },
	{ "4096", UINT64_MAX, 4096 },
	{ "4K", UINT64_MAX, 4096 },
	{ "4k", UINT64_MAX, 4096 },
	{ "3M", UINT64_MAX, 3 << 20 },
	{ "1g", UINT64_MAX, 1 << 30 },
	{ "2K", 2048, 2048 },
	{ "2K", 2047, UINT64_MAX },
	{ "17179869184G", UINT64_MAX, UINT64_MAX },
	{ "K", UINT64_MAX, UINT64_MAX },
	{ "", UINT64_MAX, UINT64_MAX },
	{ "4KB", UINT64_MAX, UINT64_MAX },
	{ "4T", UINT64_MAX, UINT64_MAX },
	{ "0000000000000000000000000000001K", UINT64_MAX, 1024 },
	{ "00000000000000000000000000000001K", UINT64_MAX, UINT64_MAX },
};

Test(args, sizes_have_units)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t bytes = UINT64_MAX;
		bool taken = ms_args_size(sizes[i].text, sizes[i].most, &bytes);

		cr_expect_eq(taken, sizes[i].bytes != UINT64_MAX, "%s", sizes[i].text);
		cr_expect(!taken || bytes == sizes[i].bytes, "%s: %llu", sizes[i].text,
		          (unsigned long long)bytes);
	}
}

Test(args, help_lists_each_option_that_is_for_the_command)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);

	cr_assert_not_null(to);
	ms_args_help(to, &table);
	cr_assert_eq(fclose(to), 0);
	cr_expect_str_eq(text, "Usage: toy\n\n"
	                       "  -s, --size BYTES               how large\n"
	                       "                                 it may be\n"
	                       "      --wait[=SECONDS]           how long\n"
	                       "  -q, --quick                    in a hurry\n"
	                       "      --a-name-that-is-long ARGUMENT\n"
	                       "                                 below\n"
	                       "  -h, --help                     this\n"
	                       "\nNotes.\n");
	free(text);
}
