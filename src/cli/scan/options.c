/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One table says all of an option: its names, its line of --help and which command takes it.
 * getopt_long()'s own tables are made from it.
 */

#include "cli/scan/options.h"

#include <assert.h>
#include <getopt.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/workers.h"
#include "cli/args.h"
#include "report/version.h"

enum { DEFAULT_LIMIT = 100, DEFAULT_TIMEOUT_S = 30, LONGEST_S = 24 * 3600 };

static const uint64_t second_ns = UINT64_C(1000000000);

static const char see_help[] = "see memscan --help";

/* Each takes its option's argument (NULL when it has none); false when it is wrong. */
typedef bool (*option_taker)(struct ms_options *options, const char *arg, struct ms_error *err);

static bool take_pid(struct ms_options *options, const char *arg, struct ms_error *err)
{
	uint64_t id = 0;

	if (!ms_args_number(arg, INT_MAX, &id) || id == 0)
		return ms_args_wrong(err, "give the number that ps shows, or use --name NAME",
		                     "--pid takes the number of a process, not '%s'", arg);
	options->id = (pid_t)id;
	return true;
}

static bool take_name(struct ms_options *options, const char *arg, struct ms_error *err)
{
	if (*arg == '\0')
		return ms_args_wrong(err, see_help, "--name takes the name of a process");
	options->name = arg;
	return true;
}

static bool take_limit(struct ms_options *options, const char *arg, struct ms_error *err)
{
	return ms_args_limit(arg, &options->scan.limit) ||
	       ms_args_wrong(err, see_help, "--limit takes a number or 'all', not '%s'", arg);
}

static bool take_no_fold(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	return options->scan.no_fold = true;
}

static bool take_contents(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	return options->scan.contents = true;
}

static bool take_possible(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	return options->scan.possible = true;
}

static bool take_unaligned(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	return options->scan.unaligned = true;
}

static bool take_min_size(struct ms_options *options, const char *arg, struct ms_error *err)
{
	return ms_args_number(arg, UINT64_MAX, &options->scan.min_size) ||
	       ms_args_wrong(err, see_help, "--min-size takes a number of bytes, not '%s'", arg);
}

static bool take_suppressions(struct ms_options *options, const char *arg, struct ms_error *err)
{
	if (*arg == '\0')
		return ms_args_wrong(err, see_help, "--suppressions takes the name of a file");
	if (options->n_suppressions == MS_SUPPRESSION_FILES)
		return ms_args_wrong(err, "put them into fewer files",
		                     "--suppressions was given more than %d times",
		                     MS_SUPPRESSION_FILES);
	options->suppressions[options->n_suppressions++] = arg;
	return true;
}

static bool take_debug_folder(struct ms_options *options, const char *arg, struct ms_error *err)
{
	struct stat st;

	if (stat(arg, &st) != 0 || !S_ISDIR(st.st_mode))
		return ms_args_wrong(
			err, "give the folder in which .build-id is, or the debug files are",
			"--debug-dir takes a folder, which '%.100s' is not", arg);
	options->debug_folder = arg;
	return true;
}

static bool take_debuginfod(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	return options->debuginfod = true;
}

/* Which of @n names @arg is; @n when it is none. */
static size_t find_name(const char *const *names, size_t n, const char *arg)
{
	size_t i = 0;

	while (i < n && strcmp(arg, names[i]) != 0)
		i++;
	return i;
}

static bool take_snapshot(struct ms_options *options, const char *arg, struct ms_error *err)
{
	static const char *const names[] = {
		[MS_SNAPSHOT_AUTO] = "auto",
		[MS_SNAPSHOT_FORK] = "fork",
		[MS_SNAPSHOT_COPY] = "copy",
	};
	size_t n = sizeof(names) / sizeof(names[0]);

	options->how = (enum ms_snapshot_how)find_name(names, n, arg);
	return options->how < n ||
	       ms_args_wrong(err, see_help, "--snapshot takes auto, fork or copy, not '%s'", arg);
}

static bool take_jobs(struct ms_options *options, const char *arg, struct ms_error *err)
{
	uint64_t jobs = 0;

	if (!ms_args_number(arg, MS_WORKERS_MAX, &jobs) || jobs == 0)
		return ms_args_wrong(err, "give a number from 1 to 64, or omit --jobs",
		                     "--jobs takes a number of threads, not '%s'", arg);
	options->jobs = (unsigned)jobs;
	return true;
}

static bool take_format(struct ms_options *options, const char *arg, struct ms_error *err)
{
	options->writer = ms_writer_find(arg);
	return options->writer ||
	       ms_args_wrong(err, see_help, "--format takes text or json, not '%s'", arg);
}

