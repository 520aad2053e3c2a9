/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memscan trigger PID: have a process look at itself, and print what it answers. Nothing
 * is attached from here, so it works for every user that may signal the process, and in
 * containers that forbid tracing.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/lines.h"
#include "cli/tell.h"
#include "memunreachable/trigger.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/target.h"

enum { BEGIN_MS = 10000, SILENCE_MS = 90000, PIECE = 64 * 1024 };

static const char usage[] =
	"Usage: memscan trigger [--stacks] PID\n"
	"Ask a process that has libmemunreachable's handler to search itself, and print its\n"
	"answer. For places where no process may be traced from outside.\n";

static const char notes[] =
	"Exit status: 0 it answered (leaks or not), 2 usage error, 3 it did not answer or could\n"
	"not search itself, 4 the answer could not be written.\n";

/* Where the answer of a process arrives. */
struct asking {
	struct ms_args_process process; /* first, for MS_ARGS_PROCESS */
	pid_t pid;
	bool stacks;
	bool help;                    /* was asked for, nothing else */
	char folder[MS_FOLDER_BYTES]; /* as the process sees it */
	int dir;
	int listener;
	bool bound;
	char name[64];
};

/* ---- which process to ask ---- */

static enum ms_status refuse(struct ms_error *err, pid_t pid)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED, "process %d has no handler of libmemunreachable",
	              (int)pid);
	ms_advise(err,
	          "start it with LD_PRELOAD=libmemunreachable.so or link it with that library; or "
	          "scan it from outside: memscan --pid %d",
	          (int)pid);
	return MS_E_UNSUPPORTED;
}

/* A thread's id stands for its process. */
static pid_t process_of(pid_t id)
{
	char status[MS_PROC_STATUS_BYTES];
	pid_t pid = 0;

	if (ms_proc_read(id, "status", status, sizeof(status)) > 0)
		pid = (pid_t)ms_proc_field(status, "Tgid", 10);
	return pid ? pid : id;
}

static enum ms_status find(struct asking *a, struct ms_error *err)
{
	const struct ms_choice *choice = &a->process.choice;
	struct ms_chosen chosen = { .pid = choice->id };
	enum ms_status st = MS_OK;

	if (choice->name)
		st = ms_target_find_by_name(choice->name, &chosen.pid, err);
	else if (choice->ns)
		st = ms_target_find_in_namespace(choice->ns, choice->id, &chosen, err);
	if (!st)
		a->pid = process_of(chosen.pid);
	return st;
}

static bool catches_signal(pid_t pid)
{
	char status[MS_PROC_STATUS_BYTES];

	if (ms_proc_read(pid, "status", status, sizeof(status)) <= 0)
		return false;
	return ms_proc_field(status, "SigCgt", 16) >> (MS_TRIGGER_SIGNAL - 1) & 1;
}

/* The folder that the sign of the handler names, in the process's own tree; or no sign. */
static bool read_sign(pid_t pid, char *ret, size_t size)
{
	static const char before[] = "/memfd:" MS_SIGN;
	static const char behind[] = " (deleted)";
	struct ms_arena arena = { 0 };
	struct ms_mappings maps = { 0 };
	const struct ms_mapping *map;
	struct ms_error err;
	bool found = false;

	if (!ms_maps_read(pid, &arena, &maps, &err))
		ms_vec_for_each (map, &maps) {
			size_t len = strlen(map->name);

			if (found || strncmp(map->name, before, sizeof(before) - 1) != 0 ||
			    len < sizeof(before) + sizeof(behind))
				continue;
			found = true;
			len -= sizeof(before) - 1 + sizeof(behind) - 1;
			(void)snprintf(ret, size, "%.*s", (int)len, map->name + sizeof(before) - 1);
		}
	ms_arena_deinit(&arena);
	return found;
}

/* @ret_folder: of MS_FOLDER_BYTES */
static enum ms_status check(pid_t pid, char *ret_folder, struct ms_error *err)
{
	enum ms_status st;

	if (kill(pid, 0) == 0) {
		if (catches_signal(pid) && read_sign(pid, ret_folder, MS_FOLDER_BYTES))
			return MS_OK;
		return refuse(err, pid);
	}
	if (errno == ESRCH) {
		st = ms_fail(err, MS_E_GONE, "no process has the id %d", (int)pid);
		ms_advise(err, "check the number (ps -e)");
		return st;
	}
	st = ms_fail(err, MS_E_DENIED, "process %d may not be signalled from here", (int)pid);
	ms_advise(err, geteuid() ? "run memscan as root or as the user of that process"
	                         : "a user namespace or a security module forbids it to this "
	                           "root: run memscan outside of that");
	return st;
}

/* ---- where it answers ---- */

