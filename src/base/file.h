/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_FILE_H
#define MS_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "base/vec.h"

struct ms_bytes MS_VEC(char);

struct ms_walk;

/* The last part of a path; all of it when it ends in a slash. */
static inline const char *ms_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* The last @most bytes of a path, for a message: they say more than the first. */
static inline const char *ms_file_end(const char *path, size_t most)
{
	size_t len = strlen(path);

	return path + (len > most ? len - most : 0);
}

/*
 * Read all of @path, which may be a pipe, to @ret in @arena; at most 64 MiB.
 *
 * Returns MS_E_SYS with the reason; without memory, too.
 */
ms_must_check enum ms_status ms_file_read(const char *path, struct ms_arena *arena,
                                          struct ms_bytes *ret, struct ms_error *err);

/* The same, of at most @most bytes; MS_E_SYS (EFBIG) when there are more. */
ms_must_check enum ms_status ms_file_read_most(const char *path, size_t most,
                                               struct ms_arena *arena, struct ms_bytes *ret,
                                               struct ms_error *err);

/*
 * Open @path for reading when it is a regular file. Nothing else is opened, not even for a
 * moment: to open a pipe releases what waits at its other end, and a device may act.
 *
 * Returns the descriptor, or -1 with errno; EPERM for what is no regular file.
 */
int ms_file_open_regular(const char *path);

/*
 * The same of @path as a process has it whose root is @root: neither links nor ".." lead out of
 * there.
 */
int ms_file_open_below(const char *root, const char *path);

/* The same, where @walk is asked about each folder, link and file below @root. */
int ms_file_open_allowed(const char *root, const char *path, const struct ms_walk *walk);

/* The same of what @path_fd (O_PATH, or -1 with errno) stands for; closes that. */
int ms_file_reopen_regular(int path_fd);

/* Move exactly @len bytes. False with errno when that fails, which is 0 at an end of file. */
bool ms_fd_read_all(int fd, void *bytes, size_t len);
bool ms_fd_write_all(int fd, const void *bytes, size_t len);

/* A stream socket, and how to wait until it is ready for @events, of poll(). */
struct ms_fd_awaited {
	int fd;
	bool (*await)(void *ctx, short events); /* false: give up */
	void *ctx;
};

/* The same through that; a peer that is gone is no signal. */
bool ms_fd_await_read(const struct ms_fd_awaited *from, void *bytes, size_t len);
bool ms_fd_await_write(const struct ms_fd_awaited *to, const void *bytes, size_t len);

#endif
