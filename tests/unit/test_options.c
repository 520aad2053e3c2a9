/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/scan/options.h"

enum { MAX_ARGS = 80 };

static struct ms_options options;
static struct ms_error err;

/* Parse the words of @line as a command line after "memscan". */
static bool parse(const char *line)
{
	static char words[2048];
	char *argv[MAX_ARGS + 2] = { (char[]){ "memscan" } };
	char *rest = NULL;
	int argc = 1;

	snprintf(words, sizeof(words), "%s", line);
	for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		cr_assert_leq(argc, MAX_ARGS);
		argv[argc++] = word;
	}
	memset(&err, 0, sizeof(err));
	return ms_options_parse(MS_USE_SCAN, argc, argv, &options, &err);
}

static const struct {
	const char *line;
	const char *text;
} wrong_cases[] = {
	{ "", "no process was given" },
	{ "--contents", "no process was given" },
	{ "--pid 1 --name x", "exclude each other" },
	{ "--pid 1 --ns 0", "--ns takes a pid namespace, not '0'" },
	{ "--pid 1 --ns 2147483648", "--ns takes a pid namespace, not '2147483648'" },
	{ "--pid 1 --ns", "--ns needs its argument, PID|FILE" },
	{ "--name x --ns 2", "--ns and --name exclude each other" },
	{ "--ns 2", "no process was given" },
	{ "--pid 0", "--pid takes the number of a process, not '0'" },
	{ "--pid -1", "not '-1'" },
	{ "--pid x", "not 'x'" },
	{ "--pid 12x", "not '12x'" },
	{ "--pid 2147483648", "not '2147483648'" },
	{ "--pid 99999999999999999999", "--pid takes" },
	{ "--pid", "--pid needs its argument, N" },
	{ "-p", "--pid needs its argument, N" },
	{ "--pid 1 --limit few", "--limit takes a number or 'all', not 'few'" },
	{ "--pid 1 --limit -1", "not '-1'" },
	{ "--pid 1 --limit 18446744073709551616", "--limit takes" },
	{ "--pid 1 --min-size 1x", "--min-size takes a number of bytes, not '1x'" },
	{ "--pid 1 --snapshot tape", "--snapshot takes auto, fork or copy, not 'tape'" },
	{ "--pid 1 --jobs 0", "--jobs takes a number of threads, not '0'" },
	{ "--pid 1 --jobs 65", "--jobs takes a number of threads, not '65'" },
	{ "--pid 1 -j many", "not 'many'" },
	{ "--pid 1 --format xml", "--format takes text, json, html, folded or pprof, not 'xml'" },
	{ "--pid 1 --timeout 0", "--timeout takes" },
	{ "--pid 1 --timeout 86401", "--timeout takes" },
	{ "--pid 1 --timeout soon", "not 'soon'" },
	{ "--pid 1 --timeout 1.", "--timeout takes a number of seconds, not '1.'" },
	{ "--pid 1 --timeout .5", "not '.5'" },
	{ "--pid 1 --timeout 0.0", "not '0.0'" },
	{ "--pid 1 --timeout 86400.000000001", "--timeout takes" },
	{ "--pid 1 --timeout 1e3", "not '1e3'" },
	{ "--pid 1 --confirm=0", "--confirm takes a number of seconds, not '0'" },
	{ "--pid 1 --confirm=", "--confirm takes" },
	{ "--pid 1 --confirm=-1", "not '-1'" },
	{ "--pid 1 --confirm=1.0000000001", "not '1.0000000001'" },
	{ "--pid 1 --confirm=99999999999999999999999", "--confirm takes" },
	{ "--pid 1 --confirm 2", "'2' is not an option" },
	{ "1 2", "'2' is not an option" },
	{ "1 x", "'x' is not an option" },
	{ "1x", "'1x' is not an option" },
	{ "0", "--pid takes the number of a process, not '0'" },
	{ "2147483648", "not '2147483648'" },
	{ "1 --pid 2", "'1' is not an option" },
	{ "--name x 2", "'2' is not an option" },
	{ "--pid 1 --color maybe", "--color takes auto, always or never, not 'maybe'" },
	{ "--pid 1 --contents=yes", "--contents takes no argument" },
	{ "--pid 1 --nonsense", "there is no option --nonsense" },
	{ "--pid 1 -x", "there is no option -x" },
	{ "--pid 1 -qx", "there is no option -x" },
	{ "--pid 1 2", "'2' is not an option" },
	{ "--pid= ", "--pid takes" },
	{ "--name= ", "--name takes" },
	{ "--pid 1 --output= ", "--output takes" },
	{ "--pid 1 --suppressions= ", "--suppressions takes the name of a file" },
	{ "--pid 1 --suppressions", "--suppressions needs its argument, FILE" },
};

