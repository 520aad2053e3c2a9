/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process by the number that it has in a pid namespace.
 *
 * /proc lists each process with its numbers in its own namespace and in all those around it,
 * but not which namespaces these are. So what has the number somewhere is looked for first,
 * which takes no rights, and then it is seen whether the namespace so many levels around that
 * process's is the one that is meant.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "target/proc.h"
#include "target/target.h"

enum { PATH_BYTES = 64 };

static const char how[] = "give the number of a process in it, or a file such as /proc/4711/ns/pid";

struct search {
	const char *given;
	struct stat wanted; /* the namespace */
	pid_t id;           /* in there */
	pid_t denied;       /* has that number in a namespace that may not be looked at; 0: none */
	pid_t found;
	size_t level; /* how many namespaces of /proc's are around the wanted one */
};

/* ---- the namespace ---- */

static enum ms_status fail_open(const char *given, bool is_number, struct ms_error *err)
{
	int number = errno;
	bool gone = number == ENOENT || number == ESRCH;

	if (is_number && gone) {
		(void)ms_fail(err, MS_E_GONE, "no process has the id %.20s, which --ns gives",
		              given);
		ms_advise(err, "%s (ps -e)", how);
	} else if (is_number && (number == EACCES || number == EPERM)) {
		return ms_target_explain_denied((pid_t)strtol(given, NULL, 10), err);
	} else {
		(void)ms_fail_sys(err, number, "cannot open the pid namespace %s",
		                  ms_file_end(given, 100));
		ms_advise(err, "%s",
		          number == EACCES ? "run memscan as a user who may read that file" : how);
	}
	return err->status;
}

static enum ms_status open_namespace(const char *given, int *ret, struct ms_error *err)
{
	bool is_number = *given && !given[strspn(given, "0123456789")];
	char path[PATH_BYTES];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/ns/pid", given);
	fd = ms_file_open_regular(is_number ? path : given);
	if (fd < 0 && errno != EPERM)
		return fail_open(given, is_number, err);
	if (fd >= 0 && ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWPID) {
		*ret = fd;
		return MS_OK;
	}
	if (fd >= 0)
		(void)close(fd);
	(void)ms_fail(err, MS_E_UNSUPPORTED, "%s is no pid namespace", ms_file_end(given, 100));
	ms_advise(err, "%s", how);
	return MS_E_UNSUPPORTED;
}

/* Whether the namespace @levels around the one of @fd, which is closed, is @wanted. */
static bool leads_to(int fd, size_t levels, const struct stat *wanted)
{
	struct stat st;
	bool is_it;

	while (fd >= 0 && levels--) {
		int around = ioctl(fd, NS_GET_PARENT);

		(void)close(fd);
		fd = around;
	}
	is_it = fd >= 0 && !fstat(fd, &st) && st.st_ino == wanted->st_ino &&
	        st.st_dev == wanted->st_dev;
	if (fd >= 0)
		(void)close(fd);
	return is_it;
}

/* Whether /proc lists its processes: those of our own namespace, and of those in it. */
static bool is_within_ours(int fd)
{
	struct stat ours;

	if (stat("/proc/self/ns/pid", &ours))
		return true;
	for (size_t levels = 0; levels < MS_PROC_NAMESPACES; levels++) {
		int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

		if (leads_to(copy, levels, &ours))
			return true;
	}
	return false;
}

/* ---- the process ---- */

/* True when @tid is what is looked for. */
static bool look_at(struct search *s, pid_t tid)
{
	pid_t ids[MS_PROC_NAMESPACES];
	size_t n = ms_proc_ns_ids_of(tid, "NSpid", ids);

	for (size_t i = 0; i < n; i++) {
		int fd = ids[i] == s->id ? ms_proc_open(tid, "ns/pid", O_RDONLY) : -ENOENT;

		if (fd == -EACCES || fd == -EPERM)
			s->denied = tid;
		if (fd < 0 || !leads_to(fd, n - 1 - i, &s->wanted))
			continue;
		s->found = tid;
		s->level = i;
		return true;
	}
	return false;
}

static bool look_at_threads(struct search *s, pid_t pid)
{
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list;
	int32_t tid;

	if (ms_proc_list_open(&list, pid, "task", buf))
		return false;
	while (!s->found && ms_proc_list_next(&list, &tid))
		if (tid != pid)
			(void)look_at(s, tid);
	ms_proc_list_close(&list);
	return s->found;
}

/* Processes first: of threads there are many more. */
static enum ms_status look_at_all(struct search *s, struct ms_error *err)
{
	bool (*const looks[])(struct search *, pid_t) = { look_at, look_at_threads };
	char buf[MS_PROC_LIST_BYTES];
	struct ms_proc_list list;
	int fd = ms_proc_list_open(&list, 0, "", buf);
	int32_t pid;

	if (fd < 0)
		return ms_fail_sys(err, -fd, "cannot list processes");
	for (size_t i = 0; i < 2 && !s->found; i++) {
		ms_proc_list_rewind(&list);
		while (!s->found && ms_proc_list_next(&list, &pid))
			(void)looks[i](s, pid);
	}
	ms_proc_list_close(&list);
	return MS_OK;
}

static enum ms_status fail_find(const struct search *s, bool within_ours, struct ms_error *err)
{
	bool is_number = !s->given[strspn(s->given, "0123456789")];
	const char *given = ms_file_end(s->given, 100);

	if (s->denied)
		return ms_target_explain_denied(s->denied, err);
	if (!within_ours) {
		(void)ms_fail(err, MS_E_DENIED,
		              "the pid namespace of %s%s is not within memscan's own, so that its "
		              "processes are not seen from here",
		              is_number ? "process " : "", given);
		ms_advise(err, "run memscan on the host, or where that namespace was made");
		return err->status;
	}
	(void)ms_fail(err, MS_E_GONE,
	              "no process or thread has the id %d in the pid namespace of %s%s", s->id,
	              is_number ? "process " : "", given);
	ms_advise(err, "look which there are: nsenter -t %s -p -m ps -e",
	          is_number ? given : "PID, of a process in it,");
	return err->status;
}

enum ms_status ms_target_find_in_namespace(const char *ns, pid_t id, struct ms_chosen *ret,
                                           struct ms_error *err)
{
	struct search s = { .given = ns, .id = id };
	pid_t ids[MS_PROC_NAMESPACES];
	bool within_ours;
	enum ms_status st;
	int fd = -1;

	st = ms_target_check_proc(err);
	if (!st)
		st = open_namespace(ns, &fd, err);
	if (st)
		return st;
	within_ours = is_within_ours(fd);
	st = fstat(fd, &s.wanted) ? ms_fail_sys(err, errno, "looking at a pid namespace")
	                          : look_at_all(&s, err);
	(void)close(fd);
	if (st)
		return st;
	if (!s.found)
		return fail_find(&s, within_ours, err);
	ret->pid = s.found;
	ret->ns_pid = ms_proc_ns_ids_of(s.found, "NStgid", ids) > s.level ? ids[s.level] : s.id;
	return MS_OK;
}
