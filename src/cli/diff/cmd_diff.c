/* SPDX-License-Identifier: Apache-2.0 */

/* memscan diff: two reports, read back and compared. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/diff/options.h"
#include "cli/output.h"
#include "cli/tell.h"
#include "report/diff/holders.h"
#include "report/json/walk.h"

#define MOST_BYTES (UINT64_C(4) << 30)

struct job {
	const struct ms_diff_options *options;
	struct ms_arena arena;
	struct ms_report reports[MS_DIFF_SIDES];
	struct ms_holders holders[MS_DIFF_SIDES];
	struct ms_diff diff;
};

static const char retained[] = "memscan.retained/1";

static bool is_of(const char *schema, const char *kind)
{
	return strncmp(schema, kind, strlen(kind)) == 0;
}

/* What is no report of a scan is one of memscan retained, or another command's output. */
static enum ms_status parse(struct job *job, int side, const struct ms_json_file *file,
                            struct ms_error *err)
{
	struct ms_json_schema schema = { "" };
	enum ms_status st = ms_json_schema_of(file, &schema, err);

	if (st)
		return st;
	if (is_of(schema.text, "memscan.retained/")) {
		job->diff.holders[side] = &job->holders[side];
		return ms_holders_read(file, &job->arena, &job->reports[side], &job->holders[side],
		                       err);
	}
	st = ms_json_read_report(file, &job->arena, &job->reports[side], err);
	if (is_of(schema.text, "memscan.heapdump/"))
		ms_advise(err, "to compare heap dumps: memscan heapdump OLD NEW");
	else if (st && !is_of(schema.text, "memscan.report/"))
		ms_advise(err, "give two reports as memscan --json, or memscan retained --json, "
		               "writes them");
	return st;
}

static enum ms_status check_pair(const struct job *job, struct ms_error *err)
{
	int odd = job->diff.holders[MS_DIFF_NEW] ? MS_DIFF_NEW : MS_DIFF_OLD;

	if (!job->diff.holders[MS_DIFF_OLD] == !job->diff.holders[MS_DIFF_NEW])
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED, "%.120s is a %s, and %.120s is none",
	              job->options->files[odd], retained,
	              job->options->files[odd == MS_DIFF_OLD ? MS_DIFF_NEW : MS_DIFF_OLD]);
	ms_advise(err, "compare two reports of one command");
	return MS_E_UNSUPPORTED;
}

/* The text of a report is not needed once it is read. */
static enum ms_status read_report(struct job *job, int side, struct ms_error *err)
{
	const char *name = job->options->files[side];
	struct ms_arena text = { 0 };
	struct ms_bytes bytes = { 0 };
	enum ms_status st = ms_file_read_most(name, MOST_BYTES, &text, &bytes, err);

	if (st)
		ms_advise(err, "give two reports, as memscan --json -o FILE writes them");
	else
		st = parse(job, side, &(struct ms_json_file){ name, bytes.at, bytes.n }, err);
	ms_arena_deinit(&text);
	return st;
}

static enum ms_status compare(struct job *job, struct ms_error *err)
{
	enum ms_status st;

	job->diff.limit = job->options->limit;
	for (int side = 0; side < MS_DIFF_SIDES; side++) {
		st = read_report(job, side, err);
		if (st)
			return st;
		job->diff.files[side] = job->options->files[side];
		job->diff.reports[side] = &job->reports[side];
	}
	st = check_pair(job, err);
	return st ? st : ms_diff_make(&job->diff, &job->arena, err);
}

static bool write_diff(const void *what, struct ms_sink *sink)
{
	const struct job *job = what;

	return job->options->writer->write(&job->diff, sink);
}

static int act(struct job *job)
{
	const char *output = job->options->output;
	struct ms_error err = { 0 };

	if (ms_output_check(output, &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	if (compare(job, &err))
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	if (ms_output_print(output, &(struct ms_printed){ write_diff, job, false }, &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	return ms_diff_grew(&job->diff) ? MS_EXIT_LEAKS : MS_EXIT_CLEAN;
}

int ms_cmd_diff(int argc, char **argv)
{
	struct ms_diff_options options;
	struct ms_error err = { 0 };
	struct job job = { .options = &options };
	int status;

	if (!ms_diff_options_parse(argc, argv, &options, &err))
		return ms_tell_failed(&err, MS_EXIT_USAGE);
	if (options.help) {
		ms_diff_options_help(stdout);
		return fflush(stdout) == 0 ? MS_EXIT_CLEAN : MS_EXIT_UNWRITTEN;
	}
	ms_arena_init(&job.arena);
	status = act(&job);
	ms_arena_deinit(&job.arena);
	return status;
}