Test(options, wrong_calls_are_told_and_advised)
{
	for (size_t i = 0; i < sizeof(wrong_cases) / sizeof(wrong_cases[0]); i++) {
		const char *line = wrong_cases[i].line;

		cr_assert_not(parse(line), "\"%s\" was taken", line);
		cr_assert(strstr(err.text, wrong_cases[i].text), "\"%s\": %s", line, err.text);
		cr_assert(err.advice[0], "\"%s\": no advice", line);
		cr_assert_null(strchr(err.text, '\n'));
	}
}

Test(options, defaults_are_those_of_the_contract)
{
	cr_assert(parse("--pid 42"), "%s", err.text);
	cr_assert_eq(options.request, MS_REQUEST_SCAN);
	cr_assert_eq(options.process.choice.id, 42);
	cr_assert_null(options.process.choice.name);
	cr_assert_eq(options.scan.limit, 100);
	cr_assert_eq(options.scan.min_size, 0);
	cr_assert_not(options.scan.no_fold || options.scan.contents);
	cr_assert_not(options.scan.possible || options.scan.unaligned ||
	              options.scan.strict_containers);
	cr_assert_str_eq(options.writer->name, "text");
	cr_assert_null(options.output);
	cr_assert_eq(options.process.timeout_ns, UINT64_C(30000000000));
	cr_assert_eq(options.limit_ns, 0);
	cr_assert_eq(options.confirm_ns, 0);
	cr_assert_eq(options.colour, MS_COLOUR_AUTO);
	cr_assert_not(options.quiet || options.verbose);
}

Test(options, each_sets_its_own_field)
{
	cr_assert(parse("-p7 --limit all --min-size 4096"));
	cr_assert_eq(options.process.choice.id, 7);
	cr_assert_eq(options.scan.limit, UINT64_MAX);
	cr_assert_eq(options.scan.min_size, 4096);
	cr_assert(parse("--pid=7 --no-fold") && options.scan.no_fold && !options.scan.contents);
	cr_assert(parse("--pid=7 --contents") && options.scan.contents && !options.scan.no_fold);
	cr_assert(parse("--pid=7 --possible") && options.scan.possible && !options.scan.unaligned);
	cr_assert(parse("--pid=7 --strict-containers") && options.scan.strict_containers);
	cr_assert(parse("--pid=7 --unaligned") && options.scan.unaligned && !options.scan.possible);
	cr_assert(parse("--pid=7 --heap") && options.scan.heap && !options.scan.possible);
	cr_assert(parse("--pid=7 --timeout 5") &&
	          options.process.timeout_ns == UINT64_C(5000000000));
	cr_assert(parse("--pid=7 --color never") && options.colour == MS_COLOUR_NEVER);
	cr_assert(parse("--pid=7 --color always") && options.colour == MS_COLOUR_ALWAYS);
	cr_assert(parse("--pid=7 -l 0") && options.scan.limit == 0);
	cr_assert(parse("--pid=7 --snapshot copy") && options.how == MS_SNAPSHOT_COPY);
	cr_assert(parse("--pid=7 --snapshot fork") && options.how == MS_SNAPSHOT_FORK);
	cr_assert(parse("--pid=7 --snapshot auto") && options.how == MS_SNAPSHOT_AUTO);
	cr_assert(parse("--pid=7 --jobs 3") && options.jobs == 3);
	cr_assert(parse("--pid=7") && options.how == MS_SNAPSHOT_AUTO && !options.jobs);
}