static bool take_json(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	return take_format(options, "json", err);
}

static bool take_output(struct ms_options *options, const char *arg, struct ms_error *err)
{
	if (*arg == '\0')
		return ms_args_wrong(
			err, "give a file name, or omit --output to write to standard output",
			"--output takes the name of a file");
	options->output = arg;
	return true;
}

static bool take_timeout(struct ms_options *options, const char *arg, struct ms_error *err)
{
	if (!ms_args_seconds(arg, LONGEST_S, &options->limit_ns))
		return ms_args_wrong(err, "give seconds, as 5 or 0.5, up to 86400",
		                     "--timeout takes a number of seconds, not '%s'", arg);
	options->timeout_ns = options->limit_ns;
	return true;
}

static bool take_confirm(struct ms_options *options, const char *arg, struct ms_error *err)
{
	options->confirm_ns = second_ns;
	return !arg || ms_args_seconds(arg, LONGEST_S, &options->confirm_ns) ||
	       ms_args_wrong(err, "give seconds, as --confirm=5 or --confirm=0.5, up to 86400",
	                     "--confirm takes a number of seconds, not '%s'", arg);
}

static bool take_follow(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	return options->follow = true;
}

static bool take_error_status(struct ms_options *options, const char *arg, struct ms_error *err)
{
	uint64_t status = 0;

	if (!ms_args_number(arg, UCHAR_MAX, &status) || status == 0)
		return ms_args_wrong(
			err,
			"give a number from 1 to 255 that the program itself does not end with",
			"--error-exitcode takes an exit status, not '%s'", arg);
	options->error_status = (int)status;
	return true;
}

static bool take_quiet(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	options->verbose = false;
	return options->quiet = true;
}

static bool take_verbose(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	options->quiet = false;
	return options->verbose = true;
}

static bool take_colour(struct ms_options *options, const char *arg, struct ms_error *err)
{
	static const char *const names[] = {
		[MS_COLOUR_AUTO] = "auto",
		[MS_COLOUR_ALWAYS] = "always",
		[MS_COLOUR_NEVER] = "never",
	};
	size_t n = sizeof(names) / sizeof(names[0]);

	options->colour = (enum ms_colour)find_name(names, n, arg);
	return options->colour < n ||
	       ms_args_wrong(err, see_help, "--color takes auto, always or never, not '%s'", arg);
}

static bool take_help(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	options->request = MS_REQUEST_HELP;
	return true;
}

static bool take_version(struct ms_options *options, const char *arg, struct ms_error *err)
{
	(void)arg;
	(void)err;
	options->request = MS_REQUEST_VERSION;
	return true;
}

/* Which command an option belongs to. */
enum row_use {
	USE_BOTH,
	USE_SCAN, /* run starts its process and stops it at its end: refused with that reason */
	USE_LIVE, /* the same, because nothing happens any more at the end */
	USE_RUN,  /* scan does not know it */
};

/* What to do instead under run. */
static const char *const not_in_run[] = {
	[USE_SCAN] = "omit it: run starts PROG itself and scans it just before it exits",
	[USE_LIVE] = "omit it: PROG stands still at its end, a second scan would find the same",
};

