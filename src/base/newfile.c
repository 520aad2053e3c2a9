/* SPDX-License-Identifier: Apache-2.0 */
#include "base/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"

enum { MOST_LINKS = 40, TEMP_TRIES = 100 };

static const uint64_t tick_ns = 10 * UINT64_C(1000000);
static const uint64_t ms_in_ns = UINT64_C(1000000);

/* ---- whose it is ---- */

static bool is_trusted(uid_t owner)
{
	return owner == 0 || owner == geteuid();
}

/*
 * Whether others may give names in that folder. The owner of the root folder, whom a user
 * namespace may have no number for, rules over every name.
 */
static bool is_shared(const struct stat *folder)
{
	struct stat root;

	if (folder->st_mode & (S_IWGRP | S_IWOTH))
		return true;
	return !is_trusted(folder->st_uid) && (stat("/", &root) || root.st_uid != folder->st_uid);
}

/* Devices that keep nothing, or are this process's own terminal. */
static bool is_harmless(const struct stat *st)
{
	return S_ISCHR(st->st_mode) &&
	       (st->st_rdev == makedev(1, 3) || st->st_rdev == makedev(1, 7) ||
	        st->st_rdev == makedev(5, 0));
}

/* By a second link to what is root's anyone can plant that, too; a file would be replaced. */
static bool is_planted(const struct stat *st)
{
	if (is_harmless(st))
		return false;
	return !is_trusted(st->st_uid) ||
	       (st->st_nlink > 1 && !S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode));
}

const char *ms_newfile_kind(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFIFO:
		return "a FIFO";
	case S_IFSOCK:
		return "a socket";
	case S_IFLNK:
		return "a link";
	case S_IFCHR:
	case S_IFBLK:
		return "a device";
	default:
		return "a file";
	}
}

/* ---- the way to it ---- */

struct walk {
	struct ms_newfile *file;
	int links;
	bool as_folder; /* the last part is a folder, too */
	bool no_link;
	char rest[PATH_MAX];
};

/* @folder is the one to go on from; -1 with errno. */
static int enter(struct ms_newfile *file, int folder)
{
	struct stat st;

	if (folder < 0)
		return errno;
	if (file->folder >= 0)
		(void)close(file->folder);
	file->folder = folder;
	if (fstat(folder, &st))
		return errno;
	file->shared = is_shared(&st);
	return 0;
}

static int enter_at(struct ms_newfile *file, const char *name, int flags)
{
	return enter(file, openat(file->folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC | flags));
}

