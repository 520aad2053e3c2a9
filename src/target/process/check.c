/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be refused before anything is touched. Only the kernel's answer to
 * PTRACE_SEIZE is final; what is asked here is asked again there, but a refusal
 * that names the reason and the remedy is worth a few reads of /proc.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/proc.h"
#include "target/target.h"

enum {
	KERNEL_THREAD = 0x200000, /* PF_KTHREAD, include/linux/sched.h */
	CAPABILITY_PTRACE = 19,   /* CAP_SYS_PTRACE, linux/capability.h */
	CAPABILITY_FILES = 1,     /* CAP_DAC_OVERRIDE, the same */
	YAMA_FORBIDS_ALL = 3,
	NAME_BYTES = 64,
	PID_BYTES = 16,
};

static enum ms_status no_such_process(pid_t id, struct ms_error *err)
{
	enum ms_status st = ms_fail(err, MS_E_GONE, "no process or thread has the id %d", id);

	ms_advise(err, "check the number (ps -e); inside a container ids differ from the host's");
	return st;
}

enum ms_status ms_target_refuse_traced(pid_t pid, pid_t tracer, struct ms_error *err)
{
	char name[NAME_BYTES];
	enum ms_status st;

	ms_proc_name(tracer, name, sizeof(name));
	st = ms_fail(err, MS_E_DENIED, "process %d is traced already, by process %d (%s)", pid,
	             tracer, name);
	ms_advise(err, "end that tracer or let it detach: Linux allows one at a time");
	return st;
}

static uint64_t own_field(const char *key, int base)
{
	char status[MS_PROC_STATUS_BYTES];

	(void)ms_proc_read(getpid(), "status", status, sizeof(status));
	return ms_proc_field(status, key, base);
}

static bool has_capability(int number)
{
	return own_field("CapEff", 16) >> number & 1;
}

static bool may_trace_others(void)
{
	return has_capability(CAPABILITY_PTRACE);
}

/* Whether what we may do ends at a user namespace: ids are mapped, or not all of them exist. */
static bool is_in_user_namespace(void)
{
	unsigned long first = 0, outside = 0, n = UINT32_MAX;
	char map[256];

	return ms_proc_read(getpid(), "uid_map", map, sizeof(map)) >= 0 &&
	       (sscanf(map, " %lu %lu %lu", &first, &outside, &n) != 3 || first || outside ||
	        n != UINT32_MAX);
}

enum user_namespace { UNKNOWN, OURS, ANOTHER };

static enum user_namespace user_namespace_of(pid_t pid)
{
	char theirs[NAME_BYTES];
	char ours[NAME_BYTES];

	ms_proc_link(pid, "ns/user", theirs, sizeof(theirs));
	ms_proc_link(getpid(), "ns/user", ours, sizeof(ours));
	if (!theirs[0] || !ours[0])
		return UNKNOWN;
	return strcmp(theirs, ours) ? ANOTHER : OURS;
}

/* The real, effective and saved id in the line @key of @status; false when it has none. */
static bool read_ids(const char *status, const char *key, unsigned ret[3])
{
	const char *line = strstr(status, key);

	return line && sscanf(line + strlen(key), " %u %u %u", &ret[0], &ret[1], &ret[2]) == 3;
}

static bool all_are(const unsigned ids[3], unsigned id)
{
	return ids[0] == id && ids[1] == id && ids[2] == id;
}

/* Whether all three user ids of the process are ours, as the kernel's ptrace check demands. */
static bool is_ours(const char *status, uid_t *owner)
{
	unsigned ids[3];

	*owner = 0;
	if (!read_ids(status, "\nUid:", ids))
		return true;
	*owner = ids[1];
	return all_are(ids, getuid());
}

/* The same of its groups. */
static bool has_our_group(const char *status)
{
	unsigned ids[3];

	return !read_ids(status, "\nGid:", ids) || all_are(ids, getgid());
}

/* How to get what is missing, for whoever runs us. */
static const char *how_to_get_capability(void)
{
	return getuid() ? "run memscan as root, or give it CAP_SYS_PTRACE"
	                : "give memscan CAP_SYS_PTRACE, which this root has not (in a container: "
	                  "--cap-add SYS_PTRACE)";
}

