/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/scan/options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/args.h"
#include "cli/scan/options/rows.h"

enum { DEFAULT_LIMIT = 100, DEFAULT_ENTRIES = 20 };

/* Whether @word says which process, as no option does. */
static bool is_id(const char *word, const struct ms_options *options)
{
	const struct ms_choice *choice = &options->process.choice;

	return !choice->id && !choice->name && !options->core && !word[strspn(word, "0123456789")];
}

/* What is no option of a scan: a lone number is the process. */
static bool take_words(int n, char **words, struct ms_options *options, struct ms_error *err)
{
	static const char *const alone[] = {
		[MS_USE_SCAN] = "options of a scan begin with '-'; see memscan --help",
		[MS_USE_RETAINED] = "it takes a process alone: memscan retained PID",
		[MS_USE_LIVE] = "it takes a process alone: memscan live PID",
	};
	bool lone = n > 0 && is_id(words[0], options);

	if (lone && !ms_args_take_id(options, words[0], err))
		return false;
	if (n == lone)
		return true;
	return ms_args_wrong(err, alone[options->use], "'%s' is not an option", words[lone]);
}

/* What consists of hexadecimal digits, one of them decimal: "Cafe" may be a type. */
static bool is_address(const char *word)
{
	size_t digits = strspn(word, "0123456789abcdefABCDEF");

	return (word[0] >= '0' && word[0] <= '9') ||
	       (!word[digits] && strcspn(word, "0123456789") < digits);
}

static bool take_address(const char *word, struct ms_options *options, struct ms_error *err)
{
	static const char how[] =
		"give the block's address as reports print it, such as 0x55d0c0ffee10";
	const char *at = word[0] == '0' && (word[1] == 'x' || word[1] == 'X') ? word + 2 : word;
	struct ms_question *question = &options->scan.question;
	size_t digits = strspn(at, "0123456789abcdefABCDEF");

	if (!digits || at[digits])
		return ms_args_wrong(err, how, "'%.60s' is no address", word);
	at += strspn(at, "0");
	if (strlen(at) > 16)
		return ms_args_wrong(err, how, "%.60s is larger than any address", word);
	question->kind = MS_ASKED_ADDRESS;
	question->address = strtoull(at, NULL, 16);
	return question->address || ms_args_wrong(err, how, "no block is at address 0");
}

static bool take_question(int n, char **words, struct ms_options *options, struct ms_error *err)
{
	static const char how[] = "memscan why PID ADDRESS, or memscan why PID TYPE";
	const char *word;

	if (n == 2 && is_id(words[0], options)) {
		if (!ms_args_take_id(options, *words++, err))
			return false;
		n--;
	}
	word = words[0];
	if (n != 1)
		return ms_args_wrong(err, how,
		                     n ? "more than one address or type was given"
		                       : "no address and no type was given");
	if (is_address(word))
		return take_address(word, options, err);
	word += strncmp(word, "::", 2) ? 0 : 2;
	options->scan.question.kind = MS_ASKED_TYPE;
	options->scan.question.type = word;
	return *word || ms_args_wrong(err, how, "no address and no type was given");
}

static bool take_core_word(int n, char **words, struct ms_options *options, struct ms_error *err)
{
	if (n == 1)
		return ms_options_take_core(options, words[0], err);
	return ms_args_wrong(err, "memscan core [OPTION]... FILE",
	                     n ? "more than one core was given" : "no core was given");
}

static bool take_all(int argc, char **argv, struct ms_options *options, struct ms_error *err)
{
	struct ms_option own[MS_OPTIONS_MOST];
	struct ms_option_table all = ms_options_table(options->use, own);
	int at = ms_args_take(argc, argv, &all, options, err);

	if (at < 0)
		return false;
	if (options->request != MS_REQUEST_SCAN)
		return true;
	if (options->use == MS_USE_WHY)
		return take_question(argc - at, argv + at, options, err);
	if (options->use == MS_USE_CORE)
		return take_core_word(argc - at, argv + at, options, err);
	if (options->use != MS_USE_RUN)
		return take_words(argc - at, argv + at, options, err);
	options->program = argv + at;
	return at < argc ||
	       ms_args_wrong(err, "say which: memscan run [OPTION]... -- PROG [ARG]...",
	                     "no program was given");
}

static const struct ms_options defaults = {
	.scan.limit = DEFAULT_LIMIT,
	.process.timeout_ns = MS_ARGS_TIMEOUT_S * UINT64_C(1000000000),
};

/* What can only be asked of a process. */
static bool check_core(const struct ms_options *options, struct ms_error *err)
{
	const struct ms_choice *choice = &options->process.choice;

	if (choice->id || choice->name)
		return ms_args_wrong(err, "scan the core, or the process",
		                     "--core and --%s exclude each other",
		                     choice->id ? "pid" : "name");
	if (choice->ns)
		return ms_args_wrong(err, "omit it: a core has no namespaces",
		                     "--ns is for processes alone");
	if (options->confirm_ns)
		return ms_args_wrong(err, "omit it: a core does not change",
		                     "--confirm is for processes alone");
	return options->how == MS_SNAPSHOT_AUTO ||
	       ms_args_wrong(err, "omit it: a core is read where it is",
	                     "--snapshot is for processes alone");
}

/* Of a process that is there already, or a core; @choose: how it is chosen. */
static bool check_chosen(const struct ms_options *options, const char *choose, struct ms_error *err)
{
	const struct ms_choice *choice = &options->process.choice;

	if (options->core)
		return check_core(options, err);
	if (options->exe || options->root)
		return ms_args_wrong(err, "add --core FILE, or omit it", "--%s is for cores alone",
		                     options->exe ? "exe" : "root");
	if (options->request != MS_REQUEST_SCAN && !choice->id && !choice->name)
		return true;
	return ms_args_is_one(choice, choose, err);
}

/* What a report holds beside its leaks. */
static void set_question(struct ms_options *options)
{
	struct ms_scan_options *scan = &options->scan;

	if (options->use == MS_USE_RETAINED) {
		scan->question.kind = MS_ASKED_RETAINED;
		scan->question.limit = scan->limit;
	}
	scan->sites = options->use == MS_USE_LIVE;
}

bool ms_options_parse(enum ms_scan_use use, int argc, char **argv, struct ms_options *ret,
                      struct ms_error *err)
{
	static const char *const choose[] = {
		[MS_USE_SCAN] = "say which process: memscan PID, or memscan --name NAME",
		[MS_USE_RUN] = NULL,
		[MS_USE_WHY] = "say which process: memscan why PID ADDRESS|TYPE",
		[MS_USE_RETAINED] = "say which process: memscan retained PID",
		[MS_USE_LIVE] = "say which process: memscan live PID",
		[MS_USE_CORE] = NULL,
	};
	struct ms_options options = defaults;

	options.writer = ms_writer_find("text");
	options.use = use;
	if (use == MS_USE_RETAINED)
		options.scan.limit = DEFAULT_ENTRIES;
	if (!take_all(argc, argv, &options, err))
		return false;
	if (options.writer->whole && !options.has_limit)
		options.scan.limit = UINT64_MAX;
	if (choose[use] && !check_chosen(&options, choose[use], err))
		return false;
	set_question(&options);
	*ret = options;
	return true;
}

void ms_options_help(enum ms_scan_use use, FILE *to)
{
	struct ms_option own[MS_OPTIONS_MOST];
	struct ms_option_table all = ms_options_table(use, own);

	ms_args_help(to, &all);
}
