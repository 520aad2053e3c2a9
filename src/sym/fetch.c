/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/follow.h"
#include "base/walk.h"
#include "sym/opener.h"
#include "sym/pass.h"

/*
 * What comes from a server goes through curl, which is a reason for a process of its own;
 * it is loaded only when it is needed. What is in elfutils/debuginfod.h, as far as that.
 */
typedef void *(*begin_fn)(void);
typedef int (*find_fn)(void *client, const unsigned char *id, int len, char **path);

static int fetch(const unsigned char *id, size_t len)
{
	void *library = dlopen("libdebuginfod.so.1", RTLD_NOW);
	begin_fn begin = library ? (begin_fn)dlsym(library, "debuginfod_begin") : NULL;
	find_fn find = library ? (find_fn)dlsym(library, "debuginfod_find_debuginfo") : NULL;
	void *client = begin && find ? begin() : NULL;

	/* All else goes with the process. */
	return client ? find(client, id, (int)len, NULL) : -1;
}

/* ---- its cache ---- */

/* The folder that libdebuginfod writes to. Source: elfutils 0.188, debuginfod-client.c. */
static void find_cache(char ret[PATH_MAX])
{
	const char *own = getenv("DEBUGINFOD_CACHE_PATH");
	const char *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	struct stat st;

	home = home ? home : "/";
	if (own && *own) {
		(void)snprintf(ret, PATH_MAX, "%s", own);
		return;
	}
	(void)snprintf(ret, PATH_MAX, "%s/.debuginfod_client_cache", home);
	if (lstat(ret, &st) == 0)
		return;
	if (xdg && *xdg)
		(void)snprintf(ret, PATH_MAX, "%s/debuginfod_client", xdg);
	else
		(void)snprintf(ret, PATH_MAX, "%s/.cache/debuginfod_client", home);
}

/* Of the components of a path seen so far. */
struct seen {
	bool foreign; /* somebody else can have put it there */
	bool open;    /* in the last one everyone may make files */
};

/* In a sticky folder everyone may make files, and change one's own alone. */
static bool is_ours(const void *ctx, const struct stat *st)
{
	struct seen *seen = *(struct seen *const *)ctx;
	bool by_group = st->st_mode & S_IWGRP && st->st_gid && st->st_gid != getegid();

	seen->open = !S_ISLNK(st->st_mode) && (st->st_mode & S_IWOTH || by_group);
	seen->foreign = (st->st_uid && st->st_uid != geteuid()) ||
	                (seen->open && !(S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX));
	return !seen->foreign;
}

enum ms_status ms_fetch_check(struct ms_error *err)
{
	struct seen seen = { false, false };
	struct seen *const ctx = &seen;
	char cache[PATH_MAX];
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool ours;
	int fd;

	find_cache(cache);
	if (cache[0] != '/') {
		(void)close(root);
		return ms_fail(err, MS_E_DENIED, "the cache of debuginfod, %s, is a relative path",
		               ms_file_end(cache, 100));
	}
	fd = ms_walk_open(&(const struct ms_walk){ is_ours, &ctx }, root, cache);
	/* A part of it that does not exist yet is made, unless somebody else may be faster. */
	ours = !seen.foreign && !seen.open && (fd >= 0 || errno == ENOENT);
	if (fd >= 0)
		(void)close(fd);
	(void)close(root);
	if (ours)
		return MS_OK;
	return ms_fail(err, MS_E_DENIED,
	               "the cache of debuginfod, %s, is not this user's alone: another user owns "
	               "it or a folder on the way, or may write there",
	               ms_file_end(cache, 100));
}

/* ---- asking ---- */

int ms_fetch_debug(const unsigned char *id, size_t len)
{
	pid_t parent = getpid();
	struct ms_error err;
	int ends[2];
	int fd = -1;
	pid_t pid;
	char byte;

	/* Links that another user has put there would be followed with this user's rights. */
	if (ms_fetch_check(&err))
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		(void)close(ends[0]);
		if (!ms_follow_parent(parent))
			_exit(0);
		(void)prctl(PR_SET_NAME, "memscan-fetch");
		_exit(ms_pass_send(ends[1], "", 1, fetch(id, len)) ? 0 : 1);
	}
	(void)close(ends[1]);
	if (pid > 0) {
		(void)ms_pass_receive(ends[0], &byte, 1, &fd);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	(void)close(ends[0]);
	return fd;
}