static bool is_in_proc(int folder)
{
	struct statfs fs;

	return fstatfs(folder, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* Cut the first part off what is left of the path. Returns whether it is the last. */
static bool cut(struct walk *w, char name[MS_NEWFILE_NAME])
{
	const char *from = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(from, "/");

	(void)snprintf(name, MS_NEWFILE_NAME, "%.*s", (int)len, from);
	memmove(w->rest, from + len, strlen(from + len) + 1);
	return !w->rest[0] && !w->as_folder;
}

/* Put where the link leads in front of the rest. */
static int follow(struct walk *w, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(w->file->folder, name, target, sizeof(target));
	size_t len = strlen(w->rest);

	if (n <= 0)
		return n ? errno : ENOENT;
	if (++w->links > MOST_LINKS)
		return ELOOP;
	if ((size_t)n + len >= sizeof(w->rest))
		return ENAMETOOLONG;
	memmove(w->rest + n, w->rest, len + 1);
	memcpy(w->rest, target, (size_t)n);
	return w->rest[0] == '/' ? enter_at(w->file, "/", 0) : 0;
}

/* A link, which is not the end of the path unless it is one of /proc. */
static int pass_link(struct walk *w, const char *name, bool last)
{
	struct ms_newfile *file = w->file;

	if (last && w->no_link)
		return ELOOP;
	if (is_in_proc(file->folder)) {
		file->exists = last;
		return last ? 0 : enter_at(file, name, 0);
	}
	if (file->shared && is_planted(&file->old))
		return EPERM;
	return follow(w, name);
}

/* @name is of a folder, or is the last. */
static int pass(struct walk *w, const char *name, bool last)
{
	struct ms_newfile *file = w->file;

	if (last && (!strcmp(name, ".") || !strcmp(name, "..")))
		return EISDIR;
	if (fstatat(file->folder, name, &file->old, AT_SYMLINK_NOFOLLOW)) {
		int error = errno;

		file->old.st_nlink = 0;
		return last && error == ENOENT ? 0 : error;
	}
	if (S_ISLNK(file->old.st_mode))
		return pass_link(w, name, last);
	if (!last)
		return enter_at(file, name, O_NOFOLLOW);
	file->exists = true;
	return S_ISDIR(file->old.st_mode) ? EISDIR : 0;
}

/* Find the folder of @path, and its name there. */
static int walk(struct walk *w, const char *path)
{
	char name[MS_NEWFILE_NAME] = "";
	bool last = false;
	int error =
		enter(w->file, open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));

	if (!path[0])
		return ENOENT;
	if (strlen(path) >= sizeof(w->rest))
		return ENAMETOOLONG;
	(void)strcpy(w->rest, path); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy) */
	while (!error && w->rest[0] && !w->file->exists) {
		if (strcspn(w->rest + strspn(w->rest, "/"), "/") >= sizeof(name))
			return ENAMETOOLONG;
		last = cut(w, name);
		if (name[0])
			error = pass(w, name, last);
		else
			last = false;
	}
	if (error)
		return error;
	(void)snprintf(w->file->name, sizeof(w->file->name), "%s", name);
	/* "folder/", and "/" */
	return last || w->as_folder ? 0 : EISDIR;
}

/* ---- what is written to as it is ---- */

static void leave(struct ms_newfile *file)
{
	if (file->folder >= 0)
		(void)close(file->folder);
	file->folder = -1;
}

static int end_with(struct ms_newfile *file, int error)
{
	if (file->fd >= 0)
		(void)close(file->fd);
	file->fd = -1;
	leave(file);
	return error;
}

/* The number of the descriptor of this process that it is; -1: it is none. */
static int own_descriptor(const struct ms_newfile *file)
{
	struct stat own;
	struct stat st;

	if (!file->exists || !S_ISLNK(file->old.st_mode) || stat("/proc/self/fd", &own) ||
	    fstat(file->folder, &st) || st.st_dev != own.st_dev || st.st_ino != own.st_ino)
		return -1;
	return atoi(file->name); /* NOLINT(cert-err34-c): the kernel's, digits alone */
}

static int copy_descriptor(struct ms_newfile *file, int number)
{
	int flags = fcntl(number, F_GETFL);

	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return EBADF;
	file->fd = fcntl(number, F_DUPFD_CLOEXEC, 0);
	return file->fd < 0 ? errno : 0;
}

/* Between the question and this it may have become another. */
static bool is_same(int fd, const struct stat *old)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == old->st_dev && st.st_ino == old->st_ino &&
	       st.st_uid == old->st_uid && (st.st_mode & S_IFMT) == (old->st_mode & S_IFMT);
}

/* A link of /proc is followed by the kernel alone: where it leads has no other name. */
static int open_existing(struct ms_newfile *file, unsigned wait_ms)
{
	const uint64_t until_ns = ms_now_ns() + wait_ms * ms_in_ns;
	bool is_link = S_ISLNK(file->old.st_mode);
	int flags =
		O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (is_link ? O_APPEND : O_NOFOLLOW);

	for (;;) {
		file->fd = openat(file->folder, file->name, flags);
		if (file->fd >= 0 || errno != ENXIO || !S_ISFIFO(file->old.st_mode) ||
		    ms_now_ns() >= until_ns)
			break;
		ms_sleep_ns(tick_ns);
	}
	if (file->fd < 0) {
		file->old.st_nlink = 0;
		return errno;
	}
	if (!is_link && !is_same(file->fd, &file->old))
		return EPERM;
	return fcntl(file->fd, F_SETFL, is_link ? O_APPEND : 0) ? errno : 0;
}

