/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memscan trigger PID: have a process look at itself, and print what it answers. Nothing
 * is attached from here, so it works for whoever may signal the process, and in containers
 * that nobody may attach to.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "cli/cli.h"
#include "cli/tell.h"
#include "memunreachable/trigger.h"
#include "target/maps.h"
#include "target/proc.h"

enum { BEGIN_MS = 10000, SILENCE_MS = 90000, PIECE = 64 * 1024, ENVIRON_BYTES = 128 * 1024 };

static const char usage[] =
	"Usage: memscan trigger [--stacks] PID\n"
	"Have a process that has libmemunreachable's handler search itself; print its answer.\n\n"
	"  --stacks  the stacks of its threads instead of its leaks\n"
	"  --help    print this and end\n\n"
	"Exit status: 0 it answered, 2 the call was wrong, 3 it did not, 4 the answer could\n"
	"not be written.\n";

/* Where the answer of a process arrives. */
struct asking {
	pid_t pid;
	bool stacks;
	char folder[PATH_MAX]; /* as this process sees it */
	int dir;
	int listener;
	bool bound;
	char name[64];
};

/* ---- whom to ask ---- */

static enum ms_status refuse(struct ms_error *err, pid_t pid)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED, "process %d has no handler of libmemunreachable",
	              (int)pid);
	ms_advise(err,
	          "start it with LD_PRELOAD=libmemunreachable.so or link that; from outside: "
	          "memscan --pid %d",
	          (int)pid);
	return MS_E_UNSUPPORTED;
}

static bool catches_signal(pid_t pid)
{
	char status[MS_PROC_STATUS_BYTES];

	if (ms_proc_read(pid, "status", status, sizeof(status)) <= 0)
		return false;
	return ms_proc_field(status, "SigCgt", 16) >> (MS_TRIGGER_SIGNAL - 1) & 1;
}

static bool maps_library(pid_t pid)
{
	struct ms_arena arena = { 0 };
	struct ms_mappings maps = { 0 };
	const struct ms_mapping *map;
	struct ms_error err;
	bool found = false;

	if (!ms_maps_read(pid, &arena, &maps, &err))
		ms_vec_for_each (map, &maps)
			found = found || strstr(map->name, "/libmemunreachable.so");
	ms_arena_deinit(&arena);
	return found;
}

/* A program that was linked with the static library has the names of its environment in it. */
static bool contains_library(pid_t pid)
{
	int fd = ms_proc_open(pid, "exe", O_RDONLY);
	struct stat file = { 0 };
	bool found = false;
	void *text;

	if (fd < 0)
		return false;
	if (!fstat(fd, &file) && file.st_size > 0) {
		text = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (text != MAP_FAILED) {
			found = memmem(text, (size_t)file.st_size, MS_ENV_FOLDER,
			               sizeof(MS_ENV_FOLDER));
			(void)munmap(text, (size_t)file.st_size);
		}
	}
	(void)close(fd);
	return found;
}

static enum ms_status check(pid_t pid, struct ms_error *err)
{
	enum ms_status st;

	if (kill(pid, 0) == 0) {
		if (catches_signal(pid) && (maps_library(pid) || contains_library(pid)))
			return MS_OK;
		return refuse(err, pid);
	}
	if (errno == ESRCH) {
		st = ms_fail(err, MS_E_GONE, "no process has the id %d", (int)pid);
		ms_advise(err, "check the number (ps -e)");
		return st;
	}
	st = ms_fail(err, MS_E_DENIED, "process %d may not be signalled from here", (int)pid);
	ms_advise(err, "run memscan as root, or as the user whose process it is");
	return st;
}

/* ---- where it answers ---- */

/* The value of @name in the environment that the process was started with, or NULL. */
static const char *find_variable(const char *text, size_t len, const char *name)
{
	size_t name_len = strlen(name);

	for (const char *at = text; at < text + len; at += strlen(at) + 1)
		if (!strncmp(at, name, name_len) && at[name_len] == '=')
			return at + name_len + 1;
	return NULL;
}

