/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/newfile.h"
#include "cli/tell.h"

/* The reader of the caller's own FIFO may be about to come. */
enum { BUFFER_BYTES = 16 * 1024, READER_MS = 10000 };

struct ms_output_file {
	const char *path, *what;
	struct ms_newfile file;
};

/* A sink that writes to a descriptor in large pieces and remembers the first failure. */
struct fd_sink {
	struct ms_sink base; /* first: writers hand it back */
	int fd;
	int sys_errno;
	size_t used;
	char buffer[BUFFER_BYTES];
};

/* ---- why it cannot be written ---- */

static void tell_planted(const struct ms_output_file *to, struct ms_error *err)
{
	const struct stat *met = &to->file.old;

	(void)ms_fail(err, MS_E_SYS,
	              "cannot write the %s to %.120s: %s of user %u stands there or in its path, "
	              "in a folder that others may write to",
	              to->what, to->path, ms_newfile_kind(met->st_mode), (unsigned)met->st_uid);
	err->sys_errno = EPERM;
	ms_advise(err, "remove it, or give --output a name in a folder that only you may write to");
}

static enum ms_status unwritable(const struct ms_output_file *to, int sys_errno,
                                 struct ms_error *err)
{
	if (sys_errno == EPERM && to->file.old.st_nlink) {
		tell_planted(to, err);
		return MS_E_SYS;
	}
	(void)ms_fail_sys(err, sys_errno, "cannot write the %s to %.120s", to->what, to->path);
	if (sys_errno == ENXIO)
		ms_advise(err, "start a program that reads it, or give --output the name of a "
		               "file");
	else
		ms_advise(err, "give --output a file in a folder that has space and that you may "
		               "write to");
	return MS_E_SYS;
}

static enum ms_status unwritable_fd(int sys_errno, struct ms_error *err)
{
	if (ms_tell_has_left(sys_errno, err))
		return MS_E_SYS;
	(void)ms_fail_sys(err, sys_errno, "cannot write the report to standard output");
	ms_advise(err, "to write the report to a file use --output FILE");
	return MS_E_SYS;
}

/* ---- before anything else ---- */

static struct ms_newfile_call call_for(const struct ms_output_file *to)
{
	return (struct ms_newfile_call){ .path = to->path, .durable = true, .wait_ms = READER_MS };
}

enum ms_status ms_output_check_terminal(const char *path, int fd, bool no_text,
                                        struct ms_error *err)
{
	if (path || !no_text || !isatty(fd))
		return MS_OK;
	(void)ms_fail(err, MS_E_UNSUPPORTED, "this format is no text for a terminal");
	ms_advise(err, "give --output FILE, and that file to pprof");
	return MS_E_UNSUPPORTED;
}

enum ms_status ms_output_check(const char *path, struct ms_error *err)
{
	struct ms_output_file to = { .path = path, .what = "report" };
	const struct ms_newfile_call call = call_for(&to);
	int problem = path ? ms_newfile_check(&call, &to.file) : 0;

	return problem ? unwritable(&to, problem, err) : MS_OK;
}

/* ---- writing ---- */

static bool write_all(struct fd_sink *sink, const char *bytes, size_t len)
{
	if (sink->sys_errno == 0 && !ms_fd_write_all(sink->fd, bytes, len))
		sink->sys_errno = errno;
	return sink->sys_errno == 0;
}

static bool flush(struct fd_sink *sink)
{
	size_t used = sink->used;

	sink->used = 0;
	return write_all(sink, sink->buffer, used);
}

static bool sink_write(struct ms_sink *base, const char *bytes, size_t len)
{
	struct fd_sink *sink = (struct fd_sink *)base;

	if (len > BUFFER_BYTES - sink->used && !flush(sink))
		return false;
	if (len > BUFFER_BYTES)
		return write_all(sink, bytes, len);
	memcpy(sink->buffer + sink->used, bytes, len);
	sink->used += len;
	return true;
}

/* 0 or the errno that stopped it. */
static int write_to(int fd, const struct ms_printed *printed)
{
	struct fd_sink sink = { .base = { sink_write, printed->colour }, .fd = fd };
	bool written = printed->write(printed->what, &sink.base) && flush(&sink);

	if (!written && sink.sys_errno == 0)
		return ENOMEM;
	return sink.sys_errno;
}