static const struct option_row {
	int letter; /* 0 when it has none */
	enum row_use use;
	const char *name;
	const char *arg; /* NULL when it takes none */
	const char *help;
	option_taker take;
} rows[] = {
	{ 'p', USE_SCAN, "pid", "N", "the process; any of its threads' ids works", take_pid },
	{ 'n', USE_SCAN, "name", "NAME", "choose the process by name; there must be exactly one",
	  take_name },
	{ 'l', USE_BOTH, "limit", "N|all", "leaks to list; totals always count all (default 100)",
	  take_limit },
	{ 0, USE_BOTH, "no-fold", NULL, "list every unreachable block by itself, with its kind",
	  take_no_fold },
	{ 0, USE_BOTH, "contents", NULL, "hex and ASCII of the first 32 bytes of each leak",
	  take_contents },
	{ 0, USE_BOTH, "possible", NULL, "also list possible leaks, with the reason",
	  take_possible },
	{ 0, USE_LIVE, "confirm", "[=SECONDS]",
	  "scan again after 1 s, report only what is unreachable both times", take_confirm },
	{ 0, USE_BOTH, "unaligned", NULL, "follow pointers at any byte offset, not only at words",
	  take_unaligned },
	{ 0, USE_BOTH, "min-size", "BYTES", "omit smaller leaks from the list (default 0)",
	  take_min_size },
	{ 0, USE_BOTH, "suppressions", "FILE",
	  "suppress matching leaks (LeakSanitizer's format); repeatable", take_suppressions },
	{ 0, USE_BOTH, "debug-dir", "DIR", "also look for separate debug files in DIR",
	  take_debug_folder },
	{ 0, USE_BOTH, "debuginfod", NULL, "ask the servers in $DEBUGINFOD_URLS for debug files",
	  take_debuginfod },
	{ 0, USE_SCAN, "snapshot", "auto|fork|copy",
	  "clone the process, or copy its memory (default auto)", take_snapshot },
	{ 'j', USE_BOTH, "jobs", "N", "search with N threads (default: one per processor)",
	  take_jobs },
	{ 'f', USE_BOTH, "format", "text|json", "format of the report (default text)",
	  take_format },
	{ 0, USE_BOTH, "json", NULL, "same as --format json", take_json },
	{ 'o', USE_BOTH, "output", "FILE", "write the report to FILE, whole or not at all",
	  take_output },
	{ 0, USE_SCAN, "timeout", "SECONDS",
	  "give up after SECONDS (default: 30 to stop the process)", take_timeout },
	{ 0, USE_RUN, "error-exitcode", "N",
	  "exit with N if there are leaks, else as the program did", take_error_status },
	{ 0, USE_RUN, "follow", NULL, "also scan the processes that PROG forks", take_follow },
	{ 'q', USE_BOTH, "quiet", NULL, "no progress on stderr", take_quiet },
	{ 'v', USE_BOTH, "verbose", NULL, "phases, warnings and evidence on stderr", take_verbose },
	{ 0, USE_BOTH, "color", "auto|always|never", "colour the text report (default auto)",
	  take_colour },
	{ 'h', USE_BOTH, "help", NULL, "print this help and exit", take_help },
	{ 0, USE_BOTH, "version", NULL, "print the version and exit", take_version },
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]), CODE_BASE = UCHAR_MAX + 1 };

/* What getopt_long() returns for row i: a number beyond every letter. */
static void make_long_options(struct option ret[ROWS + 1], bool run)
{
	memset(ret, 0, (ROWS + 1) * sizeof(ret[0]));
	for (int i = 0; i < ROWS; i++) {
		if (rows[i].use == USE_RUN && !run)
			continue;
		ret->name = rows[i].name;
		ret->has_arg = !rows[i].arg            ? no_argument
		               : rows[i].arg[0] == '[' ? optional_argument
		                                       : required_argument;
		ret->val = CODE_BASE + i;
		ret++;
	}
}

/*
 * "+" first under run: what is behind the program is its own. ":" then: a missing
 * argument is reported as such; then each letter, ":" when it takes one.
 */
static void make_short_options(char ret[2 * ROWS + 3], bool run)
{
	if (run)
		*ret++ = '+';
	*ret++ = ':';
	for (int i = 0; i < ROWS; i++) {
		if (rows[i].letter == 0)
			continue;
		*ret++ = (char)rows[i].letter;
		if (rows[i].arg)
			*ret++ = ':';
	}
	*ret = '\0';
}

/* The row of what getopt_long() returned, or left in optopt: a code or a letter of ours. */
static const struct option_row *find_row(int code)
{
	int i = code - CODE_BASE;

	if (code < CODE_BASE) {
		for (i = 0; i < ROWS - 1 && rows[i].letter != code; i++)
			;
	}
	assert(i < ROWS && (code >= CODE_BASE || rows[i].letter == code));
	return &rows[i];
}

static bool unknown(const char *word, struct ms_error *err)
{
	if (optopt >= CODE_BASE)
		return ms_args_wrong(err, see_help, "--%s takes no argument",
		                     find_row(optopt)->name);
	if (optopt)
		return ms_args_wrong(err, see_help, "there is no option -%c", optopt);
	return ms_args_wrong(err, see_help, "there is no option %s, or it is ambiguous", word);
}

/* What is no option of a scan: a lone number is the process. */
static bool take_words(int n, char **words, struct ms_options *options, struct ms_error *err)
{
	bool lone = n > 0 && !options->id && !options->name &&
	            words[0][strspn(words[0], "0123456789")] == '\0';

	if (lone && !take_pid(options, words[0], err))
		return false;
	if (n == lone)
		return true;
	return ms_args_wrong(err, "options of a scan begin with '-'; see memscan --help",
	                     "'%s' is not an option", words[lone]);
}