/* The folder @path below @dir, which is closed; no link is followed, and none leads up. */
static int open_below(int dir, const char *path)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

	while (dir >= 0 && *(path += strspn(path, "/"))) {
		char name[MS_FOLDER_BYTES];
		size_t len = strcspn(path, "/");
		int next = -1;

		(void)snprintf(name, sizeof(name), "%.*s", (int)len, path);
		errno = ENOTDIR;
		if (strcmp(name, "..") != 0)
			next = openat(dir, name, flags);
		(void)close(dir);
		dir = next;
		path += len;
	}
	return dir;
}

/*
 * Open the folder that the process names, in its own tree. It may be anyone's process, and
 * exchange any name at any time.
 */
static int open_folder(const struct asking *a)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	char tree[32];
	int root;

	(void)snprintf(tree, sizeof(tree), "/proc/%d/root", (int)a->pid);
	root = open(tree, flags);
	/* Without the right to look into its tree, that is likely the same as ours. */
	return open_below(root < 0 ? open("/", flags) : root, a->folder);
}

/* Where a third user may exchange what stands there, nothing is put. */
static bool is_safe(int dir)
{
	struct stat st;

	return !fstat(dir, &st) &&
	       (st.st_uid == 0 || st.st_uid == geteuid() || (st.st_mode & S_ISVTX));
}

/* Its number as itself sees it: the last of all those it has. */
static pid_t inner_pid(pid_t pid)
{
	pid_t ids[MS_PROC_NAMESPACES];
	size_t n = ms_proc_ns_ids_of(pid, "NSpid", ids);

	return n ? ids[n - 1] : pid;
}

static enum ms_status cannot_listen(const struct asking *a, struct ms_error *err)
{
	int error = errno;
	enum ms_status st;

	if (error == EADDRINUSE) {
		st = ms_fail(err, MS_E_BUSY,
		             "another memscan trigger waits for an answer of process %d",
		             (int)a->pid);
		ms_advise(err, "try again when it has ended; if there is none, remove %s/%s",
		          a->folder, a->name);
		return st;
	}
	st = ms_fail_sys(err, error, "cannot wait for an answer in the folder %s", a->folder);
	ms_advise(err, "start the process with " MS_ENV_FOLDER " set to a folder that it and "
	               "you may write to, without a symbolic link in its path");
	return st;
}

static enum ms_status not_safe(const struct asking *a, struct ms_error *err)
{
	(void)ms_fail(err, MS_E_UNSUPPORTED,
	              "the folder %s belongs to another user, so it is not used", a->folder);
	ms_advise(err,
	          "start the process with " MS_ENV_FOLDER " set to /tmp, or to a folder that "
	          "belongs to you or to root; or scan it from outside: memscan --pid %d",
	          (int)a->pid);
	return MS_E_UNSUPPORTED;
}

static void name_socket(const struct asking *a, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", a->dir,
	               a->name);
}

/*
 * A socket that was left there refuses, as no process has it open. One of another kind is looked
 * for, lest the process that waits there takes this for the answer.
 */
static void remove_stale(const struct asking *a, const struct sockaddr_un *name)
{
	struct stat st;
	int fd;

	if (fstatat(a->dir, a->name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)name, sizeof(*name)) && errno == ECONNREFUSED)
		(void)unlinkat(a->dir, a->name, 0);
	(void)close(fd);
}

/* What an end by a signal would leave behind. */
/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables) */
static struct {
	int dir;
	const char *name;
} left_over;
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

static void on_end(int signal)
{
	(void)unlinkat(left_over.dir, left_over.name, 0);
	(void)raise(signal); /* by SA_RESETHAND it ends this process */
}