static int begin_special(struct ms_newfile *file, const struct ms_newfile_call *call)
{
	int own = own_descriptor(file);
	int error = own >= 0 ? copy_descriptor(file, own) : open_existing(file, call->wait_ms);

	if (error)
		return end_with(file, error);
	leave(file);
	return 0;
}

static int check_special(struct ms_newfile *file)
{
	int own = own_descriptor(file);
	int error = 0;

	if (own >= 0)
		error = copy_descriptor(file, own);
	else if (faccessat(file->folder, file->name, W_OK, AT_EACCESS))
		error = errno;
	return end_with(file, error);
}

/* ---- the new file ---- */

static bool links_can_be_made(void)
{
	return access("/proc/self/fd", X_OK) == 0;
}

static bool has_no_nameless_files(int error)
{
	return error == EOPNOTSUPP || error == EISDIR || error == EINVAL || error == ENOSYS;
}

static int give_temp_name(struct ms_newfile *file, int (*give)(struct ms_newfile *file))
{
	int error = EEXIST;

	for (int i = 0; i < TEMP_TRIES && error == EEXIST; i++) {
		(void)snprintf(file->temp, sizeof(file->temp), ".memscan-%d-%d", (int)getpid(), i);
		error = give(file);
	}
	if (error)
		file->temp[0] = '\0';
	return error;
}