static bool take_all(int argc, char **argv, struct ms_options *options, struct ms_error *err)
{
	struct option longs[ROWS + 1];
	char shorts[2 * ROWS + 3];
	const struct option_row *row;
	int code;

	make_long_options(longs, options->run);
	make_short_options(shorts, options->run);
	opterr = 0;
	optind = 0; /* GNU: begin anew, also when tests call us twice */
	while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (code == '?')
			return unknown(argv[optind - 1], err);
		if (code == ':')
			return ms_args_wrong(err, see_help, "--%s needs its argument, %s",
			                     find_row(optopt)->name, find_row(optopt)->arg);
		row = find_row(code);
		if (options->run && (row->use == USE_SCAN || row->use == USE_LIVE))
			return ms_args_wrong(err, not_in_run[row->use],
			                     "--%s is not for memscan run", row->name);
		if (!row->take(options, optarg, err))
			return false;
		if (options->request != MS_REQUEST_SCAN)
			return true;
	}
	if (options->run) {
		options->program = argv + optind;
		return optind < argc ||
		       ms_args_wrong(err, "say which: memscan run [OPTION]... -- PROG [ARG]...",
		                     "no program was given");
	}
	return take_words(argc - optind, argv + optind, options, err);
}

static const struct ms_options defaults = {
	.scan.limit = DEFAULT_LIMIT,
	.timeout_ns = DEFAULT_TIMEOUT_S * UINT64_C(1000000000),
};

bool ms_options_parse_run(int argc, char **argv, struct ms_options *ret, struct ms_error *err)
{
	struct ms_options options = defaults;

	options.writer = ms_writer_find("text");
	options.run = true;
	if (!take_all(argc, argv, &options, err))
		return false;
	*ret = options;
	return true;
}

bool ms_options_parse(int argc, char **argv, struct ms_options *ret, struct ms_error *err)
{
	static const char choose[] = "say which process: memscan PID, or memscan --name NAME";
	struct ms_options options = defaults;

	options.writer = ms_writer_find("text");
	if (!take_all(argc, argv, &options, err))
		return false;
	if (options.request == MS_REQUEST_SCAN && !options.id && !options.name)
		return ms_args_wrong(err, choose, "no process was given");
	if (options.id && options.name)
		return ms_args_wrong(err, choose, "--pid and --name exclude each other");
	*ret = options;
	return true;
}

static bool is_listed(const struct option_row *row, bool run)
{
	return row->use == USE_BOTH || (row->use == USE_RUN) == run;
}

static void list_options(FILE *to, bool run)
{
	for (int i = 0; i < ROWS; i++) {
		char left[40];

		if (!is_listed(&rows[i], run))
			continue;
		(void)snprintf(left, sizeof(left), "--%s%s%s", rows[i].name,
		               rows[i].arg && rows[i].arg[0] != '[' ? " " : "",
		               rows[i].arg ? rows[i].arg : "");
		(void)fprintf(to, "  %c%c%s %-25s  %s\n", rows[i].letter ? '-' : ' ',
		              rows[i].letter ? rows[i].letter : ' ', rows[i].letter ? "," : " ",
		              left, rows[i].help);
	}
}

void ms_options_help(FILE *to)
{
	(void)fputs(
		"Usage: memscan [scan] [--pid] N [OPTION]...\n"
		"Report unreachable (leaked) heap memory of a running process. It needs no\n"
		"preparation, stands still for milliseconds and runs on.\n\n"
		"Other commands, each with its own --help:\n"
		"  memscan run [OPTION]... [--] PROG [ARG]...  run PROG, scan it just before it exits\n"
		"  memscan stacks PID                          print the stack of every thread\n"
		"  memscan trigger [--stacks] PID              ask a process to search itself\n"
		"  memscan heapdump [OPTION]... [OLD] FILE     read Android native heap dumps\n"
		"  memscan records [OPTION]... FILE            read recordings of malloc and free\n\n"
		"Options of a scan:\n",
		to);
	list_options(to, false);
	(void)fputs(
		"\nSizes are usable sizes, as of malloc_usable_size(): malloc(20) counts as 24. Under\n"
		"libmalloc_debug.so they are the requested sizes.\n"
		"\nExit status: 0 no leaks, 1 leaks found, 2 usage error, 3 could not scan (stderr says\n"
		"why and what to do), 4 the report could not be written.\n",
		to);
}

void ms_options_help_run(FILE *to)
{
	(void)fputs(
		"Usage: memscan run [OPTION]... [--] PROG [ARG]...\n"
		"Run PROG at full speed, and report its unreachable (leaked) heap memory just\n"
		"before it exits. The report goes to standard error, or to --output FILE, where\n"
		"%p in the name stands for the process id.\n\n",
		to);
	list_options(to, true);
	(void)fputs(
		"\nSizes are usable sizes, as of malloc_usable_size(): malloc(20) counts as 24.\n"
		"\nExit status: that of PROG (127 not found, 126 cannot be executed), or N of\n"
		"--error-exitcode. If PROG was not started: 2 usage error, 3 PROG cannot be traced,\n"
		"4 the report cannot be written.\n",
		to);
}
