/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/heapdump/options.h"

#include <string.h>

#include "cli/args.h"

static const char usage[] =
	"Usage: memscan heapdump [OPTION]... FILE\n"
	"       memscan heapdump [OPTION]... OLD NEW\n"
	"Read a native heap dump of Android's Malloc Debug (v1.0, v1.1, v1.2), and print which\n"
	"calls hold how much memory, as Android's native_heapdump_viewer does. With two dumps,\n"
	"print what changed from OLD to NEW.\n";

static const char notes[] =
	"Exit status: 0 printed, 2 usage error, 3 a dump could not be read or is damaged, 4 the\n"
	"output could not be written.\n";

static const char see_help[] =
	"usage: memscan heapdump [OPTION]... [OLD] FILE; see memscan heapdump --help";

static bool take_format(void *to, const char *name, struct ms_error *err)
{
	struct ms_heapdump_options *options = to;

	options->writer = ms_heapdump_writer_find(name);
	return options->writer ||
	       ms_args_wrong(err, see_help,
	                     "--format takes text, html, folded, pprof or json, not '%.60s'", name);
}

static bool take_html(void *to, const char *arg, struct ms_error *err)
{
	(void)arg;
	return take_format(to, "html", err);
}

static bool take_json(void *to, const char *arg, struct ms_error *err)
{
	(void)arg;
	return take_format(to, "json", err);
}

static bool take_by(void *to, const char *name, struct ms_error *err)
{
	struct ms_heapdump_options *options = to;

	options->by_size = strcmp(name, "size") == 0;
	return options->by_size || strcmp(name, "stack") == 0 ||
	       ms_args_wrong(err, see_help, "--by takes stack or size, not '%.60s'", name);
}

static bool take_name(const char **ret, const char *name, const char *option, struct ms_error *err)
{
	*ret = name;
	return *name || ms_args_wrong(err, see_help, "%s takes a name", option);
}

static bool take_symbols(void *to, const char *name, struct ms_error *err)
{
	return take_name(&((struct ms_heapdump_options *)to)->symbols, name, "--symbols", err);
}

static bool take_app_symbols(void *to, const char *name, struct ms_error *err)
{
	return take_name(&((struct ms_heapdump_options *)to)->app_symbols, name, "--app-symbols",
	                 err);
}

static bool take_output(void *to, const char *name, struct ms_error *err)
{
	return take_name(&((struct ms_heapdump_options *)to)->output, name, "--output", err);
}

static const struct ms_option rows[] = {
	{ 0, "symbols", "DIR",
	  "look in DIR for libraries with symbols, by their paths\n"
	  "(default $ANDROID_PRODUCT_OUT/symbols, else ./symbols, else\n"
	  "this machine itself, if the file is the very one that was mapped)",
	  .take = take_symbols },
	{ 0, "app-symbols", "DIR", "look in DIR first; libraries may also lie in DIR itself",
	  .take = take_app_symbols },
	{ 0, "debuginfod", NULL, "ask the servers in $DEBUGINFOD_URLS for debug files",
	  .flag = offsetof(struct ms_heapdump_options, debuginfod) },
	{ 'r', "reverse", NULL, "start at the allocating function, not at the thread's first",
	  .flag = offsetof(struct ms_heapdump_options, reversed) },
	{ 0, "by", "stack|size", "size: group by size of block first, then by stack",
	  .take = take_by },
	{ 'f', "format", "text|html|folded|pprof|json",
	  "format of the output (default text); folded: for flame graphs", .take = take_format },
	{ 0, "html", NULL, "same as --format html", .take = take_html },
	{ 0, "json", NULL, "same as --format json", .take = take_json },
	{ 'o', "output", "FILE", "write the output to FILE, whole or not at all",
	  .take = take_output },
	{ 'v', "verbose", NULL, "facts about the dump on stderr; whole paths in HTML",
	  .flag = offsetof(struct ms_heapdump_options, verbose) },
	{ 'h', "help", NULL, "print this help and exit",
	  .flag = offsetof(struct ms_heapdump_options, help), .last = true },
};

static const struct ms_option_table table = {
	.command = "memscan heapdump",
	.usage = usage,
	.notes = notes,
	.see = see_help,
	.at = rows,
	.n = sizeof(rows) / sizeof(rows[0]),
};

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
	int at;

	*ret = (struct ms_heapdump_options){ .writer = ms_heapdump_writer_find("text") };
	at = ms_args_take(argc, argv, &table, ret, err);
	return at >= 0 && (ret->help || take_files(ret, argc - at, argv + at, err));
}

void ms_heapdump_options_help(FILE *to)
{
	ms_args_help(to, &table);
}
