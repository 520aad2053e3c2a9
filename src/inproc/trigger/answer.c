/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/libc.h"
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

/*
 * Make the file @plain, or one of a name that cannot be guessed: in a folder that many may
 * write to, another user may have the plain name taken.
 */
static int make_file(const char *plain, char *ret_path, size_t size)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	unsigned long any;
	int fd;

	(void)snprintf(ret_path, size, "%s", plain);
	fd = open(ret_path, flags, 0600);
	if (fd >= 0 || errno != EEXIST ||
	    getrandom(&any, sizeof(any), GRND_NONBLOCK) != sizeof(any))
		return fd;
	(void)snprintf(ret_path, size, "%s.%lx", plain, any);
	return open(ret_path, flags, 0600);
}

bool ms_answer_open(const char *folder, pid_t pid, struct ms_answer *ret)
{
	int dir = open_folder(folder);
	char plain[MS_FOLDER_BYTES + 32];

	(void)snprintf(plain, sizeof(plain), "%s/.tombstone.%d", folder, (int)pid);
	(void)unlink(plain); /* of one that was killed */
	ret->is_file = false;
	ret->error = 0;
	ret->fd = dir < 0 ? -1 : connect_asker(dir, pid);
	if (dir >= 0)
		(void)close(dir);
	if (ret->fd >= 0)
		return true;
	ret->is_file = true;
	ret->fd = make_file(plain, ret->path, sizeof(ret->path));
	if (ret->fd >= 0)
		return true;
	ms_log("cannot write to the folder '%s': %s; set " MS_ENV_FOLDER " to another", folder,
	       explain(errno));
	return false;
}

static bool older(const struct stat *a, const struct stat *b)
{
	if (a->st_mtim.tv_sec != b->st_mtim.tv_sec)
		return a->st_mtim.tv_sec < b->st_mtim.tv_sec;
	return a->st_mtim.tv_nsec < b->st_mtim.tv_nsec;
}

static void name_file(const char *folder, int i, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%s/tombstone_%02d", folder, i);
}

/* In a folder that many may write to, the files of others are not ours to replace. */
static bool is_ours(const struct stat *file)
{
	return S_ISREG(file->st_mode) && (file->st_uid == geteuid() || geteuid() == 0);
}

/* Take a name that is free. Not all filesystems have links. */
static bool take_name(const char *path, const char *name)
{
	struct stat file;

	if (!link(path, name)) {
		(void)unlink(path);
		return true;
	}
	return errno != EEXIST && lstat(name, &file) && errno == ENOENT && !rename(path, name);
}

/* Take the first name that is free, or else that of the oldest file. Returns 0, or errno. */
static int give_name(const char *folder, const char *path, char *ret, size_t size)
{
	struct stat oldest = { 0 };
	int which = -1;

	for (int i = 0; i < FILES; i++) {
		struct stat file;

		name_file(folder, i, ret, size);
		if (take_name(path, ret))
			return 0;
		if (!lstat(ret, &file) && is_ours(&file) && (which < 0 || older(&file, &oldest))) {
			oldest = file;
			which = i;
		}
	}
	if (which < 0)
		return EEXIST;
	name_file(folder, which, ret, size);
	return rename(path, ret) ? errno : 0;
}

void ms_answer_close(const char *folder, struct ms_answer *answer)
{
	char name[sizeof(answer->path)];
	int error = answer->error;

	if (!answer->is_file) {
		/* It sees an answer without this as cut off. */
		if (!error)
			(void)send(answer->fd, "", 1, MSG_NOSIGNAL);
		(void)close(answer->fd);
		return;
	}
	(void)close(answer->fd);
	if (!error)
		error = give_name(folder, answer->path, name, sizeof(name));
	if (!error) {
		ms_log("Tombstone written to: %s", name);
		return;
	}
	ms_log("cannot write to the folder '%s': %s; set " MS_ENV_FOLDER " to another", folder,
	       explain(error));
	(void)unlink(answer->path);
}
