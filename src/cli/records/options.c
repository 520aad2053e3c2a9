/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/records/options.h"

#include <string.h>

#include "cli/args.h"

enum { DEFAULT_LIMIT = 20 };

static const char usage[] =
	"Usage: memscan records [OPTION]... FILE\n"
	"Read a recording of every malloc and free, as Malloc Debug's option record_allocs\n"
	"writes it here and on Android, and print what was allocated, what was live at the peak\n"
	"and at the end, how long blocks lived and which were resized.\n";

static const char notes[] =
	"Exit status: 0 printed, 2 usage error, 3 the recording could not be read or is damaged,\n"
	"4 the output could not be written.\n";

static const char see_help[] =
	"usage: memscan records [OPTION]... FILE; see memscan records --help";

static bool take_format(void *to, const char *name, struct ms_error *err)
{
	struct ms_records_options *options = to;

	options->writer = ms_recording_writer_find(name);
	return options->writer ||
	       ms_args_wrong(err, see_help, "--format takes text or json, not '%.60s'", name);
}

static bool take_json(void *to, const char *arg, struct ms_error *err)
{
	(void)arg;
	return take_format(to, "json", err);
}

static bool take_at(void *to, const char *text, struct ms_error *err)
{
	struct ms_records_options *options = to;

	options->at_peak = strcmp(text, "peak") == 0;
	options->until.what = options->at_peak ? MS_UNTIL_END : MS_UNTIL_NS;
	return options->at_peak || ms_args_number(text, UINT64_MAX, &options->until.value) ||
	       ms_args_wrong(err, see_help, "--at takes nanoseconds or peak, not '%.60s'", text);
}

static bool take_limit(void *to, const char *text, struct ms_error *err)
{
	struct ms_records_options *options = to;

	return ms_args_limit(text, &options->limit) ||
	       ms_args_wrong(err, see_help, "--limit takes a number or all, not '%.60s'", text);
}

static bool take_output(void *to, const char *name, struct ms_error *err)
{
	struct ms_records_options *options = to;

	options->output = name;
	return *name || ms_args_wrong(err, see_help, "--output takes a name");
}

static const struct ms_option rows[] = {
	{ 0, "at", "TIME|peak",
	  "the state at this moment: nanoseconds of the recording's own\n"
	  "clock, or peak, when most bytes were live (default: the end)",
	  .take = take_at },
	{ 'l', "limit", "N|all", "entries of each list (default 20)", .take = take_limit },
	{ 'f', "format", "text|json", "format of the output (default text)", .take = take_format },
	{ 0, "json", NULL, "same as --format json", .take = take_json },
	{ 'o', "output", "FILE", "write the output to FILE, whole or not at all",
	  .take = take_output },
	{ 'h', "help", NULL, "print this help and exit",
	  .flag = offsetof(struct ms_records_options, help), .last = true },
};

static const struct ms_option_table table = {
	.command = "memscan records",
	.usage = usage,
	.notes = notes,
	.see = see_help,
	.at = rows,
	.n = sizeof(rows) / sizeof(rows[0]),
};

bool ms_records_options_parse(int argc, char **argv, struct ms_records_options *ret,
                              struct ms_error *err)
{
	int at;

	*ret = (struct ms_records_options){ .writer = ms_recording_writer_find("text"),
		                            .limit = DEFAULT_LIMIT };
	at = ms_args_take(argc, argv, &table, ret, err);
	if (at < 0 || ret->help)
		return at >= 0;
	if (at == argc)
		return ms_args_wrong(err, see_help, "no recording was given");
	if (at + 1 < argc)
		return ms_args_wrong(err, see_help, "records takes one recording, not also '%.60s'",
		                     argv[at + 1]);
	ret->file = argv[at];
	return true;
}

void ms_records_options_help(FILE *to)
{
	ms_args_help(to, &table);
}
