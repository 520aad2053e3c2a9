/* SPDX-License-Identifier: Apache-2.0 */

/* memscan records: recordings of malloc and free, replayed and printed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/records/options.h"
#include "cli/tell.h"

enum { PIECE = 64 * 1024 };

static const char give_file[] = "give a readable file that holds a recording";

struct job {
	const struct ms_records_options *options;
	struct ms_arena arena;
	struct ms_recording recording;
	int fd;
};

static enum ms_status unreadable(const struct job *job, struct ms_error *err)
{
	(void)ms_fail_sys(err, errno, "cannot read %.120s", job->options->file);
	ms_advise(err, "%s", give_file);
	return MS_E_SYS;
}

/* Replay the file from where it stands, from its first line on. */
static enum ms_status replay(struct job *job, struct ms_recording_reader *reader,
                             struct ms_error *err)
{
	enum ms_status st = ms_recording_begin(reader, err);
	char piece[PIECE];

	while (!st && !reader->stopped) {
		ssize_t n = read(job->fd, piece, sizeof(piece));

		if (n == 0)
			break;
		if (n > 0)
			st = ms_recording_feed(reader, piece, (size_t)n, err);
		else if (errno != EINTR)
			st = unreadable(job, err);
	}
	return st ? st : ms_recording_end(reader, err);
}

static struct ms_recording_reader reader_of(struct job *job, struct ms_recording *recording,
                                            struct ms_recording_until until)
{
	return (struct ms_recording_reader){ .recording = recording,
		                             .arena = &job->arena,
		                             .file = job->options->file,
		                             .until = until };
}

/* Where the peak is must be known before what lived then can be. */
static enum ms_status find_peak(struct job *job, struct ms_recording_until *ret,
                                struct ms_error *err)
{
	struct ms_recording whole = { 0 };
	struct ms_recording_reader reader = reader_of(job, &whole, *ret);
	enum ms_status st;

	if (lseek(job->fd, 0, SEEK_CUR) < 0) {
		(void)ms_fail_sys(err, errno, "cannot read %.120s twice", job->options->file);
		ms_advise(err, "--at peak reads the file twice: give a regular file, not a pipe");
		return MS_E_SYS;
	}
	st = replay(job, &reader, err);
	*ret = (struct ms_recording_until){ MS_UNTIL_LINE, whole.peak.line };
	ms_arena_deinit(&job->arena);
	if (!st && lseek(job->fd, 0, SEEK_SET) < 0)
		st = unreadable(job, err);
	return st;
}

static enum ms_status check_times(const struct job *job, const struct ms_recording_reader *reader,
                                  struct ms_error *err)
{
	if (reader->until.what != MS_UNTIL_NS || !reader->untimed)
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED, "%.120s has operations without times",
	              job->options->file);
	ms_advise(err, "use --at peak, or omit --at");
	return MS_E_UNSUPPORTED;
}

static enum ms_status read_recording(struct job *job, struct ms_error *err)
{
	struct ms_recording_until until = job->options->until;
	struct ms_recording_reader reader;
	enum ms_status st = MS_OK;

	if (job->options->at_peak)
		st = find_peak(job, &until, err);
	if (st)
		return st;
	reader = reader_of(job, &job->recording, until);
	st = replay(job, &reader, err);
	if (!st)
		st = check_times(job, &reader, err);
	return st ? st : ms_recording_list(&job->recording, job->options->limit, &job->arena, err);
}

static enum ms_status open_and_read(struct job *job, struct ms_error *err)
{
	enum ms_status st;

	job->fd = open(job->options->file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (job->fd < 0)
		return unreadable(job, err);
	st = read_recording(job, err);
	(void)close(job->fd);
	return st;
}

static bool write_recording(const void *what, struct ms_sink *sink)
{
	const struct job *job = what;

	return job->options->writer->write(&job->recording, sink);
}

static int act(struct job *job)
{
	const char *output = job->options->output;
	const char *const *warning;
	struct ms_error err = { 0 };

	if (ms_output_check(output, &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	if (open_and_read(job, &err))
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	ms_vec_for_each (warning, &job->recording.warnings)
		ms_tell("warning: %s: %s", job->options->file, *warning);
	if (ms_output_print(output, &(struct ms_printed){ write_recording, job, false }, &err))
		return ms_tell_failed(&err, MS_EXIT_UNWRITTEN);
	return MS_EXIT_CLEAN;
}

int ms_cmd_records(int argc, char **argv)
{
	struct ms_records_options options;
	struct ms_error err = { 0 };
	struct job job = { .options = &options };
	int status;

	if (!ms_records_options_parse(argc, argv, &options, &err))
		return ms_tell_failed(&err, MS_EXIT_USAGE);
	if (options.help) {
		ms_records_options_help(stdout);
		return fflush(stdout) == 0 ? MS_EXIT_CLEAN : MS_EXIT_UNWRITTEN;
	}
	ms_arena_init(&job.arena);
	status = act(&job);
	ms_arena_deinit(&job.arena);
	return status;
}
