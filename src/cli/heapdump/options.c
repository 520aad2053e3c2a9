/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/heapdump/options.h"

#include <getopt.h>
#include <string.h>

#include "cli/args.h"

enum {
	OPTION_SYMBOLS = 256,
	OPTION_APP_SYMBOLS,
	OPTION_BY,
	OPTION_HTML,
	OPTION_JSON,
	OPTION_DEBUGINFOD
};

static const struct option longs[] = {
	{ "app-symbols", required_argument, NULL, OPTION_APP_SYMBOLS },
	{ "by", required_argument, NULL, OPTION_BY },
	{ "debuginfod", no_argument, NULL, OPTION_DEBUGINFOD },
	{ "format", required_argument, NULL, 'f' },
	{ "help", no_argument, NULL, 'h' },
	{ "html", no_argument, NULL, OPTION_HTML },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "output", required_argument, NULL, 'o' },
	{ "reverse", no_argument, NULL, 'r' },
	{ "symbols", required_argument, NULL, OPTION_SYMBOLS },
	{ "verbose", no_argument, NULL, 'v' },
	{ NULL, 0, NULL, 0 },
};

static const char usage[] =
	"Usage: memscan heapdump [OPTION]... FILE\n"
	"       memscan heapdump [OPTION]... OLD NEW\n"
	"Read a native heap dump of Android's Malloc Debug (v1.0, v1.1, v1.2), and print which\n"
	"calls hold how much memory, as Android's native_heapdump_viewer does. With two dumps,\n"
	"print what changed from OLD to NEW.\n\n"
	"  --symbols DIR          look in DIR for libraries with symbols, by their paths (default\n"
	"                         $ANDROID_PRODUCT_OUT/symbols, else ./symbols, else this machine\n"
	"                         itself, if the file is the very one that was mapped)\n"
	"  --app-symbols DIR      look in DIR first; libraries may also lie in DIR itself\n"
	"  --debuginfod           ask the servers in $DEBUGINFOD_URLS for debug files\n"
	"  -r, --reverse          start at the allocating function, not at the thread's first\n"
	"  --by stack|size        size: group by size of block first, then by stack\n"
	"  -f, --format text|html|folded|json\n"
	"                         format of the output (default text); folded: for flame graphs\n"
	"  --html, --json         same as --format html, --format json\n"
	"  -o, --output FILE      write the output to FILE, whole or not at all\n"
	"  -v, --verbose          facts about the dump on stderr; whole paths in HTML\n"
	"  -h, --help             print this help and exit\n\n"
	"Exit status: 0 printed, 2 usage error, 3 a dump could not be read or is damaged, 4 the\n"
	"output could not be written.\n";

static const char see_help[] =
	"usage: memscan heapdump [OPTION]... [OLD] FILE; see memscan heapdump --help";

static bool take_format(struct ms_heapdump_options *options, const char *name, struct ms_error *err)
{
	options->writer = ms_heapdump_writer_find(name);
	return options->writer ||
	       ms_args_wrong(err, see_help,
	                     "--format takes text, html, folded or json, not '%.60s'", name);
}

static bool take_by(struct ms_heapdump_options *options, const char *name, struct ms_error *err)
{
	options->by_size = strcmp(name, "size") == 0;
	return options->by_size || strcmp(name, "stack") == 0 ||
	       ms_args_wrong(err, see_help, "--by takes stack or size, not '%.60s'", name);
}

static bool take_name(const char **ret, const char *option, struct ms_error *err)
{
	*ret = optarg;
	return *optarg || ms_args_wrong(err, see_help, "%s takes a name", option);
}

/* @word: as the option was written. */
static bool take(struct ms_heapdump_options *options, int option, const char *word,
                 struct ms_error *err)
{
	switch (option) {
	case OPTION_SYMBOLS:
		return take_name(&options->symbols, "--symbols", err);
	case OPTION_APP_SYMBOLS:
		return take_name(&options->app_symbols, "--app-symbols", err);
	case OPTION_BY:
		return take_by(options, optarg, err);
	case OPTION_DEBUGINFOD:
		return options->debuginfod = true;
	case OPTION_HTML:
		return take_format(options, "html", err);
	case OPTION_JSON:
		return take_format(options, "json", err);
	case 'f':
		return take_format(options, optarg, err);
	case 'o':
		return take_name(&options->output, "--output", err);
	case 'r':
		return options->reversed = true;
	case 'v':
		return options->verbose = true;
	case 'h':
		return options->help = true;
	case ':':
		return ms_args_wrong(err, see_help, "%.60s takes an argument", word);
	default:
		return ms_args_wrong(err, see_help, "there is no option %.60s", word);
	}
}

static bool take_files(struct ms_heapdump_options *options, int n, char **words,
                       struct ms_error *err)
{
	if (n < 1)
		return ms_args_wrong(err, see_help, "no heap dump was given");
	if (n > 2)
		return ms_args_wrong(err, see_help,
		                     "heapdump takes one dump or two, not also '%.60s'", words[2]);
	options->n_files = (size_t)n;
	for (int i = 0; i < n; i++)
		options->files[i] = words[n - 1 - i];
	return true;
}

bool ms_heapdump_options_parse(int argc, char **argv, struct ms_heapdump_options *ret,
                               struct ms_error *err)
{
	struct ms_args args = { argc, argv, ":f:o:rvh", longs, NULL, false };
	int option;

	*ret = (struct ms_heapdump_options){ .writer = ms_heapdump_writer_find("text") };
	while ((option = ms_args_next(&args)) != -1) {
		if (!take(ret, option, args.word, err))
			return false;
		if (ret->help)
			return true;
	}
	return take_files(ret, argc - optind, argv + optind, err);
}

void ms_heapdump_options_help(FILE *to)
{
	(void)fputs(usage, to);
}
