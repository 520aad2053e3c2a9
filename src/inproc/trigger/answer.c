/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/newfile.h"
#include "inproc/log.h"
#include "inproc/trigger/trigger.h"

enum { FILES = 32, PATIENCE_S = 10 };

/* strerror() may translate, for which it uses malloc; here that is not ours to use. */
static const char *explain(int error)
{
	const char *text = ms_error_text(error);

	return text ? text : "unknown error";
}

/* The listener was root or this user when it began to listen. */
static bool may_know(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

/* A socket to the process that waits for an answer, or -1. */
static int connect_asker(int folder, pid_t pid)
{
	/* The name of a socket is short, a folder's may be long. */
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const struct timeval patience = { PATIENCE_S, 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	(void)snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%d/" MS_ANSWER_SOCKET,
	               folder, (int)pid);
	/* It may stop reading; we do not wait for ever. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)&name, sizeof(name)) || !may_know(fd)) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static int open_folder(const char *folder)
{
	return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void log_unwritable(const char *folder, int error)
{
	ms_log("cannot write to the folder '%s': %s; set " MS_ENV_FOLDER " to another", folder,
	       explain(error));
}

bool ms_answer_open(const char *folder, pid_t pid, struct ms_answer *ret)
{
	int dir = open_folder(folder);
	int error;

	ret->is_file = false;
	ret->error = 0;
	ret->fd = dir < 0 ? -1 : connect_asker(dir, pid);
	if (dir >= 0)
		(void)close(dir);
	if (ret->fd >= 0)
		return true;
	ret->is_file = true;
	error = ms_newfile_begin_in(folder, &ret->file);
	ret->fd = ret->file.fd;
	if (error)
		log_unwritable(folder, error);
	return !error;
}

static bool older(const struct stat *a, const struct stat *b)
{
	if (a->st_mtim.tv_sec != b->st_mtim.tv_sec)
		return a->st_mtim.tv_sec < b->st_mtim.tv_sec;
	return a->st_mtim.tv_nsec < b->st_mtim.tv_nsec;
}

static void name_file(int i, char *ret, size_t size)
{
	(void)snprintf(ret, size, "tombstone_%02d", i);
}

/* In a folder that many may write to, the files of others are not ours to replace. */
static bool is_ours(const struct stat *file)
{
	return S_ISREG(file->st_mode) && (file->st_uid == geteuid() || geteuid() == 0);
}

/* Take the first name that is free, or else that of the oldest file. Returns 0, or errno. */
static int give_name(struct ms_newfile *to, char *ret, size_t size)
{
	struct stat oldest = { 0 };
	int which = -1;

	for (int i = 0; i < FILES; i++) {
		struct stat file;

		name_file(i, ret, size);
		if (!ms_newfile_take(to, ret))
			return 0;
		if (!fstatat(to->folder, ret, &file, AT_SYMLINK_NOFOLLOW) && is_ours(&file) &&
		    (which < 0 || older(&file, &oldest))) {
			oldest = file;
			which = i;
		}
	}
	if (which < 0)
		return EEXIST;
	name_file(which, ret, size);
	return ms_newfile_replace(to, ret);
}

void ms_answer_close(const char *folder, struct ms_answer *answer)
{
	int error = answer->error;
	char name[32];

	if (!answer->is_file) {
		/* It sees an answer without this as cut off. */
		if (!error)
			(void)send(answer->fd, "", 1, MSG_NOSIGNAL);
		(void)close(answer->fd);
		return;
	}
	if (!error)
		error = give_name(&answer->file, name, sizeof(name));
	ms_newfile_cancel(&answer->file); /* which has a name, unless that failed */
	if (error)
		log_unwritable(folder, error);
	else
		ms_log("Tombstone written to: %s/%s", folder, name);
}