static enum ms_status refuse_other_user(pid_t pid, uid_t owner, struct ms_error *err)
{
	enum ms_status st =
		ms_fail(err, MS_E_DENIED, "process %d belongs to user %u, memscan runs as user %u",
	                pid, owner, getuid());

	if (user_namespace_of(pid) == ANOTHER)
		ms_advise(err,
		          "run it in the user namespace of that process: nsenter -t %d -U "
		          "--preserve-credentials memscan ...; or %s",
		          pid, how_to_get_capability());
	else
		ms_advise(err, "run it as user %u; or %s", owner, how_to_get_capability());
	return st;
}

/* Yama's setting, -1 where the kernel has no Yama. */
static int yama_scope(void)
{
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char digit = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, &digit, 1);
	(void)close(fd);
	return n == 1 && digit >= '0' && digit <= '9' ? digit - '0' : -1;
}

/*
 * Which of the kernel's rules it is, as far as can be seen from here.
 * Source: ptrace(2), "Ptrace access mode checking"; kernel/ptrace.c, __ptrace_may_access();
 * security/commoncap.c, cap_ptrace_access_check().
 */
static void advise_denied(pid_t pid, const char *status, struct ms_error *err)
{
	const char *how = how_to_get_capability();
	int scope = yama_scope();
	uid_t owner;

	if (scope >= YAMA_FORBIDS_ALL)
		ms_advise(err,
		          "Yama forbids all tracing until the next boot "
		          "(kernel.yama.ptrace_scope is %d)",
		          scope);
	else if (is_in_user_namespace() && user_namespace_of(pid) != OURS)
		ms_advise(
			err,
			"memscan runs in a user namespace, whose root may trace what is in it "
			"alone: run it outside as root, or where the process is (nsenter -t %d -U "
			"-m -p)",
			pid);
	else if (may_trace_others() && !is_ours(status, &owner) &&
	         !has_capability(CAPABILITY_FILES))
		ms_advise(err,
		          "another user's files in /proc take CAP_DAC_OVERRIDE besides "
		          "CAP_SYS_PTRACE: give memscan both, or run it as user %u",
		          owner);
	else if (may_trace_others())
		ms_advise(err, "memscan has CAP_SYS_PTRACE: a security module (AppArmor, SELinux, "
		               "Landlock) or a user namespace forbids it; run memscan outside of "
		               "what confines it");
	else if (scope > 0)
		ms_advise(err,
		          "Yama forbids it (kernel.yama.ptrace_scope is %d): %s, or set it to 0",
		          scope, how);
	else if (!has_our_group(status))
		ms_advise(err, "it runs with other group ids than memscan: %s", how);
	else if (ms_proc_field(status, "CapPrm", 16) & ~own_field("CapPrm", 16))
		ms_advise(err, "it has capabilities that memscan has not: %s", how);
	else
		ms_advise(err, "it is not dumpable, or a security module forbids it: %s", how);
}

enum ms_status ms_target_explain_denied(pid_t pid, struct ms_error *err)
{
	char status[MS_PROC_STATUS_BYTES];
	enum ms_status st;
	pid_t tracer;
	uid_t owner;

	if (ms_proc_read(pid, "status", status, sizeof(status)) <= 0)
		return no_such_process(pid, err);
	tracer = (pid_t)ms_proc_field(status, "TracerPid", 10);
	if (tracer && tracer != getpid())
		return ms_target_refuse_traced(pid, tracer, err);
	if (!is_ours(status, &owner) && !may_trace_others())
		return refuse_other_user(pid, owner, err);
	st = ms_fail(err, MS_E_DENIED, "the kernel does not let memscan trace process %d", pid);
	advise_denied(pid, status, err);
	return st;
}

static enum ms_status check_alive(pid_t pid, pid_t living, struct ms_error *err)
{
	struct ms_proc_stat stat;
	enum ms_status st = MS_OK;

	if (!ms_proc_stat(pid, &stat))
		return no_such_process(pid, err);
	if (stat.flags & KERNEL_THREAD) {
		st = ms_fail(err, MS_E_UNSUPPORTED, "process %d is a thread of the kernel", pid);
		ms_advise(err, "choose a user process: kernel threads have no heap of their own");
	} else if (!living) {
		st = ms_fail(err, MS_E_GONE,
		             "process %d is a zombie: it has ended, but its parent has not "
		             "waited for it",
		             pid);
		ms_advise(err, "there is no memory left to scan; to scan a program at its end "
		               "start it with memscan run");
	}
	return st;
}

