/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "inproc/log.h"
#include "inproc/trigger/trigger.h"

enum { FILES = 32, PATIENCE_S = 10 };

/* Whoever listens was root or this user when it began to. */
static bool may_know(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

/* The descriptor of whoever waits for an answer, or -1. */
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

bool ms_answer_open(const char *folder, pid_t pid, struct ms_answer *ret)
{
	int dir = open_folder(folder);

	ret->is_file = false;
	ret->fd = dir < 0 ? -1 : connect_asker(dir, pid);
	if (dir >= 0)
		(void)close(dir);
	if (ret->fd >= 0)
		return true;
	ret->is_file = true;
	(void)snprintf(ret->path, sizeof(ret->path), "%s/.tombstone.%d", folder, (int)pid);
	(void)unlink(ret->path); /* of one that was killed */
	ret->fd = open(ret->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (ret->fd >= 0)
		return true;
	ms_log("cannot write to the folder '%s': %s; set " MS_ENV_FOLDER " to another", folder,
	       strerror(errno));
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

/* Take the first name that is free, or else that of the oldest file. */
static bool give_name(const char *folder, const char *path, char *ret, size_t size)
{
	struct stat oldest = { 0 };
	int which = -1;

	for (int i = 0; i < FILES; i++) {
		struct stat file;

		name_file(folder, i, ret, size);
		if (!link(path, ret)) {
			(void)unlink(path);
			return true;
		}
		if (!lstat(ret, &file) && (which < 0 || older(&file, &oldest))) {
			oldest = file;
			which = i;
		}
	}
	if (which < 0)
		return false;
	name_file(folder, which, ret, size);
	return !rename(path, ret);
}

void ms_answer_close(const char *folder, struct ms_answer *answer)
{
	char name[sizeof(answer->path)];

	(void)close(answer->fd);
	if (!answer->is_file)
		return;
	if (give_name(folder, answer->path, name, sizeof(name))) {
		ms_log("Tombstone written to: %s", name);
		return;
	}
	ms_log("cannot write to the folder '%s': %s", folder, strerror(errno));
	(void)unlink(answer->path);
}