Test(options, seconds_may_have_a_fraction)
{
	static const struct {
		const char *seconds;
		uint64_t ns;
	} cases[] = {
		{ "1", 1000000000 },
		{ "0.5", 500000000 },
		{ "2.000000001", 2000000001 },
		{ "0.000000001", 1 },
		{ "0010.10", 10100000000 },
		{ "86400", 86400 * UINT64_C(1000000000) },
		{ "86400.0", 86400 * UINT64_C(1000000000) },
	};
	char line[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "-p 7 --confirm=%s", cases[i].seconds);
		cr_expect(parse(line), "%s", err.text);
		cr_expect_eq(options.confirm_ns, cases[i].ns, "%s", line);
		cr_expect_eq(options.limit_ns, 0);
		snprintf(line, sizeof(line), "-p 7 --timeout %s", cases[i].seconds);
		cr_expect(parse(line), "%s", err.text);
		cr_expect_eq(options.process.timeout_ns, cases[i].ns, "%s", line);
		cr_expect_eq(options.limit_ns, cases[i].ns, "%s", line);
	}
	cr_assert(parse("--confirm --pid 7"));
	cr_assert_eq(options.confirm_ns, 1000000000);
}

Test(options, a_lone_number_is_the_process)
{
	cr_assert(parse("42") && options.process.choice.id == 42);
	cr_assert(parse("42 --json --confirm") && options.process.choice.id == 42 &&
	          options.confirm_ns);
	cr_assert(parse("--limit 3 42") && options.process.choice.id == 42 &&
	          options.scan.limit == 3);
	cr_assert(parse("-- 42") && options.process.choice.id == 42);
}

Test(options, name_output_and_format_are_kept)
{
	cr_assert(parse("-n cron -o out.json -f json"));
	cr_assert_eq(options.process.choice.id, 0);
	cr_assert_str_eq(options.process.choice.name, "cron");
	cr_assert_str_eq(options.output, "out.json");
	cr_assert_str_eq(options.writer->name, "json");
	cr_assert(parse("-n cron --json"));
	cr_assert_str_eq(options.writer->name, "json");
}

Test(options, formats_that_sum_up_leaks_list_all)
{
	cr_assert(parse("7 --format html") && options.scan.limit == UINT64_MAX);
	cr_assert(parse("7 --format folded") && options.scan.limit == UINT64_MAX);
	cr_assert(parse("7 --format folded --limit 5") && options.scan.limit == 5);
	cr_assert(parse("7 --limit 5 --format folded") && options.scan.limit == 5);
	cr_assert(parse("7 --format folded --format json") && options.scan.limit == 100);
	cr_assert(parse("7 --format pprof") && options.scan.limit == UINT64_MAX);
	cr_assert(!parse("7 --format sarif"));
	cr_assert_str_eq(err.text, "--format takes text, json, html, folded or pprof, not 'sarif'");
}

Test(options, suppressions_are_kept_in_order_up_to_so_many)
{
	char text[2048] = "--pid 7";

	cr_assert(parse("--pid 7 --suppressions one --suppressions two"));
	cr_assert_eq(options.n_suppressions, 2);
	cr_assert_str_eq(options.suppressions[0], "one");
	cr_assert_str_eq(options.suppressions[1], "two");
	for (size_t i = 0; i <= MS_SUPPRESSION_FILES; i++)
		strcat(text, " --suppressions=x");
	cr_assert_not(parse(text));
	cr_assert(strstr(err.text, "more than 64 times"), "%s", err.text);
}

