/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MS_BASE_WALK_H
#define MS_BASE_WALK_H

/*
 * Resolve a path component by component, below a folder, as a process does whose root is that
 * folder: absolute links begin there, and ".." does not lead out of it. Unlike openat2() with
 * RESOLVE_IN_ROOT this works on every kernel and asks about each component on the way.
 */

#include <stdbool.h>
#include <sys/stat.h>

struct ms_walk {
	/* Whether the walk may pass or end at this folder, link or file; NULL: at any. */
	bool (*allow)(const void *ctx, const struct stat *st);
	const void *ctx;
};

/*
 * Find @path below the folder @root, a descriptor that is borrowed.
 *
 * Returns a descriptor (O_PATH), or -1 with errno: EACCES when walk->allow() refused, ELOOP for
 * too many links, ENAMETOOLONG for too many components, EAGAIN when a folder was moved
 * meanwhile.
 */
int ms_walk_open(const struct ms_walk *walk, int root, const char *path);

#endif
