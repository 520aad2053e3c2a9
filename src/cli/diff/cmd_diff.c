/* SPDX-License-Identifier: Apache-2.0 */

/* memscan diff: two reports, read back and compared. */
#include <stdio.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/diff/options.h"
#include "cli/output.h"
#include "cli/tell.h"
#include "report/json/reader.h"

#define MOST_BYTES (UINT64_C(4) << 30)

struct job {
	const struct ms_diff_options *options;
	struct ms_arena arena;
	struct ms_report reports[MS_DIFF_SIDES];
	struct ms_diff diff;
};

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
		st = ms_json_read_report(&(struct ms_json_file){ name, bytes.at, bytes.n },
		                         &job->arena, &job->reports[side], err);
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
	return ms_diff_make(&job->diff, &job->arena, err);
}

static bool write_diff(const void *what, struct ms_sink *sink)
{
	const struct job *job = what;

	return job->options->writer->write(&job->diff, sink);
}

static int failed(const struct ms_error *err, enum ms_exit status)
{
	ms_tell_error(err);
	return (int)status;
}

static int act(struct job *job)
{
	const char *output = job->options->output;
	struct ms_error err = { 0 };

	if (ms_output_check(output, &err))
		return failed(&err, MS_EXIT_UNWRITTEN);
	if (compare(job, &err))
		return failed(&err, MS_EXIT_REFUSED);
	if (ms_output_print(output, &(struct ms_printed){ write_diff, job, false }, &err))
		return failed(&err, MS_EXIT_UNWRITTEN);
	return ms_diff_grew(&job->diff) ? MS_EXIT_LEAKS : MS_EXIT_CLEAN;
}

int ms_cmd_diff(int argc, char **argv)
{
	struct ms_diff_options options;
	struct ms_error err = { 0 };
	struct job job = { .options = &options };
	int status;

	if (!ms_diff_options_parse(argc, argv, &options, &err))
		return failed(&err, MS_EXIT_USAGE);
	if (options.help) {
		ms_diff_options_help(stdout);
		return fflush(stdout) == 0 ? MS_EXIT_CLEAN : MS_EXIT_UNWRITTEN;
	}
	ms_arena_init(&job.arena);
	status = act(&job);
	ms_arena_deinit(&job.arena);
	return status;
}