Test(options, the_later_of_quiet_and_verbose_counts)
{
	cr_assert(parse("-p 1 -q -v") && options.verbose && !options.quiet);
	cr_assert(parse("-p 1 -v -q") && options.quiet && !options.verbose);
}

Test(options, help_and_version_need_nothing_else)
{
	cr_assert(parse("--help") && options.request == MS_REQUEST_HELP);
	cr_assert(parse("-h") && options.request == MS_REQUEST_HELP);
	cr_assert(parse("--version") && options.request == MS_REQUEST_VERSION);
	cr_assert(parse("--pid 1 --help --nonsense") && options.request == MS_REQUEST_HELP);
}

Test(options, help_lists_what_works_and_nothing_else)
{
	static const char *const listed[] = {
		"-p, --pid N",
		"-n, --name NAME",
		"-l, --limit",
		"--no-fold",
		"--contents",
		"--possible",
		"--unaligned",
		"--min-size",
		"--snapshot",
		"-f, --format",
		"--json",
		"-o, --output",
		"--timeout",
		"-q, --quiet",
		"-v, --verbose",
		"--color",
		"-h, --help",
		"--version",
		"-j, --jobs",
		"--suppressions FILE",
		"--confirm[=SECONDS]",
		"--strict-containers",
	};
	char text[8192] = "";
	FILE *to = fmemopen(text, sizeof(text), "w");

	ms_options_help(MS_USE_SCAN, to);
	fclose(to);
	for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++)
		cr_assert(strstr(text, listed[i]), "no %s in:\n%s", listed[i], text);
	cr_assert_null(strstr(text, "sarif"));
	cr_assert_null(strstr(text, "--follow"));
}

static bool parse_run(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	memset(&err, 0, sizeof(err));
	return ms_options_parse(MS_USE_RUN, argc, argv, &options, &err);
}

#define WORDS(...) ((char *[]){ (char[]){ "run" }, __VA_ARGS__, NULL })
#define WORD(text) ((char[]){ text })

Test(options, of_a_run_end_where_its_program_begins)
{
	char **argv = WORDS(WORD("-q"), WORD("prog"), WORD("--follow"));

	cr_assert(parse_run(argv));
	cr_assert_eq(options.program, argv + 2);
	cr_assert(options.quiet && !options.follow);

	argv = WORDS(WORD("--follow"), WORD("--error-exitcode"), WORD("9"), WORD("--"), WORD("-p"));
	cr_assert(parse_run(argv));
	cr_assert_eq(options.program, argv + 5);
	cr_assert(options.follow);
	cr_assert_eq(options.error_status, 9);
}

Test(options, of_a_run_are_refused_with_the_reason)
{
	cr_assert(!parse_run(WORDS(WORD("-q"))));
	cr_assert_str_eq(err.text, "no program was given");
	cr_assert(!parse_run(WORDS(WORD("--pid"), WORD("1"), WORD("prog"))));
	cr_assert_str_eq(err.text, "--pid is not for memscan run");
	cr_assert(!parse_run(WORDS(WORD("--timeout"), WORD("1"), WORD("prog"))));
	cr_assert_str_eq(err.text, "--timeout is not for memscan run");
	cr_assert(!parse_run(WORDS(WORD("--confirm"), WORD("prog"))));
	cr_assert_str_eq(err.text, "--confirm is not for memscan run");
	cr_assert(strstr(err.advice, "stands still"), "%s", err.advice);
	cr_assert(!parse_run(WORDS(WORD("--error-exitcode"), WORD("256"), WORD("prog"))));
	cr_assert_str_eq(err.text, "--error-exitcode takes an exit status, not '256'");
	cr_assert(!parse("--pid 1 --follow"));
	cr_assert_str_eq(err.text, "there is no option --follow");
}

