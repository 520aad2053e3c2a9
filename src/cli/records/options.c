/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/records/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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
	"writes it here and on Android, and print what was allocated, what lived at the peak\n"
	"and what is left at the end, for how long blocks lived and which were resized.\n\n"
	"      --at TIME|peak     as it was at this moment: nanoseconds of the recording's own\n"
	"                         clock, or peak, when most bytes were live\n"
	"  -l, --limit N          entries of each list, 20 by default; all for every one\n"
	"  -f, --format text|json\n"
	"      --json             the same as --format json\n"
	"  -o, --output FILE      where the output goes, whole or not at all\n"
	"  -h, --help             print this and end\n\n"
	"Exit status: 0 printed, 2 the call was wrong, 3 the recording could not be read or is\n"
	"damaged, 4 the output could not be written.\n";

static bool __attribute__((format(printf, 2, 3))) wrong(struct ms_error *err, const char *fmt, ...)
{
	char text[MS_ERROR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)ms_fail(err, MS_E_UNSUPPORTED, "%s", text);
	ms_advise(err, "memscan records [OPTION]... FILE; see memscan records --help");
	return false;
}

static bool is_number(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno;
}

static bool take_format(struct ms_records_options *options, const char *name, struct ms_error *err)
{
	options->writer = ms_recording_writer_find(name);
	return options->writer || wrong(err, "--format takes text or json, not '%.60s'", name);
}

static bool take_at(struct ms_records_options *options, const char *text, struct ms_error *err)
{
	options->at_peak = strcmp(text, "peak") == 0;
	options->until.what = options->at_peak ? MS_UNTIL_END : MS_UNTIL_NS;
	return options->at_peak || is_number(text, &options->until.value) ||
	       wrong(err, "--at takes nanoseconds or peak, not '%.60s'", text);
}

static bool take_limit(struct ms_records_options *options, const char *text, struct ms_error *err)
{
	if (strcmp(text, "all") == 0) {
		options->limit = UINT64_MAX;
		return true;
	}
	return is_number(text, &options->limit) ||
	       wrong(err, "--limit takes a number or all, not '%.60s'", text);
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
		return take_limit(options, optarg, err);
	case 'o':
		options->output = optarg;
		return *optarg || wrong(err, "--output takes a name");
	case 'h':
		return options->help = true;
	case ':':
		return wrong(err, "%.60s takes an argument", word);
	default:
		return wrong(err, "there is no option %.60s", word);
	}
}

bool ms_records_options_parse(int argc, char **argv, struct ms_records_options *ret,
                              struct ms_error *err)
{
	*ret = (struct ms_records_options){ .writer = ms_recording_writer_find("text"),
		                            .limit = DEFAULT_LIMIT };
	optind = 0; /* begin anew */
	opterr = 0;
	for (;;) {
		/* With short options in one word, optind still is at that word. */
		int at = optind ? optind : 1;
		int option = getopt_long(argc, argv, ":f:l:o:h", longs, NULL);

		if (option == -1)
			break;
		if (option == ':' || option == '?')
			at = optind > at ? optind - 1 : at;
		if (!take(ret, option, at < argc ? argv[at] : "", err))
			return false;
		if (ret->help)
			return true;
	}
	if (optind == argc)
		return wrong(err, "no recording was given");
	if (optind + 1 < argc)
		return wrong(err, "one recording at a time: unexpected '%.60s'", argv[optind + 1]);
	ret->file = argv[optind];
	return true;
}

void ms_records_options_help(FILE *to)
{
	(void)fputs(usage, to);
}
