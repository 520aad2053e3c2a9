/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One table says all of an option: its names, its line of --help and which command takes it.
 * What takes the command line, and --help, are made from it (cli/args.h).
 */

#include "cli/scan/options/rows.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/workers.h"

enum { LONGEST_S = 24 * 3600 };

static const uint64_t second_ns = UINT64_C(1000000000);

static const char see_help[] = "see memscan --help";

bool ms_options_take_core(void *to, const char *arg, struct ms_error *err)
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

static bool take_root(void *to, const char *arg, struct ms_error *err)
{
	struct ms_options *options = to;

	options->root = arg;
	return ms_args_is_folder(arg) ||
	       ms_args_wrong(err,
	                     "give the folder that has the other machine's files, as DIR/usr/lib",
	                     "--root takes a folder, which '%.100s' is not", arg);
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

	return ms_args_size(arg, UINT64_MAX, &options->scan.min_size) ||
	       ms_args_wrong(err, "for example 4096, 4K or 1M",
	                     "--min-size takes a number of bytes, not '%s'", arg);
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

	if (!ms_args_is_folder(arg))
		return ms_args_wrong(
			err, "give the folder in which .build-id is, or the debug files are",
			"--debug-dir takes a folder, which '%.100s' is not", arg);
	options->debug_folder = arg;
	return true;
}

static bool take_snapshot(void *to, const char *arg, struct ms_error *err)
{
	return ms_args_snapshot(arg, &((struct ms_options *)to)->how) ||
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
	options->process.timeout_ns = options->limit_ns;
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
	static const char *const names[] = {
		[MS_COLOUR_AUTO] = "auto",
		[MS_COLOUR_ALWAYS] = "always",
		[MS_COLOUR_NEVER] = "never",
	};
	size_t which = ms_args_name(names, sizeof(names) / sizeof(names[0]), arg);

	((struct ms_options *)to)->colour = (enum ms_colour)which;
	return which < sizeof(names) / sizeof(names[0]) ||
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
	{ 'p', "pid", "N", "the process; any of its threads' ids works", .take = ms_args_take_id,
	  .use = USE_SCAN },
	{ 0, "ns", "PID|FILE", "N of --pid is that of a pid namespace: of process PID, or FILE's",
	  .take = ms_args_take_ns, .use = USE_SCAN },
	{ 'n', "name", "NAME", "choose the process by name; there must be exactly one",
	  .take = ms_args_take_name, .use = USE_SCAN },
	{ 0, "core", "FILE", "scan the core FILE in place of a process",
	  .take = ms_options_take_core, .use = USE_SCAN },
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

struct ms_option_table ms_options_table(enum ms_scan_use use,
                                        struct ms_option ret_rows[MS_OPTIONS_MOST])
{
	struct ms_option_table ret = ms_options_commands[use];

	static_assert(sizeof(rows) / sizeof(rows[0]) <= MS_OPTIONS_MOST, "room for all of them");
	ret.at = ret_rows;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!is_for(use, &rows[i]))
			continue;
		ret_rows[ret.n] = rows[i];
		ret_rows[ret.n++].instead = use == MS_USE_RUN ? not_in_run[rows[i].use] : NULL;
	}
	return ret;
}
