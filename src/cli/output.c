/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 16 * 1024, TEMP_TRIES = 100 };

/* What is behind a path; the temporary file's name is empty while there is none. */
struct place {
	bool special; /* exists and is no regular file: written in place */
	bool exists;
	struct stat old; /* when it does */
	char file[PATH_MAX];
	char temp[PATH_MAX];
};

/* A sink that writes to a descriptor in large pieces and remembers the first failure. */
struct fd_sink {
	struct ms_sink base; /* first: writers hand it back */
	int fd;
	int sys_errno;
	size_t used;
	char buffer[BUFFER_BYTES];
};

/* @path NULL: standard output. */
static enum ms_status unwritable_as(const char *what, const char *path, int sys_errno,
                                    struct ms_error *err)
{
	enum ms_status st = ms_fail_sys(err, sys_errno, "cannot write the %s to %.120s", what,
	                                path ? path : "standard output");

	if (path && sys_errno == EPERM)
		ms_advise(err, "the file belongs to another user and anyone may write to its "
		               "folder: choose another name");
	else if (path)
		ms_advise(err, "give --output a file in a folder that has space and that you may "
		               "write to");
	else
		ms_advise(err, "to write the report to a file use --output FILE");
	return st;
}

static enum ms_status unwritable(const char *path, int sys_errno, struct ms_error *err)
{
	return unwritable_as("report", path, sys_errno, err);
}

/*
 * Whether another user put the file into a folder that many write to: a report holds what
 * a process had in memory, and would be theirs.
 */
static bool is_planted(const struct place *place)
{
	const char *slash = strrchr(place->file, '/');
	char folder[PATH_MAX];
	struct stat st;

	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - place->file) + 1, place->file);
	return place->old.st_uid != geteuid() && !stat(folder, &st) && (st.st_mode & S_ISVTX) &&
	       place->old.st_uid != st.st_uid;
}

/* Follow @path to what it stands for, so that a link stays one and its target changes. */
static int locate(const char *path, struct place *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (stat(path, &ret->old) == 0) {
		ret->exists = true;
		ret->special = !S_ISREG(ret->old.st_mode);
		if (S_ISDIR(ret->old.st_mode))
			return EISDIR;
		if (access(path, W_OK) != 0)
			return errno;
		/* The name of an open pipe (/dev/stdout) is none in the file system. */
		if (!ret->special) {
			if (!realpath(path, ret->file))
				return errno;
			return is_planted(ret) ? EPERM : 0;
		}
	} else if (errno != ENOENT) {
		return errno;
	}
	(void)snprintf(ret->file, sizeof(ret->file), "%s", path);
	return strlen(path) < sizeof(ret->file) ? 0 : ENAMETOOLONG;
}