/* What the text of /proc/@pid/status tells: whose process it is, and who traces it. */
static enum ms_status check_access(pid_t pid, const char *status, struct ms_error *err)
{
	pid_t tracer = (pid_t)ms_proc_field(status, "TracerPid", 10);
	uid_t owner;

	if (tracer)
		return ms_target_refuse_traced(pid, tracer, err);
	if (!is_ours(status, &owner) && !may_trace_others())
		return refuse_other_user(pid, owner, err);
	return MS_OK;
}

enum ms_status ms_target_check_proc(struct ms_error *err)
{
	char self[PID_BYTES] = "";
	enum ms_status st;

	if (readlink("/proc/self", self, sizeof(self) - 1) < 0) {
		st = ms_fail(err, MS_E_UNSUPPORTED, "no /proc is mounted here");
		ms_advise(err, "mount it: mount -t proc proc /proc");
		return st;
	}
	if (strtol(self, NULL, 10) == getpid())
		return MS_OK;
	st = ms_fail(err, MS_E_UNSUPPORTED,
	             "/proc shows another pid namespace than the one that memscan runs in");
	ms_advise(err, "mount the /proc of this one (mount -t proc proc /proc; unshare has "
	               "--mount-proc), or run memscan outside of it");
	return st;
}

enum ms_status ms_target_check(pid_t id, pid_t *ret_pid, struct ms_error *err)
{
	char status[MS_PROC_STATUS_BYTES];
	enum ms_status st;
	pid_t living;
	pid_t pid;

	st = ms_target_check_proc(err);
	if (st)
		return st;
	if (id <= 0 || ms_proc_read(id, "status", status, sizeof(status)) <= 0)
		return no_such_process(id, err);
	pid = (pid_t)ms_proc_field(status, "Tgid", 10);
	if (pid <= 0)
		return no_such_process(id, err);
	if (pid == getpid()) {
		st = ms_fail(err, MS_E_UNSUPPORTED, "process %d is memscan itself", pid);
		ms_advise(
			err,
			"choose another process; a program can scan itself with libmemunreachable");
		return st;
	}
	living = ms_proc_living_thread(pid);
	st = check_alive(pid, living, err);
	if (st)
		return st;
	(void)ms_proc_read(living, "status", status, sizeof(status));
	st = check_access(pid, status, err);
	if (st)
		return st;
	st = ms_target_check_machine(pid, err);
	if (st)
		return st;
	*ret_pid = pid;
	return MS_OK;
}

/*
 * Source: kernel/freezer.c (cgroups of version 1); kernel/signal.c, do_freezer_trap() (2), which
 * compilers make a part of get_signal(). There one that is stopped by a signal waits, too.
 */
bool ms_target_is_frozen(pid_t pid)
{
	static const char *const places[] = { "__refrigerator", "do_freezer_trap", "get_signal" };
	pid_t tid = ms_proc_thread_of(pid);
	char state = ms_proc_state(tid);
	char where[NAME_BYTES];

	(void)ms_proc_read(tid, "wchan", where, sizeof(where));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (!strcmp(where, places[i]))
			return state == 'S' || state == 'D';
	return false;
}

void ms_target_advise_frozen(pid_t pid, struct ms_error *err)
{
	ms_advise(err,
	          "process %d is frozen by its cgroup: let it go on (docker unpause, or "
	          "cgroup.freeze), then try again",
	          pid);
}

enum ms_status ms_target_open_mem(pid_t tid, int *ret, struct ms_error *err)
{
	int fd = ms_proc_open(tid, "mem", O_RDONLY);

	if (fd == -ENOENT || fd == -ESRCH)
		return ms_fail(err, MS_E_GONE, "process %d ended", tid);
	if (fd == -EACCES || fd == -EPERM)
		return ms_target_explain_denied(tid, err);
	if (fd < 0)
		return ms_fail_sys(err, -fd, "opening the memory of process %d", tid);
	*ret = fd;
	return MS_OK;
}