/* The folder, in the process's own tree of files. */
static void find_folder(struct asking *a)
{
	static char text[ENVIRON_BYTES];
	ssize_t n = ms_proc_read(a->pid, "environ", text, sizeof(text));
	const char *folder = n > 0 ? find_variable(text, (size_t)n, MS_ENV_FOLDER) : NULL;

	if (!folder || *folder != '/')
		folder = MS_DEFAULT_FOLDER;
	(void)snprintf(a->folder, sizeof(a->folder), "/proc/%d/root%s", (int)a->pid, folder);
	/* Without the right to look into its tree, which is likely the same. */
	if (access(a->folder, W_OK | X_OK))
		(void)snprintf(a->folder, sizeof(a->folder), "%s", folder);
}

/* Its number as itself sees it: the last of all those it has. */
static pid_t inner_pid(pid_t pid)
{
	char status[MS_PROC_STATUS_BYTES] = "";
	const char *ids;
	const char *last;

	(void)ms_proc_read(pid, "status", status, sizeof(status));
	ids = strstr(status, "\nNSpid:");
	if (!ids)
		return pid;
	ids++;
	last = ids + strcspn(ids, "\n");
	while (last > ids && last[-1] >= '0' && last[-1] <= '9')
		last--;
	return (pid_t)strtol(last, NULL, 10);
}

static enum ms_status cannot_listen(const struct asking *a, struct ms_error *err)
{
	int error = errno;
	enum ms_status st;

	if (error == EADDRINUSE) {
		st = ms_fail(err, MS_E_BUSY, "someone else waits for an answer of process %d",
		             (int)a->pid);
		ms_advise(err, "wait for it; if nobody does, remove %s/%s", a->folder, a->name);
		return st;
	}
	st = ms_fail_sys(err, error, "cannot wait for an answer in the folder %s", a->folder);
	ms_advise(err, "start the process with " MS_ENV_FOLDER " set to a folder that both may "
	               "write to");
	return st;
}

static void name_socket(const struct asking *a, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", a->dir,
	               a->name);
}

/* A socket that was left there refuses; nobody is behind it. */
static void remove_stale(const struct asking *a, const struct sockaddr_un *name)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)name, sizeof(*name)) && errno == ECONNREFUSED)
		(void)unlinkat(a->dir, a->name, 0);
	(void)close(fd);
}

static enum ms_status begin_listening(struct asking *a, struct ms_error *err)
{
	struct sockaddr_un name;

	find_folder(a);
	(void)snprintf(a->name, sizeof(a->name), MS_ANSWER_SOCKET, (int)inner_pid(a->pid));
	a->dir = open(a->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	a->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (a->dir < 0 || a->listener < 0)
		return cannot_listen(a, err);
	name_socket(a, &name);
	remove_stale(a, &name);
	if (bind(a->listener, (const struct sockaddr *)&name, sizeof(name)))
		return cannot_listen(a, err);
	a->bound = true;
	/* The process may be another user's; who it is is looked at when it comes. */
	if (fchmodat(a->dir, a->name, 0666, 0) || listen(a->listener, 1))
		return cannot_listen(a, err);
	return MS_OK;
}

static void end_listening(const struct asking *a)
{
	if (a->listener >= 0)
		(void)close(a->listener);
	if (a->bound)
		(void)unlinkat(a->dir, a->name, 0);
	if (a->dir >= 0)
		(void)close(a->dir);
}

/* ---- the answer ---- */

/* True when the other end was opened by the process's user, or root. */
static bool is_from(int fd, pid_t pid)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	char status[MS_PROC_STATUS_BYTES];

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return false;
	(void)ms_proc_read(pid, "status", status, sizeof(status));
	return peer.uid == 0 || peer.uid == ms_proc_field(status, "Uid", 10);
}

static enum ms_status silent(const struct asking *a, struct ms_error *err)
{
	enum ms_status st;

