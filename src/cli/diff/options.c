/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diff/options.h"

#include "cli/args.h"

enum { DEFAULT_LIMIT = 20 };

static const char usage[] =
	"Usage: memscan diff [OPTION]... OLD NEW\n"
	"Print what leaked or grew between two reports, as memscan --json writes them: leaks by\n"
	"their signature, live blocks by type and size (of reports made with --heap), and heaps.\n";

static const char notes[] =
	"Exit status: 0 nothing grew, 1 more bytes are live or leaked than before, or more of any\n"
	"leak, 2 usage error, 3 a report could not be read or is damaged, 4 the output could not\n"
	"be written.\n";

static const char see_help[] = "usage: memscan diff [OPTION]... OLD NEW; see memscan diff --help";

static bool take_format(void *to, const char *name, struct ms_error *err)
{
	struct ms_diff_options *options = to;

	options->writer = ms_diff_writer_find(name);
	return options->writer ||
	       ms_args_wrong(err, see_help, "--format takes text or json, not '%.60s'", name);
}

static bool take_json(void *to, const char *arg, struct ms_error *err)
{
	(void)arg;
	return take_format(to, "json", err);
}

static bool take_limit(void *to, const char *text, struct ms_error *err)
{
	struct ms_diff_options *options = to;

	return ms_args_limit(text, &options->limit) ||
	       ms_args_wrong(err, see_help, "--limit takes a number or all, not '%.60s'", text);
}

static bool take_output(void *to, const char *name, struct ms_error *err)
{
	struct ms_diff_options *options = to;

	options->output = name;
	return *name || ms_args_wrong(err, see_help, "--output takes a name");
}

static const struct ms_option rows[] = {
	{ 'l', "limit", "N|all", "rows of each list (default 20)", .take = take_limit },
	{ 'f', "format", "text|json", "format of the output (default text)", .take = take_format },
	{ 0, "json", NULL, "same as --format json", .take = take_json },
	{ 'o', "output", "FILE", "write the output to FILE, whole or not at all",
	  .take = take_output },
	{ 'h', "help", NULL, "print this help and exit",
	  .flag = offsetof(struct ms_diff_options, help), .last = true },
};

static const struct ms_option_table table = {
	.command = "memscan diff",
	.usage = usage,
	.notes = notes,
	.see = see_help,
	.at = rows,
	.n = sizeof(rows) / sizeof(rows[0]),
};

bool ms_diff_options_parse(int argc, char **argv, struct ms_diff_options *ret, struct ms_error *err)
{
	int at;

	*ret = (struct ms_diff_options){ .writer = ms_diff_writer_find("text"),
		                         .limit = DEFAULT_LIMIT };
	at = ms_args_take(argc, argv, &table, ret, err);
	if (at < 0 || ret->help)
		return at >= 0;
	if (argc - at < MS_DIFF_SIDES)
		return ms_args_wrong(err, see_help,
		                     at == argc ? "no reports were given"
		                                : "diff takes two reports, and one was given");
	if (argc - at > MS_DIFF_SIDES)
		return ms_args_wrong(err, see_help, "diff takes two reports, not also '%.60s'",
		                     argv[at + MS_DIFF_SIDES]);
	ret->files[MS_DIFF_OLD] = argv[at];
	ret->files[MS_DIFF_NEW] = argv[at + 1];
	return true;
}

void ms_diff_options_help(FILE *to)
{
	ms_args_help(to, &table);
}