/* Make the temporary file beside place->file; its descriptor, or -1 with errno set. */
static int make_temp(struct place *place)
{
	const char *slash = strrchr(place->file, '/');
	int folder_len = slash ? (int)(slash - place->file) + 1 : 0;

	for (int i = 0; i < TEMP_TRIES; i++) {
		int len = snprintf(place->temp, sizeof(place->temp), "%.*s.memscan-%d-%d",
		                   folder_len, place->file, (int)getpid(), i);
		int fd;

		if (len < 0 || (size_t)len >= sizeof(place->temp)) {
			errno = ENAMETOOLONG;
			return -1;
		}
		fd = open(place->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
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
	struct place place;
	int problem;
	int fd;

	if (!path)
		return MS_OK;
	problem = locate(path, &place);
	if (problem)
		return unwritable(path, problem, err);
	if (place.special)
		return MS_OK;
	fd = make_temp(&place);
	if (fd < 0)
		return unwritable(path, errno, err);
	(void)close(fd);
	(void)unlink(place.temp);
	return MS_OK;
}

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

/* Write into @fd and close it; 0 or the errno that stopped it. */
static int write_and_close(int fd, const struct ms_printed *printed, bool durable)
{
	struct fd_sink sink = { .base = { sink_write, printed->colour }, .fd = fd };
	bool written = printed->write(printed->what, &sink.base) && flush(&sink);

	if (!written && sink.sys_errno == 0)
		sink.sys_errno = ENOMEM;
	if (written && durable && fsync(fd) != 0)
		sink.sys_errno = errno;
	if (close(fd) != 0 && sink.sys_errno == 0)
		sink.sys_errno = errno;
	return sink.sys_errno;
}

static int write_open(int to, const struct ms_printed *printed)
{
	int fd = fcntl(to, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? errno : write_and_close(fd, printed, false);
}

/* @flags: O_TRUNC, or none for what is no regular file */
static int write_in_place(const struct place *place, const struct ms_printed *printed, int flags)
{
	int fd = open(place->file, O_WRONLY | O_NOCTTY | O_CLOEXEC | flags);

	return fd < 0 ? errno : write_and_close(fd, printed, false);
}

/* The new file gets what the old one had, which may be more than root's default. */
static bool keep_owner_and_mode(int fd, const struct stat *old)
{
	if ((old->st_uid != geteuid() || old->st_gid != getegid()) &&
	    fchown(fd, old->st_uid, old->st_gid))
		return false;
	return !fchmod(fd, old->st_mode & 0777);
}

static int write_file(struct place *place, const struct ms_printed *printed)
{
	int fd = make_temp(place);
	int problem;

	if (fd < 0)
		return errno;
	if (place->exists && !keep_owner_and_mode(fd, &place->old)) {
		/* Not ours to give away; but ours to write to. */
		(void)close(fd);
		(void)unlink(place->temp);
		return write_in_place(place, printed, O_TRUNC);
	}
	problem = write_and_close(fd, printed, true);
	if (problem == 0 && rename(place->temp, place->file) != 0)
		problem = errno;
	if (problem)
		(void)unlink(place->temp);
	return problem;
}

static enum ms_status print_to_fd(int fd, const struct ms_printed *printed, struct ms_error *err)
{
	int problem = write_open(fd, printed);

	return problem ? unwritable(NULL, problem, err) : MS_OK;
}

enum ms_status ms_output_print(const char *path, const struct ms_printed *printed,
                               struct ms_error *err)
{
	struct place place;
	int problem;

	if (!path)
		return print_to_fd(STDOUT_FILENO, printed, err);
	problem = locate(path, &place);
	if (!problem && place.special)
		problem = write_in_place(&place, printed, 0);
	else if (!problem)
		problem = write_file(&place, printed);
	return problem ? unwritable(path, problem, err) : MS_OK;
}

struct ms_output_file {
	const char *path, *what;
	int fd;
	struct place place;
};

enum ms_status ms_output_begin(const char *path, const char *what, struct ms_output_file **ret,
                               struct ms_error *err)
{
	struct ms_output_file *file = malloc(sizeof(*file));
	int problem;

	if (!file)
		return ms_fail(err, MS_E_NOMEM, "no memory for a file's name");
	file->path = path;
	file->what = what;
	problem = locate(path, &file->place);
	if (!problem && file->place.special)
		problem = ESPIPE;
	if (!problem) {
		file->fd = make_temp(&file->place);
		problem = file->fd < 0 ? errno : 0;
	}
	if (!problem) {
		*ret = file;
		return MS_OK;
	}
	free(file);
	if (problem != ESPIPE)
		return unwritable_as(what, path, problem, err);
	(void)ms_fail(err, MS_E_SYS, "cannot write the %s to %.120s: it is no regular file", what,
	              path);
	ms_advise(err, "give --output the name of a file");
	return MS_E_SYS;
}

int ms_output_fd(const struct ms_output_file *file)
{
	return file->fd;
}

void ms_output_cancel(struct ms_output_file *file)
{
	(void)close(file->fd);
	(void)unlink(file->place.temp);
	free(file);
}

enum ms_status ms_output_commit(struct ms_output_file *file, struct ms_error *err)
{
	enum ms_status st = MS_OK;

	if (fsync(file->fd) != 0 || rename(file->place.temp, file->place.file) != 0)
		st = unwritable_as(file->what, file->path, errno, err);
	if (st) {
		ms_output_cancel(file);
		return st;
	}
	(void)close(file->fd);
	free(file);
	return MS_OK;
}

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