Test(options, help_of_a_run_lists_its_own)
{
	char text[8192] = "";
	FILE *to = fmemopen(text, sizeof(text), "w");

	ms_options_help(MS_USE_RUN, to);
	fclose(to);
	cr_assert(strstr(text, "--follow") && strstr(text, "--error-exitcode N"));
	cr_assert(!strstr(text, "--pid") && !strstr(text, "--timeout"));
	cr_assert(!strstr(text, "--confirm"));
}

static bool parse_why(const char *word, const char *more)
{
	char words[3][128] = { "why" };
	char *argv[] = { words[0], (char[]){ "--pid" }, (char[]){ "1" }, words[1], words[2], NULL };

	snprintf(words[1], sizeof(words[1]), "%s", word);
	snprintf(words[2], sizeof(words[2]), "%s", more ? more : "");
	memset(&err, 0, sizeof(err));
	return ms_options_parse(MS_USE_WHY, more ? 5 : 4, argv, &options, &err);
}

static const struct {
	const char *word;
	uint64_t address; /* 0: it is a type */
} asked_cases[] = {
	{ "0x55d0c0ffee10", 0x55d0c0ffee10 },
	{ "55d0c0ffee10", 0x55d0c0ffee10 },
	{ "0X55D0C0FFEE10", 0x55d0c0ffee10 },
	{ "c0ffee10", 0xc0ffee10 },
	{ "00000000000000000000001", 1 },
	{ "0xffffffffffffffff", UINT64_MAX },
	{ "0xcafe", 0xcafe },
	{ "cafe", 0 },
	{ "Session", 0 },
	{ "a1::b", 0 },
	{ "Box<int, 3>", 0 },
};

Test(options, of_why_take_an_address_or_a_type)
{
	for (size_t i = 0; i < sizeof(asked_cases) / sizeof(asked_cases[0]); i++) {
		const struct ms_question *question = &options.scan.question;

		cr_assert(parse_why(asked_cases[i].word, NULL), "%s: %s", asked_cases[i].word,
		          err.text);
		cr_assert_eq(question->kind,
		             asked_cases[i].address ? MS_ASKED_ADDRESS : MS_ASKED_TYPE, "%s",
		             asked_cases[i].word);
		cr_assert_eq(question->address, asked_cases[i].address, "%s", asked_cases[i].word);
		cr_assert(!question->all);
	}
	cr_assert(parse_why("::abc1", NULL) && options.scan.question.kind == MS_ASKED_TYPE);
	cr_assert(parse_why("--all", "1000") && options.scan.question.all);
	cr_assert(parse_why("--unaligned", "1000") && options.scan.unaligned);
	cr_assert(parse_why("--strict-containers", "1000") && options.scan.strict_containers);
}

static bool parse_why_words(const char *first, const char *second)
{
	char words[2][32];
	char *argv[] = { (char[]){ "why" }, words[0], words[1], NULL };

	snprintf(words[0], sizeof(words[0]), "%s", first);
	snprintf(words[1], sizeof(words[1]), "%s", second);
	memset(&err, 0, sizeof(err));
	return ms_options_parse(MS_USE_WHY, 3, argv, &options, &err);
}

Test(options, of_why_may_begin_with_the_process)
{
	cr_assert(parse_why_words("4711", "0x1000"), "%s", err.text);
	cr_assert_eq(options.process.choice.id, 4711);
	cr_assert_eq(options.scan.question.address, 0x1000);
	cr_assert(parse_why_words("4711", "1000") && options.scan.question.address == 0x1000);
	cr_assert(!parse_why_words("0", "1000"));
	cr_assert_str_eq(err.text, "--pid takes the number of a process, not '0'");
	cr_assert(!parse_why_words("Session", "1000"));
	cr_assert_str_eq(err.text, "more than one address or type was given");
}

