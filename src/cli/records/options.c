/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/records/options.h"

#include <getopt.h>
#include <string.h>

#include "cli/args.h"

enum { OPTION_AT = 256, OPTION_JSON, DEFAULT_LIMIT = 20 };

static const struct option longs[] = {
	{ "at", required_argument, NULL, OPTION_AT },
	{ "format", required_argument, NULL, 'f' },
	{ "help", no_argument, NULL, 'h' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "limit", required_argument, NULL, 'l' },
	{ "output", required_argument, NULL, 'o' },
	{ NULL, 0, NULL, 0 },
};

static const char usage[] =
	"Usage: memscan records [OPTION]... FILE\n"
	"Read a recording of every malloc and free, as Malloc Debug's option record_allocs\n"
	"writes it here and on Android, and print what was allocated, what was live at the peak\n"
	"and at the end, how long blocks lived and which were resized.\n\n"
	"      --at TIME|peak     the state at this moment: nanoseconds of the recording's own\n"
	"                         clock, or peak, when most bytes were live (default: the end)\n"
	"  -l, --limit N|all      entries of each list (default 20)\n"
	"  -f, --format text|json format of the output (default text)\n"
	"      --json             same as --format json\n"
	"  -o, --output FILE      write the output to FILE, whole or not at all\n"
	"  -h, --help             print this help and exit\n\n"
	"Exit status: 0 printed, 2 usage error, 3 the recording could not be read or is damaged,\n"
	"4 the output could not be written.\n";

static const char see_help[] =
	"usage: memscan records [OPTION]... FILE; see memscan records --help";

static bool take_format(struct ms_records_options *options, const char *name, struct ms_error *err)
{
	options->writer = ms_recording_writer_find(name);
	return options->writer ||
	       ms_args_wrong(err, see_help, "--format takes text or json, not '%.60s'", name);
}

static bool take_at(struct ms_records_options *options, const char *text, struct ms_error *err)
{
	options->at_peak = strcmp(text, "peak") == 0;
	options->until.what = options->at_peak ? MS_UNTIL_END : MS_UNTIL_NS;
	return options->at_peak || ms_args_number(text, UINT64_MAX, &options->until.value) ||
	       ms_args_wrong(err, see_help, "--at takes nanoseconds or peak, not '%.60s'", text);
}

/* @word: as the option was written. */
static bool take(struct ms_records_options *options, int option, const char *word,
                 struct ms_error *err)
{
	switch (option) {
	case OPTION_AT:
		return take_at(options, optarg, err);
	case OPTION_JSON:
		return take_format(options, "json", err);
	case 'f':
		return take_format(options, optarg, err);
	case 'l':
		return ms_args_limit(optarg, &options->limit) ||
		       ms_args_wrong(err, see_help, "--limit takes a number or all, not '%.60s'",
		                     optarg);
	case 'o':
		options->output = optarg;
		return *optarg || ms_args_wrong(err, see_help, "--output takes a name");
	case 'h':
		return options->help = true;
	case ':':
		return ms_args_wrong(err, see_help, "%.60s takes an argument", word);
	default:
		return ms_args_wrong(err, see_help, "there is no option %.60s", word);
	}
}

bool ms_records_options_parse(int argc, char **argv, struct ms_records_options *ret,
                              struct ms_error *err)
{
	struct ms_args args = { argc, argv, ":f:l:o:h", longs, NULL, false };
	int option;

	*ret = (struct ms_records_options){ .writer = ms_recording_writer_find("text"),
		                            .limit = DEFAULT_LIMIT };
	while ((option = ms_args_next(&args)) != -1) {
		if (!take(ret, option, args.word, err))
			return false;
		if (ret->help)
			return true;
	}
	if (optind == argc)
		return ms_args_wrong(err, see_help, "no recording was given");
	if (optind + 1 < argc)
		return ms_args_wrong(err, see_help, "records takes one recording, not also '%.60s'",
		                     argv[optind + 1]);
	ret->file = argv[optind];
	return true;
}

void ms_records_options_help(FILE *to)
{
	(void)fputs(usage, to);
}