static int create(struct ms_newfile *file)
{
	file->fd = openat(file->folder, file->temp,
	                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return file->fd < 0 ? errno : 0;
}

static int make(struct ms_newfile *file)
{
	if (links_can_be_made()) {
		file->fd = openat(file->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
		if (file->fd >= 0 || !has_no_nameless_files(errno))
			return file->fd < 0 ? errno : 0;
	}
	return give_temp_name(file, create);
}

/* A name for the file that has none. */
static int link_as(const struct ms_newfile *file, const char *name)
{
	char self[32];

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
	return linkat(AT_FDCWD, self, file->folder, name, AT_SYMLINK_FOLLOW) ? errno : 0;
}

static int link_temp(struct ms_newfile *file)
{
	return link_as(file, file->temp);
}

/* Nobody but root and the folder's owner put the old one there, and chose who may read it. */
static void keep_owner_and_mode(const struct ms_newfile *file)
{
	const struct stat *old = &file->old;
	bool alike = old->st_uid == geteuid() && old->st_gid == getegid();

	if (alike || !fchown(file->fd, old->st_uid, old->st_gid))
		(void)fchmod(file->fd, old->st_mode & 0777);
}

/* Where nobody could have planted it. */
static int empty_in_place(struct ms_newfile *file)
{
	int error = open_existing(file, 0);

	if (!error && ftruncate(file->fd, 0))
		error = errno;
	if (error)
		return end_with(file, error);
	leave(file);
	return 0;
}

static int begin_new(struct ms_newfile *file, const struct ms_newfile_call *call)
{
	int error = make(file);

	if (error && call->in_place && file->exists && !file->shared &&
	    file->old.st_uid == geteuid())
		return empty_in_place(file);
	if (error) {
		file->old.st_nlink = 0;
		return end_with(file, error);
	}
	if (file->exists && !file->shared && !call->secret)
		keep_owner_and_mode(file);
	return 0;
}

/* Find what is there, and whether it may be used. */
static int look(const struct ms_newfile_call *call, struct ms_newfile *ret)
{
	struct walk w = { .file = ret, .no_link = call->no_link };
	int error;

	memset(ret, 0, sizeof(*ret));
	ret->fd = ret->folder = -1;
	ret->durable = call->durable;
	error = walk(&w, call->path);
	if (!error && ret->exists && ret->shared && !S_ISLNK(ret->old.st_mode) &&
	    is_planted(&ret->old))
		error = EPERM;
	return error ? end_with(ret, error) : 0;
}

static bool is_special(const struct ms_newfile *file)
{
	return file->exists && !S_ISREG(file->old.st_mode);
}

int ms_newfile_begin(const struct ms_newfile_call *call, struct ms_newfile *ret)
{
	int error = look(call, ret);

	if (error)
		return error;
	return is_special(ret) ? begin_special(ret, call) : begin_new(ret, call);
}

int ms_newfile_check(const struct ms_newfile_call *call, struct ms_newfile *ret)
{
	const struct ms_newfile_call none = { .path = call->path }; /* nothing is emptied */
	int error = look(call, ret);

	if (error)
		return error;
	if (is_special(ret))
		return check_special(ret);
	error = begin_new(ret, &none);
	if (!error)
		ms_newfile_cancel(ret);
	return error;
}

int ms_newfile_begin_in(const char *folder, struct ms_newfile *ret)
{
	struct walk w = { .file = ret, .as_folder = true };
	int error;

	memset(ret, 0, sizeof(*ret));
	ret->fd = ret->folder = -1;
	error = walk(&w, folder);
	if (!error)
		error = make(ret);
	return error ? end_with(ret, error) : 0;
}

/* Not all file systems have links. */
static int take_by_rename(struct ms_newfile *file, const char *name)
{
	struct stat st;

	if (!fstatat(file->folder, name, &st, AT_SYMLINK_NOFOLLOW))
		return EEXIST;
	if (errno != ENOENT || renameat(file->folder, file->temp, file->folder, name))
		return errno;
	file->temp[0] = '\0';
	return 0;
}

int ms_newfile_take(struct ms_newfile *file, const char *name)
{
	if (!file->temp[0])
		return link_as(file, name);
	if (!linkat(file->folder, file->temp, file->folder, name, 0)) {
		(void)unlinkat(file->folder, file->temp, 0);
		file->temp[0] = '\0';
		return 0;
	}
	return errno == EEXIST ? EEXIST : take_by_rename(file, name);
}

int ms_newfile_replace(struct ms_newfile *file, const char *name)
{
	int error = 0;

	file->old.st_nlink = 0;
	if (!fstatat(file->folder, name, &file->old, AT_SYMLINK_NOFOLLOW) &&
	    !S_ISREG(file->old.st_mode))
		return EPERM;
	if (!file->temp[0])
		error = give_temp_name(file, link_temp);
	if (!error && renameat(file->folder, file->temp, file->folder, name))
		error = errno;
	if (!error)
		file->temp[0] = '\0';
	else
		file->old.st_nlink = 0;
	return error;
}

/* What is there may have come meanwhile. */
static int name_it(struct ms_newfile *file)
{
	int error = file->exists ? EEXIST : ms_newfile_take(file, file->name);

	if (error != EEXIST)
		return error;
	if (file->shared && !fstatat(file->folder, file->name, &file->old, AT_SYMLINK_NOFOLLOW) &&
	    is_planted(&file->old))
		return EPERM;
	return ms_newfile_replace(file, file->name);
}

int ms_newfile_commit(struct ms_newfile *file)
{
	int error = 0;

	file->old.st_nlink = 0;
	if (file->folder >= 0 && file->durable && fsync(file->fd))
		error = errno;
	if (file->folder >= 0 && !error)
		error = name_it(file);
	if (!error && close(file->fd))
		error = errno;
	if (!error)
		file->fd = -1;
	ms_newfile_cancel(file);
	return error;
}

void ms_newfile_cancel(struct ms_newfile *file)
{
	if (file->folder >= 0 && file->temp[0])
		(void)unlinkat(file->folder, file->temp, 0);
	(void)end_with(file, 0);
}