	if (kill(a->pid, 0) && errno == ESRCH)
		return ms_fail(err, MS_E_GONE, "process %d ended", (int)a->pid);
	st = ms_fail(err, MS_E_TIMEOUT, "process %d does not answer", (int)a->pid);
	ms_advise(err,
	          "its threads may all block signal %d, or it may be stopped; from outside: "
	          "memscan --pid %d",
	          MS_TRIGGER_SIGNAL, (int)a->pid);
	return st;
}

static bool wait_for(int fd, int ms)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	int n;

	do {
		n = poll(&wait, 1, ms);
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

/* Copy what comes to standard output. @ret_written: false when that failed. */
static enum ms_status copy_answer(const struct asking *a, int fd, bool *ret_written,
                                  struct ms_error *err)
{
	static char piece[PIECE];

	for (;;) {
		ssize_t n;

		if (!wait_for(fd, SILENCE_MS))
			return silent(a, err);
		n = read(fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (fwrite(piece, 1, (size_t)n, stdout) != (size_t)n)
			*ret_written = false;
	}
	if (fflush(stdout))
		*ret_written = false;
	return MS_OK;
}

static enum ms_status ask(struct asking *a, bool *ret_written, struct ms_error *err)
{
	const union sigval value = { .sival_int = a->stacks ? MS_TRIGGER_STACKS : 0 };
	enum ms_status st = begin_listening(a, err);
	int fd = -1;

	if (st)
		return st;
	if (sigqueue(a->pid, MS_TRIGGER_SIGNAL, value))
		return ms_fail_sys(err, errno, "process %d cannot be signalled", (int)a->pid);
	do {
		if (fd >= 0)
			(void)close(fd);
		if (!wait_for(a->listener, BEGIN_MS))
			return silent(a, err);
		fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);
	} while (fd >= 0 && !is_from(fd, a->pid));
	if (fd < 0)
		return ms_fail_sys(err, errno, "no answer of process %d", (int)a->pid);
	st = copy_answer(a, fd, ret_written, err);
	(void)close(fd);
	return st;
}

/* ---- the command ---- */

static bool parse(int argc, char **argv, struct asking *ret, struct ms_error *err)
{
	for (int i = 1; i < argc; i++) {
		char *end = argv[i];
		long pid = strtol(argv[i], &end, 10);

		if (!strcmp(argv[i], "--stacks")) {
			ret->stacks = true;
		} else if (!ret->pid && end != argv[i] && !*end && pid > 0 && pid <= INT_MAX) {
			ret->pid = (pid_t)pid;
		} else {
			(void)ms_fail(err, MS_E_UNSUPPORTED, "trigger takes one process, not '%s'",
			              argv[i]);
			ms_advise(err, "see memscan trigger --help");
			return false;
		}
	}
	if (ret->pid)
		return true;
	(void)ms_fail(err, MS_E_UNSUPPORTED, "no process was given");
	ms_advise(err, "say which: memscan trigger PID");
	return false;
}

int ms_cmd_trigger(int argc, char **argv)
{
	struct asking asking = { .dir = -1, .listener = -1 };
	struct ms_error err = { 0 };
	bool written = true;
	enum ms_status st;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		(void)fputs(usage, stdout);
		return fflush(stdout) ? MS_EXIT_UNWRITTEN : MS_EXIT_CLEAN;
	}
	if (!parse(argc, argv, &asking, &err)) {
		ms_tell_error(&err);
		return MS_EXIT_USAGE;
	}
	st = check(asking.pid, &err);
	if (!st)
		st = ask(&asking, &written, &err);
	end_listening(&asking);
	if (st) {
		ms_tell_error(&err);
		return MS_EXIT_REFUSED;
	}
	if (written)
		return MS_EXIT_CLEAN;
	(void)ms_fail(&err, MS_E_SYS, "the answer could not be written");
	ms_advise(&err, "is there room, and a reader?");
	ms_tell_error(&err);
	return MS_EXIT_UNWRITTEN;
}