static void clean_up_on_signals(const struct asking *a)
{
	static const int ends[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	struct sigaction act = { .sa_handler = on_end, .sa_flags = (int)SA_RESETHAND };
	struct sigaction before;

	left_over.dir = a->dir;
	left_over.name = a->name;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		/* nohup and shells have them ignored */
		if (!sigaction(ends[i], NULL, &before) && before.sa_handler != SIG_IGN)
			(void)sigaction(ends[i], &act, NULL);
}

/*
 * The process may be another user's, so all may connect; which one it is is looked at when it
 * comes. The mode is given at birth: later the name could be another file's.
 */
static bool bind_for_all(int listener, const struct sockaddr_un *name)
{
	mode_t before = umask(0111);
	bool bound = !bind(listener, (const struct sockaddr *)name, sizeof(*name));
	int error = errno;

	(void)umask(before);
	errno = error;
	return bound;
}

static enum ms_status begin_listening(struct asking *a, struct ms_error *err)
{
	struct sockaddr_un name;

	(void)snprintf(a->name, sizeof(a->name), MS_ANSWER_SOCKET, (int)inner_pid(a->pid));
	a->dir = open_folder(a);
	if (a->dir < 0)
		return cannot_listen(a, err);
	if (!is_safe(a->dir))
		return not_safe(a, err);
	a->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (a->listener < 0)
		return cannot_listen(a, err);
	name_socket(a, &name);
	remove_stale(a, &name);
	if (!bind_for_all(a->listener, &name))
		return cannot_listen(a, err);
	a->bound = true;
	clean_up_on_signals(a);
	return listen(a->listener, 1) ? cannot_listen(a, err) : MS_OK;
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
	          "all its threads may block signal %d, or it may be stopped; scan it from "
	          "outside: memscan --pid %d",
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

/* The first line of @text, which is left behind it, without the other's name for itself. */
static const char *cut_line(char **text)
{
	static const char name[] = "memscan: ";
	const char *line = strsep(text, "\n");

	if (!line)
		return "";
	return strncmp(line, name, sizeof(name) - 1) ? line : line + sizeof(name) - 1;
}

/* It says @why there is no answer: that in a line, and in one what to do. */
static enum ms_status refused(const struct asking *a, char *why, struct ms_error *err)
{
	const char *reason = cut_line(&why);
	const char *advice = cut_line(&why);

	(void)ms_fail(err, MS_E_UNSUPPORTED, "%s",
	              *reason ? reason : "the process could not search itself");
	if (*advice)
		ms_advise(err, "%s", advice);
	else
		ms_advise(err, "see the standard error of process %d", (int)a->pid);
	return MS_E_UNSUPPORTED;
}

/* What has come of an answer so far. */
struct hearing {
	bool begun;
	bool refused; /* it says why there is none */
	bool whole;
	struct ms_lines lines;
	char why[3 * MS_ERROR_TEXT];
	size_t n_why;
};

/* Take a piece, without the bytes that are marks. */
static void hear(struct hearing *h, const char *piece, size_t n)
{
	size_t room = sizeof(h->why) - 1 - h->n_why;

	if (!h->begun && piece[0] == MS_ANSWER_REFUSED) {
		h->refused = true;
		piece++;
		n--;
	}
	h->begun = true;
	h->whole = n && !piece[n - 1];
	n -= h->whole;
	if (!h->refused) {
		ms_lines_put(&h->lines, piece, n);
		return;
	}
	n = n < room ? n : room;
	memcpy(h->why + h->n_why, piece, n);
	h->n_why += n;
}

/*
 * Copy what comes to standard output.
 *
 * @ret_problem: errno when that failed
 */
static enum ms_status copy_answer(const struct asking *a, int fd, int *ret_problem,
                                  struct ms_error *err)
{
	static char piece[PIECE];
	struct hearing hearing = { .lines = { .to = stdout } };
	enum ms_status st;

	for (;;) {
		ssize_t n;

		if (!wait_for(fd, SILENCE_MS))
			return silent(a, err);
		n = read(fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		hear(&hearing, piece, (size_t)n);
	}
	*ret_problem = ms_lines_end(&hearing.lines);
	if (hearing.whole)
		return hearing.refused ? refused(a, hearing.why, err) : MS_OK;
	st = ms_fail(err, MS_E_DIED, "the answer of process %d was cut off", (int)a->pid);
	ms_advise(err, "the process that wrote it was killed, or ran out of time; try again");
	return st;
}

static enum ms_status ask(struct asking *a, int *ret_problem, struct ms_error *err)
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
	st = copy_answer(a, fd, ret_problem, err);
	(void)close(fd);
	return st;
}

/* ---- the command ---- */

static const struct ms_option rows[] = {
	{ 0, "stacks", NULL, "print the stacks of its threads instead of its leaks",
	  .flag = offsetof(struct asking, stacks) },
	MS_ARGS_PROCESS,
	{ 'h', "help", NULL, "print this help and exit", .flag = offsetof(struct asking, help),
	  .last = true },
};

static const struct ms_option_table table = {
	.command = "memscan trigger",
	.usage = usage,
	.notes = notes,
	.see = "say which process: memscan trigger PID; see memscan trigger --help",
	.at = rows,
	.n = sizeof(rows) / sizeof(rows[0]),
};

static bool parse(int argc, char **argv, struct asking *ret, struct ms_error *err)
{
	int at = ms_args_take(argc, argv, &table, ret, err);

	if (at < 0 || ret->help)
		return at >= 0;
	return ms_args_choose(argc - at, argv + at, &table, &ret->process, err);
}

int ms_cmd_trigger(int argc, char **argv)
{
	struct asking asking = { .dir = -1, .listener = -1 };
	struct ms_error err = { 0 };
	int problem = 0;
	enum ms_status st;

	if (!parse(argc, argv, &asking, &err))
		return ms_tell_failed(&err, MS_EXIT_USAGE);
	if (asking.help) {
		ms_args_help(stdout, &table);
		return fflush(stdout) ? MS_EXIT_UNWRITTEN : MS_EXIT_CLEAN;
	}
	st = find(&asking, &err);
	if (!st)
		st = check(asking.pid, asking.folder, &err);
	if (!st)
		st = ask(&asking, &problem, &err);
	end_listening(&asking);
	if (st)
		return ms_tell_failed(&err, MS_EXIT_REFUSED);
	if (!problem)
		return MS_EXIT_CLEAN;
	return ms_tell_unwritten(
		problem, "the answer could not be written",
		"check that the disk has room and that the reader of the pipe still runs");
}
