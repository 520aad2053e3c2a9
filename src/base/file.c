/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/syscalls.h"
#include "base/walk.h"

enum { PIECE = 64 * 1024, MOST = 64 * 1024 * 1024 };

/* Read on to the end: the length of a pipe is not known. Returns 0 or errno. */
static int read_all(int fd, size_t most, struct ms_arena *arena, struct ms_bytes *ret)
{
	for (;;) {
		ssize_t n;

		if (!ms_vec_reserve(arena, ret, ret->n + PIECE))
			return ENOMEM;
		n = read(fd, ret->at + ret->n, PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (n == 0)
			return 0;
		ret->n += (size_t)n;
		if (ret->n > most)
			return EFBIG;
	}
}

/* Whether the file says that it is longer, before a byte of it is read: it may be holes. */
static bool is_longer(int fd, size_t most)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > most;
}

enum ms_status ms_file_read(const char *path, struct ms_arena *arena, struct ms_bytes *ret,
                            struct ms_error *err)
{
	return ms_file_read_most(path, MOST, arena, ret, err);
}

enum ms_status ms_file_read_most(const char *path, size_t most, struct ms_arena *arena,
                                 struct ms_bytes *ret, struct ms_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int error = fd < 0 ? errno : 0;

	if (!error)
		error = is_longer(fd, most) ? EFBIG : read_all(fd, most, arena, ret);
	if (fd >= 0)
		(void)close(fd);
	return error ? ms_fail_sys(err, error, "cannot read %.120s", path) : MS_OK;
}

int ms_file_reopen_regular(int path_fd)
{
	char name[32];
	struct stat st;
	int fd = -1;
	int error;

	if (path_fd < 0)
		return -1;
	errno = EPERM;
	if (fstat(path_fd, &st) == 0 && S_ISREG(st.st_mode)) {
		(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	error = errno;
	(void)close(path_fd);
	errno = error;
	return fd;
}

int ms_file_open_regular(const char *path)
{
	return ms_file_reopen_regular(open(path, O_PATH | O_CLOEXEC));
}

/* Before Linux 5.6, and where a container's filter does not know the call, it walks by itself. */
static int find_below(int folder, const char *path)
{
	const struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, folder, path + strspn(path, "/"), &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return ms_walk_open(&(const struct ms_walk){ .allow = NULL }, folder, path);
	return (int)fd;
}

static int open_folder(const char *path)
{
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* What was @found in @folder, which is closed, is opened. */
static int reopen_found(int folder, int found)
{
	int error = errno;

	(void)close(folder);
	errno = error;
	return ms_file_reopen_regular(found);
}

int ms_file_open_below(const char *root, const char *path)
{
	int folder = open_folder(root);

	return folder < 0 ? -1 : reopen_found(folder, find_below(folder, path));
}

int ms_file_open_allowed(const char *root, const char *path, const struct ms_walk *walk)
{
	int folder = open_folder(root);

	return folder < 0 ? -1 : reopen_found(folder, ms_walk_open(walk, folder, path));
}

bool ms_fd_read_all(int fd, void *bytes, size_t len)
{
	char *at = bytes;

	while (len > 0) {
		ssize_t n = read(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = 0;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

bool ms_fd_write_all(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

bool ms_fd_await_read(const struct ms_fd_awaited *from, void *bytes, size_t len)
{
	char *at = bytes;

	while (len > 0) {
		ssize_t n;

		if (!from->await(from->ctx, POLLIN))
			return false;
		n = read(from->fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

bool ms_fd_await_write(const struct ms_fd_awaited *to, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n;

		if (!to->await(to->ctx, POLLOUT))
			return false;
		n = send(to->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}
