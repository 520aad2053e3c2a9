/* SPDX-License-Identifier: Apache-2.0 */
#include "base/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DEPTH = 256, MOST_LINKS = 40 }; /* the kernel follows as many links */

/* Which file something is: what ".." has to lead back to. */
struct identity {
	dev_t dev;
	ino_t ino;
};

struct walking {
	const struct ms_walk *walk;
	int root;
	int at; /* where it is: a folder, or the file at the end; root or of its own */
	size_t depth;
	struct identity above[MOST_DEPTH]; /* of the folders from the root on */
	unsigned links;
	char rest[2 * PATH_MAX]; /* components to come, begins at @next */
	size_t next;
};

static int fail(int error)
{
	errno = error;
	return -1;
}

static struct identity identity_of(const struct stat *st)
{
	return (struct identity){ st->st_dev, st->st_ino };
}

/* Be at @fd, which becomes the walk's. */
static void move(struct walking *w, int fd)
{
	if (w->at != w->root)
		(void)close(w->at);
	w->at = fd;
}

static void return_to_root(struct walking *w)
{
	move(w, w->root);
	w->depth = 0;
}

/* A folder that was moved out of the root meanwhile has another parent. */
static int go_up(struct walking *w)
{
	const struct identity *parent;
	struct stat st;
	int fd;

	if (!w->depth)
		return 0;
	parent = &w->above[--w->depth];
	fd = openat(w->at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) != 0 || st.st_dev != parent->dev || st.st_ino != parent->ino) {
		(void)close(fd);
		return fail(EAGAIN);
	}
	move(w, fd);
	return 0;
}

/* Put the target of the link @fd in front of what is to come. */
static int follow(struct walking *w, int fd)
{
	char target[PATH_MAX];
	size_t rest_len = strlen(w->rest + w->next);
	ssize_t n = readlinkat(fd, "", target, sizeof(target));

	(void)close(fd);
	if (n < 0)
		return -1;
	if (++w->links > MOST_LINKS)
		return fail(ELOOP);
	if ((size_t)n + rest_len >= sizeof(w->rest))
		return fail(ENAMETOOLONG);
	/* What is to come is nothing, or begins with a slash. */
	memmove(w->rest + n, w->rest + w->next, rest_len + 1);
	memcpy(w->rest, target, (size_t)n);
	w->next = 0;
	if (n && target[0] == '/')
		return_to_root(w);
	return n ? 0 : fail(ENOENT);
}

static int go_down(struct walking *w, const char *name, bool last)
{
	int fd = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat here;
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) != 0 || fstat(w->at, &here) != 0 ||
	    (w->walk->allow && !w->walk->allow(w->walk->ctx, &st))) {
		(void)close(fd);
		return fail(EACCES);
	}
	if (S_ISLNK(st.st_mode))
		return follow(w, fd);
	if ((!last && !S_ISDIR(st.st_mode)) || w->depth == MOST_DEPTH) {
		(void)close(fd);
		return fail(w->depth == MOST_DEPTH ? ENAMETOOLONG : ENOTDIR);
	}
	w->above[w->depth++] = identity_of(&here);
	move(w, fd);
	return 0;
}

/* Take the next component; false when there is none. */
static bool take_component(struct walking *w, char name[NAME_MAX + 1], int *ret_error)
{
	size_t len;

	w->next += strspn(w->rest + w->next, "/");
	len = strcspn(w->rest + w->next, "/");
	*ret_error = len > NAME_MAX ? ENAMETOOLONG : 0;
	if (!len || *ret_error)
		return false;
	memcpy(name, w->rest + w->next, len);
	name[len] = '\0';
	w->next += len;
	return true;
}

static int walk_all(struct walking *w)
{
	char name[NAME_MAX + 1];
	int error;

	while (take_component(w, name, &error)) {
		int failed = 0;

		if (strcmp(name, "..") == 0)
			failed = go_up(w);
		else if (strcmp(name, ".") != 0)
			failed = go_down(w, name, !w->rest[w->next]);
		if (failed)
			return -1;
	}
	return error ? fail(error) : 0;
}

int ms_walk_open(const struct ms_walk *walk, int root, const char *path)
{
	struct walking w = { .walk = walk, .root = root, .at = root };
	size_t len = strlen(path);
	int error;

	if (len >= PATH_MAX)
		return fail(ENAMETOOLONG);
	memcpy(w.rest, path, len + 1);
	if (walk_all(&w) == 0)
		return w.at != root ? w.at : fcntl(root, F_DUPFD_CLOEXEC, 0);
	error = errno;
	move(&w, root);
	return fail(error);
}