/* To close it tells what a file system has kept back so far. */
static enum ms_status print_to_fd(int to, const struct ms_printed *printed, struct ms_error *err)
{
	int fd = fcntl(to, F_DUPFD_CLOEXEC, 0);
	int problem = fd < 0 ? errno : write_to(fd, printed);

	if (fd >= 0 && close(fd) != 0 && !problem)
		problem = errno;
	return problem ? unwritable_fd(problem, err) : MS_OK;
}

enum ms_status ms_output_print(const char *path, const struct ms_printed *printed,
                               struct ms_error *err)
{
	struct ms_output_file to = { .path = path, .what = "report" };
	const struct ms_newfile_call call = call_for(&to);
	int problem;

	if (!path)
		return print_to_fd(STDOUT_FILENO, printed, err);
	problem = ms_newfile_begin(&call, &to.file);
	if (problem)
		return unwritable(&to, problem, err);
	problem = write_to(to.file.fd, printed);
	to.file.old.st_nlink = 0; /* an EPERM is not of what was met before */
	if (problem)
		ms_newfile_cancel(&to.file);
	else
		problem = ms_newfile_commit(&to.file);
	return problem ? unwritable(&to, problem, err) : MS_OK;
}

/* ---- a file that others write to ---- */

/* Of a core parts are left out, and written to later. */
static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static enum ms_status begin(struct ms_output_file *file, struct ms_error *err)
{
	struct ms_newfile_call call = call_for(file);
	int problem;

	call.secret = true;
	problem = ms_newfile_check(&call, &file->file);

	/* Nobody waits for the reader of what would be refused. */
	if (!problem && file->file.exists && S_ISFIFO(file->file.old.st_mode))
		problem = ESPIPE;
	if (!problem)
		problem = ms_newfile_begin(&call, &file->file);
	if (!problem && is_regular(file->file.fd))
		return MS_OK;
	if (!problem)
		ms_newfile_cancel(&file->file);
	if (problem && problem != ESPIPE)
		return unwritable(file, problem, err);
	(void)ms_fail(err, MS_E_SYS, "cannot write the %s to %.120s: it is no regular file",
	              file->what, file->path);
	ms_advise(err, "give --output the name of a file");
	return MS_E_SYS;
}

enum ms_status ms_output_begin(const char *path, const char *what, struct ms_output_file **ret,
                               struct ms_error *err)
{
	struct ms_output_file *file = malloc(sizeof(*file));
	enum ms_status st;

	if (!file)
		return ms_fail(err, MS_E_NOMEM, "no memory for a file's name");
	file->path = path;
	file->what = what;
	st = begin(file, err);
	if (st)
		free(file);
	else
		*ret = file;
	return st;
}

int ms_output_fd(const struct ms_output_file *file)
{
	return file->file.fd;
}

void ms_output_cancel(struct ms_output_file *file)
{
	ms_newfile_cancel(&file->file);
	free(file);
}

enum ms_status ms_output_commit(struct ms_output_file *file, struct ms_error *err)
{
	int problem = ms_newfile_commit(&file->file);
	enum ms_status st = MS_OK;

	if (problem)
		st = unwritable(file, problem, err);
	free(file);
	return st;
}

/* ---- reports ---- */

struct written_report {
	const struct ms_writer *writer;
	const struct ms_report *report;
};

static bool write_report(const void *what, struct ms_sink *sink)
{
	const struct written_report *written = what;

	return written->writer->write(written->report, sink);
}

enum ms_status ms_output_write_fd(int fd, const struct ms_writer *writer,
                                  const struct ms_report *report, bool colour, struct ms_error *err)
{
	const struct written_report written = { writer, report };

	return print_to_fd(fd, &(struct ms_printed){ write_report, &written, colour }, err);
}

enum ms_status ms_output_write(const char *path, const struct ms_writer *writer,
                               const struct ms_report *report, bool colour, struct ms_error *err)
{
	const struct written_report written = { writer, report };

	return ms_output_print(path, &(struct ms_printed){ write_report, &written, colour }, err);
}

bool ms_output_is_coloured(enum ms_colour wanted, const char *path, int fd)
{
	const char *term = getenv("TERM");
	const char *refused = getenv("NO_COLOR"); /* https://no-color.org */

	switch (wanted) {
	case MS_COLOUR_ALWAYS:
		return true;
	case MS_COLOUR_NEVER:
		return false;
	case MS_COLOUR_AUTO:
		break;
	}
	return !path && isatty(fd) && !(refused && *refused) &&
	       !(term && strcmp(term, "dumb") == 0);
}
