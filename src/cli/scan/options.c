/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One table says all of an option: its names, its line of --help and which command takes it.
 * what takes the command line, and --help, are made from it (cli/args.h).
 */

#include "cli/scan/options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/workers.h"
#include "cli/args.h"
#include "report/version.h"

enum { DEFAULT_LIMIT = 100, DEFAULT_ENTRIES = 20, DEFAULT_TIMEOUT_S = 30, LONGEST_S = 24 * 3600 };

static const uint64_t second_ns = UINT64_C(1000000000);

static const char see_help[] = "see memscan --help";

static bool take_pid(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;
	uint64_t id = 0;

	if (!ms_args_number(arg, INT_MAX, &id) || id == 0)
		return ms_args_wrong(err, "give the number that ps shows, or use --name NAME",
		                     "--pid takes the number of a process, not '%s'", arg);
	options->id = (pid_t)id;
	return true;
}

static bool take_name(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	if (*arg == '\0')
		return ms_args_wrong(err, see_help, "--name takes the name of a process");
	options->name = arg;
	return true;
}

static bool take_core(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	options->core = arg;
	return *arg || ms_args_wrong(err, see_help, "--core takes the name of a file");
}

static bool take_exe(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	options->exe = arg;
	return *arg || ms_args_wrong(err, see_help, "--exe takes the name of a file");
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool take_root(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	options->root = arg;
	return is_folder(arg) ||
	       ms_args_wrong(err,
	                     "give the folder that has the other machine's files, as DIR/usr/lib",
	                     "--root takes a folder, which '%.100s' is not", arg);
}

static bool take_namespace(void *to, const char *arg, struct ms_error *err)
{
	((struct ms_options *)to)->ns = arg;
	return ms_args_namespace(arg, err);
}

static bool take_limit(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	options->has_limit = true;
	return ms_args_limit(arg, &options->scan.limit) ||
	       ms_args_wrong(err, see_help, "--limit takes a number or 'all', not '%s'", arg);
}

static bool take_min_size(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	return ms_args_number(arg, UINT64_MAX, &options->scan.min_size) ||
	       ms_args_wrong(err, see_help, "--min-size takes a number of bytes, not '%s'", arg);
}

static bool take_suppressions(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	if (*arg == '\0')
		return ms_args_wrong(err, see_help, "--suppressions takes the name of a file");
	if (options->n_suppressions == MS_SUPPRESSION_FILES)
		return ms_args_wrong(err, "put them into fewer files",
		                     "--suppressions was given more than %d times",
		                     MS_SUPPRESSION_FILES);
	options->suppressions[options->n_suppressions++] = arg;
	return true;
}

static bool take_debug_folder(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	if (!is_folder(arg))
		return ms_args_wrong(
			err, "give the folder in which .build-id is, or the debug files are",
			"--debug-dir takes a folder, which '%.100s' is not", arg);
	options->debug_folder = arg;
	return true;
}

/* Which of @n names @arg is; @n when it is none. */
static size_t find_name(const char *const *names, size_t n, const char *arg)
{
	size_t i = 0;

	while (i < n && strcmp(arg, names[i]) != 0)
		i++;
	return i;
}

static bool take_snapshot(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;
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

static bool take_jobs(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;
	uint64_t jobs = 0;

	if (!ms_args_number(arg, MS_WORKERS_MAX, &jobs) || jobs == 0)
		return ms_args_wrong(err, "give a number from 1 to 64, or omit --jobs",
		                     "--jobs takes a number of threads, not '%s'", arg);
	options->jobs = (unsigned)jobs;
	return true;
}

static bool take_format(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	options->writer = ms_writer_find(arg);
	return options->writer ||
	       ms_args_wrong(err, see_help,
	                     "--format takes text, json, html, folded or pprof, not '%s'", arg);
}

/* Of an answer to a question. */
static bool take_answer_format(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	options->writer = ms_answer_writer_find(arg) ? ms_writer_find(arg) : NULL;
	return options->writer ||
	       ms_args_wrong(err, see_help, "--format takes text or json, not '%s'", arg);
}

/* Of a profile. */
static bool take_live_format(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	options->writer = ms_live_writer_find(arg) ? ms_writer_find(arg) : NULL;
	return options->writer ||
	       ms_args_wrong(err, see_help, "--format takes text, json, folded or pprof, not '%s'",
	                     arg);
}

static bool take_json(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	(void)arg;
	return take_format(options, "json", err);
}

static bool take_output(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	if (*arg == '\0')
		return ms_args_wrong(
			err, "give a file name, or omit --output to write to standard output",
			"--output takes the name of a file");
	options->output = arg;
	return true;
}

static bool take_timeout(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	if (!ms_args_seconds(arg, LONGEST_S, &options->limit_ns))
		return ms_args_wrong(err, "give seconds, as 5 or 0.5, up to 86400",
		                     "--timeout takes a number of seconds, not '%s'", arg);
	options->timeout_ns = options->limit_ns;
	return true;
}

static bool take_confirm(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	options->confirm_ns = second_ns;
	return !arg || ms_args_seconds(arg, LONGEST_S, &options->confirm_ns) ||
	       ms_args_wrong(err, "give seconds, as --confirm=5 or --confirm=0.5, up to 86400",
	                     "--confirm takes a number of seconds, not '%s'", arg);
}

static bool take_error_status(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;
	uint64_t status = 0;

	if (!ms_args_number(arg, UCHAR_MAX, &status) || status == 0)
		return ms_args_wrong(
			err,
			"give a number from 1 to 255 that the program itself does not end with",
			"--error-exitcode takes an exit status, not '%s'", arg);
	options->error_status = (int)status;
	return true;
}

static bool take_quiet(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	(void)arg;
	(void)err;
	options->verbose = false;
	return options->quiet = true;
}

static bool take_verbose(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	(void)arg;
	(void)err;
	options->quiet = false;
	return options->verbose = true;
}

static bool take_colour(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;
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

static bool take_help(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	(void)arg;
	(void)err;
	options->request = MS_REQUEST_HELP;
	return true;
}

static bool take_version(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

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
	USE_WHY,  /* the same */
	USE_RETAINED,
	USE_ANSWER, /* why and retained */
	USE_PROFILE,
};

/* What to do instead under run. */
static const char *const not_in_run[] = {
	[USE_BOTH] = NULL,
	[USE_SCAN] = "omit it: run starts PROG itself and scans it just before it exits",
	[USE_LIVE] = "omit it: PROG stands still at its end, a second scan would find the same",
	[USE_RUN] = NULL,
	[USE_WHY] = NULL,
	[USE_RETAINED] = NULL,
	[USE_ANSWER] = NULL,
	[USE_PROFILE] = NULL,
};

static const struct ms_option rows[] = {
	{ 'p', "pid", "N", "the process; any of its threads' ids works", .take = take_pid,
	  .use = USE_SCAN },
	{ 0, "ns", "PID|FILE", "N of --pid is that of a pid namespace: of process PID, or FILE's",
	  .take = take_namespace, .use = USE_SCAN },
	{ 'n', "name", "NAME", "choose the process by name; there must be exactly one",
	  .take = take_name, .use = USE_SCAN },
	{ 0, "core", "FILE", "scan the core FILE in place of a process", .take = take_core,
	  .use = USE_SCAN },
	{ 0, "exe", "PATH", "the program that the core is of, if it is not where it was",
	  .take = take_exe, .use = USE_SCAN },
	{ 0, "root", "DIR", "the core is another machine's, whose files are in DIR",
	  .take = take_root, .use = USE_SCAN },
	{ 'l', "limit", "N|all", "leaks to list; totals always count all (default 100)",
	  .take = take_limit },
	{ 0, "no-fold", NULL, "list every unreachable block by itself, with its kind",
	  .flag = offsetof(struct ms_options, scan.no_fold) },
	{ 0, "no-merge", NULL, "list leaks of one signature one by one",
	  .flag = offsetof(struct ms_options, scan.no_merge) },
	{ 0, "contents", NULL, "hex and ASCII of the first 32 bytes of each leak",
	  .flag = offsetof(struct ms_options, scan.contents) },
	{ 0, "possible", NULL, "also list possible leaks, with the reason",
	  .flag = offsetof(struct ms_options, scan.possible) },
	{ 0, "confirm", "[=SECONDS]",
	  "scan again after 1 s, report only what is unreachable both times", .take = take_confirm,
	  .use = USE_LIVE },
	{ 0, "unaligned", NULL, "follow pointers at any byte offset, not only at words",
	  .flag = offsetof(struct ms_options, scan.unaligned) },
	{ 0, "strict-containers", NULL, "what C++ containers do not use keeps nothing alive",
	  .flag = offsetof(struct ms_options, scan.strict_containers) },
	{ 0, "min-size", "BYTES", "omit smaller leaks from the list (default 0)",
	  .take = take_min_size },
	{ 0, "heap", NULL, "also count all live blocks, by type and size",
	  .flag = offsetof(struct ms_options, scan.heap) },
	{ 0, "suppressions", "FILE", "suppress matching leaks (LeakSanitizer's format); repeatable",
	  .take = take_suppressions },
	{ 0, "debug-dir", "DIR", "also look for separate debug files in DIR",
	  .take = take_debug_folder },
	{ 0, "debuginfod", NULL, "ask the servers in $DEBUGINFOD_URLS for debug files",
	  .flag = offsetof(struct ms_options, debuginfod) },
	{ 0, "snapshot", "auto|fork|copy", "clone the process, or copy its memory (default auto)",
	  .take = take_snapshot, .use = USE_SCAN },
	{ 'j', "jobs", "N", "search with N threads (default: one per processor)",
	  .take = take_jobs },
	{ 'f', "format", "text|json|html|folded|pprof", "format of the report (default text)",
	  .take = take_format },
	{ 'f', "format", "text|json", "format of the answer (default text)",
	  .take = take_answer_format, .use = USE_ANSWER },
	{ 0, "json", NULL, "same as --format json", .take = take_json },
	{ 'o', "output", "FILE", "write the report to FILE, whole or not at all",
	  .take = take_output },
	{ 0, "timeout", "SECONDS", "give up after SECONDS (default: 30 to stop the process)",
	  .take = take_timeout, .use = USE_SCAN },
	{ 0, "error-exitcode", "N", "exit with N if there are leaks, else as the program did",
	  .take = take_error_status, .use = USE_RUN },
	{ 0, "follow", NULL, "also scan the processes that PROG forks",
	  .flag = offsetof(struct ms_options, follow), .use = USE_RUN },
	{ 0, "all", NULL, "list every root that leads there, the 20 nearest at most",
	  .flag = offsetof(struct ms_options, scan.question.all), .use = USE_WHY },
	{ 'l', "limit", "N|all", "entries of each list; totals always count all (default 20)",
	  .take = take_limit, .use = USE_RETAINED },
	{ 'l', "limit", "N|all", "stacks to list; totals always count all (default 100)",
	  .take = take_limit, .use = USE_PROFILE },
	{ 'f', "format", "text|json|folded|pprof", "format of the profile (default text)",
	  .take = take_live_format, .use = USE_PROFILE },
	{ 'q', "quiet", NULL, "no progress on stderr", .take = take_quiet },
	{ 'v', "verbose", NULL, "phases, warnings and evidence on stderr", .take = take_verbose },
	{ 0, "color", "auto|always|never", "colour the text report (default auto)",
	  .take = take_colour },
	{ 'h', "help", NULL, "print this help and exit", .take = take_help, .last = true },
	{ 0, "version", NULL, "print the version and exit", .take = take_version, .last = true },
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const char usage[] =
	"Usage: memscan [scan] [--pid] N [OPTION]...\n"
	"Report unreachable (leaked) heap memory of a running process. It needs no\n"
	"preparation, stands still for milliseconds and runs on.\n\n"
	"Other commands, each with its own --help:\n"
	"  memscan run [OPTION]... [--] PROG [ARG]...  run PROG, scan it just before it exits\n"
	"  memscan why --pid N ADDRESS|TYPE            print what keeps a block alive\n"
	"  memscan retained --pid N                    print what holds how much memory\n"
	"  memscan live --pid N                        print which calls allocated what lives\n"
	"  memscan diff [OPTION]... OLD NEW            print what leaked or grew between reports\n"
	"  memscan core [OPTION]... FILE               scan the core of a process\n"
	"  memscan dump [OPTION]... PID -o FILE        write a core of a running process\n"
	"  memscan stacks PID                          print the stack of every thread\n"
	"  memscan attach PID, memscan detach PID      sample backtraces of its allocations, or end\n"
	"  memscan trigger [--stacks] PID              ask a process to search itself\n"
	"  memscan heapdump [OPTION]... [OLD] FILE     read Android native heap dumps\n"
	"  memscan records [OPTION]... FILE            read recordings of malloc and free\n\n"
	"Options of a scan:";

static const char notes[] =
	"Sizes are usable sizes, as of malloc_usable_size(): malloc(20) counts as 24. Under\n"
	"libmalloc_debug.so they are the requested sizes.\n"
	"\nExit status: 0 no leaks, 1 leaks found, 2 usage error, 3 could not scan (stderr says\n"
	"why and what to do), 4 the report could not be written.\n";

static const char run_usage[] =
	"Usage: memscan run [OPTION]... [--] PROG [ARG]...\n"
	"Run PROG at full speed, and report its unreachable (leaked) heap memory just\n"
	"before it exits. The report goes to standard error, or to --output FILE, where\n"
	"%p in the name stands for the process id.\n";

static const char run_notes[] =
	"Sizes are usable sizes, as of malloc_usable_size(): malloc(20) counts as 24.\n"
	"\nExit status: that of PROG (127 not found, 126 cannot be executed), or N of\n"
	"--error-exitcode. If PROG was not started: 2 usage error, 3 PROG cannot be traced,\n"
	"4 the report cannot be written.\n";

static const char why_usage[] =
	"Usage: memscan why [OPTION]... --pid N ADDRESS|TYPE\n"
	"Print by which chain of references, root first, a block of a running process is\n"
	"kept alive; for a leaked block, which blocks point to it. ADDRESS is hexadecimal,\n"
	"anywhere in the block; TYPE the name of a type as reports print it, of which\n"
	"the largest blocks are looked at.\n";

static const char why_notes[] =
	"What consists of hexadecimal digits, one of them decimal, is an address, with 0x or\n"
	"without; '::abc1' is a type.\n"
	"\nExit status: 0 answered, 2 usage error, 3 could not scan, or no such block or type\n"
	"(stderr says why and what to do), 4 the answer could not be written.\n";

static const char retained_usage[] =
	"Usage: memscan retained [OPTION]... --pid N\n"
	"Print what holds the reachable heap memory of a running process: by root (a\n"
	"variable, a thread's stack or thread-local storage, the kernel), by type and by\n"
	"block, how much would be free without it, largest first, and the chain of blocks\n"
	"that leads to most of it. What several roots share is counted apart.\n";

static const char retained_notes[] =
	"What the roots hold and what they share is together all that is reachable. A list has\n"
	"10000 entries at most.\n"
	"\nExit status: 0 answered, 2 usage error, 3 could not scan (stderr says why and what to\n"
	"do), 4 the answer could not be written.\n";

static const char live_usage[] =
	"Usage: memscan live [OPTION]... --pid N\n"
	"Print which calls allocated the live heap memory of a running process whose\n"
	"allocations are sampled, how much as far as samples say, and how much of that is\n"
	"leaked; most bytes first.\n";

static const char live_notes[] =
	"An estimate comes with its standard error: in two of three cases the truth is no\n"
	"farther away.\n"
	"\nExit status: 0 answered, 2 usage error, 3 could not scan, or no samples (stderr says\n"
	"why and what to do), 4 the profile could not be written.\n";

static const char core_usage[] =
	"Usage: memscan core [OPTION]... FILE\n"
	"Report unreachable (leaked) heap memory of the process whose core FILE is: the\n"
	"kernel's, gcore's or systemd-coredump's, also compressed by zstd, lz4 or xz. What a\n"
	"core does not have is read from the programs and libraries that were mapped.\n";

/* Rows of a scan that the commands have, too, which answer a question about a process. */
static bool is_for_answer(const struct ms_option *row)
{
	static const char *const names[] = {
		"pid",   "name", "unaligned", "debug-dir",         "debuginfod", "snapshot",
		"jobs",  "json", "output",    "timeout",           "quiet",      "verbose",
		"color", "help", "version",   "strict-containers", "core",       "exe",
		"root",  "ns",
	};

	if (row->use > USE_LIVE)
		return row->use == USE_ANSWER;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(row->name, names[i]))
			return true;
	return false;
}

/* What a process is chosen by, or has done to it. */
static bool is_for_process(const struct ms_option *row)
{
	static const char *const names[] = { "pid", "ns", "name", "core", "confirm", "snapshot" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(row->name, names[i]))
			return true;
	return false;
}

static bool is_for(enum ms_scan_use use, const struct ms_option *row)
{
	switch (use) {
	case MS_USE_SCAN:
		return row->use <= USE_LIVE;
	case MS_USE_RUN:
		return row->use <= USE_RUN;
	case MS_USE_WHY:
		return row->use == USE_WHY || is_for_answer(row);
	case MS_USE_RETAINED:
		return row->use == USE_RETAINED || is_for_answer(row);
	case MS_USE_CORE:
		return row->use <= USE_LIVE && !is_for_process(row);
	case MS_USE_LIVE:
		break;
	}
	return row->use == USE_PROFILE || (row->use != USE_ANSWER && is_for_answer(row));
}

/* What the commands say of themselves. */
static const struct ms_option_table commands[] = {
	[MS_USE_SCAN] = { .command = "memscan", .usage = usage, .notes = notes },
	[MS_USE_RUN] = { .command = "memscan run",
	                 .usage = run_usage,
	                 .notes = run_notes,
	                 .leading = true },
	[MS_USE_WHY] = { .command = "memscan why", .usage = why_usage, .notes = why_notes },
	[MS_USE_RETAINED] = { .command = "memscan retained",
	                      .usage = retained_usage,
	                      .notes = retained_notes },
	[MS_USE_LIVE] = { .command = "memscan live", .usage = live_usage, .notes = live_notes },
	[MS_USE_CORE] = { .command = "memscan core", .usage = core_usage, .notes = notes },
};

/* The options of one of them; @ret_rows: where they are put. */
static struct ms_option_table table(enum ms_scan_use use, struct ms_option ret_rows[ROWS])
{
	struct ms_option_table ret = commands[use];

	ret.see = see_help;
	ret.at = ret_rows;
	for (size_t i = 0; i < ROWS; i++) {
		if (!is_for(use, &rows[i]))
			continue;
		ret_rows[ret.n] = rows[i];
		ret_rows[ret.n++].instead = use == MS_USE_RUN ? not_in_run[rows[i].use] : NULL;
	}
	return ret;
}

/* What is no option of a scan: a lone number is the process. */
static bool take_words(int n, char **words, struct ms_options *options, struct ms_error *err)
{
	static const char *const alone[] = {
		[MS_USE_SCAN] = "options of a scan begin with '-'; see memscan --help",
		[MS_USE_RETAINED] = "it takes a process alone: memscan retained --pid N",
		[MS_USE_LIVE] = "it takes a process alone: memscan live --pid N",
	};
	bool lone = n > 0 && !options->id && !options->name &&
	            words[0][strspn(words[0], "0123456789")] == '\0';

	if (lone && !take_pid(options, words[0], err))
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
	static const char how[] = "memscan why --pid N ADDRESS, or memscan why --pid N TYPE";
	const char *word = words[0];

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
		return take_core(options, words[0], err);
	return ms_args_wrong(err, "memscan core [OPTION]... FILE",
	                     n ? "more than one core was given" : "no core was given");
}

static bool take_all(int argc, char **argv, struct ms_options *options, struct ms_error *err)
{
	struct ms_option own[ROWS];
	struct ms_option_table all = table(options->use, own);
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
	.timeout_ns = DEFAULT_TIMEOUT_S * UINT64_C(1000000000),
};

static bool parse(enum ms_scan_use use, int argc, char **argv, struct ms_options *ret,
                  struct ms_error *err)
{
	struct ms_options options = defaults;

	options.writer = ms_writer_find("text");
	options.use = use;
	if (use == MS_USE_RETAINED)
		options.scan.limit = DEFAULT_ENTRIES;
	if (!take_all(argc, argv, &options, err))
		return false;
	if (options.writer->whole && !options.has_limit)
		options.scan.limit = UINT64_MAX;
	*ret = options;
	return true;
}

bool ms_options_parse_run(int argc, char **argv, struct ms_options *ret, struct ms_error *err)
{
	return parse(MS_USE_RUN, argc, argv, ret, err);
}

/* What can only be asked of a process. */
static bool check_core(const struct ms_options *options, struct ms_error *err)
{
	if (options->id || options->name)
		return ms_args_wrong(err, "scan the core, or the process",
		                     "--core and --%s exclude each other",
		                     options->id ? "pid" : "name");
	if (options->ns)
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
	if (options->core)
		return check_core(options, err);
	if (options->exe || options->root)
		return ms_args_wrong(err, "add --core FILE, or omit it", "--%s is for cores alone",
		                     options->exe ? "exe" : "root");
	if (options->request == MS_REQUEST_SCAN && !options->id && !options->name)
		return ms_args_wrong(err, choose, "no process was given");
	if (options->id && options->name)
		return ms_args_wrong(err, choose, "--pid and --name exclude each other");
	if (options->ns && options->name)
		return ms_args_wrong(err, "give the number that it has there, by --pid N",
		                     "--ns and --name exclude each other");
	return true;
}

bool ms_options_parse(int argc, char **argv, struct ms_options *ret, struct ms_error *err)
{
	struct ms_options options;

	if (!parse(MS_USE_SCAN, argc, argv, &options, err) ||
	    !check_chosen(&options, "say which process: memscan PID, or memscan --name NAME", err))
		return false;
	*ret = options;
	return true;
}

bool ms_options_parse_why(int argc, char **argv, struct ms_options *ret, struct ms_error *err)
{
	struct ms_options options;

	if (!parse(MS_USE_WHY, argc, argv, &options, err) ||
	    !check_chosen(&options, "say which process: memscan why --pid N ADDRESS|TYPE", err))
		return false;
	*ret = options;
	return true;
}

bool ms_options_parse_retained(int argc, char **argv, struct ms_options *ret, struct ms_error *err)
{
	struct ms_options options;

	if (!parse(MS_USE_RETAINED, argc, argv, &options, err) ||
	    !check_chosen(&options, "say which process: memscan retained --pid N", err))
		return false;
	options.scan.question.kind = MS_ASKED_RETAINED;
	options.scan.question.limit = options.scan.limit;
	*ret = options;
	return true;
}

bool ms_options_parse_live(int argc, char **argv, struct ms_options *ret, struct ms_error *err)
{
	struct ms_options options;

	if (!parse(MS_USE_LIVE, argc, argv, &options, err) ||
	    !check_chosen(&options, "say which process: memscan live --pid N", err))
		return false;
	options.scan.sites = true;
	*ret = options;
	return true;
}

bool ms_options_parse_core(int argc, char **argv, struct ms_options *ret, struct ms_error *err)
{
	return parse(MS_USE_CORE, argc, argv, ret, err);
}

static void help(FILE *to, enum ms_scan_use use)
{
	struct ms_option own[ROWS];
	struct ms_option_table all = table(use, own);

	ms_args_help(to, &all);
}

void ms_options_help(FILE *to)
{
	help(to, MS_USE_SCAN);
}

void ms_options_help_run(FILE *to)
{
	help(to, MS_USE_RUN);
}

void ms_options_help_why(FILE *to)
{
	help(to, MS_USE_WHY);
}

void ms_options_help_retained(FILE *to)
{
	help(to, MS_USE_RETAINED);
}

void ms_options_help_live(FILE *to)
{
	help(to, MS_USE_LIVE);
}

void ms_options_help_core(FILE *to)
{
	help(to, MS_USE_CORE);
}