Test(options, of_why_are_refused_with_the_reason)
{
	cr_assert(!parse_why("0", NULL));
	cr_assert_str_eq(err.text, "no block is at address 0");
	cr_assert(!parse_why("0x", NULL));
	cr_assert_str_eq(err.text, "'0x' is no address");
	cr_assert(!parse_why("12k", NULL));
	cr_assert_str_eq(err.text, "'12k' is no address");
	cr_assert(!parse_why("10000000000000000", NULL));
	cr_assert_str_eq(err.text, "10000000000000000 is larger than any address");
	cr_assert(!parse_why("1", "2"));
	cr_assert_str_eq(err.text, "more than one address or type was given");
	cr_assert(!parse_why("--quiet", NULL));
	cr_assert_str_eq(err.text, "no address and no type was given");
	cr_assert(!parse_why("--format=html", "1"));
	cr_assert_str_eq(err.text, "--format takes text or json, not 'html'");
	cr_assert(!parse_why("--no-fold", "1"));
	cr_assert_str_eq(err.text, "there is no option --no-fold");
	cr_assert(!parse("--pid 1 --all"));
}

static bool parse_retained(const char *word, const char *more)
{
	char words[3][128] = { "retained" };
	char pid[] = "--pid";
	char number[] = "7";
	char *argv[] = { words[0], pid, number, words[1], words[2], NULL };

	strcpy(words[1], word);
	strcpy(words[2], more ? more : "");
	return ms_options_parse(MS_USE_RETAINED, more ? 5 : 4, argv, &options, &err);
}

Test(options, of_retained_are_those_of_an_answer_and_a_limit)
{
	cr_assert(parse_retained("--json", NULL), "%s", err.text);
	cr_assert_eq(options.scan.question.kind, MS_ASKED_RETAINED);
	cr_assert_eq(options.scan.question.limit, 20);
	cr_assert(parse_retained("--limit", "3") && options.scan.question.limit == 3);
	cr_assert(parse_retained("--limit", "all") && options.scan.question.limit == UINT64_MAX);
	cr_assert(!parse_retained("Session", NULL) && strstr(err.advice, "memscan retained PID"));
	cr_assert(!parse_retained("--all", NULL));
	cr_assert(!parse_retained("--no-fold", NULL));
	cr_assert(!parse_retained("--format=folded", NULL));
	cr_assert(!parse_why("--limit", "3"));
}

static bool parse_live(const char *word)
{
	char words[2][128] = { "live" };
	char number[] = "7";
	char *argv[] = { words[0], number, words[1], NULL };

	strcpy(words[1], word);
	return ms_options_parse(MS_USE_LIVE, 3, argv, &options, &err);
}

Test(options, of_live_are_a_limit_and_its_own_formats)
{
	cr_assert(parse_live("--json"), "%s", err.text);
	cr_assert_eq(options.process.choice.id, 7);
	cr_assert(options.scan.sites && !options.scan.heap);
	cr_assert_eq(options.scan.limit, 100);
	cr_assert(parse_live("--format=folded") && options.scan.limit == UINT64_MAX);
	cr_assert(parse_live("--format=pprof") && options.scan.limit == UINT64_MAX);
	cr_assert(parse_live("--limit=3") && options.scan.limit == 3);
	cr_assert(!parse_live("--format=html"));
	cr_assert_str_eq(err.text, "--format takes text, json, folded or pprof, not 'html'");
	cr_assert(!parse_live("Session") && strstr(err.advice, "memscan live PID"));
	cr_assert(!parse_live("--no-fold"));
	cr_assert(!parse_retained("--format=folded", NULL), "that of live alone");
	cr_assert(parse("--pid 7") && !options.scan.sites);
}

Test(options, help_of_why_lists_its_own)
{
	char text[8192] = "";
	FILE *to = fmemopen(text, sizeof(text), "w");

	ms_options_help(MS_USE_WHY, to);
	fclose(to);
	cr_assert(strstr(text, "--all ") && strstr(text, "--pid N") && strstr(text, "--json"));
	cr_assert(!strstr(text, "--limit") && !strstr(text, "--suppressions"));
}
